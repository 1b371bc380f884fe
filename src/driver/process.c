// SPDX-License-Identifier: Apache-2.0
#include "driver/process.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
