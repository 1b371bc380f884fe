// SPDX-License-Identifier: Apache-2.0
/* Vector clocks: sorted lists of lines and times. A line that stands for a whole block covers the
 * lines of its threads up to its time; those are dropped. */
#include "engine.h"

#include <algorithm>

namespace emu {

namespace {

using Entries = Clock::Entries;
constexpr uint64_t THREADS = 2047; // mask of a thread's part of a line

uint64_t find(const Entries &e, uint64_t line) {
  auto it = std::lower_bound(e.begin(), e.end(), line,
                             [](const auto &entry, uint64_t l) { return entry.first < l; });
  return it != e.end() && it->first == line ? it->second : 0;
}

uint64_t known(const Entries &e, uint64_t line) {
  const uint64_t whole = find(e, line & ~THREADS);
  return line & THREADS ? std::max(whole, find(e, line)) : whole;
}

/* Every entry of A is covered by B. */
bool covered(const Entries &a, const Entries &b) {
  auto i = b.begin();
  uint64_t whole = ~uint64_t(0), whole_time = 0;
  for (const auto &e : a) {
    if (e.first - (e.first & THREADS) != whole) {
      whole = e.first - (e.first & THREADS);
      while (i != b.end() && i->first < whole)
        ++i;
      whole_time = i != b.end() && i->first == whole ? i->second : 0;
    }
    if (e.second <= whole_time)
      continue;
    while (i != b.end() && i->first < e.first)
      ++i;
    if (i == b.end() || i->first != e.first || i->second < e.second)
      return false;
  }
  return true;
}

void merge(const Entries &a, const Entries &b, Entries &out) {
  out.reserve(a.size() + b.size());
  uint64_t whole = ~uint64_t(0), whole_time = 0;
  auto i = a.begin(), j = b.begin();
  while (i != a.end() || j != b.end()) {
    std::pair<uint64_t, uint64_t> next;
    if (j == b.end() || (i != a.end() && i->first < j->first))
      next = *i++;
    else if (i == a.end() || j->first < i->first)
      next = *j++;
    else {
      next = {i->first, std::max(i->second, j->second)};
      ++i;
      ++j;
    }
    if (!(next.first & THREADS)) {
      whole = next.first;
      whole_time = next.second;
    } else if ((next.first & ~THREADS) == whole && next.second <= whole_time)
      continue;
    out.push_back(next);
  }
}

} // namespace

void Clock::flatten() {
  if (!base_)
    return;
  if (!v_) {
    v_ = std::make_shared<Entries>(*base_);
  } else {
    auto all = std::make_shared<Entries>();
    merge(*base_, *v_, *all);
    v_ = std::move(all);
  }
  base_.reset();
}

void Clock::settle() {
  flatten();
  base_ = std::move(v_);
  v_.reset();
}

const Clock::Entries *Clock::entries() {
  flatten();
  return v_.get();
}

void Clock::join(const Clock &other) {
  if (other.empty() || same(other))
    return;
  if (empty()) {
    *this = other;
    return;
  }
  auto add = [this](const Entries &e) {
    if (v_ && covered(e, *v_))
      return;
    if (base_ && covered(e, *base_))
      return;
    auto all = std::make_shared<Entries>();
    if (v_)
      merge(*v_, e, *all);
    else
      *all = e;
    v_ = std::move(all);
  };
  if (other.base_ && other.base_ != base_) {
    if (!base_ && (!v_ || covered(*v_, *other.base_))) {
      base_ = other.base_;
      v_.reset();
    } else {
      flatten();
      add(*other.base_);
    }
  }
  if (other.v_ && other.v_ != v_) {
    if (!v_)
      v_ = other.v_;
    else
      add(*other.v_);
  }
}

uint64_t Clock::get(uint64_t line) const {
  return std::max(base_ ? known(*base_, line) : 0, v_ ? known(*v_, line) : 0);
}

void Clock::raise(uint64_t line, uint64_t time) {
  if (get(line) >= time)
    return;
  if (!v_) {
    v_ = std::make_shared<Entries>();
  } else if (v_.use_count() > 1) {
    v_ = std::make_shared<Entries>(*v_);
  }
  Entries &e = *v_;
  auto it = std::lower_bound(e.begin(), e.end(), line,
                             [](const auto &entry, uint64_t l) { return entry.first < l; });
  if (it != e.end() && it->first == line)
    it->second = time;
  else
    it = e.insert(it, {line, time});
  if (!(line & THREADS)) { // what it covers
    auto end = ++it;
    auto keep = it;
    for (; end != e.end() && (end->first & ~THREADS) == line; ++end)
      if (end->second > time)
        *keep++ = *end;
    e.erase(keep, end);
  }
}

bool Clock::before(const Clock &other) const {
  for (const Entries *e : {base_.get(), static_cast<const Entries *>(v_.get())}) {
    if (!e)
      continue;
    if (e == other.base_.get() || e == other.v_.get())
      continue;
    if (other.base_ && other.v_) {
      for (const auto &x : *e)
        if (other.get(x.first) < x.second)
          return false;
    } else if (other.empty() ||
               !covered(*e, other.v_ ? *other.v_ : *other.base_)) {
      return false;
    }
  }
  return true;
}

} // namespace emu
