// SPDX-License-Identifier: Apache-2.0
#include "driver/progress.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool drawn;

static bool on_terminal(void) {
  const char *term = getenv("TERM");
  return isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
}

void progress_clear(void) {
  if (drawn)
    fputs("\r\033[K", stderr);
  drawn = false;
}

void progress_draw(const char *fmt, ...) {
  if (!on_terminal())
    return;
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  struct winsize w;
  int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1 : 79;
  fprintf(stderr, "\r\033[K%.*s", columns, text);
  fflush(stderr);
  drawn = true;
}

void progress_line(const char *fmt, ...) {
  progress_clear();
  va_list ap;
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fputc('\n', stderr);
}

const char *progress_duration(double seconds) {
  static char text[32];
  long s = seconds > 0 ? (long)(seconds + 0.5) : 0;
  if (s >= 3600)
    snprintf(text, sizeof text, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(text, sizeof text, "%ld:%02ld", s / 60, s % 60);
  return text;
}
