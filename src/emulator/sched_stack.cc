// SPDX-License-Identifier: Apache-2.0
/* Stacks of fibers: kept for reuse, with an unmapped page below each as long as the system allows
 * that many mappings. Pages that were never touched cost nothing. */
#include "sched_internal.h"

#include <new>
#include <sys/mman.h>

namespace emu {

namespace {
const size_t host_size = 1 << 20, thread_size = 128 << 10, page = 4096;
const unsigned most_guards = 12000;
std::vector<void *> &pool(bool host) {
  static std::vector<void *> pools[2];
  return pools[host];
}
} // namespace

boost::context::stack_context stack_take(bool host) {
  static unsigned guards = 0;
  auto &p = pool(host);
  const size_t size = host ? host_size : thread_size;
  boost::context::stack_context s;
  s.size = size;
  if (!p.empty()) {
    s.sp = p.back();
    p.pop_back();
    return s;
  }
  void *base = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    throw std::bad_alloc();
  if (guards < most_guards && mprotect(base, page, PROT_NONE) == 0)
    guards++;
  s.sp = static_cast<char *>(base) + size;
  return s;
}

void stack_give(boost::context::stack_context s) { pool(s.size == host_size).push_back(s.sp); }

} // namespace emu
