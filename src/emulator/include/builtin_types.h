// SPDX-License-Identifier: Apache-2.0
#ifndef CUCOCC_EMULATOR_BUILTIN_TYPES_H
#define CUCOCC_EMULATOR_BUILTIN_TYPES_H

#include "driver_types.h"
#include "vector_types.h"

#endif
