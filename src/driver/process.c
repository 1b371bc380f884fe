// SPDX-License-Identifier: Apache-2.0
#include "driver/process.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* In the child: becomes the program, or tells the parent why not through FD. */
_Noreturn static void child(char **argv, int fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() == parent)
    execvp(argv[0], argv);
  int error = errno;
  ssize_t ignored = write(fd, &error, sizeof error);
  (void)ignored;
  _exit(127);
}

int process_run(const struct arg_list *words) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0)
    return -1;
  char **argv = args_vector(words);
  fflush(NULL);
  pid_t parent = getpid(), pid = fork();
  if (pid == 0)
    child(argv, fds[1], parent);
  int error = pid < 0 ? errno : 0;
  free(argv);
  close(fds[1]);
  if (pid > 0 && read(fds[0], &error, sizeof error) != sizeof error)
    error = 0; /* the pipe was closed by a successful exec */
  close(fds[0]);
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  if (error) {
    errno = error;
    return -1;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- programs beside us -------------------------------------------------------------------------------- */

double process_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void limit(int resource, rlim_t value) {
  struct rlimit r;
  if (getrlimit(resource, &r) != 0)
    return;
  if (r.rlim_max != RLIM_INFINITY && value > r.rlim_max)
    value = r.rlim_max;
  r.rlim_cur = r.rlim_max = value;
  setrlimit(resource, &r);
}

/* Memory is limited by what a process has written, not by addresses: CUDA reserves those by the terabyte. */
static void apply_limits(double timeout) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0)
    limit(RLIMIT_DATA, (rlim_t)pages * (rlim_t)page);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, (rlim_t)8 << 30);
  limit(RLIMIT_NOFILE, 4096);
  limit(RLIMIT_CPU, (rlim_t)(timeout * 256) + 60);
}

/* Variables that programs need to run; everything else, keys above all, stays here. */
static bool harmless(const char *entry) {
  static const char *const names[] = {"PATH=", "LANG=", "LC_", "LD_LIBRARY_PATH=", "CPATH=", "LIBRARY_PATH=", "CUDA_",
                                      "NVIDIA_", "NCCL_", "MPI", "OMPI_", "HYDRA_", "PMI", "UCX_", "FI_", "SLURM_",
                                      "CUCOCC_", "USER=", "LOGNAME=", "TERM=", "ASAN_OPTIONS=", "LSAN_OPTIONS=",
                                      "OMP_NUM_THREADS="};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(entry, names[i], strlen(names[i])) == 0)
      return !strcasestr(entry, "_KEY=") && !strcasestr(entry, "TOKEN=") && !strcasestr(entry, "SECRET=") &&
             !strcasestr(entry, "PASSWORD=");
  return false;
}

/* The environment of the program; the strings stay where they are or leak into the child. */
static char **environment(const struct process_spec *spec) {
  size_t n = 0, k = 0;
  while (environ[n])
    n++;
  char **env = xcalloc(n + 3, sizeof *env);
  for (size_t i = 0; i < n; i++) {
    bool replaced = spec->scratch && (strncmp(environ[i], "TMPDIR=", 7) == 0 || strncmp(environ[i], "HOME=", 5) == 0);
    if (!replaced && (!spec->limited || harmless(environ[i])))
      env[k++] = environ[i];
  }
  if (spec->scratch) {
    env[k++] = xasprintf("TMPDIR=%s", spec->scratch);
    env[k++] = xasprintf("HOME=%s", spec->scratch);
  }
  return env;
}

_Noreturn static void become(char **argv, char **env, const struct process_spec *spec, int out, int report,
                             pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int null = open("/dev/null", O_RDONLY);
  bool ok = getppid() == parent && null >= 0 && dup2(null, 0) == 0 && dup2(out, 1) == 1 && dup2(out, 2) == 2 &&
            (!spec->dir || chdir(spec->dir) == 0);
  if (ok) {
    if (spec->limited)
      apply_limits(spec->timeout);
    execvpe(argv[0], argv, env);
  }
  int error = errno;
  ssize_t ignored = write(report, &error, sizeof error);
  (void)ignored;
  _exit(127);
}

bool process_start(struct process *p, const struct process_spec *spec) {
  int out[2], report[2];
  memset(p, 0, sizeof *p);
  p->fd = -1;
  sb_addn(&p->output, "", 0);
  if (pipe2(out, O_CLOEXEC) != 0)
    return false;
  if (pipe2(report, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return false;
  }
  char **argv = args_vector(spec->words), **env = environment(spec);
  fflush(NULL);
  pid_t parent = getpid(), pid = fork();
  if (pid == 0)
    become(argv, env, spec, out[1], report[1], parent);
  int error = pid < 0 ? errno : 0;
  free(argv);
  for (char **e = env; *e && spec->scratch; e++)
    if (!e[1] || !e[2]) /* the last two are ours */
      free(*e);
  free(env);
  close(out[1]);
  close(report[1]);
  if (pid > 0 && read(report[0], &error, sizeof error) != sizeof error)
    error = 0;
  close(report[0]);
  if (error) {
    close(out[0]);
    if (pid > 0)
      waitpid(pid, NULL, 0);
    errno = error;
    return false;
  }
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  p->pid = pid;
  p->fd = out[0];
  p->started = process_now();
  p->deadline = p->started + spec->timeout;
  return true;
}

static void collect(struct process *p) {
  char block[4096];
  ssize_t n;
  while (p->fd >= 0 && (n = read(p->fd, block, sizeof block)) != 0) {
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return;
    size_t room = p->output.n < PROCESS_OUTPUT ? PROCESS_OUTPUT - p->output.n : 0;
    sb_addn(&p->output, block, (size_t)n < room ? (size_t)n : room);
  }
  if (p->fd >= 0)
    close(p->fd);
  p->fd = -1;
}

static void leave(struct process *p, int status) {
  kill(-p->pid, SIGKILL); /* children that outlived it */
  collect(p);
  if (p->fd >= 0)
    close(p->fd);
  p->fd = -1;
  p->pid = 0;
  p->seconds = process_now() - p->started;
  p->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void process_kill(struct process *p) {
  if (!p->pid)
    return;
  kill(-p->pid, SIGKILL);
  kill(p->pid, SIGKILL);
  int status = 0;
  while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
    ;
  leave(p, status);
}

void process_wait(struct process *const *list, size_t n, int milliseconds) {
  struct pollfd *fds = xcalloc(n + 1, sizeof *fds);
  double now = process_now(), until = now + 1e-3 * milliseconds;
  for (bool over = false; !over && now < until;) {
    for (size_t i = 0; i < n; i++)
      fds[i] = (struct pollfd){.fd = list[i]->pid ? list[i]->fd : -1, .events = POLLIN};
    double left = until - now;
    /* an end is seen when the output closes, or at the next look */
    int tick = left < 0.05 ? (int)(left * 1e3) + 1 : 50;
    if (poll(fds, n, tick) < 0 && errno == EINTR)
      over = true;
    now = process_now();
    for (size_t i = 0; i < n; i++) {
      struct process *p = list[i];
      int status;
      if (!p->pid)
        continue;
      collect(p);
      pid_t got = waitpid(p->pid, &status, WNOHANG);
      if (got == p->pid) {
        leave(p, status);
        over = true;
      } else if (now >= p->deadline) {
        p->timed_out = true;
        process_kill(p);
        over = true;
      }
    }
  }
  free(fds);
}

void process_free(struct process *p) {
  process_kill(p);
  sb_free(&p->output);
}

bool process_complete(struct process *p, const struct process_spec *spec) {
  if (!process_start(p, spec))
    return false;
  struct process *const list[] = {p};
  while (p->pid)
    process_wait(list, 1, 1000);
  return true;
}
