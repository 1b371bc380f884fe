// SPDX-License-Identifier: Apache-2.0
#ifndef CUCOCC_EMULATOR_DEVICE_ATOMIC_FUNCTIONS_H
#define CUCOCC_EMULATOR_DEVICE_ATOMIC_FUNCTIONS_H

#include "cuda_runtime.h"

#endif
