// SPDX-License-Identifier: Apache-2.0
/* The C library's threads, sleeps and exits for programs that run as host actors: the dynamic
 * linker finds these before the C library's. Outside of actors there is one thread only. Variables
 * of storage class thread_local are not multiplied: all threads of a process share one. */
#include "sched_internal.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

using namespace emu;

namespace {

/* A mutex, a lock for readers and writers, a condition, a barrier or a semaphore, by address. */
struct Lock {
  Actor *owner = nullptr;
  unsigned depth = 0, readers = 0;
  Clock clock; // of the last release
  unsigned count = 0, arrived = 0, turn = 0;
  std::deque<uint64_t> waiting; // tickets of a condition's waiters
  uint64_t tickets = 0;
};
Lock &lock_of(const volatile void *address) {
  static std::unordered_map<const volatile void *, std::shared_ptr<Lock>> locks;
  auto &l = locks[address];
  if (!l)
    l = std::make_shared<Lock>();
  return *l;
}

Actor *host() {
  return sched && sched->current && !sched->current->inline_agent &&
                 sched->current->who.kind == ActorKind::HOST
             ? sched->current
             : nullptr;
}

template <class F> F real(const char *name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

void leave(Lock &l) { l.clock = release(), progress(); }

int mutex_kind(const pthread_mutex_t *m) { return m->__data.__kind & 3; }

int mutex_lock(pthread_mutex_t *m, bool wait, uint64_t until, Site site) {
  Actor *a = host();
  if (!a)
    return 0;
  Lock &l = lock_of(m);
  if (l.owner == a) {
    if (mutex_kind(m) == PTHREAD_MUTEX_RECURSIVE)
      return l.depth++, 0;
    if (mutex_kind(m) == PTHREAD_MUTEX_ERRORCHECK)
      return wait ? EDEADLK : EBUSY;
  }
  if (!wait)
    maybe_switch();
  if (l.owner && !wait)
    return EBUSY;
  auto is_free = [&l] { return !l.owner; };
  const WaitReason reason = {"waits for a mutex", site};
  if (until == UINT64_MAX)
    wait_until(is_free, reason);
  else if (!sched_wait_until(is_free, until, reason))
    return ETIMEDOUT;
  while (l.owner) // somebody was faster
    wait_until(is_free, reason);
  l.owner = a;
  l.depth = 1;
  acquire(l.clock);
  return 0;
}

int mutex_unlock(pthread_mutex_t *m) {
  Actor *a = host();
  if (!a)
    return 0;
  Lock &l = lock_of(m);
  if (l.owner != a)
    return mutex_kind(m) == PTHREAD_MUTEX_NORMAL ? 0 : EPERM;
  if (--l.depth)
    return 0;
  l.owner = nullptr;
  leave(l);
  return 0;
}

/* A time of CLOCK as virtual time. */
uint64_t virtual_time(clockid_t clock, const timespec *t) {
  timespec now;
  clock_gettime(clock, &now);
  const int64_t ns = (t->tv_sec - now.tv_sec) * (int64_t)1000000000 + (t->tv_nsec - now.tv_nsec);
  return now_ns() + (uint64_t)std::max<int64_t>(ns, 0);
}

int cond_wait(pthread_cond_t *c, pthread_mutex_t *m, uint64_t until, Site site) {
  if (!host())
    return until == UINT64_MAX ? 0 : ETIMEDOUT;
  Lock &l = lock_of(c);
  const uint64_t mine = l.tickets++;
  l.waiting.push_back(mine);
  auto woken = [&l, mine] {
    return std::find(l.waiting.begin(), l.waiting.end(), mine) == l.waiting.end();
  };
  mutex_unlock(m);
  bool in_time = true;
  const WaitReason reason = {"waits for a condition variable", site};
  if (until == UINT64_MAX)
    wait_until(woken, reason);
  else if (!(in_time = sched_wait_until(woken, until, reason)))
    l.waiting.erase(std::find(l.waiting.begin(), l.waiting.end(), mine));
  if (in_time)
    acquire(l.clock);
  mutex_lock(m, true, UINT64_MAX, site);
  return in_time ? 0 : ETIMEDOUT;
}

void wake(pthread_cond_t *c, bool all) {
  if (!host())
    return;
  Lock &l = lock_of(c);
  if (all)
    l.waiting.clear();
  else if (!l.waiting.empty())
    l.waiting.erase(l.waiting.begin() + (long)choose(l.waiting.size()));
  leave(l);
}

int rw_lock(pthread_rwlock_t *r, bool write, bool wait, Site site) {
  Actor *a = host();
  if (!a)
    return 0;
  Lock &l = lock_of(r);
  auto is_free = [&l, write] { return !l.owner && !(write && l.readers); };
  if (l.owner == a && wait)
    return EDEADLK;
  if (!wait && !is_free())
    return EBUSY;
  do
    wait_until(is_free,
               {write ? "waits to write under a lock" : "waits to read under a lock", site});
  while (!is_free());
  if (write)
    l.owner = a;
  else
    l.readers++;
  acquire(l.clock);
  return 0;
}

void sleep_until(uint64_t until, Site site) {
  sched_wait_until([] { return false; }, until, {"sleeps", site});
}

} // namespace

extern "C" {

/* ---- threads ----------------------------------------------------------------------------------
 */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
  if (!host())
    return real<decltype(&pthread_create)>("pthread_create")(thread, attributes, start, argument);
  *thread = (pthread_t)host_thread_start([=] { return start(argument); });
  maybe_switch();
  return 0;
}

int pthread_join(pthread_t thread, void **result) {
  if (!host())
    return real<decltype(&pthread_join)>("pthread_join")(thread, result);
  void *r = host_thread_join((HostThread *)thread, EMU_SITE());
  if (result)
    *result = r;
  return 0;
}

int pthread_tryjoin_np(pthread_t thread, void **result) {
  maybe_switch();
  return ((HostThread *)thread)->ended ? pthread_join(thread, result) : EBUSY;
}

int pthread_detach(pthread_t thread) {
  return host() ? 0 : real<decltype(&pthread_detach)>("pthread_detach")(thread);
}

pthread_t pthread_self(void) noexcept {
  static const auto f = real<decltype(&pthread_self)>("pthread_self");
  return host() ? (pthread_t)host_thread_self() : f();
}

void pthread_exit(void *result) {
  if (!host())
    real<decltype(&pthread_exit)>("pthread_exit")(result);
  host_thread_exit(result);
}

int sched_yield(void) noexcept {
  if (host())
    poll(EMU_SITE(), "sched_yield()");
  return 0;
}

/* ---- mutexes ----------------------------------------------------------------------------------
 */

int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attributes) noexcept {
  lock_of(m) = Lock();
  return real<decltype(&pthread_mutex_init)>("pthread_mutex_init")(m, attributes);
}
int pthread_mutex_destroy(pthread_mutex_t *m) noexcept {
  if (lock_of(m).owner)
    return EBUSY;
  lock_of(m) = Lock();
  return 0;
}
int pthread_mutex_lock(pthread_mutex_t *m) noexcept {
  return mutex_lock(m, true, UINT64_MAX, EMU_SITE());
}
int pthread_mutex_trylock(pthread_mutex_t *m) noexcept {
  return mutex_lock(m, false, UINT64_MAX, EMU_SITE());
}
int pthread_mutex_timedlock(pthread_mutex_t *m, const timespec *t) noexcept {
  return mutex_lock(m, true, host() ? virtual_time(CLOCK_REALTIME, t) : 0, EMU_SITE());
}
int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const timespec *t) noexcept {
  return mutex_lock(m, true, host() ? virtual_time(clock, t) : 0, EMU_SITE());
}
int pthread_mutex_unlock(pthread_mutex_t *m) noexcept { return mutex_unlock(m); }

int pthread_once(pthread_once_t *once, void (*f)(void)) {
  volatile int *state = (volatile int *)once; // 0: not begun, 1: runs, 2: done, as the C library's
  if (*state == 1 && host())
    wait_until([state] { return *state == 2; }, {"waits for pthread_once()", EMU_SITE()});
  Lock &l = lock_of(once);
  if (*state == 2) {
    if (host())
      acquire(l.clock);
    return 0;
  }
  *state = 1;
  try {
    f();
  } catch (...) {
    *state = 0;
    throw;
  }
  *state = 2;
  if (host())
    leave(l);
  return 0;
}

/* ---- conditions, locks, barriers, semaphores ---------------------------------------------------
 */

int pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attributes) noexcept {
  lock_of(c) = Lock();
  return real<decltype(&pthread_cond_init)>("pthread_cond_init")(c, attributes);
}
int pthread_cond_destroy(pthread_cond_t *c) noexcept {
  lock_of(c) = Lock();
  return 0;
}
int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
  return cond_wait(c, m, UINT64_MAX, EMU_SITE());
}
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const timespec *t) {
  return cond_wait(c, m, host() ? virtual_time(CLOCK_REALTIME, t) : 0, EMU_SITE());
}
int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t k, const timespec *t) {
  return cond_wait(c, m, host() ? virtual_time(k, t) : 0, EMU_SITE());
}
int pthread_cond_signal(pthread_cond_t *c) noexcept { return wake(c, false), 0; }
int pthread_cond_broadcast(pthread_cond_t *c) noexcept { return wake(c, true), 0; }

int pthread_rwlock_init(pthread_rwlock_t *r, const pthread_rwlockattr_t *) noexcept {
  lock_of(r) = Lock();
  return 0;
}
int pthread_rwlock_destroy(pthread_rwlock_t *r) noexcept {
  lock_of(r) = Lock();
  return 0;
}
int pthread_rwlock_rdlock(pthread_rwlock_t *r) noexcept {
  return rw_lock(r, false, true, EMU_SITE());
}
int pthread_rwlock_tryrdlock(pthread_rwlock_t *r) noexcept {
  return rw_lock(r, false, false, EMU_SITE());
}
int pthread_rwlock_wrlock(pthread_rwlock_t *r) noexcept {
  return rw_lock(r, true, true, EMU_SITE());
}
int pthread_rwlock_trywrlock(pthread_rwlock_t *r) noexcept {
  return rw_lock(r, true, false, EMU_SITE());
}
int pthread_rwlock_unlock(pthread_rwlock_t *r) noexcept {
  if (!host())
    return 0;
  Lock &l = lock_of(r);
  if (l.owner == host())
    l.owner = nullptr;
  else if (l.readers)
    l.readers--;
  l.clock.join(release());
  progress();
  return 0;
}

int pthread_barrier_init(pthread_barrier_t *b, const pthread_barrierattr_t *,
                         unsigned count) noexcept {
  if (count == 0)
    return EINVAL;
  lock_of(b) = Lock();
  lock_of(b).count = count;
  return 0;
}
int pthread_barrier_destroy(pthread_barrier_t *b) noexcept {
  lock_of(b) = Lock();
  return 0;
}
int pthread_barrier_wait(pthread_barrier_t *b) noexcept {
  if (!host())
    return 0;
  Lock &l = lock_of(b);
  l.clock.join(release());
  if (++l.arrived == l.count) {
    l.arrived = 0;
    l.turn++;
    acquire(l.clock);
    progress();
    return PTHREAD_BARRIER_SERIAL_THREAD;
  }
  const unsigned turn = l.turn;
  wait_until([&l, turn] { return l.turn != turn; }, {"waits in a barrier of threads", EMU_SITE()});
  acquire(l.clock);
  return 0;
}

int sem_init(sem_t *s, int, unsigned value) noexcept {
  lock_of(s) = Lock();
  lock_of(s).count = value;
  return 0;
}
int sem_destroy(sem_t *s) noexcept {
  lock_of(s) = Lock();
  return 0;
}
int sem_post(sem_t *s) noexcept {
  Lock &l = lock_of(s);
  l.count++;
  if (host())
    l.clock.join(release());
  progress();
  return 0;
}
int sem_trywait(sem_t *s) noexcept {
  Lock &l = lock_of(s);
  maybe_switch();
  if (l.count == 0)
    return errno = EAGAIN, -1;
  l.count--;
  acquire(l.clock);
  return 0;
}
int sem_wait(sem_t *s) {
  Lock &l = lock_of(s);
  do
    wait_until([&l] { return l.count != 0; }, {"waits for a semaphore", EMU_SITE()});
  while (l.count == 0);
  l.count--;
  acquire(l.clock);
  return 0;
}

/* ---- sleeping ---------------------------------------------------------------------------------
 */

int clock_nanosleep(clockid_t clock, int flags, const timespec *t, timespec *left) {
  if (!host())
    return real<decltype(&clock_nanosleep)>("clock_nanosleep")(clock, flags, t, left);
  sleep_until(flags & TIMER_ABSTIME
                  ? virtual_time(clock, t)
                  : now_ns() + (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec,
              EMU_SITE());
  return 0;
}
int nanosleep(const timespec *t, timespec *left) {
  if (!host())
    return real<decltype(&nanosleep)>("nanosleep")(t, left);
  sleep_until(now_ns() + (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec, EMU_SITE());
  return 0;
}
int usleep(useconds_t us) {
  if (!host())
    return real<decltype(&usleep)>("usleep")(us);
  sleep_until(now_ns() + (uint64_t)us * 1000, EMU_SITE());
  return 0;
}
unsigned sleep(unsigned s) {
  if (!host())
    return real<decltype(&sleep)>("sleep")(s);
  sleep_until(now_ns() + (uint64_t)s * 1000000000, EMU_SITE());
  return 0;
}

/* ---- clocks: virtual time, so that output and time limits are reproducible ----------------------
 */

int clock_gettime(clockid_t clock, timespec *t) noexcept {
  static const auto f = real<decltype(&clock_gettime)>("clock_gettime");
  Actor *a = host();
  if (!a)
    return f(clock, t);
  const uint64_t start = clock == CLOCK_REALTIME ? 1767225600 : 1000; // the first of January 2026
  sched->ticks += 100;
  t->tv_sec = (time_t)(start + now_ns() / 1000000000);
  t->tv_nsec = (long)(now_ns() % 1000000000);
  if (++a->atomics % 64 == 0) // a loop until some time
    sched_suspend(State::READY);
  return 0;
}
int gettimeofday(timeval *t, void *) noexcept {
  timespec now;
  const int r = clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return r;
}
time_t time(time_t *t) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t)
    *t = now.tv_sec;
  return now.tv_sec;
}

/* ---- the end of a process ----------------------------------------------------------------------
 */

void exit(int status) noexcept {
  if (sched && sched->current)
    process_exit(status & 0xff);
  real<void (*)(int)>("exit")(status);
  __builtin_unreachable();
}
void quick_exit(int status) noexcept { exit(status); }
void _exit(int status) {
  if (sched && sched->current)
    process_exit(status & 0xff);
  for (;;)
    syscall(SYS_exit_group, status);
}
void _Exit(int status) noexcept { _exit(status); }
void abort(void) noexcept {
  if (host())
    process_exit(128 + SIGABRT);
  signal(SIGABRT, SIG_DFL);
  raise(SIGABRT);
  for (;;)
    syscall(SYS_exit_group, 128 + SIGABRT);
}

} // extern "C"
