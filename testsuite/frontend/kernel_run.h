// SPDX-License-Identifier: Apache-2.0
/* Runs the kernels of kernels.h on the CPU and reports every access. */
#ifndef KERNEL_RUN_H
#define KERNEL_RUN_H

#ifdef __cplusplus
extern "C" {
#endif

struct run_config {
  unsigned grid[3], block[3];
  int ints[3]; /* the kernel's integer parameters, in order */
};
/* One access: bytes [BEGIN, END) from the value of pointer parameter PARAM, by block BLOCK. */
typedef void run_access(void *data, const unsigned block[3], int param, long begin, long end,
                        int write);

/* Kernel number I of the table, or NULL after the last. */
const char *run_name(int i);
void run_kernel(int i, const struct run_config *c, run_access *access, void *data);

#ifdef __cplusplus
}
#endif
#endif
