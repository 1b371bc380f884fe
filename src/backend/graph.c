// SPDX-License-Identifier: Apache-2.0
/* From the graph to a file: format by extension, layout and rendering by libgvc. */
#include "backend/graph.h"
#include "backend/graph_draw.h"
#include "support/io.h"
#include <graphviz/gvc.h>
#include <string.h>
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#else /* only the leaks of the layout libraries (fonts, plugins) are meant */
#define __lsan_disable()
#define __lsan_enable()
#endif

/* The last complaint of libcgraph or libgvc. */
static char complaint[200];

static int complain(char *text) {
  size_t n = strlen(complaint);
  snprintf(complaint + n, sizeof complaint - n, "%s", text);
  return 0;
}

/* Extension to format of libgvc; NULL = not known. "dot" needs no layout. */
static const char *format_of(const char *path) {
  static const char *const known[][2] = {{".dot", "dot"}, {".gv", "dot"},  {".svg", "svg"},
                                         {".png", "png"}, {".pdf", "pdf"}, {".json", "json"}};
  const char *dot = strrchr(path, '.');
  if (strcmp(path, "-") == 0)
    return "dot";
  for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
    if (strcmp(dot, known[i][0]) == 0)
      return known[i][1];
  return NULL;
}

static int write_bytes(const char *path, const char *bytes, size_t n, char *why, size_t why_size) {
  int error = io_write_file(path, bytes, n);
  if (error)
    snprintf(why, why_size, "cannot write '%s': %s", path, strerror(error));
  return error ? -1 : 0;
}

static int write_source(Agraph_t *g, const char *path, char *why, size_t why_size) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  int result = -1;
  if (!f || agwrite(g, f) != 0 || fflush(f) != 0)
    snprintf(why, why_size, "cannot format the graph: %s", complaint);
  else
    result = write_bytes(path, text, n, why, why_size);
  if (f)
    fclose(f);
  free(text);
  return result;
}

static int write_rendered(Agraph_t *g, const char *format, const char *path, char *why,
                          size_t why_size) {
  GVC_t *gvc = gvContext();
  char *data = NULL;
  unsigned n = 0;
  int result = -1;
  __lsan_disable();
  if (gvLayout(gvc, g, "dot") != 0) {
    snprintf(why, why_size, "cannot lay the graph out (is Graphviz installed whole?) %s",
             complaint);
  } else {
    if (gvRenderData(gvc, g, format, &data, &n) != 0 || !data || n == 0)
      snprintf(why, why_size, "no renderer for '%s' %s", format, complaint);
    else
      result = write_bytes(path, data, n, why, why_size);
    gvFreeRenderData(data);
    gvFreeLayout(gvc, g);
  }
  gvFreeContext(gvc);
  __lsan_enable();
  return result;
}

int graph_write(const struct ir_program *ir, const struct dir_set *set, const char *path, char *why,
                size_t why_size) {
  const char *format = format_of(path);
  if (!format) {
    snprintf(why, why_size, "'%s': unknown kind of graph; use .dot, .gv, .svg, .png, .pdf or .json",
             path);
    return -1;
  }
  complaint[0] = '\0';
  agusererrf before = agseterrf(complain);
  Agraph_t *g = graph_draw(ir, set);
  int result = strcmp(format, "dot") == 0 ? write_source(g, path, why, why_size)
                                          : write_rendered(g, format, path, why, why_size);
  agclose(g);
  agseterrf(before);
  return result;
}
