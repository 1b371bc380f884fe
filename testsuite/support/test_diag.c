// SPDX-License-Identifier: Apache-2.0
#include "lib/unit.h"
#include "support/diag.h"
#include "support/diag_text.h"
#include "support/vec.h"
#include <jansson.h>
#include <string.h>

struct capture {
  char *text;
  size_t n;
  FILE *file;
  struct diag_engine *d;
};

/* C must stay where it is: the stream writes to its members. */
static void start(struct capture *c) {
  c->file = open_memstream(&c->text, &c->n);
  c->d = diag_new(c->file);
}

static const char *stop(struct capture *c) {
  diag_free(c->d);
  fclose(c->file);
  return c->text;
}

static const struct diag_loc at = {.file = "a.cu", .line = 2, .col = 5, .end_col = 8};
static const char source[] = "first\n\tab cdef\nlast";

static void clang_form(void **state) {
  (void)state;
  struct capture c;
  start(&c);
  diag_add_source(c.d, "a.cu", source, sizeof source - 1);
  diag_report(c.d, DIAG_not_transformed, &at, "no %s", "way");
  diag_note(c.d, NULL, "because");
  assert_int_equal(diag_warnings(c.d), 1);
  assert_int_equal(diag_errors(c.d), 0);
  assert_string_equal(stop(&c), "a.cu:2:5: warning: no way [-Wnot-transformed] [CU0401]\n"
                                 "    2 |         ab cdef\n"
                                 "      |            ^~~\n"
                                 "cucocc: note: because\n");
  free(c.text);
}

static void promotion_and_silence(void **state) {
  (void)state;
  struct capture c;
  start(&c);
  assert_true(diag_set_warning(c.d, "error=not-transformed"));
  diag_report(c.d, DIAG_not_transformed, NULL, "x");
  assert_int_equal(diag_errors(c.d), 1);
  assert_true(diag_set_warning(c.d, "no-not-transformed"));
  diag_report(c.d, DIAG_not_transformed, NULL, "unseen");
  diag_note(c.d, NULL, "unseen too");
  assert_int_equal(diag_errors(c.d), 1);
  assert_true(diag_set_warning(c.d, "error"));
  assert_true(diag_set_warning(c.d, "no-error=function-skipped"));
  diag_report(c.d, DIAG_function_skipped, NULL, "still a warning");
  assert_int_equal(diag_warnings(c.d), 1);
  diag_report(c.d, DIAG_missing_header, NULL, "an error now");
  assert_int_equal(diag_errors(c.d), 2);
  diag_report(c.d, DIAG_not_symmetric, NULL, "remark: off by default");
  assert_true(diag_set_warning(c.d, "not-symmetric"));
  diag_report(c.d, DIAG_not_symmetric, NULL, "seen remark");
  assert_false(diag_set_warning(c.d, "no-such-name"));
  assert_false(diag_set_warning(c.d, "error=no-such-name"));
  assert_true(diag_set_warning(c.d, "no-all"));
  diag_report(c.d, DIAG_missing_header, NULL, "silenced");
  diag_foreign(c.d, "clang", DIAG_WARNING, NULL, "silenced as well");
  diag_foreign(c.d, "clang", DIAG_NOTE, NULL, "with its note");
  diag_report(c.d, DIAG_cannot_read, NULL, "never silent");
  stop(&c);
  assert_null(strstr(c.text, "unseen"));
  assert_null(strstr(c.text, "off by default"));
  assert_null(strstr(c.text, "silenced"));
  assert_null(strstr(c.text, "its note"));
  assert_non_null(strstr(c.text, "error: x [-Werror,-Wnot-transformed] [CU0401]"));
  assert_non_null(strstr(c.text, "warning: still a warning [-Wfunction-skipped]"));
  assert_non_null(strstr(c.text, "remark: seen remark"));
  assert_non_null(strstr(c.text, "fatal error: never silent [CU0201]"));
  free(c.text);
}

static void json_form(void **state) {
  (void)state;
  struct capture c;
  start(&c);
  diag_set_format(c.d, DIAG_FORMAT_JSON);
  diag_report(c.d, DIAG_not_transformed, &at, "bad byte \xff and \"quotes\"\n");
  diag_note(c.d, &at, "note");
  diag_foreign(c.d, "clang", DIAG_ERROR, NULL, "other");
  json_t *j = json_loads(stop(&c), 0, NULL);
  assert_true(json_is_array(j));
  assert_int_equal(json_array_size(j), 2);
  json_t *first = json_array_get(j, 0);
  assert_string_equal(json_string_value(json_object_get(first, "code")), "CU0401");
  assert_string_equal(json_string_value(json_object_get(first, "option")), "not-transformed");
  assert_int_equal(json_integer_value(json_object_get(first, "end_column")), 8);
  assert_int_equal(json_array_size(json_object_get(first, "notes")), 1);
  assert_string_equal(json_string_value(json_object_get(json_array_get(j, 1), "tool")), "clang");
  json_decref(j);
  free(c.text);
  start(&c);
  diag_set_format(c.d, DIAG_FORMAT_JSON);
  assert_string_equal(stop(&c), "[]\n");
  free(c.text);
}

/* The caret line: tabs, wide and combining characters, invalid bytes. */
static void carets(void **state) {
  (void)state;
  static const struct {
    const char *line;
    unsigned col, end;
    const char *shown, *caret;
  } cases[] = {
      {"abc", 1, 0, "abc", "^"},
      {"abc", 4, 0, "abc", "   ^"},
      {"abc", 99, 0, "abc", "   ^"},
      {"\t\tx", 3, 4, "                x", "                ^"},
      {"ab\tx", 4, 0, "ab      x", "        ^"},
      {"\xc3\xa9x", 3, 0, "\xc3\xa9x", " ^"},
      {"\xe6\xbc\xa2x", 4, 0, "\xe6\xbc\xa2x", "  ^"},
      {"e\xcc\x81x", 4, 0, "e\xcc\x81x", " ^"},
      {"\xffx", 2, 0, "<FF>x", "    ^"},
      {"\033x", 2, 0, "<1B>x", "    ^"},
      {"", 1, 0, "", "^"},
      {"abcdef", 2, 5, "abcdef", " ^~~"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct strbuf b = {0};
    diag_text_snippet(&b, cases[i].line, strlen(cases[i].line), 7, cases[i].col, cases[i].end, false);
    char *want = xasprintf("    7 | %s\n      | %s\n", cases[i].shown, cases[i].caret);
    assert_string_equal(b.s, want);
    free(want);
    sb_free(&b);
  }
}

static void long_line_is_cut(void **state) {
  (void)state;
  size_t n = 10 << 20;
  char *line = xmalloc(n);
  memset(line, '(', n);
  line[n / 2] = 'X';
  struct strbuf b = {0};
  diag_text_snippet(&b, line, n, 1, (unsigned)(n / 2 + 1), 0, false);
  assert_true(b.n < 600);
  const char *x = strchr(b.s, 'X'), *nl = strchr(b.s, '\n'), *caret = strchr(b.s, '^');
  assert_non_null(x);
  assert_int_equal(x - b.s, caret - (nl + 1));
  sb_free(&b);
  free(line);
}

/* Random bytes become valid UTF-8, and valid UTF-8 stays as it is. */
static void random_bytes(void **state) {
  (void)state;
  srand(3);
  for (int round = 0; round < 2000; round++) {
    char bytes[40];
    size_t n = (size_t)rand() % sizeof bytes;
    for (size_t i = 0; i < n; i++)
      bytes[i] = (char)(rand() % 3 ? rand() : 0x80 | rand());
    struct strbuf once = {0}, twice = {0}, shown = {0};
    diag_text_utf8(&once, bytes, n);
    json_t *j = json_stringn(once.s, once.n);
    assert_non_null(j);
    json_decref(j);
    diag_text_utf8(&twice, once.s, once.n);
    assert_int_equal(once.n, twice.n);
    assert_memory_equal(once.s, twice.s, once.n);
    unsigned col = (unsigned)rand() % 50, end = (unsigned)rand() % 50;
    diag_text_snippet(&shown, bytes, n, 1, col, end, false);
    assert_non_null(strchr(shown.s, '^'));
    sb_free(&once);
    sb_free(&twice);
    sb_free(&shown);
  }
}

static void codes_are_unique(void **state) {
  (void)state;
  for (int i = 0; i < DIAG_COUNT; i++) {
    assert_int_equal(strlen(diag_code(i)), 6);
    assert_true(*diag_summary(i));
    for (int k = 0; k < i; k++)
      assert_string_not_equal(diag_code(i), diag_code(k));
    bool off = *diag_option(i);
    assert_int_equal(off, diag_default_severity(i) == DIAG_WARNING ||
                              diag_default_severity(i) == DIAG_REMARK);
  }
}

static void reads_files_itself(void **state) {
  (void)state;
  char name[] = "/tmp/test_diag.XXXXXX";
  int fd = mkstemp(name);
  FILE *f = fdopen(fd, "w");
  fputs("one\r\ntwo\r\n", f);
  fclose(f);
  struct capture c;
  start(&c);
  diag_report(c.d, DIAG_parse_error, &(struct diag_loc){.file = name, .line = 2, .col = 1}, "m");
  diag_report(c.d, DIAG_parse_error, &(struct diag_loc){.file = name, .line = 999, .col = 1}, "m");
  stop(&c);
  remove(name);
  assert_non_null(strstr(c.text, "    2 | two\n      | ^\n"));
  assert_null(strstr(c.text, "999 |"));
  free(c.text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clang_form),      cmocka_unit_test(promotion_and_silence),
      cmocka_unit_test(json_form),       cmocka_unit_test(carets),
      cmocka_unit_test(long_line_is_cut), cmocka_unit_test(random_bytes),
      cmocka_unit_test(codes_are_unique), cmocka_unit_test(reads_files_itself),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
