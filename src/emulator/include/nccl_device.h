// SPDX-License-Identifier: Apache-2.0
/* NCCL's device interface on emulated ranks: LSA, GIN, barriers and the low-latency exchange, with
 * the names and signatures of NCCL 2.28 and, with -DCUCOCC_EMU_NCCL=230xx, those of 2.29 and 2.30.
 * Multimem is not modelled. */
#ifndef NCCL_DEVICE_H_
#define NCCL_DEVICE_H_

#include "nccl_device/coop.h"
#include "nccl_device/core.h"
#include "nccl_device/ptr.h"

#include "nccl_device/lsa_barrier.h"

#include "nccl_device/gin.h"
#include "nccl_device/gin_barrier.h"

#include "nccl_device/barrier.h"
#include "nccl_device/ll_a2a.h"

#endif
