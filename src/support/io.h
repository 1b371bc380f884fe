// SPDX-License-Identifier: Apache-2.0
/* Files: whole reads, atomic writes. Nothing is ever left half-written: output goes to a temporary
 * file beside the target, which is renamed when complete and removed on failure or on a signal. */
#ifndef CUCOCC_SUPPORT_IO_H
#define CUCOCC_SUPPORT_IO_H

#include "support/strbuf.h"
#include <stdbool.h>

/* Reads PATH ("-" = standard input) whole into OUT. Returns 0 or an errno value (EISDIR for a
 * directory). */
int io_read_file(const char *path, struct strbuf *out);

/* Writes N bytes to PATH atomically ("-" = standard output). An existing file keeps its mode; a
 * symbolic link keeps being one (its target is replaced). Returns 0 or an errno value; on failure
 * PATH is as it was. */
int io_write_file(const char *path, const char *bytes, size_t n);

/* Installs handlers for SIGINT, SIGTERM and SIGHUP that remove pending temporary files and
 * registered temporary directories, then end the program by that signal. */
void io_install_signal_handlers(void);

/* Makes a private temporary directory, removed (with its content) at exit and on signals. Returns
 * its path (owned by the module) or NULL with errno set. */
const char *io_temp_dir(void);

/* dirname/basename without modifying the argument; the caller frees the result. */
char *io_dirname(const char *path);
char *io_basename(const char *path);

#endif
