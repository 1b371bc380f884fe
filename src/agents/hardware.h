// SPDX-License-Identifier: Apache-2.0
/* A machine, as the cost model sees it: spec/hardware/NAME.json. */
#ifndef CUCOCC_AGENTS_HARDWARE_H
#define CUCOCC_AGENTS_HARDWARE_H

#include <stdbool.h>
#include <stddef.h>

/* The numbers: FIELD(key, least, most, meaning). All are needed. */
#define HARDWARE_FIELDS                                                                            \
  FIELD(ranks, 1, 1024, "ranks, unless -np says otherwise")                                        \
  FIELD(sms, 1, 1024, "multiprocessors of one GPU")                                                \
  FIELD(fp32_tflops, 1e-3, 1e5, "peak of plain single precision")                                  \
  FIELD(tensor_tflops, 1e-3, 1e6, "peak of the tensor cores with 16-bit inputs")                   \
  FIELD(memory_gbps, 1, 1e6, "peak of the device memory")                                          \
  FIELD(plain_efficiency, 1e-3, 1, "of the fp32 peak, for kernels without tuning")                 \
  FIELD(library_efficiency, 1e-3, 1, "of the peak, for cuBLAS")                                    \
  FIELD(memory_efficiency, 1e-3, 1, "of the memory peak")                                          \
  FIELD(link_gbps, 0.1, 1e6, "peak of the link in one direction, per GPU")                         \
  FIELD(link_efficiency, 1e-3, 1, "of that, for large transfers")                                  \
  FIELD(sm_link_gbps, 1e-2, 1e5, "what one multiprocessor moves with 16-byte stores")              \
  FIELD(pull_efficiency, 1e-3, 1, "of that, for loads")                                            \
  FIELD(link_latency_us, 0, 1e6, "a store to a peer until it is seen")                             \
  FIELD(flag_us, 0, 1e6, "a flag between ranks or kernels, set to seen")                           \
  FIELD(barrier_us, 0, 1e6, "a barrier of the LSA team")                                           \
  FIELD(world_barrier_us, 0, 1e6, "a barrier of all ranks")                                        \
  FIELD(launch_us, 0, 1e6, "a kernel that follows another one on its stream")                      \
  FIELD(event_us, 0, 1e6, "a stream that waits for another one")                                   \
  FIELD(host_collective_us, 0, 1e6, "a small collective called by the host")                       \
  FIELD(host_p2p_us, 0, 1e6, "a small send or receive called by the host")                         \
  FIELD(overlap_slowdown, 0, 10, "compute beside communication takes so much longer")

struct hardware {
  char name[64], summary[256];
#define FIELD(key, least, most, meaning) double key;
  HARDWARE_FIELDS
#undef FIELD
};

/* Reads the JSON in TEXT. Returns true, or false with a sentence in WHY. */
bool hardware_parse(struct hardware *h, const char *text, char *why, size_t size);

#endif
