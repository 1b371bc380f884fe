// SPDX-License-Identifier: Apache-2.0
/* The launcher form: cucocc nvcc ... in.cu ... translates on the way to the compiler. */
#ifndef CUCOCC_DRIVER_LAUNCHER_H
#define CUCOCC_DRIVER_LAUNCHER_H

#include "driver/options.h"

/* Translates the CUDA inputs of the nvcc command o->words[o->launcher...] that mention NCCL into a temporary
 * folder and runs the command on them. A command with nothing to translate is run as it is. Returns nvcc's
 * exit status, or one of enum driver_status when it was not run. */
int launcher_run(const struct options *o, struct diag_engine *diag);

#endif
