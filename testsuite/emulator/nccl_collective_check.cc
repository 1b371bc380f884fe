// SPDX-License-Identifier: Apache-2.0
/* Collectives of the emulated NCCL over a stand-in for the engine: streams that start their
 * operations in a random order of ranks. Checks data, who accesses what in whose name, whose clock
 * each rank learns, and mismatches. Prints TAP. */
#include "nccl_internal.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <utility>

namespace {
struct Queued {
  emu::OpStart start;
  std::function<bool(emu::Operation)> check;
  bool started = false, done = false;
};
std::vector<Queued> queue;
uint64_t current; // operation in whose name things are done
std::vector<std::string> found;
std::set<std::pair<uint64_t, uint64_t>> learnt; // (who, from whom)
struct Range {
  uint64_t who;
  const char *at;
  size_t size;
};
std::vector<Range> reads, writes;
int number, failed;
void ok(bool good, const char *what) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
  failed += !good;
}
} // namespace

namespace emu {
void Clock::raise(uint64_t line, uint64_t time) {
  v_ = std::make_shared<Entries>(v_ ? *v_ : Entries());
  v_->push_back({line, time});
}
void Clock::join(const Clock &o) {
  for (size_t i = 0; o.v_ && i < o.v_->size(); i++)
    raise((*o.v_)[i].first, (*o.v_)[i].second);
}
Clock release() {
  Clock c;
  c.raise(current, 1);
  return c;
}
uint64_t Clock::get(uint64_t line) const {
  uint64_t time = 0;
  for (size_t i = 0; v_ && i < v_->size(); i++)
    if ((*v_)[i].first == line)
      time = (*v_)[i].second;
  return time;
}
void acquire(const Clock &c) {
  for (uint64_t line = 1; line <= 16; line++)
    if (c.get(line))
      learnt.insert({current, line});
}
bool access_read(const void *p, size_t n, Site) {
  reads.push_back({current, (const char *)p, n});
  return true;
}
bool access_write(const void *p, size_t n, Site) {
  writes.push_back({current, (const char *)p, n});
  return true;
}
void finding(const char *kind, const std::string &, Site, Site, const std::string &) {
  found.push_back(kind);
}
void progress() {}
void as_operation(Operation o, const std::function<void()> &body) {
  const uint64_t before = std::exchange(current, o.id);
  body();
  current = before;
}
Operation stream_enqueue(Stream *, const char *, OpStart start,
                         std::function<bool(Operation)> check, std::string, Site) {
  queue.push_back({start, check, false, false});
  return {queue.size()};
}
} // namespace emu

using namespace emu_nccl;

namespace {
std::mt19937 random_number(7);

// Starts everything queued, in a random order of streams; true when all of it ends.
bool drain() {
  std::vector<size_t> order;
  for (size_t i = 0; i < queue.size(); i++)
    order.push_back(i);
  std::shuffle(order.begin(), order.end(), random_number);
  for (size_t i : order) {
    current = i + 1;
    queue[i].done = queue[i].start({i + 1});
  }
  bool all = true;
  for (size_t i = 0; i < queue.size(); i++)
    all &= queue[i].done || queue[i].check({i + 1});
  return all;
}

struct World {
  int n;
  std::vector<ncclComm> comms;
  std::vector<std::vector<int>> in, out;
  World(int ranks, size_t elements) : n(ranks), comms(ranks) {
    auto clique = std::make_shared<Clique>();
    for (int r = 0; r < n; r++) {
      comms[r].clique = clique;
      comms[r].rank = r;
      clique->ranks.push_back(&comms[r]);
      in.emplace_back(elements);
      for (int &v : in.back())
        v = (int)(random_number() % 1000);
      out.emplace_back(elements, -1);
    }
    queue.clear();
    found.clear();
    learnt.clear();
    reads.clear();
    writes.clear();
  }
  PartRef part(Kind k, int r, size_t count, int root = -1, int op = ncclSum) {
    auto p = std::make_shared<Part>();
    p->kind = k;
    p->comm = &comms[r];
    p->send = in[r].data();
    p->recv = out[r].data();
    p->count = count;
    p->type = ncclInt32;
    p->op = op;
    p->root = root;
    p->stream = reinterpret_cast<emu::Stream *>(&comms[r]);
    p->site = 1;
    return p;
  }
};

void check(Kind k, int n) {
  const size_t c = 5;
  World w(n, c * n);
  const int root = n - 1;
  for (int r = 0; r < n; r++)
    issue({w.part(k, r, c, root)});
  bool good = drain() && found.empty();
  for (int r = 0; r < n; r++)
    for (size_t i = 0; i < c * n; i++) {
      const int s = (int)(i / c);
      const size_t e = i % c;
      int sum = 0, sum_mine = 0;
      for (int q = 0; q < n; q++) {
        sum += w.in[q][e];
        sum_mine += w.in[q][r * c + e];
      }
      int want = -1;
      switch (k) {
      case Kind::ALL_REDUCE:
        want = i < c ? sum : -1;
        break;
      case Kind::REDUCE:
        want = i < c && r == root ? sum : -1;
        break;
      case Kind::BROADCAST:
        want = i < c ? w.in[root][e] : -1;
        break;
      case Kind::ALL_GATHER:
        want = w.in[s][e];
        break;
      case Kind::GATHER:
        want = r == root ? w.in[s][e] : -1;
        break;
      case Kind::SCATTER:
        want = i < c ? w.in[root][r * c + e] : -1;
        break;
      case Kind::REDUCE_SCATTER:
        want = i < c ? sum_mine : -1;
        break;
      case Kind::ALL_TO_ALL:
        want = w.in[s][r * c + e];
        break;
      default:
        break;
      }
      good &= w.out[r][i] == want;
    }
  // A rank's buffers are accessed in the name of its own operation, and within them.
  for (const auto *list : {&reads, &writes})
    for (const Range &a : *list) {
      const auto &b = list == &reads ? w.in[a.who - 1] : w.out[a.who - 1];
      good &=
          a.at >= (const char *)b.data() && a.at + a.size <= (const char *)(b.data() + b.size());
    }
  const bool from_root = k == Kind::BROADCAST || k == Kind::SCATTER;
  const bool to_root = k == Kind::REDUCE || k == Kind::GATHER;
  for (int r = 0; r < n; r++)
    for (int s = 0; s < n; s++)
      if (r != s)
        good &= (learnt.count({r + 1, s + 1}) != 0) == (from_root ? s == root
                                                        : to_root ? r == root
                                                                  : true);
  ok(good, kind_name(k));
}
} // namespace

int main() {
  for (int n : {1, 2, 3, 8})
    for (int k = 0; k <= (int)Kind::SCATTER; k++)
      check((Kind)k, n);

  { // a ring of transfers in one group per rank, one to itself among them
    World w(3, 4);
    for (int r = 0; r < 3; r++)
      issue({w.part(Kind::SEND, r, 4, (r + 1) % 3), w.part(Kind::RECV, r, 4, (r + 2) % 3)});
    bool good = drain() && found.empty();
    for (int r = 0; r < 3; r++)
      good &= w.out[r] == w.in[(r + 2) % 3];
    ok(good, "a ring of transfers");
    World self(1, 4);
    issue({self.part(Kind::SEND, 0, 4, 0), self.part(Kind::RECV, 0, 4, 0)});
    ok(drain() && self.out[0] == self.in[0], "a transfer to itself");
  }
  { // what does not end
    World w(2, 4);
    issue({w.part(Kind::SEND, 0, 4, 1)});
    ok(!drain(), "a send without a receive does not end");
    World v(2, 4);
    issue({v.part(Kind::ALL_REDUCE, 0, 4)});
    ok(!drain(), "a collective without a rank does not end");
  }
  { // mismatches: found, and no data moves
    World w(2, 4);
    issue({w.part(Kind::ALL_REDUCE, 0, 4)});
    issue({w.part(Kind::BROADCAST, 1, 4, 0)});
    ok(drain() && found == std::vector<std::string>{"collective-order"} && writes.empty(), "order");
    World c(2, 4);
    issue({c.part(Kind::ALL_REDUCE, 0, 4)});
    issue({c.part(Kind::ALL_REDUCE, 1, 3)});
    ok(drain() && found.size() == 1 && writes.empty(), "count");
    World o(2, 4);
    issue({o.part(Kind::BROADCAST, 0, 4, 0)});
    issue({o.part(Kind::BROADCAST, 1, 4, 1)});
    ok(drain() && found.size() == 1 && writes.empty(), "root");
    World p(2, 4);
    issue({p.part(Kind::ALL_REDUCE, 0, 4, -1, ncclSum)});
    issue({p.part(Kind::ALL_REDUCE, 1, 4, -1, ncclMax)});
    ok(drain() && found.size() == 1 && writes.empty(), "operation");
    World t(2, 4);
    issue({t.part(Kind::SEND, 0, 4, 1)});
    issue({t.part(Kind::RECV, 1, 3, 0)});
    ok(drain() && found.size() == 1 && writes.empty(), "count of a transfer");
  }
  printf("1..%d\n", number);
  return failed != 0;
}
