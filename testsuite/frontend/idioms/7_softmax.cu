// SPDX-License-Identifier: Apache-2.0
// Merge of partial softmax results: maximum, scale, two sums.
#include "common.h"

__global__ void partial(const float *x, float *m, float *l, float *o, int n);
__global__ void rescale(const float *m, float *l, float *o, int n);

template <typename T> struct TypeOf;
template <> struct TypeOf<float> { static constexpr ncclDataType_t value = ncclFloat; };

struct Group {
  ncclComm_t comm;
  cudaStream_t stream;
  Group(int size, int rank) {
    ncclUniqueId id = {};
    NCCLCHECK(ncclCommInitRank(&comm, size, id, rank)); //@init
    CUDACHECK(cudaStreamCreate(&stream));
  }
  ~Group() { ncclCommDestroy(comm); } //@destroy
  template <typename T> void all(T *x, size_t n, ncclRedOp_t op) {
    NCCLCHECK(ncclAllReduce(x, x, n, TypeOf<T>::value, op, comm, stream)); //@generic
  }
};

int main(int argc, char **argv) {
  int rank, size, n = 512;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Group g(size, rank);
  float *x, *m, *l, *o;
  for (float **p : {&x, &m, &l, &o})
    CUDACHECK(cudaMalloc(p, n * sizeof(float))); //@alloc
  partial<<<4, 128, 0, g.stream>>>(x, m, l, o, n);
  NCCLCHECK(ncclAllReduce(m, m, n, ncclFloat, ncclMax, g.comm, g.stream)); //@max
  rescale<<<4, 128, 0, g.stream>>>(m, l, o, n); //@rescale
  g.all(l, n, ncclSum);
  g.all(o, n, ncclSum);
  CUDACHECK(cudaStreamSynchronize(g.stream));
}
