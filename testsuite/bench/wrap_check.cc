// SPDX-License-Identifier: Apache-2.0
// bench/gpu/wrap.cc without a GPU: this program stands for an example (its calls are wrapped by the
// linker), wrap_libraries.cc for the libraries, which count what reaches them.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>

typedef struct CUkern_st *Kernel;
extern "C" {
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *, dim3 *,
                            dim3 *, int *);
cudaError_t __cudaGetKernel(Kernel *, const void *);
cudaError_t __cudaLaunchKernel(Kernel, dim3, dim3, void **, size_t, cudaStream_t);
}
extern int launched[3], gathered, reduced;

static char stub[3];
static int failures;
static void expect(bool ok, const char *what) {
  if (!ok) {
    printf("wrong: %s\n", what);
    failures++;
  }
}

int main(int, char **argv) {
  const std::string only = argv[1];
  const char *names[] = {"_Z4gemmPKfS0_Pfiii", "_Z12count_tokensPKiPiS1_i", "_ZN6cucocc8region_16kernelE"};
  Kernel k[3];
  for (int i = 0; i < 3; i++) {
    __cudaRegisterFunction(nullptr, &stub[i], nullptr, names[i], 0, nullptr, nullptr, nullptr, nullptr, nullptr);
    __cudaGetKernel(&k[i], &stub[i]);
  }
  auto work = [&] {
    for (int i = 0; i < 3; i++)
      __cudaLaunchKernel(k[i], dim3(1), dim3(1), nullptr, 0, nullptr);
    ncclAllGather(nullptr, nullptr, 1, ncclInt, nullptr, nullptr);
    ncclAllReduce(nullptr, nullptr, 1, ncclInt, ncclSum, nullptr, nullptr);
  };
  work(); // set-up: everything happens
  expect(launched[0] == 1 && launched[1] == 1 && launched[2] == 1 && gathered == 1 && reduced == 1, "set-up");
  for (int i = 0; i < 3; i++) {
    MPI_Barrier(MPI_COMM_WORLD);
    work();
    double ms = 1.5 + i;
    MPI_Allreduce(MPI_IN_PLACE, &ms, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    expect(ms == 101.5 + i, "the maximum reaches the program");
    work(); // the comparison: everything happens
    long wrong = 0;
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  }
  const int all = 7, some = 4;
  expect(launched[0] == (only == "comm" ? some : all), "gemm");
  expect(launched[1] == all, "count_tokens is kept");
  expect(launched[2] == all, "emitted kernels are communication");
  expect(reduced == (only == "compute" ? some : all), "AllReduce");
  expect(gathered == all, "AllGather is kept");
  MPI_Finalize();
  return failures != 0;
}
