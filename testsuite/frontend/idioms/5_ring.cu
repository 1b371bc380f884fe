// SPDX-License-Identifier: Apache-2.0
// A ring: send what is current, receive the next, compute, swap by hand.
#include "common.h"

__global__ void attend(const float *kv, float *out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[i] += kv[i];
}

struct State {
  float *current, *next, *out;
};

void step(State &st, int n, int to, int from, ncclComm_t comm, cudaStream_t stream) {
  NCCLCHECK(ncclGroupStart()); //@start
  NCCLCHECK(ncclSend(st.current, n, ncclFloat, to, comm, stream)); //@send
  NCCLCHECK(ncclRecv(st.next, n, ncclFloat, from, comm, stream)); //@recv
  NCCLCHECK(ncclGroupEnd());
}

int main(int argc, char **argv) {
  int rank, size, n = 1000;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ncclUniqueId id = {};
  ncclComm_t comm;
  NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
  State st;
  cudaStream_t compute, copy;
  CUDACHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CUDACHECK(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
  CUDACHECK(cudaMalloc(&st.current, n * 4));
  CUDACHECK(cudaMalloc(&st.next, n * 4));
  CUDACHECK(cudaMalloc(&st.out, n * 4));
  for (int i = 0; i < size; i++) {
    step(st, n, (rank + 1) % size, (rank + size - 1) % size, comm, copy); //@call
    attend<<<1, 256, 0, compute>>>(st.current, st.out, n);
    CUDACHECK(cudaDeviceSynchronize());
    float *tmp = st.current;
    st.current = st.next;
    st.next = tmp;
  }
}
