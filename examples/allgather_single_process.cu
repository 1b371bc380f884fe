// SPDX-License-Identifier: Apache-2.0
//
// One process, one thread, n GPUs: every GPU scales and shifts its shard of a vector, the shards
// are all-gathered, and every GPU then computes prefix differences that need its neighbours'
// shards.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 allgather_single_process.cu
//              -o allgather_single_process -lnccl
//   run:   ./allgather_single_process [--ranks 4] [--count 1048576]
//
// Shows: ncclCommInitAll, per-GPU arrays of buffers, communicators and streams, kernels and
// collective in sibling loops over the devices, a group around the loop of collectives.
#include <cuda_runtime.h>
#include <getopt.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CUDA_CHECK(call)                                                                           \
  {                                                                                                \
    cudaError_t status = call;                                                                     \
    if (status != cudaSuccess) {                                                                   \
      fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #call,                         \
              cudaGetErrorString(status));                                                         \
      exit(2);                                                                                     \
    }                                                                                              \
  }

#define NCCL_CHECK(call)                                                                           \
  {                                                                                                \
    ncclResult_t status = call;                                                                    \
    if (status != ncclSuccess) {                                                                   \
      fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #call,                         \
              ncclGetErrorString(status));                                                         \
      exit(2);                                                                                     \
    }                                                                                              \
  }

// shard[i] = a * in[i] + b
__global__ void scale_shift(const float *in, float *shard, size_t count, float a, float b) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count)
    shard[i] = a * in[i] + b;
}

// out[i] = all[i] - all[i - 1], over the whole gathered vector, first element against the last.
__global__ void difference(const float *all, float *out, size_t total) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < total)
    out[i] = all[i] - all[i > 0 ? i - 1 : total - 1];
}

int main(int argc, char **argv) {
  int nranks = 0, iters = 5, warmup = 2, seed = 1, help = 0;
  size_t count = 4099; // elements per GPU
  const option opts[] = {{"ranks", required_argument, nullptr, 'r'},
                         {"count", required_argument, nullptr, 'n'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"seed", required_argument, nullptr, 's'},
                         {"help", no_argument, nullptr, 'h'},
                         {nullptr, 0, nullptr, 0}};
  for (int c; (c = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (c) {
    case 'r':
      nranks = atoi(optarg);
      break;
    case 'n':
      count = strtoull(optarg, nullptr, 0);
      break;
    case 'i':
      iters = atoi(optarg);
      break;
    case 'w':
      warmup = atoi(optarg);
      break;
    case 's':
      seed = atoi(optarg);
      break;
    case 'h':
      help = 1;
      break;
    default:
      help = 2;
    }
  }
  if (help || nranks < 0 || count < 1 || iters < 1 || warmup < 0) {
    printf("usage: %s [--ranks R] [--count C] [--iters I] [--warmup W] [--seed S]\n", argv[0]);
    return help == 1 ? 0 : 2;
  }
  int ndev;
  CUDA_CHECK(cudaGetDeviceCount(&ndev));
  if (nranks == 0)
    nranks = ndev;

  std::vector<int> devs(nranks);
  for (int i = 0; i < nranks; i++)
    devs[i] = i % ndev;
  std::vector<ncclComm_t> comms(nranks);
  NCCL_CHECK(ncclCommInitAll(comms.data(), nranks, devs.data()));

  size_t total = count * nranks;
  float **input = (float **)malloc(nranks * sizeof(float *));
  float **sendbuff = (float **)malloc(nranks * sizeof(float *));
  float **recvbuff = (float **)malloc(nranks * sizeof(float *));
  float **result = (float **)malloc(nranks * sizeof(float *));
  cudaStream_t *s = (cudaStream_t *)malloc(nranks * sizeof(cudaStream_t));
  for (int i = 0; i < nranks; i++) {
    CUDA_CHECK(cudaSetDevice(devs[i]));
    CUDA_CHECK(cudaMalloc((void **)&input[i], count * sizeof(float)));
    CUDA_CHECK(cudaMalloc((void **)&sendbuff[i], count * sizeof(float)));
    CUDA_CHECK(cudaMalloc((void **)&recvbuff[i], total * sizeof(float)));
    CUDA_CHECK(cudaMalloc((void **)&result[i], total * sizeof(float)));
    CUDA_CHECK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
  }

  const int threads = 256;
  const unsigned shard_blocks = (unsigned)((count + threads - 1) / threads);
  const unsigned total_blocks = (unsigned)((total + threads - 1) / threads);
  std::vector<float> host_in(total), host_all(total), host_out(total), shard(total);
  std::vector<double> times;
  long wrong = 0;

  for (int iter = -warmup; iter < iters; iter++) {
    // New data, poisoned outputs; everything done before the timed region begins.
    std::mt19937 rng(seed * 7919 + iter);
    std::uniform_real_distribution<float> dist(-1.0f, 1.0f);
    for (size_t j = 0; j < total; j++)
      host_in[j] = dist(rng);
    float a = 1.5f + 0.25f * iter, b = 0.5f - iter;
    for (int i = 0; i < nranks; i++) {
      CUDA_CHECK(cudaSetDevice(devs[i]));
      CUDA_CHECK(cudaMemcpyAsync(input[i], host_in.data() + i * count, count * sizeof(float),
                                 cudaMemcpyHostToDevice, s[i]));
      CUDA_CHECK(cudaMemsetAsync(sendbuff[i], 0xFF, count * sizeof(float), s[i]));
      CUDA_CHECK(cudaMemsetAsync(recvbuff[i], 0xFF, total * sizeof(float), s[i]));
      CUDA_CHECK(cudaMemsetAsync(result[i], 0xFF, total * sizeof(float), s[i]));
    }
    for (int i = 0; i < nranks; i++) {
      CUDA_CHECK(cudaSetDevice(devs[i]));
      CUDA_CHECK(cudaStreamSynchronize(s[i]));
    }

    auto t0 = std::chrono::steady_clock::now();
    for (int i = 0; i < nranks; i++) {
      CUDA_CHECK(cudaSetDevice(devs[i]));
      scale_shift<<<shard_blocks, threads, 0, s[i]>>>(input[i], sendbuff[i], count, a, b);
    }

    NCCL_CHECK(ncclGroupStart());
    for (int i = 0; i < nranks; i++)
      NCCL_CHECK(ncclAllGather((const void *)sendbuff[i], (void *)recvbuff[i], count, ncclFloat,
                               comms[i], s[i]));
    NCCL_CHECK(ncclGroupEnd());

    for (int i = 0; i < nranks; i++) {
      CUDA_CHECK(cudaSetDevice(devs[i]));
      difference<<<total_blocks, threads, 0, s[i]>>>(recvbuff[i], result[i], total);
    }
    for (int i = 0; i < nranks; i++) {
      CUDA_CHECK(cudaSetDevice(devs[i]));
      CUDA_CHECK(cudaStreamSynchronize(s[i]));
    }
    auto t1 = std::chrono::steady_clock::now();
    CUDA_CHECK(cudaGetLastError());
    if (iter < 0)
      continue;
    // The region ends when the last GPU is done, so this is the maximum over ranks.
    times.push_back(std::chrono::duration<double, std::milli>(t1 - t0).count());

    for (size_t j = 0; j < total; j++)
      shard[j] = (float)((double)a * host_in[j] + b); // the device may round once or twice
    for (int i = 0; i < nranks; i++) {
      CUDA_CHECK(cudaSetDevice(devs[i]));
      CUDA_CHECK(
          cudaMemcpy(host_all.data(), recvbuff[i], total * sizeof(float), cudaMemcpyDeviceToHost));
      CUDA_CHECK(
          cudaMemcpy(host_out.data(), result[i], total * sizeof(float), cudaMemcpyDeviceToHost));
      double tol = 4.0 / (1 << 24) * (fabs(a) + fabs(b) + 1);
      for (size_t j = 0; j < total; j++) {
        size_t before = j > 0 ? j - 1 : total - 1;
        double diff = (double)shard[j] - shard[before];
        if (!(fabs(host_all[j] - (double)shard[j]) <= tol) ||
            !(fabs(host_out[j] - diff) <= 4 * tol)) {
          if (wrong++ < 5)
            fprintf(stderr, "rank %d iteration %d: element %zu is %g, %g; expected %g, %g\n", i,
                    iter, j, host_all[j], host_out[j], shard[j], diff);
        }
      }
    }
  }

  std::sort(times.begin(), times.end());
  printf("allgather_single_process: ranks=%d count=%zu\n", nranks, count);
  printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[iters / 2], iters);
  printf("Verification: %s\n", wrong ? "FAIL" : "PASS");

  for (int i = 0; i < nranks; i++) {
    CUDA_CHECK(cudaSetDevice(devs[i]));
    CUDA_CHECK(cudaFree(input[i]));
    CUDA_CHECK(cudaFree(sendbuff[i]));
    CUDA_CHECK(cudaFree(recvbuff[i]));
    CUDA_CHECK(cudaFree(result[i]));
    CUDA_CHECK(cudaStreamDestroy(s[i]));
  }
  for (int i = 0; i < nranks; i++)
    NCCL_CHECK(ncclCommDestroy(comms[i]));
  free(input);
  free(sendbuff);
  free(recvbuff);
  free(result);
  free(s);
  return wrong ? 1 : 0;
}
