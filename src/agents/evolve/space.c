// SPDX-License-Identifier: Apache-2.0
#include "agents/evolve/space.h"
#include "support/strbuf.h"
#include <math.h>
#include <string.h>

/* A directive's genes: the dimensions of the table, then these. */
enum { GENE_CHUNK = DIR_DIM_COUNT, GENE_CTAS, GENE_DEPTH, GENE_VECTOR, GENES };

static const int64_t chunks[] = {DIR_CHUNK_TILE, 16 << 10, 64 << 10, 256 << 10, 1 << 20,
                                 4 << 20,        16 << 20, 64 << 20, DIR_CHUNK_WHOLE};
static const int64_t ctas[] = {0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64};
static const int64_t depths[] = {1, 2, 3, 4, 6, 8, 12, 16};
static const int64_t vectors[] = {16, 8, 4};

#define LIST(a) {a, sizeof(a) / sizeof *(a)}
static const struct {
  const int64_t *v;
  size_t n;
} lists[] = {LIST(chunks), LIST(ctas), LIST(depths), LIST(vectors)};

enum { CACHE = 1 << 14 };

struct dir_space {
  const struct ir_program *ir;
  const struct dir_set *fast_path;
  const struct cost_model *cost;
  struct evo_space search;
  int *sizes, *group;
  bool *ordered, *structural;
  struct dir_directive *scratch;
  /* legality of a region's genes: 1 legal, 2 illegal, by their mixed number */
  unsigned char *cache;
  uint64_t *cache_key;
};

static bool host_only(const struct dir_space *s, size_t region) {
  return dir_host_reason(s->ir, &s->fast_path->regions.v[region]) != NULL;
}

/* Values of a dimension that have a lowering, in the table's order: the Kth is DIM_VALUE(dim, k). */
static int value_count(int dim) {
  int n = 0;
  for (int v = 0; v < dir_value_count(dim); v++)
    n += dir_value_implemented(dim, v);
  return n;
}

static int nth_value(int dim, int k) {
  for (int v = 0; v < dir_value_count(dim); v++)
    if (dir_value_implemented(dim, v) && k-- == 0)
      return v;
  return 0;
}

static int index_of_value(int dim, int value) {
  int k = 0;
  for (int v = 0; v < value; v++)
    k += dir_value_implemented(dim, v);
  return dir_value_implemented(dim, value) ? k : 0;
}

static int nearest(int list, int64_t x) {
  int best = 0;
  for (size_t i = 0; i < lists[list].n; i++) {
    int64_t y = lists[list].v[i], z = lists[list].v[best];
    if (y == x)
      return (int)i;
    if (x > 0 && y > 0 && (z <= 0 || llabs(y - x) < llabs(z - x)))
      best = (int)i;
  }
  return best;
}

/* ---- genes and directives ------------------------------------------------------------------------ */

static void decode_region(const struct dir_space *s, size_t region, const int *g,
                          struct dir_directive *d) {
  *d = s->fast_path->directives.v[region];
  d->reason = NULL;
  for (int k = 0; k < DIR_DIM_COUNT; k++)
    dir_value_set(d, k, nth_value(k, g[k]));
  if (d->backend == DIR_backend_host) {
    *d = (struct dir_directive){.region = d->region,
                                .backend = DIR_backend_host,
                                .placement = s->fast_path->directives.v[region].placement,
                                .sync = s->fast_path->directives.v[region].sync,
                                .issuer = s->fast_path->directives.v[region].issuer,
                                .depth = 1,
                                .vector_bytes = 16};
    return;
  }
  d->chunk_bytes = chunks[g[GENE_CHUNK]];
  d->ctas = (int)ctas[g[GENE_CTAS]];
  d->depth = (int)depths[g[GENE_DEPTH]];
  d->vector_bytes = (int)vectors[g[GENE_VECTOR]];
}

void dir_space_decode(const struct dir_space *s, const int *genome, struct dir_directive *out) {
  for (size_t i = 0; i < s->fast_path->regions.n; i++)
    decode_region(s, i, genome + i * GENES, &out[i]);
}

static void encode_region(const struct dir_directive *d, int *g) {
  for (int k = 0; k < DIR_DIM_COUNT; k++)
    g[k] = index_of_value(k, dir_value_get(d, k));
  g[GENE_CHUNK] = nearest(0, d->chunk_bytes);
  g[GENE_CTAS] = nearest(1, d->ctas);
  g[GENE_DEPTH] = nearest(2, d->depth);
  g[GENE_VECTOR] = nearest(3, d->vector_bytes);
}

void dir_space_encode(const struct dir_space *s, const struct dir_directive *d, int *genome) {
  for (size_t i = 0; i < s->fast_path->regions.n; i++)
    encode_region(&d[i], genome + i * GENES);
}

/* ---- legality ------------------------------------------------------------------------------------ */

static bool region_legal(const struct dir_space *s, size_t region, const int *g) {
  uint64_t key = region + 1;
  for (int k = 0; k < GENES; k++)
    key = key * 16 + (uint64_t)g[k];
  size_t slot = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 50) % CACHE;
  if (s->cache_key[slot] == key && s->cache[slot])
    return s->cache[slot] == 1;
  struct dir_directive d;
  decode_region(s, region, g, &d);
  bool legal = (d.backend == DIR_backend_host || !host_only(s, region)) &&
               dir_check(s->ir, &s->fast_path->regions.v[region], &d, NULL);
  s->cache_key[slot] = key;
  s->cache[slot] = legal ? 1 : 2;
  return legal;
}

static bool legal(void *ctx, const int *genome) {
  const struct dir_space *s = ctx;
  for (size_t i = 0; i < s->fast_path->regions.n; i++)
    if (!region_legal(s, i, genome + i * GENES))
      return false;
  return true;
}

/* A host call has no other dimension; nor has a region that must stay one any choice. */
static void canonical(void *ctx, int *genome) {
  const struct dir_space *s = ctx;
  for (size_t i = 0; i < s->fast_path->regions.n; i++) {
    int *g = genome + i * GENES;
    if (nth_value(DIR_DIM_backend, g[DIR_DIM_backend]) != DIR_backend_host && !host_only(s, i))
      continue;
    encode_region(&s->fast_path->directives.v[i], g);
    g[DIR_DIM_backend] = index_of_value(DIR_DIM_backend, DIR_backend_host);
    g[GENE_CHUNK] = nearest(0, DIR_CHUNK_WHOLE);
    g[GENE_CTAS] = g[GENE_DEPTH] = g[GENE_VECTOR] = 0;
  }
}

/* ---- features ------------------------------------------------------------------------------------ */

enum { CHUNK_CLASSES = 3, CTA_CLASSES = 3, COLUMNS = CHUNK_CLASSES * CTA_CLASSES,
       ROWS = 1 + DIR_placement_COUNT };

int dir_space_rows(void) { return ROWS; }
int dir_space_columns(void) { return COLUMNS; }

const char *dir_space_row_name(int row) {
  return row == 0 ? "host" : dir_value_name(DIR_DIM_placement, row - 1);
}

const char *dir_space_column_name(int column) {
  static const char *const names[COLUMNS] = {
      "whole or tile, up to 8 CTAs",  "whole or tile, 12 to 24 CTAs",  "whole or tile, more CTAs",
      "up to 256 KiB, up to 8 CTAs",  "up to 256 KiB, 12 to 24 CTAs",  "up to 256 KiB, more CTAs",
      "over 256 KiB, up to 8 CTAs",   "over 256 KiB, 12 to 24 CTAs",   "over 256 KiB, more CTAs"};
  return names[column];
}

/* The region with the most communication speaks for all. */
static int cell(void *ctx, const int *genome) {
  const struct dir_space *s = ctx;
  size_t heaviest = 0;
  double most = -1;
  for (size_t i = 0; i < s->fast_path->regions.n; i++) {
    const struct cost_region *r = s->cost ? cost_of_region(s->cost, i) : NULL;
    double x = host_only(s, i) ? -0.5 : r ? r->times * r->transfer : 0;
    if (x > most) {
      most = x;
      heaviest = i;
    }
  }
  if (s->fast_path->regions.n == 0)
    return 0;
  struct dir_directive d;
  decode_region(s, heaviest, genome + heaviest * GENES, &d);
  if (d.backend == DIR_backend_host)
    return 0;
  int chunk = d.chunk_bytes <= 0 ? 0 : d.chunk_bytes <= 256 << 10 ? 1 : 2;
  int cta = d.ctas == 0 || d.ctas > 24 ? 2 : d.ctas > 8 ? 1 : 0;
  return (1 + (int)d.placement) * COLUMNS + chunk * CTA_CLASSES + cta;
}

static double predict(void *ctx, const int *genome) {
  const struct dir_space *s = ctx;
  dir_space_decode(s, genome, s->scratch);
  return cost_predict(s->cost, s->scratch);
}

/* ---- life ---------------------------------------------------------------------------------------- */

struct dir_space *dir_space_new(const struct ir_program *ir, const struct dir_set *fast_path,
                                const struct cost_model *cost) {
  struct dir_space *s = xcalloc(1, sizeof *s);
  size_t n = fast_path->regions.n;
  s->ir = ir;
  s->fast_path = fast_path;
  s->cost = cost;
  s->sizes = xcalloc(n * GENES + 1, sizeof *s->sizes);
  s->group = xcalloc(n * GENES + 1, sizeof *s->group);
  s->ordered = xcalloc(n * GENES + 1, sizeof *s->ordered);
  s->structural = xcalloc(n * GENES + 1, sizeof *s->structural);
  s->scratch = xcalloc(n + 1, sizeof *s->scratch);
  s->cache = xcalloc(CACHE, sizeof *s->cache);
  s->cache_key = xcalloc(CACHE, sizeof *s->cache_key);
  for (size_t i = 0; i < n; i++)
    for (int k = 0; k < GENES; k++) {
      size_t gene = i * GENES + (size_t)k;
      s->group[gene] = (int)i;
      s->sizes[gene] = host_only(s, i)      ? 1
                       : k < DIR_DIM_COUNT ? value_count(k)
                                           : (int)lists[k - DIR_DIM_COUNT].n;
      s->ordered[gene] = k >= DIR_DIM_COUNT;
      s->structural[gene] = k == DIR_DIM_backend || k == DIR_DIM_placement;
    }
  s->search = (struct evo_space){.genes = (int)(n * GENES),
                                 .groups = (int)n,
                                 .cells = ROWS * COLUMNS,
                                 .sizes = s->sizes,
                                 .group = s->group,
                                 .ordered = s->ordered,
                                 .structural = s->structural,
                                 .ctx = s,
                                 .canonical = canonical,
                                 .legal = legal,
                                 .predict = cost ? predict : NULL,
                                 .cell = cell};
  return s;
}

void dir_space_free(struct dir_space *s) {
  if (!s)
    return;
  free(s->sizes);
  free(s->group);
  free(s->ordered);
  free(s->structural);
  free(s->scratch);
  free(s->cache);
  free(s->cache_key);
  free(s);
}

const struct evo_space *dir_space_search(const struct dir_space *s) { return &s->search; }

/* ---- combinations -------------------------------------------------------------------------------- */

/* Goes through the combinations of a region's genes; false after the last. */
static bool next_combination(const struct dir_space *s, size_t region, int *g) {
  for (int k = GENES - 1; k >= 0; k--) {
    if (++g[k] < s->sizes[region * GENES + (size_t)k])
      return true;
    g[k] = 0;
  }
  return false;
}

/* Is G its own canonical form, as far as this region goes? */
static bool counts(const struct dir_space *s, size_t region, const int *g) {
  if (nth_value(DIR_DIM_backend, g[DIR_DIM_backend]) == DIR_backend_host) /* once */
    for (int k = 0; k < GENES; k++)
      if (k != DIR_DIM_backend && g[k] != 0)
        return false;
  return region_legal(s, region, g);
}

size_t dir_space_size(const struct dir_space *s, size_t region, size_t most) {
  int g[GENES] = {0};
  size_t n = 0;
  do
    n += counts(s, region, g);
  while (n < most && next_combination(s, region, g));
  return n;
}

/* Changes as few of the fast path's genes as are needed: dimensions first, then sizes. */
static bool place(const struct dir_space *s, size_t region, int placement, int *g) {
  int base[GENES], trial[GENES] = {0};
  memcpy(base, g, sizeof base);
  base[DIR_DIM_placement] = placement;
  int best = GENES + 1;
  int try_sizes[GENES];
  for (int k = 0; k < GENES; k++) /* sizes that legality may ask for: whole, tile, the rest as it is */
    try_sizes[k] = k < DIR_DIM_COUNT ? s->sizes[region * GENES + (size_t)k]
                   : k == GENE_CHUNK ? (int)lists[0].n
                   : k == GENE_DEPTH ? 2
                                     : 1;
  for (;;) {
    int full[GENES], changed = 0;
    for (int k = 0; k < GENES; k++) {
      full[k] = k > GENE_CHUNK && k != GENE_DEPTH ? base[k] : trial[k];
      changed += full[k] != base[k];
    }
    if (full[DIR_DIM_placement] == placement && changed < best &&
        nth_value(DIR_DIM_backend, full[DIR_DIM_backend]) != DIR_backend_host &&
        region_legal(s, region, full)) {
      best = changed;
      memcpy(g, full, sizeof full);
    }
    int k = GENES - 1;
    while (k >= 0 && ++trial[k] >= try_sizes[k])
      trial[k--] = 0;
    if (k < 0)
      return best <= GENES;
  }
}

int dir_space_placement(const struct dir_space *s, enum dir_placement placement, int *genome) {
  dir_space_encode(s, s->fast_path->directives.v, genome);
  if (!dir_value_implemented(DIR_DIM_placement, (int)placement))
    return 0;
  int n = 0, index = index_of_value(DIR_DIM_placement, (int)placement);
  for (size_t i = 0; i < s->fast_path->regions.n; i++)
    if (!host_only(s, i))
      n += place(s, i, index, genome + i * GENES);
  canonical((void *)(uintptr_t)s, genome);
  return n;
}

bool dir_space_choice(const struct dir_space *s) {
  for (size_t i = 0; i < s->fast_path->regions.n; i++)
    if (!host_only(s, i) && dir_space_size(s, i, 3) > 2)
      return true;
  return false;
}

char *dir_space_describe(const struct dir_space *s, const int *genome) {
  struct strbuf b = {0};
  struct dir_directive d;
  for (size_t i = 0; i < s->fast_path->regions.n; i++) {
    decode_region(s, i, genome + i * GENES, &d);
    char *text = dir_describe(&d);
    sb_addf(&b, "%s%s", i ? "; " : "", text);
    if (d.backend != DIR_backend_host && (d.ctas || d.depth > 1 || d.vector_bytes != 16))
      sb_addf(&b, " (%d CTAs, depth %d, %d-byte accesses)", d.ctas, d.depth, d.vector_bytes);
    free(text);
  }
  return sb_take(&b);
}
