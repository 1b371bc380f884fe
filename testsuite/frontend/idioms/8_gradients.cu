// SPDX-License-Identifier: Apache-2.0
// Gradient buckets averaged, optimizer kernel, scalar loss; buffers in vectors and arenas.
#include "common.h"
#include <memory>
#include <vector>

__global__ void sgd(float *w, const float *g, size_t n, float lr) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < n)
    w[i] -= lr * g[i];
}

class Trainer {
public:
  Trainer(ncclComm_t c, cudaStream_t s) : comm_(c), stream_(s) {
    for (int i = 0; i < 4; i++) {
      float *p;
      CUDACHECK(cudaMalloc(&p, bytes_)); //@alloc
      grads_.push_back(p);
    }
    CUDACHECK(cudaMalloc(&arena_, 8 * bytes_)); //@arena
    weights_ = (float *)((char *)arena_ + 2 * bytes_);
  }
  void step() {
    for (size_t b = 0; b < grads_.size(); b++) {
      NCCLCHECK(ncclAllReduce(grads_[b], grads_[b], count_, ncclFloat, ncclAvg, comm_, stream_)); //@bucket
      sgd<<<32, 256, 0, stream_>>>(weights_ + b * count_, grads_[b], count_, 0.1f); //@sgd
    }
    NCCLCHECK(ncclAllReduce(loss_, loss_, 1, ncclFloat, ncclSum, comm_, stream_)); //@loss
  }

private:
  static constexpr size_t count_ = 1000, bytes_ = count_ * sizeof(float);
  std::vector<float *> grads_;
  void *arena_ = nullptr;
  float *weights_ = nullptr, *loss_ = nullptr;
  ncclComm_t comm_;
  cudaStream_t stream_;
};

int main() {
  ncclComm_t comm;
  ncclUniqueId id = {};
  NCCLCHECK(ncclCommInitRank(&comm, 2, id, atoi(getenv("RANK"))));
  cudaStream_t s;
  CUDACHECK(cudaStreamCreate(&s));
  Trainer t(comm, s);
  for (int i = 0; i < 10; i++)
    t.step();
  CUDACHECK(cudaStreamSynchronize(s));
  ncclCommDestroy(comm);
}
