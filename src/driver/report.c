// SPDX-License-Identifier: Apache-2.0
#include "driver/report.h"
#include "config.h"
#include "support/diag_text.h"
#include <jansson.h>
#include <string.h>

static json_t *summary(const struct pipeline *p) {
  const struct lower_report *r = &p->report;
  const struct ir_program *ir = p->parsed.ir;
  int opportunities = 0;
  VEC_EACH(&ir->overlaps, o)
    opportunities += o->kind == IR_OVERLAP_ORDER_ONLY;
  return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "regions", (int)p->set.regions.n, "translated",
                   r->translated, "host", r->host, "symmetric_allocations", r->symmetric,
                   "staged_allocations", r->staged, "overlap_opportunities", opportunities,
                   "already_translated", ir->translated);
}

/* The regions with their directives, in the form of --emit-directives. */
static json_t *regions(const struct pipeline *p) {
  char *text = dir_to_json(p->parsed.ir, &p->set);
  json_t *all = text ? json_loads(text, 0, NULL) : NULL;
  json_t *list = json_incref(json_object_get(all, "directives"));
  json_decref(all);
  free(text);
  return list ? list : json_array();
}

char *report_json(const struct pipeline *p, const struct diag_engine *diag) {
  struct strbuf name = {0};
  diag_text_utf8(&name, p->name, strlen(p->name));
  json_t *root =
      json_pack("{s:i, s:s, s:s, s:o, s:o, s:{s:i, s:i}}", "version", 1, "cucocc", PACKAGE_VERSION,
                "input", name.s, "summary", summary(p), "regions", regions(p), "diagnostics", "errors",
                (int)diag_errors(diag), "warnings", (int)diag_warnings(diag));
  char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  sb_free(&name);
  char *line = xasprintf("%s\n", text ? text : "{}");
  free(text);
  return line;
}
