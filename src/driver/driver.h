// SPDX-License-Identifier: Apache-2.0
/* The command line: what main() calls. */
#ifndef CUCOCC_DRIVER_DRIVER_H
#define CUCOCC_DRIVER_DRIVER_H

enum driver_status {
  DRIVER_OK = 0,
  DRIVER_INPUT = 1,       /* the input, or what was asked about it, is wrong */
  DRIVER_USAGE = 2,       /* the command line is wrong */
  DRIVER_ENVIRONMENT = 3, /* no CUDA, unwritable output, a tool that failed */
};

/* Runs the program; returns its exit status. In launcher form (cucocc nvcc ...) that of nvcc. */
int driver_main(int argc, char **argv);

#endif
