// SPDX-License-Identifier: Apache-2.0
//
// Data-parallel training step: the backward pass produces weight gradients from the last layer to
// the first; as soon as a bucket of layers is complete it is averaged over ranks on a communication
// stream, beside the rest of the backward pass. Then the loss is averaged and SGD with momentum is
// applied.
//
//   build: nvcc -std=c++17 -O3 -arch=sm_90 $(pkg-config --cflags mpich) ddp_buckets.cu
//              -o ddp_buckets -lnccl -lmpich                            [-DUSE_MPI]
//   run:   mpirun -np 4 ./ddp_buckets --layers 24 --width 1024 --batch 32 --bucket 4194304
//
// Shows: in-place AllReduce (average) on ranges of one flat buffer, a communication stream with an
// event per bucket, a one-element AllReduce, #ifdef USE_MPI alternatives around the collectives.
#include <cuda_runtime.h>
#include <getopt.h>
#include <mpi.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDACHECK(cmd)                                                                             \
  do {                                                                                             \
    cudaError_t e = cmd;                                                                           \
    if (e != cudaSuccess) {                                                                        \
      printf("Failed: CUDA error %s:%d '%s'\n", __FILE__, __LINE__, cudaGetErrorString(e));        \
      exit(EXIT_FAILURE);                                                                          \
    }                                                                                              \
  } while (0)

#define NCCLCHECK(cmd)                                                                             \
  do {                                                                                             \
    ncclResult_t r = cmd;                                                                          \
    if (r != ncclSuccess) {                                                                        \
      printf("Failed: NCCL error %s:%d '%s'\n", __FILE__, __LINE__, ncclGetErrorString(r));        \
      exit(EXIT_FAILURE);                                                                          \
    }                                                                                              \
  } while (0)

#define MPICHECK(cmd)                                                                              \
  do {                                                                                             \
    int e = cmd;                                                                                   \
    if (e != MPI_SUCCESS) {                                                                        \
      printf("Failed: MPI error %s:%d '%d'\n", __FILE__, __LINE__, e);                             \
      exit(EXIT_FAILURE);                                                                          \
    }                                                                                              \
  } while (0)

enum { WEIGHT = 1, INPUT = 2, DELTA = 3 }; // tensors, for value()

// One input element in (-1, 1), the same on host and device.
__host__ __device__ inline float value(uint64_t seed, uint64_t tensor, uint64_t step, uint64_t rank,
                                       uint64_t layer, uint64_t i) {
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + (tensor << 61) + (step << 51) + (rank << 44) +
               (layer << 34) + i;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return (float)(x >> 40) * (1.0f / (1 << 23)) - 1.0f;
}

__global__ void fill(float *dst, size_t count, uint64_t seed, int tensor, int step, int rank,
                     int layer) {
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
    dst[i] = value(seed, tensor, step, rank, layer, i);
}

#define TILE 16

// grad[in x out] = input[batch x in]^T * delta[batch x out] / batch
__global__ void backward(const float *input, const float *delta, float *grad, int batch, int in,
                         int out) {
  __shared__ float a[TILE][TILE], b[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int s0 = 0; s0 < batch; s0 += TILE) {
    int s = s0 + threadIdx.y, ra = blockIdx.y * TILE + threadIdx.x;
    a[threadIdx.y][threadIdx.x] = s < batch && ra < in ? input[(size_t)s * in + ra] : 0.0f;
    b[threadIdx.y][threadIdx.x] = s < batch && col < out ? delta[(size_t)s * out + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; i++)
      sum += a[i][threadIdx.y] * b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < in && col < out)
    grad[(size_t)row * out + col] = sum / batch;
}

// One block of 256 threads: *loss = mean of delta squared.
__global__ void mean_square(const float *delta, float *loss, int count) {
  __shared__ float part[8];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < count; i += blockDim.x)
    sum += delta[i] * delta[i];
  for (int d = 16; d > 0; d /= 2)
    sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (threadIdx.x % 32 == 0)
    part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0.0f;
    for (int w = 0; w < 8; w++)
      sum += part[w];
    *loss = sum / count;
  }
}

__global__ void sgd(float *weight, float *velocity, const float *grad, size_t count, float rate,
                    float momentum) {
  size_t stride = (size_t)gridDim.x * blockDim.x;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    velocity[i] = momentum * velocity[i] + grad[i];
    weight[i] -= rate * velocity[i];
  }
}

struct Layer {
  int in, out;
  size_t offset; // of its weights in the flat buffers
};

struct Bucket {
  int last;             // its lowest layer: complete when that layer's gradient is
  size_t offset, count; // range of the flat gradient buffer
  cudaEvent_t ready;
};

// The weights that are followed in double through all steps, and compared at the end of each.
struct Probe {
  int layer;
  size_t index; // within the layer
  double weight, velocity, slack;
};

int main(int argc, char **argv) {
  int nlayers = 5, width = 24, batch = 8, iters = 5, warmup = 2, help = 0;
  size_t bucket_size = 1000; // elements
  uint64_t seed = 1;
  const float rate = 0.125f, momentum = 0.5f;
  const option opts[] = {{"layers", required_argument, nullptr, 'l'},
                         {"width", required_argument, nullptr, 'd'},
                         {"batch", required_argument, nullptr, 'n'},
                         {"bucket", required_argument, nullptr, 'b'},
                         {"iters", required_argument, nullptr, 'i'},
                         {"warmup", required_argument, nullptr, 'w'},
                         {"seed", required_argument, nullptr, 's'},
                         {"help", no_argument, nullptr, 'h'},
                         {nullptr, 0, nullptr, 0}};
  MPICHECK(MPI_Init(&argc, &argv));
  for (int c; (c = getopt_long(argc, argv, "h", opts, nullptr)) != -1;) {
    switch (c) {
    case 'l':
      nlayers = atoi(optarg);
      break;
    case 'd':
      width = atoi(optarg);
      break;
    case 'n':
      batch = atoi(optarg);
      break;
    case 'b':
      bucket_size = strtoull(optarg, nullptr, 0);
      break;
    case 'i':
      iters = atoi(optarg);
      break;
    case 'w':
      warmup = atoi(optarg);
      break;
    case 's':
      seed = strtoull(optarg, nullptr, 0);
      break;
    case 'h':
      help = 1;
      break;
    default:
      help = 2;
    }
  }
  int myRank, nRanks, localRank, nDevs;
  MPICHECK(MPI_Comm_rank(MPI_COMM_WORLD, &myRank));
  MPICHECK(MPI_Comm_size(MPI_COMM_WORLD, &nRanks));
  if (help || nlayers < 1 || nlayers > 1000 || width < 1 || batch < 1 || bucket_size < 1 ||
      iters < 1 || warmup < 0) {
    if (myRank == 0)
      printf("usage: mpirun -np RANKS %s [--layers L] [--width D] [--batch B] [--bucket ELEMENTS] "
             "[--iters I] [--warmup W] [--seed S]\n",
             argv[0]);
    MPICHECK(MPI_Finalize());
    return help == 1 ? 0 : 2;
  }
  MPI_Comm node;
  MPICHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, myRank, MPI_INFO_NULL, &node));
  MPICHECK(MPI_Comm_rank(node, &localRank));
  MPICHECK(MPI_Comm_free(&node));
  CUDACHECK(cudaGetDeviceCount(&nDevs));
  CUDACHECK(cudaSetDevice(localRank % nDevs));
  ncclUniqueId id;
  ncclComm_t comm;
  if (myRank == 0)
    NCCLCHECK(ncclGetUniqueId(&id));
  MPICHECK(MPI_Bcast((void *)&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD));
  NCCLCHECK(ncclCommInitRank(&comm, nRanks, id, myRank));

  // Layers of uneven size; buckets are filled from the last layer down.
  std::vector<Layer> layers(nlayers);
  size_t total = 0;
  int widest = 0;
  for (int l = 0; l < nlayers; l++) {
    layers[l] = {width + l % 3, width + (l + 1) % 3, total};
    widest = std::max({widest, layers[l].in, layers[l].out});
    total += (size_t)layers[l].in * layers[l].out;
  }
  std::vector<Bucket> buckets;
  size_t end = total;
  for (int l = nlayers - 1; l >= 0; l--)
    if (l == 0 || end - layers[l].offset >= bucket_size) {
      Bucket b = {l, layers[l].offset, end - layers[l].offset, nullptr};
      CUDACHECK(cudaEventCreateWithFlags(&b.ready, cudaEventDisableTiming));
      buckets.push_back(b);
      end = layers[l].offset;
    }

  float *weights, *velocity, *grads, *input, *delta, *loss;
  size_t acts = (size_t)batch * widest; // of one layer
  CUDACHECK(cudaMalloc((void **)&weights, total * sizeof(float)));
  CUDACHECK(cudaMalloc((void **)&velocity, total * sizeof(float)));
  CUDACHECK(cudaMalloc((void **)&grads, total * sizeof(float)));
  CUDACHECK(cudaMalloc((void **)&input, nlayers * acts * sizeof(float)));
  CUDACHECK(cudaMalloc((void **)&delta, nlayers * acts * sizeof(float)));
  CUDACHECK(cudaMalloc((void **)&loss, sizeof(float)));
  cudaStream_t stream, comm_stream;
  cudaEvent_t reduced;
  CUDACHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDACHECK(cudaStreamCreateWithFlags(&comm_stream, cudaStreamNonBlocking));
  CUDACHECK(cudaEventCreateWithFlags(&reduced, cudaEventDisableTiming));
  for (int l = 0; l < nlayers; l++)
    fill<<<64, 256, 0, stream>>>(weights + layers[l].offset, (size_t)layers[l].in * layers[l].out,
                                 seed, WEIGHT, 0, 0, l);
  CUDACHECK(cudaMemsetAsync(velocity, 0, total * sizeof(float), stream));

  std::vector<Probe> probes;
  bool all = (double)total * batch * nRanks * (iters + warmup) <= 1 << 23;
  srand(seed + myRank);
  for (size_t p = 0; p < (all ? total : 2000); p++) {
    size_t at = all ? p : ((size_t)rand() * RAND_MAX + rand()) % total;
    int l = nlayers - 1;
    while (layers[l].offset > at)
      l--;
    size_t i = at - layers[l].offset;
    probes.push_back({l, i, value(seed, WEIGHT, 0, 0, l, i), 0.0, 0.0});
  }

  std::vector<float> host(total);
  std::vector<double> times;
  long wrong = 0;
  for (int step = 0; step < warmup + iters; step++) {
    for (int l = 0; l < nlayers; l++) {
      fill<<<64, 256, 0, stream>>>(input + l * acts, (size_t)batch * layers[l].in, seed, INPUT,
                                   step, myRank, l);
      fill<<<64, 256, 0, stream>>>(delta + l * acts, (size_t)batch * layers[l].out, seed, DELTA,
                                   step, myRank, l);
    }
    CUDACHECK(cudaMemsetAsync(grads, 0xFF, total * sizeof(float), stream));
    CUDACHECK(cudaMemsetAsync(loss, 0xFF, sizeof(float), stream));
    CUDACHECK(cudaStreamSynchronize(stream));
    MPICHECK(MPI_Barrier(MPI_COMM_WORLD));
    double t0 = MPI_Wtime();

    size_t next = 0; // bucket
    for (int l = nlayers - 1; l >= 0; l--) {
      const Layer &y = layers[l];
      dim3 block(TILE, TILE), grid((y.out + TILE - 1) / TILE, (y.in + TILE - 1) / TILE);
      backward<<<grid, block, 0, stream>>>(input + l * acts, delta + l * acts, grads + y.offset,
                                           batch, y.in, y.out);
      CUDACHECK(cudaGetLastError());
      if (buckets[next].last == l) {
        Bucket &b = buckets[next++];
        CUDACHECK(cudaEventRecord(b.ready, stream));
#ifdef USE_MPI
        CUDACHECK(cudaEventSynchronize(b.ready)); // needs a CUDA-aware MPI
        MPICHECK(MPI_Allreduce(MPI_IN_PLACE, grads + b.offset, (int)b.count, MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD));
#else
        CUDACHECK(cudaStreamWaitEvent(comm_stream, b.ready, 0));
        NCCLCHECK(ncclAllReduce(grads + b.offset, grads + b.offset, b.count, ncclFloat, ncclAvg,
                                comm, comm_stream));
#endif
      }
    }
    int outputs = batch * layers[nlayers - 1].out;
    mean_square<<<1, 256, 0, stream>>>(delta + (nlayers - 1) * acts, loss, outputs);
    CUDACHECK(cudaEventRecord(reduced, comm_stream));
    CUDACHECK(cudaStreamWaitEvent(stream, reduced, 0));
    float host_loss = -1.0f;
#ifdef USE_MPI
    CUDACHECK(cudaStreamSynchronize(stream));
    MPICHECK(MPI_Allreduce(MPI_IN_PLACE, loss, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    const float grad_rate = rate / nRanks; // gradients are sums, not averages (velocity too)
#else
    NCCLCHECK(ncclAllReduce(loss, loss, 1, ncclFloat, ncclSum, comm, stream));
    const float grad_rate = rate;
#endif
    CUDACHECK(cudaMemcpyAsync(&host_loss, loss, sizeof(float), cudaMemcpyDeviceToHost, stream));
    sgd<<<256, 256, 0, stream>>>(weights, velocity, grads, total, grad_rate, momentum);
    CUDACHECK(cudaGetLastError());
    CUDACHECK(cudaStreamSynchronize(stream));
    double ms = (MPI_Wtime() - t0) * 1e3;

    // The weights remember every step, warm-up included, so the probes follow all of them.
    CUDACHECK(cudaMemcpy(host.data(), weights, total * sizeof(float), cudaMemcpyDeviceToHost));
    double u = 1.0 / (1 << 24);
    for (Probe &p : probes) {
      const Layer &y = layers[p.layer];
      double grad = 0, mag = 0;
      for (int r = 0; r < nRanks; r++)
        for (int s = 0; s < batch; s++) {
          double g =
              (double)value(seed, INPUT, step, r, p.layer, (size_t)s * y.in + p.index / y.out) *
              value(seed, DELTA, step, r, p.layer, (size_t)s * y.out + p.index % y.out);
          grad += g / batch / nRanks;
          mag += fabs(g) / batch / nRanks;
        }
      p.velocity = momentum * p.velocity + grad;
      p.weight -= rate * p.velocity;
      p.slack += (8 + 2 * sqrt((double)batch) + nRanks) * u * mag + 4 * u * (1 + fabs(p.weight));
      double got = host[y.offset + p.index];
      if (step >= warmup && !(fabs(got - p.weight) <= p.slack) && wrong++ < 3)
        fprintf(stderr, "rank %d step %d: weight %zu of layer %d is %g, expected %g\n", myRank,
                step, p.index, p.layer, got, p.weight);
    }
    double ref_loss = 0;
    for (int r = 0; r < nRanks; r++)
      for (int i = 0; i < outputs; i++) {
        double d = value(seed, DELTA, step, r, nlayers - 1, i);
        ref_loss += d * d / outputs;
      }
    if (!(fabs(host_loss - ref_loss) <= (64 + sqrt((double)outputs)) * u * ref_loss)) {
      wrong++;
      fprintf(stderr, "rank %d step %d: loss is %g, expected %g\n", myRank, step, host_loss,
              ref_loss);
    }
    if (step < warmup)
      continue;
    MPICHECK(MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    times.push_back(ms);
  }

  MPICHECK(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
  if (myRank == 0) {
    std::sort(times.begin(), times.end());
    printf("ddp_buckets: ranks=%d layers=%d width=%d batch=%d parameters=%zu buckets=%zu\n", nRanks,
           nlayers, width, batch, total, buckets.size());
    printf("Time: %.4f ms (maximum over ranks, median of %d)\n", times[iters / 2], iters);
    printf("Verification: %s\n", wrong ? "FAIL" : "PASS");
  }
  for (Bucket &b : buckets)
    CUDACHECK(cudaEventDestroy(b.ready));
  CUDACHECK(cudaEventDestroy(reduced));
  CUDACHECK(cudaFree(weights));
  CUDACHECK(cudaFree(velocity));
  CUDACHECK(cudaFree(grads));
  CUDACHECK(cudaFree(input));
  CUDACHECK(cudaFree(delta));
  CUDACHECK(cudaFree(loss));
  CUDACHECK(cudaStreamDestroy(stream));
  CUDACHECK(cudaStreamDestroy(comm_stream));
  NCCLCHECK(ncclCommDestroy(comm));
  MPICHECK(MPI_Finalize());
  return wrong ? 1 : 0;
}
