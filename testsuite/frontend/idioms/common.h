// SPDX-License-Identifier: Apache-2.0
// What the idioms share: checks as users write them, and the little of MPI that they use.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <nccl.h>

typedef int MPI_Comm;
typedef int MPI_Datatype;
#define MPI_COMM_WORLD 0
#define MPI_BYTE 1
#define MPI_INT 2
extern "C" {
int MPI_Init(int *, char ***);
int MPI_Comm_rank(MPI_Comm, int *);
int MPI_Comm_size(MPI_Comm, int *);
int MPI_Bcast(void *, int, MPI_Datatype, int, MPI_Comm);
int MPI_Alltoall(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm);
int MPI_Barrier(MPI_Comm);
}

#define CUDACHECK(cmd)                                                                             \
  do {                                                                                             \
    cudaError_t e = (cmd);                                                                         \
    if (e != cudaSuccess)                                                                          \
      exit(1);                                                                                     \
  } while (0)
#define NCCLCHECK(cmd)                                                                             \
  do {                                                                                             \
    ncclResult_t r = (cmd);                                                                        \
    if (r != ncclSuccess)                                                                          \
      exit(1);                                                                                     \
  } while (0)
