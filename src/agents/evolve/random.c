// SPDX-License-Identifier: Apache-2.0
#include "agents/evolve/random.h"
#include <inttypes.h>
#include <stdio.h>

static uint64_t splitmix(uint64_t *x) {
  uint64_t z = *x += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

void evo_random_seed(struct evo_random *r, uint64_t seed, uint64_t stream) {
  uint64_t x = seed, y = stream ^ UINT64_C(0xD1B54A32D192ED03);
  for (int i = 0; i < 4; i++)
    r->s[i] = splitmix(&x) ^ splitmix(&y);
  if (!(r->s[0] | r->s[1] | r->s[2] | r->s[3]))
    r->s[0] = 1; /* the one state that the generator cannot leave */
}

static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

uint64_t evo_random_next(struct evo_random *r) {
  uint64_t *s = r->s, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotate(s[3], 45);
  return result;
}

int evo_random_below(struct evo_random *r, int n) {
  uint64_t range = (uint64_t)n, limit = UINT64_MAX - UINT64_MAX % range, x;
  do
    x = evo_random_next(r);
  while (x >= limit);
  return (int)(x % range);
}

double evo_random_unit(struct evo_random *r) {
  return (double)(evo_random_next(r) >> 11) * 0x1p-53;
}

bool evo_random_chance(struct evo_random *r, double p) { return evo_random_unit(r) < p; }

void evo_random_text(const struct evo_random *r, char text[EVO_RANDOM_TEXT]) {
  for (int i = 0; i < 4; i++)
    snprintf(text + 16 * i, 17, "%016" PRIx64, r->s[i]);
}
