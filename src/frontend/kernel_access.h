// SPDX-License-Identifier: Apache-2.0
/* What a kernel does to the memory behind its parameters. */
#ifndef CUCOCC_FRONTEND_KERNEL_ACCESS_H
#define CUCOCC_FRONTEND_KERNEL_ACCESS_H

#include "ir/ir.h"
#include <clang-c/Index.h>

/* Fills params, grid_sync and device_globals of KERNEL in P from DEFINITION, a __global__ function
 * or function template; replaces what was there. Ranges are in bytes from the parameter's value.
 * Every byte that an execution may touch lies inside what is claimed, provided that index
 * arithmetic does not leave the range of its type at an access that is executed. Without a body
 * every pointer is read and written at unknown places, and the kernel is marked opaque. */
void fe_kernel_access(CXCursor definition, struct ir_program *p, ir_id kernel);

#endif
