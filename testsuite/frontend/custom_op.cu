// SPDX-License-Identifier: Apache-2.0
// Reduction operations made by the program, straight and through a helper and variables.
#include "idioms/common.h"

struct averager {
  ncclRedOp_t op;
};

static ncclRedOp_t make_op(ncclComm_t comm, float factor) {
  ncclRedOp_t op;
  NCCLCHECK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, comm)); //@make
  return op;
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ncclUniqueId id;
  ncclComm_t comm;
  cudaStream_t s;
  NCCLCHECK(ncclGetUniqueId(&id));
  NCCLCHECK(ncclCommInitRank(&comm, size, id, rank));
  CUDACHECK(cudaStreamCreate(&s));
  float *x;
  CUDACHECK(cudaMalloc(&x, 1024 * sizeof(float)));
  averager a = {make_op(comm, 1.0f / size)};
  ncclRedOp_t copy = a.op, usual = ncclSum;
  NCCLCHECK(ncclAllReduce(x, x, 1024, ncclFloat, a.op, comm, s));    //@member
  NCCLCHECK(ncclReduce(x, x, 1024, ncclFloat, copy, 0, comm, s));    //@copy
  NCCLCHECK(ncclAllReduce(x, x, 1024, ncclFloat, usual, comm, s));   //@variable
  NCCLCHECK(ncclAllReduce(x, x, 1024, ncclFloat, ncclSum, comm, s)); //@plain
  NCCLCHECK(ncclRedOpDestroy(copy, comm)); //@unmake
  return 0;
}
