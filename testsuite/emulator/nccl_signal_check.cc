// SPDX-License-Identifier: Apache-2.0
// Checks of signal cells, put sources, barrier sessions and reductions; prints TAP.
#include "emulator/nccl_reduce.h"
#include "emulator/nccl_signal.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <vector>

static int count, failed;
static void ok(bool good, const char *name) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++count, name);
  failed += !good;
}

// The set of events that a thread knows of.
struct Knows {
  std::set<int> events;
  void join(const Knows &o) { events.insert(o.events.begin(), o.events.end()); }
};
static Knows knows(int e) { return {{e}}; }
static bool ordered(const Knows &a, const Knows &b) {
  for (int e : a.events)
    if (!b.events.count(e))
      return false;
  return true;
}

static void signals() {
  using Cell = emu_nccl::SignalCell<Knows>;
  Cell s;
  ok(!s.reached(1) && s.reached(0), "a new signal is zero");
  s.add(1, knows(1));
  s.add(1, knows(2));
  s.add(1, knows(3));
  Knows k;
  size_t ahead = s.join(2, k);
  ok(k.events == std::set<int>({1, 2}) && ahead == 1, "a wait joins the steps that it needs");
  Knows none;
  ok(s.join(0, none) == 3 && none.events.empty(),
     "a wait for a value already passed joins nothing");
  s.trim(2);
  Knows later;
  s.join(3, later);
  ok(later.events == std::set<int>({1, 2, 3}), "trimmed steps stay known");
  Cell wide;
  wide.add(5, knows(1));
  wide.add(1, knows(2));
  Knows w;
  wide.join(3, w);
  ok(w.events == std::set<int>({1}), "a step that jumps over the value counts as one");
  Cell narrow;
  for (int half = 0; half < 2; half++) {
    narrow.add(0x7fffffffu, knows(1));
    narrow.trim(narrow.value());
  }
  narrow.add(2, knows(2));
  Knows n;
  narrow.join(0x100000000u, n, 32);
  ok(narrow.reached(0x100000000u, 32) && n.events.count(2), "32-bit waits wrap");
  Cell scope;
  scope.add(1, knows(1), false);
  Knows sc;
  scope.join(1, sc);
  ok(sc.events.empty(), "a release of too small a scope publishes nothing");
  Cell r;
  r.add(1, knows(1));
  ok(r.reset(knows(2), ordered) == 1 && r.value() == 0,
     "a reset that races with an increment is seen");
  r.add(1, knows(3));
  Knows after;
  r.join(1, after);
  ok(after.events == std::set<int>({2, 3}), "after a reset counting starts again");
}

static void sources() {
  emu_nccl::SourceTracker<int> t;
  std::mt19937 random(7);
  struct Range {
    uintptr_t a, b;
    uint64_t who;
  };
  std::vector<Range> model;
  bool good = true;
  for (int i = 0; i < 20000; i++) {
    uintptr_t at = 1000 + random() % 500;
    size_t bytes = random() % 40;
    uint64_t who = random() % 3;
    if (random() % 8 == 0) {
      t.release(who);
      std::vector<Range> left;
      for (Range r : model)
        if (r.who != who)
          left.push_back(r);
      model = left;
    } else if (random() % 3 == 0) {
      t.begin(at, bytes, who, i);
      if (bytes)
        model.push_back({at, at + bytes, who});
    }
    bool hit = false;
    for (Range r : model)
      hit |= r.a < at + bytes && at < r.b;
    good &= hit == (t.conflict(at, bytes) != nullptr);
  }
  ok(good, "writes to sources of puts agree with a plain model");
}

static void sessions() {
  using Table = emu_nccl::SessionTable<Knows>;
  Table t(2);
  ok(t.open(2, 0, {}, ordered) == Table::BEYOND_COUNT, "index beyond the count");
  ok(t.open(0, 0, {}, ordered) == Table::FINE && t.open(0, 0, {}, ordered) == Table::STILL_OPEN,
     "second session on an open index");
  Table u(2);
  u.open(1, 0, {}, ordered);
  u.close(1, knows(9));
  ok(u.open(1, 5, knows(1), ordered) == Table::UNORDERED, "another block without order");
  u.close(1, knows(10));
  ok(u.open(1, 6, knows(10), ordered) == Table::FINE, "another block behind the first one");
}

template <class T> static bool reduces(int type, int op, std::vector<T> in, T want) {
  std::vector<const void *> p;
  for (T &v : in)
    p.push_back(&v);
  T out{};
  return emu_nccl_reduce(&out, p.data(), (int)p.size(), 1, type, op, nullptr) == 0 && out == want;
}
static void reductions() {
  ok(reduces<int8_t>(EMU_NCCL_INT8, EMU_NCCL_SUM, {100, 100}, -56), "int8 wraps");
  ok(reduces<int32_t>(EMU_NCCL_INT32, EMU_NCCL_AVG, {-3, -4}, -3), "average of ints: towards zero");
  ok(reduces<uint64_t>(EMU_NCCL_UINT64, EMU_NCCL_MAX, {1, ~0ull, 5}, ~0ull), "uint64 max");
  ok(reduces<float>(EMU_NCCL_FLOAT32, EMU_NCCL_SUM, {1e8f, 1.f, -1e8f}, (1e8f + 1.f) - 1e8f),
     "rank order");
  ok(reduces<uint16_t>(EMU_NCCL_FLOAT16, EMU_NCCL_SUM, {0x3c00, 0x4000}, 0x4200), "half 1 + 2");
  ok(reduces<uint16_t>(EMU_NCCL_FLOAT16, EMU_NCCL_PROD, {0x7bff, 0x7bff}, 0x7c00),
     "half overflows to infinity");
  ok(reduces<uint16_t>(EMU_NCCL_BFLOAT16, EMU_NCCL_MIN, {0x3f80, 0xbf80}, 0xbf80), "bfloat16 min");
  ok(reduces<uint8_t>(EMU_NCCL_FLOAT8E4M3, EMU_NCCL_SUM, {0x7e, 0x7e}, 0x7e), "e4m3 saturates");
  float three = 3, x = 2, y = 5, out;
  float half = 0.5f;
  const void *in[] = {&x, &y}, *scale[] = {&three, &half};
  emu_nccl_reduce(&out, in, 2, 1, EMU_NCCL_FLOAT32, EMU_NCCL_PREMUL, scale);
  ok(out == 8.5f, "pre-multiplied sum");
  ok(emu_nccl_reduce(&out, in, 2, 1, 99, 0, nullptr) < 0 &&
         emu_nccl_reduce(&out, in, 2, 1, 7, 9, nullptr) < 0 &&
         emu_nccl_reduce(&out, in, 0, 1, 7, 0, nullptr) < 0 &&
         emu_nccl_reduce(&out, in, 2, 1, 7, 5, nullptr) < 0,
     "bad arguments");
  ok(emu_nccl_reduce(nullptr, in, 2, 0, 7, 0, nullptr) == 0, "no elements");
}

int main() {
  signals();
  sources();
  sessions();
  reductions();
  printf("1..%d\n", count);
  return failed != 0;
}
