// SPDX-License-Identifier: Apache-2.0
/* The CUDA shims on emulated devices: a program in the form that the translator emits, which prints
 * TAP. Each check can fail: results are compared with values computed here from random data. */
#include <cuda_runtime.h>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cublas_v2.h>
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace cg = cooperative_groups;
using emu::cuda::Config;

static int number = 0, failures = 0;
static void check(bool good, const char *what) {
  printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
  failures += !good;
}
#define CHECK(condition, what) check((condition), what)
#define CUDA(call)                                                                                 \
  do {                                                                                             \
    cudaError_t e_ = (call);                                                                       \
    if (e_ != cudaSuccess) {                                                                       \
      printf("Bail out! %s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));                 \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static std::mt19937 random_bits(20261130);

template <class T> struct Device { // an array on the device with a copy here
  std::vector<T> host;
  T *p = nullptr;
  explicit Device(size_t n) : host(n) {
    CUDA(cudaMalloc(&p, n * sizeof(T)));
    CUDA(cudaMemset(p, 0, n * sizeof(T)));
  }
  explicit Device(std::vector<T> v) : Device(v.size()) {
    host = v;
    CUDA(cudaMemcpy(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Device() { cudaFree(p); }
  std::vector<T> &get() {
    CUDA(cudaMemcpy(host.data(), p, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }
};
static std::vector<int> random_ints(size_t n) {
  std::vector<int> v(n);
  for (int &x : v)
    x = (int)(random_bits() % 1000);
  return v;
}

/* ---- launches and built-in variables
 * -------------------------------------------------------------- */

static void indices(unsigned *out) {
  const unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[b * blockDim.x * blockDim.y * blockDim.z + t] = b * 1000 + t;
}
static void add_pair(int *out, int a, short b) { out[threadIdx.x] = a + b + (int)threadIdx.x; }

static void test_launches() {
  Device<unsigned> out(2 * 3 * 2 * 4 * 3 * 2);
  emu::cuda::launch(
      Config(dim3(2, 3, 2), dim3(4, 3, 2)), [=](auto... a) { indices(a...); }, out.p);
  bool good = true;
  out.get();
  for (unsigned i = 0; i < out.host.size(); i++)
    good &= out.host[i] == i / 24 * 1000 + i % 24;
  CHECK(good && cudaGetLastError() == cudaSuccess, "indices of a three-dimensional launch");

  Device<int> sums(32);
  int *p = sums.p, a = 40;
  short b = -3;
  void *arguments[] = {&p, &a, &b};
  CUDA(cudaLaunchKernel(add_pair, 1, 32, arguments));
  a = 1000; // the arguments were taken at the launch
  CHECK(sums.get()[31] == 40 - 3 + 31, "cudaLaunchKernel() copies its arguments");
  a = 5;
  CUDA(cudaLaunchKernel((const void *)emu::cuda::kernel_handle(add_pair), 1, 32, arguments, 0, 0));
  CHECK(sums.get()[1] == 5 - 3 + 1, "cudaLaunchKernel() by address");
  cudaLaunchConfig_t config = {};
  config.gridDim = 1, config.blockDim = 32;
  CUDA(cudaLaunchKernelEx(&config, add_pair, sums.p, 7, 1)); // the last argument is converted
  CHECK(sums.get()[2] == 7 + 1 + 2, "cudaLaunchKernelEx()");

  auto error = [&](Config c) {
    emu::cuda::launch(
        c, [=](auto... x) { indices(x...); }, out.p);
    return cudaGetLastError();
  };
  CHECK(error(Config(1, 1025)) == cudaErrorInvalidConfiguration, "too many threads");
  CHECK(error(Config(0, 32)) == cudaErrorInvalidConfiguration, "an empty grid");
  CHECK(error(Config(1, dim3(1, 1, 65))) == cudaErrorInvalidConfiguration, "a block too deep");
  CHECK(error(Config(dim3(1, 65536), 1)) == cudaErrorInvalidConfiguration, "a grid too high");
  CHECK(error(Config(1, 1, 300 << 10)) == cudaErrorInvalidValue, "too much shared memory");
  CHECK(cudaGetLastError() == cudaSuccess, "the last error is taken once");
  int x;
  CHECK(cudaLaunchKernel((const void *)&x, 1, 1, nullptr, 0, 0) == cudaErrorInvalidDeviceFunction,
        "no kernel");
  cudaGetLastError();
}

/* ---- shared memory
 * ---------------------------------------------------------------------------------- */

template <int N> static void reverse(int *data) {
  auto &tile = emu::cuda::shared_var<int[N]>([] {});
  auto &sum = emu::cuda::shared_var<int>([] {});
  int *a = data + blockIdx.x * N;
  if (threadIdx.x == 0)
    sum = 0;
  tile[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  atomicAdd(&sum, tile[threadIdx.x]);
  __syncthreads();
  a[threadIdx.x] = tile[N - 1 - threadIdx.x] + sum;
}
static void dynamic_sum(const int *in, int *out) {
  int *part = emu::cuda::shared_dynamic<int>();
  part[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step)
      part[threadIdx.x] += part[threadIdx.x + step];
  }
  if (threadIdx.x == 0)
    out[blockIdx.x] = part[0];
}
static int counter = 7;
static void bump() { atomicAdd(&(*emu::cuda::device_var(&counter)), (int)threadIdx.x); }

static void test_shared() {
  const std::vector<int> in = random_ints(4 * 96);
  Device<int> a(in);
  emu::cuda::launch(
      Config(4, 96), [=](auto... x) { reverse<96>(x...); }, a.p);
  a.get();
  bool good = true;
  for (int b = 0; b < 4; b++) {
    int sum = 0;
    for (int i = 0; i < 96; i++)
      sum += in[b * 96 + i];
    for (int i = 0; i < 96; i++)
      good &= a.host[b * 96 + i] == in[b * 96 + 95 - i] + sum;
  }
  CHECK(good, "static shared memory is a block's own");

  Device<int> data(in), sums(3);
  emu::cuda::launch(
      Config(3, 128, 128 * sizeof(int)), [=](auto... x) { dynamic_sum(x...); }, data.p, sums.p);
  sums.get();
  good = true;
  for (int b = 0; b < 3; b++) {
    int sum = 0;
    for (int i = 0; i < 128; i++)
      sum += in[b * 128 + i];
    good &= sums.host[b] == sum;
  }
  CHECK(good, "dynamic shared memory");

  int value = 0;
  emu::cuda::launch(Config(1, 10), [=](auto... x) { bump(x...); });
  CUDA(cudaMemcpyFromSymbol(&value, (*emu::cuda::device_var(&counter)), sizeof value));
  CHECK(value == 7 + 45, "a device variable starts with its initial value");
  int count = 0;
  CUDA(cudaGetDeviceCount(&count));
  if (count > 1) {
    CUDA(cudaSetDevice(1));
    CUDA(cudaMemcpyFromSymbol(&value, (*emu::cuda::device_var(&counter)), sizeof value));
    CUDA(cudaSetDevice(0));
    CHECK(value == 7, "another device has its own copy");
  }
  CHECK(cudaMemcpyFromSymbol(&value, value, 4) == cudaErrorInvalidSymbol, "no symbol");
  cudaGetLastError();
}

/* ---- warps
 * ------------------------------------------------------------------------------------------- */

static void shuffles(const int *in, int *out) {
  const unsigned lane = threadIdx.x % 32, all = 0xffffffffu;
  const int v = in[threadIdx.x];
  int *o = out + threadIdx.x * 16;
  o[0] = __shfl_sync(all, v, 5);
  o[1] = __shfl_up_sync(all, v, 3);
  o[2] = __shfl_down_sync(all, v, 3, 8);
  o[3] = __shfl_xor_sync(all, v, 17);
  o[4] = (int)__ballot_sync(all, v & 1);
  o[5] = __any_sync(all, v == 1000) + 2 * __all_sync(all, v < 1000);
  o[6] = (int)__match_any_sync(all, v % 3);
  int same;
  o[7] = (int)__match_all_sync(all, v % 3, &same) + same;
  o[8] = __reduce_add_sync(all, v);
  o[9] = __reduce_max_sync(all, v - 500);
  double d = v * 0.5;
  for (int step = 16; step; step /= 2)
    d += __shfl_xor_sync(all, d, step);
  o[10] = (int)(2 * d);
  __half h = __int2half_rn(v);
  o[11] = (int)(float)__shfl_sync(all, h, 31 - (int)lane);
  // Each half of the warp on its own way, a different number of times.
  int w = v;
  if (lane < 16) {
    for (int i = 0; i < 3; i++)
      w = __shfl_xor_sync(0xffffu, w, 1) + 1;
  } else {
    w = __shfl_sync(0xffff0000u, w, 16);
  }
  __syncwarp();
  o[12] = w;
  o[13] = __syncthreads_count(v & 1);
  o[14] = __syncthreads_and(v < 1000) + 2 * __syncthreads_or(v < 0);
  o[15] = 0;
}
static void partial_warp(const int *in, int *out) { // 20 threads under a full mask
  int v = in[threadIdx.x];
  for (int step = 1; step < 16; step *= 2) {
    const int other = __shfl_down_sync(0xffffffffu, v, step, 16);
    v += other;
  }
  out[threadIdx.x] = v;
}
static void leavers(const int *in, int *out) { // a third of the lanes return before the barriers
  if (threadIdx.x % 3 == 0)
    return;
  unsigned mask = 0;
  for (unsigned i = 0; i < 32; i++)
    if (i % 3)
      mask |= 1u << i;
  const int v = __reduce_add_sync(mask, in[threadIdx.x]);
  __syncthreads();
  out[threadIdx.x] = v;
}
static void active(unsigned *out) {
  out[threadIdx.x] = __activemask();
  if (threadIdx.x < 12)
    out[32 + threadIdx.x] = __activemask();
  else
    __syncwarp(0xfffff000u);
  __syncwarp();
  out[64 + threadIdx.x] = __activemask();
}

static void test_warps() {
  const std::vector<int> in = random_ints(64);
  Device<int> data(in), out(64 * 16);
  emu::cuda::launch(
      Config(1, 64), [=](auto... x) { shuffles(x...); }, data.p, out.p);
  out.get();
  bool index = true, up = true, down = true, xors = true, votes = true, match = true, sums = true,
       halves = true, split = true, block = true;
  int odd = 0;
  for (int v : in)
    odd += v & 1;
  for (int t = 0; t < 64; t++) {
    const int *o = &out.host[t * 16], *w = &in[t / 32 * 32], lane = t % 32;
    unsigned ballot = 0, same = 0, differ = 0;
    int sum = 0, most = -1000;
    for (int i = 0; i < 32; i++) {
      ballot |= (unsigned)(w[i] & 1) << i;
      same |= (unsigned)(w[i] % 3 == w[lane] % 3) << i;
      differ |= w[i] % 3 != w[0] % 3;
      sum += w[i];
      most = w[i] - 500 > most ? w[i] - 500 : most;
    }
    index &= o[0] == w[5];
    up &= o[1] == (lane >= 3 ? w[lane - 3] : w[lane]);
    down &= o[2] == (lane % 8 + 3 < 8 ? w[lane + 3] : w[lane]);
    xors &= o[3] == w[lane ^ 17];
    votes &= (unsigned)o[4] == ballot && o[5] == 2;
    match &= (unsigned)o[6] == same && (differ ? o[7] == 0 : o[7] == 0);
    sums &= o[8] == sum && o[9] == most && o[10] == sum;
    halves &= o[11] == w[31 - lane];
    int expected = lane < 16 ? w[lane ^ 1] + 3 : w[16];
    split &= o[12] == expected;
    block &= o[13] == odd && o[14] == 1;
  }
  CHECK(index, "__shfl_sync");
  CHECK(up, "__shfl_up_sync");
  CHECK(down, "__shfl_down_sync within a width");
  CHECK(xors, "__shfl_xor_sync");
  CHECK(votes, "votes");
  CHECK(match, "__match_any_sync, __match_all_sync");
  CHECK(sums, "reductions of a warp");
  CHECK(halves, "a shuffle of half");
  CHECK(split, "shuffles on diverged ways");
  CHECK(block, "__syncthreads_count, _and, _or");

  emu::cuda::launch(
      Config(1, 20), [=](auto... x) { partial_warp(x...); }, data.p, out.p);
  int sum = 0;
  for (int i = 0; i < 16; i++)
    sum += in[i];
  CHECK(out.get()[0] == sum, "a full mask in a block of 20 threads");
  emu::cuda::launch(
      Config(1, 32), [=](auto... x) { leavers(x...); }, data.p, out.p);
  sum = 0;
  for (int i = 0; i < 32; i++)
    sum += i % 3 ? in[i] : 0;
  CHECK(out.get()[1] == sum && out.host[31] == sum,
        "threads that have returned are not waited for");

  Device<unsigned> masks(96);
  emu::cuda::launch(
      Config(1, 32), [=](auto... x) { active(x...); }, masks.p);
  masks.get();
  CHECK(masks.host[7] == 0xffffffffu, "__activemask of a whole warp");
  CHECK(masks.host[32 + 7] == 0xfffu, "__activemask on a branch");
  CHECK(masks.host[64 + 7] == 0xffffffffu, "__activemask after the warp has met again");
}

/* ---- atomics
 * ------------------------------------------------------------------------------------------ */

static void atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d, __half2 *h) {
  const int t = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(&i[0], t);
  atomicMin(&i[1], 100 - t);
  atomicMax(&i[2], t);
  atomicXor(&i[3], 1 << t % 31);
  atomicExch(&i[4], 9);
  atomicInc(&u[0], 6u);
  atomicDec(&u[1], 10u);
  atomicAdd(l, 1ull << 33);
  atomicAdd(f, 0.5f);
  atomicAdd_system(d, 0.25);
  atomicAdd(h, __floats2half2_rn(1.0f, 2.0f));
  int old = i[5 + 1], seen; // a lock-free maximum
  do {
    seen = old;
    old = atomicCAS(&i[5], seen, seen > t ? seen : t);
  } while (old != seen);
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> r(u[2]);
  r.fetch_add(2, cuda::memory_order_relaxed);
  r++;
}
static void handshake(unsigned *flag, int *data, int *out) { // blocks of one thread pass a value on
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> f(*flag);
  while (f.load(cuda::memory_order_acquire) != blockIdx.x) {
  }
  out[blockIdx.x] = *data;
  *data += 3;
  f.store(blockIdx.x + 1, cuda::memory_order_release);
}

static void test_atomics() {
  Device<int> i(std::vector<int>{0, 1000, 0, 0, 0, 0, 0});
  Device<unsigned> u(3);
  Device<unsigned long long> l(1);
  Device<float> f(1);
  Device<double> d(1);
  Device<__half2> h(1);
  emu::cuda::launch(
      Config(4, 48), [=](auto... x) { atomics(x...); }, i.p, u.p, l.p, f.p, d.p, h.p);
  i.get(), u.get();
  int bits = 0;
  for (int t = 0; t < 192; t++)
    bits ^= 1 << t % 31;
  CHECK(i.host[0] == 191 * 192 / 2 && i.host[1] == 100 - 191 && i.host[2] == 191 &&
            i.host[3] == bits && i.host[4] == 9,
        "atomics on int");
  CHECK(u.host[0] == 192 % 7, "atomicInc wraps");
  CHECK(u.host[1] <= 10, "atomicDec wraps");
  CHECK(l.get()[0] == 192ull << 33, "atomicAdd on 64 bits");
  CHECK(f.get()[0] == 96.0f && d.get()[0] == 48.0, "atomicAdd on float and double");
  CHECK((float)h.get()[0].x == 192.0f && (float)h.host[0].y == 384.0f, "atomicAdd on half2");
  CHECK(i.host[5] == 191, "a loop around atomicCAS");
  CHECK(u.host[2] == 192 * 3, "cuda::atomic_ref");

  Device<unsigned> flag(1);
  Device<int> data(std::vector<int>{4}), out(8);
  emu::cuda::launch(
      Config(8, 1), [=](auto... x) { handshake(x...); }, flag.p, data.p, out.p);
  out.get();
  bool good = true;
  for (int b = 0; b < 8; b++)
    good &= out.host[b] == 4 + 3 * b;
  CHECK(good, "blocks wait for each other with acquire and release");
}

/* ---- cooperative groups
 * ---------------------------------------------------------------------------------- */

static void prefix(int *data, int n) { // doubling; the grid meets between the steps
  auto grid = cg::this_grid();
  const int i = (int)grid.thread_rank();
  for (int step = 1; step < n; step *= 2) {
    const int v = i >= step ? data[i - step] : 0;
    grid.sync();
    data[i] += v;
    grid.sync();
  }
}
static void tiles(const int *in, int *out) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  const int sum = cg::reduce(tile, in[block.thread_rank()], cg::plus<int>());
  auto odd = cg::labeled_partition(tile, tile.thread_rank() % 2);
  const int most = cg::reduce(odd, in[block.thread_rank()], cg::greater<int>());
  out[block.thread_rank()] = sum * 1000 + most;
}

static void test_groups() {
  const int n = 6 * 32;
  const std::vector<int> in = random_ints(n);
  Device<int> a(in);
  int *p = a.p, count = n;
  void *arguments[] = {&p, &count};
  CUDA(cudaLaunchCooperativeKernel(prefix, 6, 32, arguments));
  a.get();
  bool good = true;
  for (int i = 0, sum = 0; i < n; i++)
    good &= a.host[i] == (sum += in[i]);
  CHECK(good, "a cooperative grid meets");
  CHECK(cudaLaunchCooperativeKernel(prefix, 1000000, 32, arguments) ==
            cudaErrorCooperativeLaunchTooLarge,
        "a cooperative grid too large");
  cudaGetLastError();

  Device<int> data(std::vector<int>(in.begin(), in.begin() + 64)), out(64);
  emu::cuda::launch(
      Config(1, 64), [=](auto... x) { tiles(x...); }, data.p, out.p);
  out.get();
  good = true;
  for (int t = 0; t < 64; t++) {
    int sum = 0, most = 0;
    for (int i = 0; i < 8; i++) {
      const int v = in[t / 8 * 8 + i];
      sum += v;
      if (i % 2 == t % 2)
        most = v > most ? v : most;
    }
    good &= out.host[t] == sum * 1000 + most;
  }
  CHECK(good, "tiles and partitions");
}

/* ---- streams and events
 * ------------------------------------------------------------------------------------ */

static void fill(int *p, int n, int value) {
  for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
    p[i] = value;
}
static void wait_for_host(volatile int *flag, int *out) {
  while (*flag == 0) {
  }
  *out = 1;
}
static int order_seen;
static void note(void *data) { order_seen = order_seen * 10 + *(int *)data; }

static void test_streams() {
  cudaStream_t s, t;
  cudaEvent_t e, f;
  CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CUDA(cudaStreamCreateWithPriority(&t, cudaStreamNonBlocking, -1));
  CUDA(cudaEventCreate(&e));
  CUDA(cudaEventCreate(&f));
  const int n = 1000;
  Device<int> a(n), b(n);
  int *pinned;
  CUDA(cudaMallocHost(&pinned, n * sizeof(int)));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaEventRecord(e, s));
  emu::cuda::launch(
      Config(1, 64, 0, s), [=](auto... x) { fill(x...); }, a.p, n, 5);
  CUDA(cudaEventRecord(f, s));
  CUDA(cudaStreamWaitEvent(t, f, 0));
  CUDA(cudaMemcpyAsync(b.p, a.p, n * sizeof(int), cudaMemcpyDeviceToDevice, t));
  CUDA(cudaMemcpyAsync(pinned, b.p, n * sizeof(int), cudaMemcpyDeviceToHost, t));
  CUDA(cudaStreamSynchronize(t));
  bool good = true;
  for (int i = 0; i < n; i++)
    good &= pinned[i] == 5;
  CHECK(good, "an event orders two streams");
  float ms = -1;
  CUDA(cudaEventElapsedTime(&ms, e, f));
  CHECK(ms > 0 && ms < 1000, "time between events");
  CHECK(cudaStreamQuery(t) == cudaSuccess && cudaEventQuery(f) == cudaSuccess, "all is done");

  // The host goes on while a kernel runs, and the kernel waits for the host.
  int *flag;
  CUDA(cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped));
  *flag = 0;
  Device<int> out(1);
  CUDA(cudaDeviceSynchronize());
  emu::cuda::launch(
      Config(1, 1, 0, s), [=](auto... x) { wait_for_host(x...); }, flag, out.p);
  CUDA(cudaEventRecord(e, s));
  CHECK(cudaStreamQuery(s) == cudaErrorNotReady && cudaEventQuery(e) == cudaErrorNotReady,
        "a launch does not wait for its kernel");
  CHECK(cudaGetLastError() == cudaSuccess, "not ready is no error");
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  CUDA(cudaEventSynchronize(e));
  CHECK(out.get()[0] == 1, "the host's store reaches the kernel");

  int one = 1, two = 2, three = 3;
  CUDA(cudaLaunchHostFunc(s, note, &one));
  CUDA(cudaLaunchHostFunc(s, note, &two));
  CUDA(cudaStreamAddCallback(
      s,
      [](cudaStream_t, cudaError_t status, void *p) { status == cudaSuccess ? note(p) : (void)0; },
      &three, 0));
  CUDA(cudaStreamSynchronize(s));
  CHECK(order_seen == 123, "host functions run in the order of their stream");

  // A pageable source may change after the call.
  std::vector<int> mine(n, 7);
  CUDA(cudaMemcpyAsync(a.p, mine.data(), n * sizeof(int), cudaMemcpyHostToDevice, s));
  mine.assign(n, 8);
  CUDA(cudaStreamSynchronize(s));
  CHECK(a.get()[n - 1] == 7, "a pageable source is taken at the call");

  // The legacy default stream waits for blocking streams, and they for it.
  cudaStream_t blocking;
  CUDA(cudaStreamCreate(&blocking));
  emu::cuda::launch(
      Config(1, 32, 0, blocking), [=](auto... x) { fill(x...); }, a.p, n, 1);
  emu::cuda::launch(
      Config(1, 32), [=](auto... x) { fill(x...); }, a.p, n, 2);
  emu::cuda::launch(
      Config(1, 32, 0, blocking), [=](auto... x) { fill(x...); }, a.p, n / 2, 3);
  CUDA(cudaStreamSynchronize(blocking));
  a.get();
  CHECK(a.host[0] == 3 && a.host[n - 1] == 2, "order with the default stream");

  unsigned flags;
  int priority;
  CUDA(cudaStreamGetFlags(s, &flags));
  CUDA(cudaStreamGetPriority(t, &priority));
  CHECK(flags == cudaStreamNonBlocking && priority == -1, "flags and priority of a stream");
  CUDA(cudaStreamDestroy(s));
  CUDA(cudaStreamDestroy(t));
  CUDA(cudaStreamDestroy(blocking));
  CUDA(cudaEventDestroy(e));
  CUDA(cudaEventDestroy(f));
  CUDA(cudaFreeHost(pinned));
  CUDA(cudaFreeHost(flag));
}

/* ---- memory
 * --------------------------------------------------------------------------------------------------
 */

static void test_memory() {
  int *p = nullptr;
  cudaPointerAttributes a;
  CUDA(cudaMalloc(&p, 100));
  CUDA(cudaPointerGetAttributes(&a, p));
  CHECK(a.type == cudaMemoryTypeDevice && a.device == 0 && a.devicePointer == p,
        "attributes of device memory");
  int local = 0;
  CUDA(cudaPointerGetAttributes(&a, &local));
  CHECK(a.type == cudaMemoryTypeUnregistered, "attributes of host memory");
  CHECK(cudaMemcpy(&local, &local, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue,
        "the kind of a copy is checked");
  CHECK(cudaMemcpy(p, &local, 4, (cudaMemcpyKind)9) == cudaErrorInvalidMemcpyDirection,
        "no kind of a copy");
  CHECK(cudaFree(&local) == cudaErrorInvalidValue, "a pointer that cudaMalloc() did not give");
  CHECK(cudaGetLastError() == cudaErrorInvalidValue, "the last error");
  CUDA(cudaFree(p));
  CHECK(cudaMalloc(&p, (size_t)1 << 50) == cudaErrorMemoryAllocation && p == nullptr,
        "more memory than there is");
  cudaGetLastError();
  size_t before, total, after;
  CUDA(cudaMemGetInfo(&before, &total));
  CUDA(cudaMalloc(&p, 1 << 20));
  CUDA(cudaMemGetInfo(&after, &total));
  CHECK(before - after == 1 << 20 && after < total, "cudaMemGetInfo()");
  CUDA(cudaFree(p));

  char *pitched;
  size_t pitch;
  CUDA(cudaMallocPitch(&pitched, &pitch, 100, 7));
  std::vector<char> in(7 * 100), out(7 * 100);
  for (char &c : in)
    c = (char)random_bits();
  CUDA(cudaMemcpy2D(pitched, pitch, in.data(), 100, 100, 7, cudaMemcpyHostToDevice));
  CUDA(cudaMemset2D(pitched + 10, pitch, 3, 20, 7));
  CUDA(cudaMemcpy2D(out.data(), 100, pitched, pitch, 100, 7, cudaMemcpyDeviceToHost));
  bool good = true;
  for (int y = 0; y < 7; y++)
    for (int x = 0; x < 100; x++)
      good &= out[y * 100 + x] == (x >= 10 && x < 30 ? 3 : in[y * 100 + x]);
  CHECK(good && pitch % 256 == 0, "copies and fills in two dimensions");
  CUDA(cudaFree(pitched));

  int *managed;
  CUDA(cudaMallocManaged(&managed, 64 * sizeof(int)));
  emu::cuda::launch(
      Config(1, 64), [=](auto... x) { fill(x...); }, managed, 64, 11);
  CUDA(cudaDeviceSynchronize());
  CHECK(managed[63] == 11, "managed memory");
  CUDA(cudaFree(managed));
  CUDA(cudaMallocAsync(&p, 64, nullptr));
  CUDA(cudaMemsetAsync(p, 0, 64));
  CUDA(cudaFreeAsync(p, nullptr));
  CUDA(cudaDeviceSynchronize());
}

/* ---- short floats and mathematics
 * ------------------------------------------------------------------------------ */

static void math(const float *in, float *out) {
  const float x = in[threadIdx.x];
  float *o = out + threadIdx.x * 8;
  o[0] = rsqrtf(x);
  o[1] = __expf(-x);
  o[2] = __half2float(__float2half(x));
  o[3] = (float)(__float2bfloat16(x) + __float2bfloat16(1.0f));
  o[4] = (float)__nv_fp8_e4m3(x);
  const __half2 h = __hfma2(__float2half2_rn(x), __float2half2_rn(2.0f), __float2half2_rn(1.0f));
  o[5] = __low2float(h);
  o[6] = max(min(x, 3.0f), 1.0f);
  float4 v = *(const float4 *)(in + threadIdx.x / 4 * 4);
  o[7] = v.x + v.y + v.z + v.w;
}
static void bits(unsigned *out) {
  const unsigned x = 0x01234567u;
  out[0] = (unsigned)__popc(x), out[1] = (unsigned)__clz((int)x), out[2] = (unsigned)__ffs((int)x);
  out[3] = __brev(x), out[4] = __byte_perm(x, 0x89abcdefu, 0x7310u);
  out[5] = __funnelshift_l(x, 0x89abcdefu, 8), out[6] = (unsigned)__float2int_rn(2.5f);
  out[7] = (unsigned)__mulhi(1 << 30, 12), out[8] = __float_as_uint(1.0f);
}

static void test_math() {
  std::vector<float> in(32);
  for (float &x : in)
    x = (float)(random_bits() % 10000) / 1000.0f + 0.001f;
  Device<float> data(in), out(32 * 8);
  emu::cuda::launch(
      Config(1, 32), [=](auto... x) { math(x...); }, data.p, out.p);
  out.get();
  bool functions = true, half = true, vectors = true;
  for (int t = 0; t < 32; t++) {
    const float *o = &out.host[t * 8], x = in[t];
    functions &= std::fabs(o[0] - 1 / std::sqrt(x)) < 1e-5f * o[0] &&
                 std::fabs(o[1] - std::exp(-x)) < 1e-5f &&
                 o[6] == std::fmax(std::fmin(x, 3.f), 1.f);
    half &= std::fabs(o[2] - x) <= x / 2048 && std::fabs(o[3] - (x + 1)) <= (x + 1) / 100 &&
            std::fabs(o[4] - x) <= x / 16 + 0.001f &&
            std::fabs(o[5] - (2 * x + 1)) <= (2 * x + 1) / 512;
    const float *v = &in[t / 4 * 4];
    vectors &= o[7] == v[0] + v[1] + v[2] + v[3];
  }
  CHECK(functions, "mathematics");
  CHECK(half, "short floats");
  CHECK(vectors, "loads of float4");
  CHECK((float)__half(65519.0f) == 65504.0f && std::isinf((float)__half(65520.0f)) &&
            (float)__float2half(1.0f + 1.0f / 2048) == 1.0f &&
            (float)__float2half(1.0f + 3.0f / 2048) == 1.0f + 4.0f / 2048 &&
            (float)__half(5.9604645e-8f) == 5.9604645e-8f,
        "rounding to half");
  CHECK((float)__nv_fp8_e4m3(1000.0f) == 448.0f && (float)__nv_fp8_e5m2(1e9f) == 57344.0f &&
            (float)__nv_fp8_e4m3(0.001953125f) == 0.001953125f,
        "8-bit floats saturate");
  Device<unsigned> b(9);
  emu::cuda::launch(
      Config(1, 1), [=](auto... x) { bits(x...); }, b.p);
  const unsigned want[] = {12, 7, 1, 0xe6a2c480u, 0x89014567u, 0xabcdef01u, 2, 3, 0x3f800000u};
  b.get();
  bool good = true;
  for (int i = 0; i < 9; i++)
    good &= b.host[i] == want[i];
  CHECK(good, "operations on bits");
}

static void test_blas() {
  const int m = 17, n = 9, k = 23, lda = 25, ldb = 11, ldc = 19;
  std::vector<float> a(lda * m), b(ldb * k), c(ldc * n), want;
  for (auto *v : {&a, &b, &c})
    for (float &x : *v)
      x = (float)((int)(random_bits() % 17) - 8) / 4.0f;
  want = c;
  const float alpha = 1.5f, beta = -0.5f;
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      float sum = 0;
      for (int p = 0; p < k; p++)
        sum += a[i * lda + p] * b[p * ldb + j];
      want[j * ldc + i] = alpha * sum + beta * c[j * ldc + i];
    }
  Device<float> da(a), db(b), dc(c);
  cublasHandle_t handle;
  bool good = cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS;
  good &= cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_T, m, n, k, &alpha, da.p, lda, db.p, ldb,
                      &beta, dc.p, ldc) == CUBLAS_STATUS_SUCCESS;
  CHECK(good && dc.get() == want, "cublasSgemm()"); // exact: small multiples of 1/16
  std::vector<__nv_bfloat16> ha(lda * m), hb(ldb * k);
  for (size_t i = 0; i < a.size(); i++)
    ha[i] = a[i];
  for (size_t i = 0; i < b.size(); i++)
    hb[i] = b[i];
  Device<__nv_bfloat16> ga(ha), gb(hb);
  Device<float> gc(c);
  good = cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_T, m, n, k, &alpha, ga.p, CUDA_R_16BF, lda,
                      gb.p, CUDA_R_16BF, ldb, &beta, gc.p, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F,
                      CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS;
  CHECK(good && gc.get() == want, "cublasGemmEx() in bfloat16");
  CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, da.p, 1, db.p, ldb, &beta,
                    dc.p, ldc) == CUBLAS_STATUS_INVALID_VALUE,
        "a leading dimension too small");
  cublasDestroy(handle);
}

/* ---- devices and errors
 * ------------------------------------------------------------------------------------------ */

static void fails() {
  if (threadIdx.x == 3)
    assert(blockDim.x == 0 && "planted");
}

static void test_devices() {
  int count = 0, value = 0;
  CUDA(cudaGetDeviceCount(&count));
  cudaDeviceProp p;
  CUDA(cudaGetDeviceProperties(&p, 0));
  CUDA(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  CHECK(count >= 1 && p.major == 9 && p.warpSize == 32 && value == p.multiProcessorCount,
        "properties of a device");
  CHECK(cudaSetDevice(count) == cudaErrorInvalidDevice &&
            cudaPeekAtLastError() == cudaErrorInvalidDevice,
        "no such device");
  CHECK(strcmp(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidDevice") == 0, "its name");
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, indices, 256, 0));
  CHECK(value == 8, "blocks of 256 threads on an SM");
  CUDA(cudaFuncSetAttribute(indices, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, indices, 256, 100 << 10));
  CHECK(value == 2, "shared memory limits them");
  cudaFuncAttributes f;
  CUDA(cudaFuncGetAttributes(&f, indices));
  CHECK(f.maxThreadsPerBlock == 1024 && f.maxDynamicSharedSizeBytes == 100 << 10,
        "attributes of a kernel");
  // Last: the device is lost afterwards.
  emu::cuda::launch(Config(1, 32), [=](auto... x) { fails(x...); });
  CHECK(cudaDeviceSynchronize() == cudaErrorAssert, "a failed assertion in a kernel");
  int *q;
  CHECK(cudaMalloc(&q, 4) == cudaErrorAssert && cudaGetLastError() == cudaErrorAssert &&
            cudaGetLastError() == cudaErrorAssert,
        "stays with the device");
}

int main() {
  test_launches();
  test_shared();
  test_warps();
  test_atomics();
  test_groups();
  test_streams();
  test_memory();
  test_math();
  test_blas();
  test_devices();
  printf("1..%d\n", number);
  return failures != 0;
}
