// SPDX-License-Identifier: Apache-2.0
#include "driver/sandbox.h"
#include "driver/process.h"
#include <string.h>

static void add_all(struct arg_list *out, const char *const *words, size_t n) {
  for (size_t i = 0; i < n; i++)
    args_add(out, words[i]);
}
#define ADD(out, ...)                                                                              \
  do {                                                                                             \
    const char *const words_[] = {__VA_ARGS__};                                                    \
    add_all(out, words_, sizeof words_ / sizeof *words_);                                          \
  } while (0)

static void prefix(struct arg_list *out, const char *dir, const char *start, bool network) {
  ADD(out, "bwrap", "--die-with-parent", "--unshare-pid", "--unshare-uts", "--ro-bind", "/", "/",
      "--dev-bind", "/dev", "/dev", "--proc", "/proc");
  if (!network)
    ADD(out, "--unshare-net");
  ADD(out, "--bind", dir, dir, "--chdir", start);
}

bool sandbox_available(void) {
  static int known = -1;
  if (known >= 0)
    return known;
  const char *wish = getenv("CUCOCC_SANDBOX");
  known = 0;
  if (wish && strcmp(wish, "none") == 0)
    return false;
  struct arg_list words = {0};
  prefix(&words, "/tmp", "/tmp", false);
  args_add(&words, "true");
  struct process p;
  known = process_complete(&p, &(struct process_spec){.words = &words, .timeout = 10}) && p.status == 0;
  process_free(&p);
  args_free(&words);
  return known;
}

void sandbox_wrap(struct arg_list *out, const struct arg_list *words, const char *dir, const char *start,
                  bool network) {
  if (sandbox_available())
    prefix(out, dir, start, network);
  args_append(out, words);
}
