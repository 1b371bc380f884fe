// SPDX-License-Identifier: Apache-2.0
/* cucocc-emu-run [options] program.so [-- arguments]: loads a copy of a translated program for each
 * process and runs them. */
#include "engine_internal.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

namespace {

using Main = int (*)(int, char **, char **);

void usage() {
  fputs("usage: cucocc-emu-run [-np N] [--devices D] [--seed S] [--schedule K] [--resident B]\n"
        "                      program.so [-- arguments]\n",
        stderr);
}

bool number(const char *text, uint64_t most, uint64_t *value) {
  char *end;
  *value = strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && !*end && *value <= most;
}

/* A copy of FROM under a name of its own, since the loader loads each file once. */
bool copy_file(const char *from, const std::string &to) {
  const int in = open(from, O_RDONLY | O_CLOEXEC);
  const int out = in < 0 ? -1 : open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
  static char buffer[1 << 16];
  ssize_t n = out < 0 ? -1 : 0;
  while (out >= 0 && (n = read(in, buffer, sizeof buffer)) > 0)
    if (write(out, buffer, (size_t)n) != n) {
      n = -1;
      break;
    }
  if (in >= 0)
    close(in);
  if (out >= 0 && close(out) != 0)
    n = -1;
  return n == 0;
}

Main load(const char *program, int index) {
  const char *t = getenv("TMPDIR");
  const std::string path = std::string(t && *t ? t : "/tmp") + "/cucocc-emu-" +
                           std::to_string(getpid()) + "-" + std::to_string(index) + ".so";
  void *handle = nullptr;
  if (copy_file(program, path))
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  else
    perror(path.c_str());
  unlink(path.c_str());
  if (!handle) {
    if (const char *e = dlerror())
      fprintf(stderr, "cucocc-emu-run: %s\n", e);
    return nullptr;
  }
  link_map *map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0)
    emu::sites_add_object(program, map->l_addr);
  void *main = dlsym(handle, "main");
  if (!main)
    fprintf(stderr, "cucocc-emu-run: %s has no main()\n", program);
  return reinterpret_cast<Main>(main);
}

} // namespace

int main(int argc, char **argv) {
  emu::RunOptions o;
  struct {
    const char *name;
    uint64_t most, value;
  } options[] = {{"-np", 1024, 1},
                 {"--devices", 1024, 0},
                 {"--seed", UINT64_MAX, 1},
                 {"--schedule", UINT32_MAX, 0},
                 {"--resident", UINT32_MAX, 0}};
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; i++) {
    bool known = false;
    for (auto &p : options) {
      const size_t n = strlen(p.name);
      if (strncmp(argv[i], p.name, n) != 0 || (argv[i][n] && argv[i][n] != '='))
        continue;
      const char *v = argv[i][n] ? argv[i] + n + 1 : i + 1 < argc ? argv[++i] : "";
      known = number(v, p.most, &p.value);
      break;
    }
    if (!known)
      return usage(), 2;
  }
  if (i >= argc || options[0].value == 0)
    return usage(), 2;
  const char *program = argv[i++];
  if (i < argc && !strcmp(argv[i], "--"))
    i++;
  o.processes = (int)options[0].value;
  o.devices = options[1].value ? (int)options[1].value : o.processes;
  o.seed = options[2].value;
  o.schedule = (unsigned)options[3].value;
  o.resident_blocks = (unsigned)options[4].value;
  std::vector<Main> mains;
  for (int p = 0; p < o.processes; p++) {
    mains.push_back(load(program, p));
    if (!mains.back())
      return 2;
  }
  std::vector<char *> arguments = {argv[0]};
  arguments[0] = const_cast<char *>(program);
  arguments.insert(arguments.end(), argv + i, argv + argc);
  const int count = (int)arguments.size();
  arguments.push_back(nullptr);
  const int status = emu::run_processes(o, [&](int p) {
    auto *mine = new std::vector<char *>(arguments); // main() may change its array
    return mains[(size_t)p](count, mine->data(), environ);
  });
  fflush(nullptr);
  _exit(status & 0xff); // actors that are left have stacks that must not be unwound
}
