// SPDX-License-Identifier: Apache-2.0
/* From the graph to a file: format by extension, layout and rendering by libgvc. */
#include "backend/graph.h"
#include "backend/graph_draw.h"
#include "support/io.h"
#include <errno.h>
#include <fcntl.h>
#include <graphviz/gvc.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
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

/* ---- layout, in a process of its own: Graphviz may crash, hang or leak on graphs with many
 * clusters -------- */

enum { LONGEST_LAYOUT = 120 }; /* seconds */

static void send(int fd, const char *s, size_t n) {
  while (n > 0) {
    ssize_t k = write(fd, s, n);
    if (k <= 0)
      _exit(1);
    s += k;
    n -= (size_t)k;
  }
}

/* The child: sends the picture and exits with 0, or a message and exits with 1. Nothing is freed.
 */
static _Noreturn void lay_out(Agraph_t *g, const char *format, int fd) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGABRT, SIGSEGV, SIGBUS};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    signal(signals[i], SIG_DFL);
  alarm(LONGEST_LAYOUT);
  int null = open("/dev/null", O_WRONLY); /* what libraries print; errors come through complain() */
  if (null >= 0)
    dup2(null, STDERR_FILENO);
  complaint[0] = '\0';
  GVC_t *gvc = gvContext();
  char *data = NULL;
  unsigned n = 0;
  if (gvLayout(gvc, g, "dot") == 0 && gvRenderData(gvc, g, format, &data, &n) == 0 && data && n) {
    send(fd, data, n);
    _exit(0);
  }
  send(fd, complaint, strlen(complaint));
  _exit(1);
}

/* Returns 0 with the picture in OUT, or -1 with a message. */
static int render(Agraph_t *g, const char *format, struct strbuf *out, char *why, size_t why_size) {
  int fds[2], status = 0;
  fflush(NULL);
  if (pipe(fds) != 0) {
    snprintf(why, why_size, "cannot lay the graph out: %s", strerror(errno));
    return -1;
  }
  pid_t child = fork();
  if (child == 0) {
    close(fds[0]);
    lay_out(g, format, fds[1]);
  }
  int error = errno;
  close(fds[1]);
  char buf[16384];
  for (ssize_t k = 0; child > 0 && ((k = read(fds[0], buf, sizeof buf)) > 0 || errno == EINTR);)
    if (k > 0)
      sb_addn(out, buf, (size_t)k);
    else
      errno = 0;
  close(fds[0]);
  if (child < 0) {
    snprintf(why, why_size, "cannot lay the graph out: %s", strerror(error));
    return -1;
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return 0;
  if (WIFSIGNALED(status))
    snprintf(why, why_size, "Graphviz failed to lay the graph out (%s); write a .dot file instead",
             strsignal(WTERMSIG(status)));
  else
    snprintf(why, why_size, "no renderer for '%s' (is Graphviz installed whole?) %.*s", format,
             (int)out->n, out->s ? out->s : "");
  sb_free(out);
  return -1;
}

static int write_rendered(Agraph_t *g, const char *format, const char *path, char *why,
                          size_t why_size) {
  struct strbuf out = {0};
  int result = render(g, format, &out, why, why_size);
  if (result != 0) { /* the other way to rank nodes has other faults */
    agattr(g, AGRAPH, (char *)"newrank", (char *)"false");
    result = render(g, format, &out, why, why_size);
  }
  if (result == 0)
    result = write_bytes(path, out.s, out.n, why, why_size);
  sb_free(&out);
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
