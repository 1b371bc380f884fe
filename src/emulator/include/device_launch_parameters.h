// SPDX-License-Identifier: Apache-2.0
#ifndef CUCOCC_EMULATOR_DEVICE_LAUNCH_PARAMETERS_H
#define CUCOCC_EMULATOR_DEVICE_LAUNCH_PARAMETERS_H

#include "cuda_runtime.h"

#endif
