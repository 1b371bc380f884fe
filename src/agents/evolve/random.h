// SPDX-License-Identifier: Apache-2.0
/* Random numbers that are the same on every machine: xoshiro256**, seeded through splitmix64. */
#ifndef CUCOCC_AGENTS_EVOLVE_RANDOM_H
#define CUCOCC_AGENTS_EVOLVE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct evo_random {
  uint64_t s[4];
};

/* Independent sequences for different (SEED, STREAM). */
void evo_random_seed(struct evo_random *r, uint64_t seed, uint64_t stream);
uint64_t evo_random_next(struct evo_random *r);
/* 0 <= result < N (N > 0), without bias. */
int evo_random_below(struct evo_random *r, int n);
/* 0 <= result < 1. */
double evo_random_unit(struct evo_random *r);
bool evo_random_chance(struct evo_random *r, double p);

enum { EVO_RANDOM_TEXT = 4 * 16 + 1 };
/* The state as 64 hexadecimal digits. */
void evo_random_text(const struct evo_random *r, char text[EVO_RANDOM_TEXT]);

#endif
