// SPDX-License-Identifier: Apache-2.0
// Forms in which calls are spelled: macro bodies of every kind, lambdas, templates, members, aliases.
#include <cuda_runtime.h>
#include <nccl.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#define CHECK_DO(cmd)                                                                              \
  do {                                                                                             \
    ncclResult_t r = cmd;                                                                          \
    if (r != ncclSuccess)                                                                          \
      exit(1);                                                                                     \
  } while (0)
#define CHECK_BLOCK(cmd) { auto r = (cmd); if (r != 0) { printf("%s\n", #cmd); exit(1); } }
#define CHECK_IF(cmd) if ((cmd) != ncclSuccess) { printf("failed\n"); }
static void check(int r, const char *file, int line) { if (r) { printf("%s:%d\n", file, line); exit(1); } }
#define CHECK_FN(cmd) check((int)(cmd), __FILE__, __LINE__)
#define CHECK_RETURN(cmd) do { int r = (int)(cmd); if (r) return r; } while (0)
#define CHECK_TWICE(cmd) do { if ((cmd) != ncclSuccess) printf("%d\n", (int)(cmd)); } while (0)
#define OUTER(cmd) CHECK_DO(cmd)
#define REDUCE_ALL(p, n, c, s) ncclAllReduce(p, p, n, ncclFloat, ncclSum, c, s)
#define COLLECTIVE ncclAllReduce

template <typename T> __global__ void scale(T *x, size_t n, T a) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n)
    x[i] *= a;
}

struct Context {
  float *send = nullptr, *recv = nullptr;
  ncclComm_t comm;
  cudaStream_t stream;
  int rank, size;
  int exchange(size_t n) {
    CHECK_RETURN(ncclAllGather(send, recv, n, ncclFloat, comm, stream));
    return 0;
  }
};

template <typename T> void reduce(T *buffer, size_t n, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  scale<T><<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(buffer, n, T(2));
  CHECK_DO(ncclAllReduce(buffer, buffer, n, type, ncclSum, comm, stream));
}

static void allocate(float **p, size_t n) { CHECK_FN(cudaMalloc(p, n * sizeof(float))); }

int main(int argc, char **argv) {
  size_t n = argc > 1 ? atoi(argv[1]) : 1024;
  Context ctx;
  ctx.rank = atoi(getenv("RANK"));
  ctx.size = atoi(argv[2]);
  ncclUniqueId id{};
  CHECK_DO(ncclCommInitRank(&ctx.comm, ctx.size, id, ctx.rank));
  CHECK_FN(cudaStreamCreateWithFlags(&ctx.stream, cudaStreamNonBlocking));
  float *a, *b, *c;
  allocate(&a, n);
  CHECK_FN(cudaMalloc((void **)&b, n * sizeof(float)));
  CHECK_FN(cudaMalloc(&c, 2 * n * sizeof *c));
  CHECK_FN(cudaMalloc(&ctx.send, n * 4));
  CHECK_FN(cudaMalloc(&ctx.recv, n * 4 * ctx.size));
  std::vector<float *> parts(4);
  for (int i = 0; i < 4; i++)
    CHECK_FN(cudaMalloc(&parts[i], n * sizeof(float)));

  CHECK_DO(ncclAllReduce(a, b, n, ncclFloat, ncclSum, ctx.comm, ctx.stream));            // do
  CHECK_BLOCK(ncclAllReduce(a, b, n, ncclFloat, ncclMax, ctx.comm, ctx.stream));         // block
  CHECK_IF(ncclAllReduce(a, b, n, ncclFloat, ncclMin, ctx.comm, ctx.stream))             // if
  CHECK_FN(ncclAllReduce(a, b, n, ncclFloat, ncclProd, ctx.comm, ctx.stream));           // fn
  CHECK_TWICE(ncclAllReduce(a, b, n, ncclFloat, ncclAvg, ctx.comm, ctx.stream));         // twice
  OUTER(ncclReduceScatter(c, a, n / 2, ncclFloat, ncclSum, ctx.comm, ctx.stream));       // outer
  CHECK_DO(REDUCE_ALL(a, n, ctx.comm, ctx.stream));                                      // body
  CHECK_DO(COLLECTIVE(a, b, n, ncclFloat, ncclSum, ctx.comm, ctx.stream));               // name
  if (ncclBroadcast(a, a, n, ncclFloat, 0, ctx.comm, ctx.stream) != ncclSuccess)         // bare
    return 1;
  ctx.exchange(n);
  reduce<float>(parts[0] + 16, n - 16, ncclFloat, ctx.comm, ctx.stream);
  auto lambda = [&](int root) { return ncclBcast(parts[1], n, ncclFloat, root, ctx.comm, ctx.stream); };
  CHECK_DO(lambda(0));
  for (int step = 0; step < 3; step++) {
    CHECK_DO(ncclAllGather(b, c, n, ncclFloat, ctx.comm, ctx.stream));
    std::swap(a, b);
  }
  float *view = c + n / 2;
  CHECK_DO(ncclReduce(view, a, n / 2, ncclFloat, ncclSum, 0, ctx.comm, ctx.stream));
  if (ctx.rank == 0) {
    float *only;
    CHECK_FN(cudaMalloc(&only, 64));
    CHECK_FN(cudaFree(only));
  }
  cudaGraph_t graph;
  CHECK_FN(cudaStreamBeginCapture(ctx.stream, cudaStreamCaptureModeGlobal));
  CHECK_DO(ncclAllReduce(a, b, n, ncclFloat, ncclSum, ctx.comm, ctx.stream)); // captured
  CHECK_FN(cudaStreamEndCapture(ctx.stream, &graph));
  CHECK_FN(cudaStreamSynchronize(ctx.stream));
  for (float *p : parts)
    CHECK_FN(cudaFree(p));
  CHECK_FN(cudaFree(a));
  CHECK_FN(cudaFree(ctx.send));
  CHECK_DO(ncclCommDestroy(ctx.comm));
  return 0;
}
