// SPDX-License-Identifier: Apache-2.0
#include "support/io.h"
#include "support/vec.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what must not be left behind ------------------------------------------------------------------ */

/* Paths that a signal handler removes. Handlers may run at any time, so the slots are plain static
 * memory and a slot counts only once its flag is set. */
enum { MAX_PENDING = 16 };
static char pending_path[MAX_PENDING][PATH_MAX];
static volatile sig_atomic_t pending_used[MAX_PENDING];

static char temp_dir[PATH_MAX];
static volatile sig_atomic_t temp_dir_used;
static pid_t temp_dir_owner;

static int pending_add(const char *path) {
  for (int i = 0; i < MAX_PENDING; i++) {
    if (pending_used[i] || strlen(path) >= sizeof pending_path[i])
      continue;
    strcpy(pending_path[i], path);
    pending_used[i] = 1;
    return i;
  }
  return -1;
}

static void pending_drop(int slot) {
  if (slot >= 0)
    pending_used[slot] = 0;
}

/* Removes the directory open at FD and below. Uses no stdio, and bounded recursion. */
static void remove_below(int fd, int depth) {
  DIR *dir = depth < 64 ? fdopendir(fd) : NULL;
  if (!dir) {
    close(fd);
    return;
  }
  for (struct dirent *e; (e = readdir(dir));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
      continue;
    if (unlinkat(dirfd(dir), e->d_name, 0) == 0)
      continue;
    int sub = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (sub >= 0)
      remove_below(sub, depth + 1);
    unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR);
  }
  closedir(dir);
}

static void remove_temp_dir(void) {
  if (!temp_dir_used || getpid() != temp_dir_owner)
    return;
  temp_dir_used = 0;
  int fd = open(temp_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0)
    remove_below(fd, 0);
  rmdir(temp_dir);
}

static void on_signal(int sig) {
  for (int i = 0; i < MAX_PENDING; i++)
    if (pending_used[i])
      unlink(pending_path[i]);
  /* readdir allocates, which is not safe if the signal came inside malloc; so a child does it. */
  if (temp_dir_used && getpid() == temp_dir_owner) {
    char *const argv[] = {(char *)"rm", (char *)"-rf", (char *)"--", temp_dir, NULL};
    if (vfork() == 0) {
      execv("/bin/rm", argv);
      _exit(127);
    }
  }
  signal(sig, SIG_DFL); /* SA_RESETHAND did it already; harmless */
  raise(sig);
}

void io_install_signal_handlers(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    struct sigaction old;
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
      continue; /* nohup */
    sigaction(signals[i], &action, NULL);
  }
}

const char *io_temp_dir(void) {
  if (temp_dir_used)
    return temp_dir;
  const char *base = getenv("TMPDIR");
  if (!base || !*base)
    base = "/tmp";
  int n = snprintf(temp_dir, sizeof temp_dir, "%s/cucocc.XXXXXX", base);
  if (n < 0 || (size_t)n >= sizeof temp_dir) {
    errno = ENAMETOOLONG;
    return NULL;
  }
  if (!mkdtemp(temp_dir))
    return NULL;
  if (temp_dir_owner == 0)
    atexit(remove_temp_dir);
  temp_dir_owner = getpid();
  temp_dir_used = 1;
  return temp_dir;
}

/* ---- reading ----------------------------------------------------------------------------------------- */

enum { MAX_FILE = 1 << 30 }; /* /dev/zero ends somewhere */

int io_read_file(const char *path, struct strbuf *out) {
  bool standard = strcmp(path, "-") == 0;
  int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return errno;
  int error = 0;
  struct stat st;
  if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
    error = EISDIR;
  sb_addn(out, "", 0);
  static char block[1 << 16];
  while (!error) {
    ssize_t n = read(fd, block, sizeof block);
    if (n > 0 && out->n > MAX_FILE)
      error = EFBIG;
    else if (n > 0)
      sb_addn(out, block, (size_t)n);
    else if (n == 0)
      break;
    else if (errno != EINTR)
      error = errno;
  }
  if (!standard)
    close(fd);
  return error;
}

/* ---- writing ----------------------------------------------------------------------------------------- */

static int write_all(int fd, const char *bytes, size_t n) {
  while (n > 0) {
    ssize_t k = write(fd, bytes, n);
    if (k < 0 && errno == EINTR)
      continue;
    if (k < 0)
      return errno;
    bytes += k;
    n -= (size_t)k;
  }
  return 0;
}

/* Writes to what is there without replacing it: pipes, terminals, /dev/null, /dev/full. */
static int write_in_place(int fd, const char *bytes, size_t n, bool close_it) {
  int error = write_all(fd, bytes, n);
  if (close_it && close(fd) != 0 && !error)
    error = errno;
  return error;
}

/* The mode that a fresh file gets. */
static mode_t fresh_mode(void) {
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

/* Writes a temporary file beside TARGET and renames it over TARGET. */
static int replace_file(const char *target, mode_t mode, const char *bytes, size_t n) {
  char *dir = io_dirname(target), *base = io_basename(target);
  char *temp = xasprintf("%s/.%.200s.XXXXXX", dir, base);
  free(dir);
  free(base);
  /* Block the signals while the name is chosen but not yet registered. */
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  int fd = mkstemp(temp), error = fd < 0 ? errno : 0;
  int slot = fd < 0 ? -1 : pending_add(temp);
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (fd >= 0) {
    error = write_all(fd, bytes, n);
    if (!error && fchmod(fd, mode) != 0)
      error = errno;
    if (close(fd) != 0 && !error)
      error = errno;
    if (!error && rename(temp, target) != 0)
      error = errno;
    if (error)
      unlink(temp);
    pending_drop(slot);
  }
  free(temp);
  return error;
}

int io_write_file(const char *path, const char *bytes, size_t n) {
  if (strcmp(path, "-") == 0) {
    fflush(stdout);
    return write_in_place(STDOUT_FILENO, bytes, n, false);
  }
  struct stat st;
  if (stat(path, &st) != 0) {
    if (errno != ENOENT)
      return errno;
    struct stat link;
    if (lstat(path, &link) == 0) { /* a dangling link: create what it points to */
      int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
      return fd < 0 ? errno : write_in_place(fd, bytes, n, true);
    }
    return replace_file(path, fresh_mode(), bytes, n);
  }
  if (S_ISDIR(st.st_mode))
    return EISDIR;
  if (!S_ISREG(st.st_mode)) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? errno : write_in_place(fd, bytes, n, true);
  }
  if (access(path, W_OK) != 0) /* rename would succeed on a read-only file: that is not what was meant */
    return errno;
  char *target = realpath(path, NULL);
  if (!target)
    return errno;
  int error = replace_file(target, st.st_mode & 07777, bytes, n);
  free(target);
  return error;
}

/* ---- names ------------------------------------------------------------------------------------------- */

char *io_dirname(const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/')
    n--;
  while (n > 0 && path[n - 1] != '/')
    n--;
  if (n == 0)
    return xstrdup(".");
  while (n > 1 && path[n - 1] == '/')
    n--;
  return xstrndup(path, n);
}

char *io_basename(const char *path) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/')
    n--;
  size_t begin = n;
  while (begin > 0 && path[begin - 1] != '/')
    begin--;
  return n == 1 && path[0] == '/' ? xstrdup("/") : xstrndup(path + begin, n - begin);
}
