// SPDX-License-Identifier: Apache-2.0
/* State of the C library that each process must have for itself: options, random numbers, strtok(). */
#include "sched_internal.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <getopt.h>
#include <memory>

using namespace emu;

namespace {

struct State {
  bool options = false; // getopt() was called
  int index = 1, option = '?', errors = 1;
  char *argument = nullptr;
  char pool[128];
  random_data random = {};
  drand48_data random48 = {};
  char *token = nullptr;
  State() {
    initstate_r(1, pool, sizeof pool, &random);
    unsigned short seed[3] = {0x330e, 0, 0};
    seed48_r(seed, &random48);
  }
};

/* The process's own; one for all outside of the emulation. */
State &state() {
  static const char key = 0;
  static State outside;
  if (!sched || !sched->current || !sched->current->process)
    return outside;
  auto &p = process_local(&key);
  if (!p)
    p = std::make_shared<State>();
  return *static_cast<State *>(p.get());
}

using GetOpt = int (*)(int, char *const *, const char *);
using GetOptLong = int (*)(int, char *const *, const char *, const option *, int *);

template <class F> F real(const char *name) { return reinterpret_cast<F>(dlsym(RTLD_NEXT, name)); }

/* The C library's variables are the running process's during CALL; what it changed itself between calls
 * counts when no other process came between. */
template <class F> int with_options(F call) {
  static State *last = nullptr;
  State &s = state();
  if (last == &s && s.options) {
    s.index = optind;
    s.errors = opterr;
  }
  if (last != &s) {
    optind = s.options ? s.index : 0; // 0: begins anew
    opterr = s.errors;
    optarg = s.argument;
    optopt = s.option;
  }
  last = &s;
  const int r = call();
  s.options = true;
  s.index = optind;
  s.argument = optarg;
  s.option = optopt;
  return r;
}

} // namespace

extern "C" {

int getopt(int argc, char *const *argv, const char *options) noexcept {
  return with_options([&] { return real<GetOpt>("getopt")(argc, argv, options); });
}
int getopt_long(int argc, char *const *argv, const char *options, const option *longs,
                int *index) noexcept {
  return with_options([&] { return real<GetOptLong>("getopt_long")(argc, argv, options, longs, index); });
}
int getopt_long_only(int argc, char *const *argv, const char *options, const option *longs,
                     int *index) noexcept {
  return with_options(
      [&] { return real<GetOptLong>("getopt_long_only")(argc, argv, options, longs, index); });
}

int rand(void) noexcept {
  int32_t r = 0;
  random_r(&state().random, &r);
  return r;
}
void srand(unsigned seed) noexcept { srandom_r(seed, &state().random); }
long random(void) noexcept { return rand(); }
void srandom(unsigned seed) noexcept { srandom_r(seed, &state().random); }
double drand48(void) noexcept {
  double r = 0;
  drand48_r(&state().random48, &r);
  return r;
}
long lrand48(void) noexcept {
  long r = 0;
  lrand48_r(&state().random48, &r);
  return r;
}
long mrand48(void) noexcept {
  long r = 0;
  mrand48_r(&state().random48, &r);
  return r;
}
void srand48(long seed) noexcept { srand48_r(seed, &state().random48); }
char *strtok(char *s, const char *delimiters) noexcept { return strtok_r(s, delimiters, &state().token); }

} // extern "C"
