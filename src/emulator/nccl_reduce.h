// SPDX-License-Identifier: Apache-2.0
/* Reductions of emulated NCCL collectives: element-wise over the ranks' inputs, in rank order. */
#ifndef CUCOCC_EMULATOR_NCCL_REDUCE_H
#define CUCOCC_EMULATOR_NCCL_REDUCE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types and operations; the values are those of ncclDataType_t and ncclRedOp_t. PREMUL
 * stands for every operation made by ncclRedOpCreatePreMulSum. */
enum emu_nccl_type {
  EMU_NCCL_INT8,
  EMU_NCCL_UINT8,
  EMU_NCCL_INT32,
  EMU_NCCL_UINT32,
  EMU_NCCL_INT64,
  EMU_NCCL_UINT64,
  EMU_NCCL_FLOAT16,
  EMU_NCCL_FLOAT32,
  EMU_NCCL_FLOAT64,
  EMU_NCCL_BFLOAT16,
  EMU_NCCL_FLOAT8E4M3,
  EMU_NCCL_FLOAT8E5M2,
  EMU_NCCL_TYPES
};
enum emu_nccl_op {
  EMU_NCCL_SUM,
  EMU_NCCL_PROD,
  EMU_NCCL_MAX,
  EMU_NCCL_MIN,
  EMU_NCCL_AVG,
  EMU_NCCL_OPS,
  EMU_NCCL_PREMUL = EMU_NCCL_OPS
};

/* Bytes per element; 0 for a value that is no type. */
size_t emu_nccl_type_size(int type);

/* OUT[i] = the reduction of IN[0][i] .. IN[RANKS-1][i] for i < COUNT, in that order. OUT may be one
 * of the inputs. Integers wrap; their average is the sum divided towards zero. Floats of 8 and 16
 * bits are accumulated in 32 bits and rounded once, to nearest even (8-bit ones saturate, as the
 * hardware's conversion does); the average of floats is the sum of the inputs times 1/RANKS each.
 * SCALARS[r] points to rank r's factor, an element of TYPE, for EMU_NCCL_PREMUL; otherwise it may
 * be NULL. Returns 0, or -1 (nothing written) for an unknown type or operation, RANKS < 1, or a
 * missing scalar. */
int emu_nccl_reduce(void *out, const void *const *in, int ranks, size_t count, int type, int op,
                    const void *const *scalars);

#ifdef __cplusplus
}
#endif

#endif
