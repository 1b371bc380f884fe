// SPDX-License-Identifier: Apache-2.0
#ifndef CUCOCC_EMULATOR_CUDA_STD_H
#define CUCOCC_EMULATOR_CUDA_STD_H

#include <type_traits>

namespace cuda {
namespace std = ::std;
}

#endif
