// SPDX-License-Identifier: Apache-2.0
/* Running other programs. */
#ifndef CUCOCC_DRIVER_PROCESS_H
#define CUCOCC_DRIVER_PROCESS_H

#include "driver/args.h"
#include "support/strbuf.h"
#include <stdbool.h>
#include <sys/types.h>

/* Runs WORDS (the first is found on PATH) and waits. Returns its exit status, 128 + N when signal N ended
 * it, or -1 with errno set when it could not be started. The child ends with us. */
int process_run(const struct arg_list *words);

/* A program that runs beside us, in a session and process group of its own, with its output collected. */
struct process {
  pid_t pid;              /* 0 = not running */
  int fd;                 /* our end of its output, -1 = closed */
  double deadline;        /* process_now() when it is ended */
  double started, seconds;
  bool timed_out;
  int status;             /* as of process_run(), when it is over */
  struct strbuf output;   /* both streams, the first PROCESS_OUTPUT bytes */
};
enum { PROCESS_OUTPUT = 256 << 10 };

struct process_spec {
  const struct arg_list *words;
  const char *dir;        /* where it runs; NULL = here */
  const char *scratch;    /* TMPDIR and HOME of the program; NULL = as they are */
  double timeout;         /* seconds, then the whole group is killed */
  bool limited;           /* limits of memory, files and core dumps, and only harmless environment variables */
};

/* Starts it. False with errno set when that is not possible. */
bool process_start(struct process *p, const struct process_spec *spec);
/* Waits up to MILLISECONDS for something to happen to the N processes, collects output, ends what is late,
 * and takes leave of what is over (its pid becomes 0; what is left of its group is killed). */
void process_wait(struct process *const *list, size_t n, int milliseconds);
/* Ends the process and its group now, and takes leave of it. */
void process_kill(struct process *p);
void process_free(struct process *p);
/* Starts and waits: true when it could be started. */
bool process_complete(struct process *p, const struct process_spec *spec);

/* Seconds of a clock that never jumps. */
double process_now(void);

#endif
