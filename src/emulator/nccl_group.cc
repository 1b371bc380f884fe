// SPDX-License-Identifier: Apache-2.0
#include "nccl_group.h"

#include <algorithm>

namespace emu_nccl {
namespace {

struct Meeting {
  std::vector<std::shared_ptr<void>> data;
  int arrived = 0;
  bool done = false;
  emu::Clock clock; // of all
};
using MeetingRef = std::shared_ptr<Meeting>;

struct Wait {
  MeetingRef meeting;
  const char *call;
  emu::Site site;
};
struct Group {
  int depth = 0;
  std::vector<PartRef> parts;
  std::vector<Wait> waits;
};

std::map<std::string, MeetingRef> meetings;
const char group_key = 0;

Group &group() {
  std::shared_ptr<void> &g = emu::actor_local(&group_key);
  if (!g)
    g = std::make_shared<Group>();
  return *static_cast<Group *>(g.get());
}

void await(const Wait &w) {
  const MeetingRef m = w.meeting;
  emu::wait_until([m] { return m->done; },
                  {std::string("waits for the other ranks in ") + w.call, w.site});
  emu::acquire(m->clock);
}

} // namespace

void submit(const PartRef &part) {
  Group &g = group();
  if (g.depth)
    g.parts.push_back(part);
  else
    issue({part});
}

void meet(const std::string &key, int count, int index, std::shared_ptr<void> data,
          std::function<void(const std::vector<std::shared_ptr<void>> &)> last, const char *call,
          emu::Site site) {
  MeetingRef &found = meetings[key];
  if (!found) {
    found = std::make_shared<Meeting>();
    found->data.resize(count);
  }
  const MeetingRef m = found;
  m->data[index] = std::move(data);
  m->clock.join(emu::release());
  if (++m->arrived == count) {
    meetings.erase(key);
    last(m->data);
    m->done = true;
    emu::progress();
  }
  Group &g = group();
  if (g.depth)
    g.waits.push_back({m, call, site});
  else
    await({m, call, site});
}

void group_start() { group().depth++; }

ncclResult_t group_end() {
  Group &g = group();
  if (!g.depth)
    return ncclInvalidUsage;
  if (--g.depth)
    return ncclSuccess;
  // Waiting may switch: nothing of the group is touched after it has been taken.
  const std::vector<Wait> waits = std::move(g.waits);
  const std::vector<PartRef> parts = std::move(g.parts);
  g.waits.clear();
  g.parts.clear();
  for (const Wait &w : waits)
    await(w);
  if (!parts.empty())
    issue(parts);
  return ncclSuccess;
}

} // namespace emu_nccl
