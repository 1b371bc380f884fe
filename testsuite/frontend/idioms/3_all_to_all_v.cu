// SPDX-License-Identifier: Apache-2.0
// A group of sends and receives over all peers, counts in host arrays.
#include "common.h"
#include <vector>

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ncclUniqueId id = {};
  ncclComm_t comm;
  NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
  std::vector<int> scount(size), rcount(size), sdispl(size), rdispl(size);
  int *counts;
  CUDACHECK(cudaMalloc(&counts, size * sizeof(int)));
  CUDACHECK(cudaMemcpy(scount.data(), counts, size * sizeof(int), cudaMemcpyDeviceToHost));
  MPI_Alltoall(scount.data(), 1, MPI_INT, rcount.data(), 1, MPI_INT, MPI_COMM_WORLD);
  int total = 0;
  for (int p = 0; p < size; p++)
    total += rcount[p];
  float *sbuf, *rbuf;
  cudaStream_t s;
  CUDACHECK(cudaStreamCreate(&s));
  CUDACHECK(cudaMalloc(&sbuf, 1 << 20));
  CUDACHECK(cudaMalloc(&rbuf, total * sizeof(float))); //@data_dependent
  NCCLCHECK(ncclGroupStart());
  for (int p = 0; p < size; p++) { //@loop
    NCCLCHECK(ncclSend(sbuf + sdispl[p], scount[p], ncclFloat, p, comm, s)); //@send
    NCCLCHECK(ncclRecv(rbuf + rdispl[p], rcount[p], ncclFloat, p, comm, s)); //@recv
  }
  NCCLCHECK(ncclGroupEnd());
  ncclGroupStart();
  for (int p = 0; p < size; p++) {
    ncclSend(sbuf + p * 16, 16, ncclFloat, p, comm, s); //@send_same
    ncclRecv(rbuf + p * 16, 16, ncclFloat, p, comm, s);
  }
  ncclGroupEnd();
  if (total > 0) {
    float *more;
    CUDACHECK(cudaMalloc(&more, 64)); //@conditional
    CUDACHECK(cudaFree(more));
  }
}
