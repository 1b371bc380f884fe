// SPDX-License-Identifier: Apache-2.0
/* assert() in device code ends the thread and leaves the device with cudaErrorAssert. May be
 * included again, as NDEBUG changes. */
#ifndef CUCOCC_EMULATOR_ASSERT_H
#define CUCOCC_EMULATOR_ASSERT_H

#include "emu_cuda.h"

#endif
#undef assert
#ifdef NDEBUG
#define assert(expression) ((void)0)
#else
#define assert(expression)                                                                         \
  ((expression)                                                                                    \
       ? (void)0                                                                                   \
       : ::emu::cuda::assert_failed(#expression, __FILE__, __LINE__, __PRETTY_FUNCTION__))
#endif
