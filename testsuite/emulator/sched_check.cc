// SPDX-License-Identifier: Apache-2.0
/* Checks of the scheduler with a memory half that records nothing; prints TAP. */
#include "emulator/engine_internal.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <thread>

/* Actors that never ended keep what is on their stacks; the run ends by _exit() in the program. */
extern "C" const char *__asan_default_options() {
  return "detect_leaks=0:detect_stack_use_after_return=0";
}

/* ---- in place of the memory half --------------------------------------------------------------
 */

static std::vector<std::pair<std::string, std::string>> found;
static int actors, meetings;
namespace emu {
struct HbActor {};
struct HbBlock {};
void Clock::join(const Clock &) {}
Clock release() { return Clock(); }
void acquire(const Clock &) {}
HbActor *hb_actor_begin(const Clock &, const Identity &) { return actors++, new HbActor; }
Clock hb_actor_end(HbActor *a) { return actors--, delete a, Clock(); }
HbBlock *hb_block_begin(const Clock &, const Identity &, unsigned) { return new HbBlock; }
HbActor *hb_thread_begin(HbBlock *, const Identity &) { return actors++, new HbActor; }
void hb_thread_end(HbActor *a) { actors--, delete a; }
Clock hb_block_end(HbBlock *b) { return delete b, Clock(); }
void hb_meet(HbBlock *, HbActor *const *, unsigned, bool) { meetings++; }
void finding(const char *kind, const std::string &message, Site, Site, const std::string &) {
  found.emplace_back(kind, message);
}
std::string self_text() { return "rank " + std::to_string(self().process); }
std::string site_text(Site) { return "somewhere"; }
void unsupported(const std::string &what, Site) {
  printf("Bail out! %s\n", what.c_str());
  exit(1);
}
} // namespace emu
using namespace emu;

static int count, failed;
static void ok(bool good, const char *name) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++count, name);
  failed += !good;
}

static LaunchConfig kernel(unsigned grid, unsigned block, std::function<void()> body) {
  LaunchConfig c;
  c.grid.x = grid;
  c.block.x = block;
  c.body = std::move(body);
  return c;
}
static int run(RunOptions o, std::function<int(int)> main) {
  found.clear();
  return run_processes(o, main);
}

/* Who wrote, in which order, under a schedule. */
static std::string trace(unsigned schedule, uint64_t seed) {
  RunOptions o;
  o.processes = 3;
  o.schedule = schedule;
  o.seed = seed;
  std::string t;
  run(o, [&](int) {
    Stream *s = stream_of(nullptr);
    stream_launch(s,
                  kernel(4, 2,
                         [&] {
                           t += (char)('a' + self().process * 8 + self().block * 2 + self().thread);
                           sync_block(0);
                         }),
                  0);
    stream_synchronize(s, 0);
    return 0;
  });
  return t;
}

/* A bounded queue with two producers and two consumers. */
static int threads_sum() {
  std::mutex m;
  std::condition_variable full, empty;
  std::vector<int> queue;
  int sum = 0;
  std::vector<std::thread> all;
  for (int p = 0; p < 2; p++)
    all.emplace_back([&, p] {
      for (int i = 0; i < 50; i++) {
        std::unique_lock<std::mutex> l(m);
        full.wait(l, [&] { return queue.size() < 3; });
        queue.push_back(p * 100 + i);
        empty.notify_one();
      }
    });
  for (int c = 0; c < 2; c++)
    all.emplace_back([&] {
      for (int i = 0; i < 50; i++) {
        std::unique_lock<std::mutex> l(m);
        empty.wait(l, [&] { return !queue.empty(); });
        sum += queue.back();
        queue.pop_back();
        full.notify_one();
      }
    });
  for (auto &t : all)
    t.join();
  return sum;
}

static void threads() {
  RunOptions plain;
  for (unsigned k = 0; k < 4; k++) {
    RunOptions o;
    o.schedule = k;
    int sum = 0;
    const int status = run(o, [&](int) { return sum = threads_sum(), 5; });
    ok(sum == 2 * 1225 + 5000 && status == 5 && found.empty(),
       "threads with a mutex and conditions");
  }
  int status = run(plain, [](int) {
    std::mutex a, b;
    std::thread t([&] {
      std::lock_guard<std::mutex> l(b);
      std::this_thread::sleep_for(std::chrono::seconds(1000));
      a.lock();
    });
    std::lock_guard<std::mutex> l(a);
    std::this_thread::sleep_for(std::chrono::seconds(2000));
    b.lock();
    return 0;
  });
  ok(status == 70 && found.size() == 1 && found[0].second.find("mutex") != std::string::npos,
     "two mutexes in opposite order; sleeping takes no real time");
  bool timeout = false, meanwhile = false;
  int once = 0, serial = 0, readers = 0, most = 0;
  run(plain, [&](int) {
    std::mutex m;
    std::condition_variable c;
    std::unique_lock<std::mutex> l(m);
    std::thread t([&] {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      std::lock_guard<std::mutex> g(m);
      meanwhile = true;
    });
    timeout = c.wait_for(l, std::chrono::seconds(60)) == std::cv_status::timeout;
    l.unlock();
    t.join();
    static pthread_once_t control = PTHREAD_ONCE_INIT;
    static int *counter;
    counter = &once;
    pthread_barrier_t b;
    pthread_barrier_init(&b, nullptr, 3);
    std::shared_mutex rw;
    std::vector<std::thread> all;
    for (int i = 0; i < 3; i++)
      all.emplace_back([&] {
        pthread_once(&control, [] { ++*counter; });
        for (int k = 0; k < 4; k++)
          serial += pthread_barrier_wait(&b) == PTHREAD_BARRIER_SERIAL_THREAD;
        std::shared_lock<std::shared_mutex> s(rw);
        most = std::max(most, ++readers);
        std::this_thread::yield();
        readers--;
      });
    for (auto &x : all)
      x.join();
    return 0;
  });
  ok(timeout && meanwhile, "a wait with a time limit lets others run");
  ok(once == 1 && serial == 4, "once and barriers of threads");
  ok(most > 1 && readers == 0, "readers share a lock");
  bool after = false;
  int last = -1;
  RunOptions o;
  o.exiting = [&](int p) { last = p; };
  status = run(o, [&](int) {
    std::thread t([] { exit(0x107); });
    t.join();
    after = true;
    return 0;
  });
  ok(status == 7 && !after && last == 0, "exit() in a thread ends its process");
  RunOptions two;
  two.processes = 2;
  status = run(two, [&](int rank) {
    if (rank == 0)
      return 6;
    wait_until([] { return false; }, {"waits for rank 0", 0});
    return 0;
  });
  ok(status == 70 && found.empty(), "who waits for a failed process is no deadlock of its own");
}

int main() {
  RunOptions plain;
  std::vector<int> order;
  int status = run(plain, [&](int) {
    Stream *s = stream_create(0, false, 0), *u = stream_create(0, false, 0);
    Event *e = event_create(0);
    stream_launch(s, kernel(1, 1, [&] { order.push_back(1); }), 0);
    ok(order.empty(), "a launch does not run at once");
    event_record(e, s, 0);
    stream_wait_event(u, e, 0);
    stream_launch(u, kernel(1, 1, [&] { order.push_back(2); }), 0);
    stream_launch(u, kernel(1, 1, [&] { order.push_back(3); }), 0);
    stream_launch(stream_of(nullptr), kernel(1, 1, [&] { order.push_back(4); }), 0);
    stream_launch(s, kernel(1, 1, [&] { order.push_back(5); }), 0);
    device_synchronize(0);
    return 3;
  });
  ok(order == std::vector<int>({1, 2, 3, 4, 5}), "streams, events and the default stream order");
  ok(status == 3, "the exit status of main");
  ok(actors == 0 || actors == 1, "the clocks of all that ended are freed"); // main's own stays

  int sum = 0, bad = 0;
  meetings = 0;
  run(plain, [&](int) {
    auto shared = std::make_shared<std::vector<int>>(64 * 8);
    stream_launch(stream_of(nullptr),
                  kernel(8, 64,
                         [&, shared] {
                           const Identity me = self();
                           int *mine = &(*shared)[me.block * 64];
                           for (int i = 1; i < 5; i++) {
                             if (me.thread == 63 && i == 3)
                               return; // the others' barriers go on without it
                             mine[me.thread] = i;
                             sync_block(0);
                             const unsigned other = (me.thread + 17) % 64;
                             bad += mine[other] != (other == 63 && i > 2 ? -2 : i);
                             sync_block(0);
                             mine[me.thread] = -i;
                             sync_warp(0xffffffffu, 0);
                             const unsigned lane = (me.thread & 32) + (me.thread + 5) % 32;
                             bad += mine[lane] != -(lane == 63 && i > 2 ? 2 : i);
                             sync_warp(0xffffffffu, 0);
                           }
                           sum++;
                         }),
                  0);
    device_synchronize(0);
    return 0;
  });
  ok(bad == 0 && sum == 8 * 63, "barriers of blocks and warps, with threads that return early");
  ok(meetings >= 8 * 8, "the memory half hears of every barrier");

  RunOptions few;
  few.resident_blocks = 3;
  auto spin = [](unsigned grid) {
    return [grid](int) {
      auto arrived = std::make_shared<unsigned>(0);
      stream_launch(stream_of(nullptr),
                    kernel(grid, 4,
                           [=] {
                             if (self().thread == 0) {
                               ++*arrived;
                               progress();
                             }
                             while (*arrived < grid)
                               poll(7, "a counter");
                           }),
                    0);
      device_synchronize(0);
      return 0;
    };
  };
  ok(run(few, spin(3)) == 0 && found.empty(), "blocks that spin for each other when all fit");
  ok(run(few, spin(4)) == 70 && found.size() == 1 && found[0].first == "residency",
     "blocks that spin for one that does not fit");
  status = run(plain, [](int) {
    wait_until([] { return false; }, {"waits for what never comes", 1});
    return 0;
  });
  ok(status == 70 && found.size() == 1 && found[0].first == "deadlock" &&
         found[0].second.find("rank 0 waits for what never comes") != std::string::npos,
     "a deadlock names who waits for what");

  int result = 0;
  RunOptions two;
  two.processes = 2;
  std::vector<int> each;
  status = run_processes(
      two,
      [&](int rank) {
        int x = 0;
        HostThread *t = host_thread_start([&]() -> void * {
          x = 5;
          if (rank == 0)
            host_thread_exit(&x);
          return &x;
        });
        result += *(int *)host_thread_join(t, 0);
        int mine = rank + 1, total = 0;
        rendezvous("sum", 2, rank, &mine,
                   [&](const std::vector<void *> &d) { total = *(int *)d[0] + *(int *)d[1]; },
                   {"waits for the other", 0});
        result += total;
        if (rank == 1)
          process_exit(9);
        return 4;
      },
      &each);
  ok(result == 13, "threads join, processes meet");
  ok(status == 9 && each == std::vector<int>({4, 9}), "the status of each process");

  ok(trace(0, 1) == trace(0, 2), "the plain schedule does not depend on the seed");
  ok(trace(5, 1) == trace(5, 1), "a schedule and its seed replay");
  ok(trace(5, 1) != trace(6, 1) && trace(5, 1) != trace(5, 2), "schedules and seeds differ");
  threads();
  printf("1..%d\n", count);
  return failed != 0;
}
