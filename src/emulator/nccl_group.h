// SPDX-License-Identifier: Apache-2.0
/* Groups of calls, and calls in which the ranks of a communicator meet. */
#ifndef CUCOCC_EMULATOR_NCCL_GROUP_H
#define CUCOCC_EMULATOR_NCCL_GROUP_H

#include "nccl_internal.h"

namespace emu_nccl {

/* Issues PART now, or at the end of the running actor's group. */
void submit(const PartRef &part);
/* The running actor is rank INDEX of COUNT in the meeting KEY, which no other meeting has ever had,
 * and brings DATA. When all are there LAST is called once with everybody's data in the order of
 * ranks. Waits for that, or leaves the wait to the end of the group. May switch. */
void meet(const std::string &key, int count, int index, std::shared_ptr<void> data,
          std::function<void(const std::vector<std::shared_ptr<void>> &)> last, const char *call,
          emu::Site site);
void group_start();
/* ncclInvalidUsage when there is no group. */
ncclResult_t group_end();

} // namespace emu_nccl

#endif
