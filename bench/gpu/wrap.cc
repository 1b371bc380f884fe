// SPDX-License-Identifier: Apache-2.0
//
// What the benchmark puts between a program and its libraries, at link time (ld --wrap), so that
// the program itself stays as its author wrote it and cannot time or check itself in another way
// than the others do. bench/run.py lists the wrapped symbols in WRAPPED.
//
// The timed region is what lies between an MPI_Barrier and the next MPI_Allreduce(MPI_MAX) of one
// number, the region's time on this rank in milliseconds; in programs without MPI, between two
// calls of std::chrono::steady_clock::now() of one thread. From the environment:
//
//   CUCOCC_BENCH_OUT    where the records go: one JSON object a process, in OUT.<rank>
//   CUCOCC_BENCH_ONLY   "compute": NCCL's collectives, sends and receives inside the region do
//   nothing
//                       "comm": kernels and cuBLAS calls inside the region do nothing, except
//                       emitted ones (their names contain "cucocc")
//   CUCOCC_BENCH_KEEP   names, divided by commas, of NCCL calls and kernels that are never left out
//   CUCOCC_BENCH_FLUSH  bytes written to device memory before each region, so that it begins with a
//   cold L2
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

typedef struct CUkern_st *Kernel;

namespace {

struct Records {
  std::vector<double> mine, most; // milliseconds: of this rank, and the maximum over all
};

struct Bench {
  std::mutex lock;
  std::map<const void *, std::string> host_names; // host stub -> mangled name
  std::map<const void *, bool> left_out;          // kernel handle or host stub -> decision
  std::map<const void *, const void *> stub_of;   // kernel handle -> host stub
  std::vector<Records *> records;                 // one a thread
  bool compute_only = false, comm_only = false;
  std::string keep;
  size_t flush_bytes = 0, peak = 0;
  void *flush_buffer = nullptr;
  long skipped_kernels = 0, skipped_calls = 0, kept_kernels = 0, kept_calls = 0;
  int rank = 0;
  bool written = false;

  Bench() {
    const char *only = getenv("CUCOCC_BENCH_ONLY"), *names = getenv("CUCOCC_BENCH_KEEP"),
               *flush = getenv("CUCOCC_BENCH_FLUSH");
    compute_only = only && !strcmp(only, "compute");
    comm_only = only && !strcmp(only, "comm");
    keep = names ? "," + std::string(names) + "," : "";
    flush_bytes = flush ? strtoull(flush, nullptr, 0) : 0;
  }
  void write();
};

Bench &bench() {
  static Bench &b =
      *new Bench; // lives on: kernels are registered before main and times written after
  return b;
}

thread_local bool armed = false;
thread_local Records *my_records = nullptr;

Records &records() {
  if (!my_records) {
    my_records = new Records;
    std::lock_guard<std::mutex> g(bench().lock);
    bench().records.push_back(my_records);
  }
  return *my_records;
}

void Bench::write() {
  std::lock_guard<std::mutex> g(lock);
  const char *out = getenv("CUCOCC_BENCH_OUT");
  if (!out || written)
    return;
  written = true;
  FILE *f = fopen((std::string(out) + "." + std::to_string(rank)).c_str(), "w");
  if (!f)
    return;
  fprintf(f,
          "{\"rank\": %d, \"peak_bytes\": %zu, \"skipped_kernels\": %ld, \"skipped_calls\": %ld, "
          "\"kept_kernels\": %ld, \"kept_calls\": %ld, \"threads\": [",
          rank, peak, skipped_kernels, skipped_calls, kept_kernels, kept_calls);
  for (size_t t = 0; t < records.size(); t++) {
    fprintf(f, "%s{\"mine\": [", t ? ", " : "");
    for (size_t i = 0; i < records[t]->mine.size(); i++)
      fprintf(f, "%s%.6g", i ? ", " : "", records[t]->mine[i]);
    fprintf(f, "], \"max\": [");
    for (size_t i = 0; i < records[t]->most.size(); i++)
      fprintf(f, "%s%.6g", i ? ", " : "", records[t]->most[i]);
    fprintf(f, "]}");
  }
  fprintf(f, "]}\n");
  fclose(f);
}

// Is NAME (a call, or a mangled kernel name, which contains the name with its length) one to keep?
bool kept(const std::string &name, bool mangled) {
  const std::string &k = bench().keep;
  for (size_t at = 1; at < k.size();) {
    const size_t end = k.find(',', at);
    const std::string one = k.substr(at, end - at);
    if (!one.empty() &&
        (mangled ? name.find(std::to_string(one.size()) + one) != std::string::npos : name == one))
      return true;
    at = end + 1;
  }
  return false;
}

bool leave_out_call(const char *name) {
  Bench &b = bench();
  if (!armed || !b.compute_only)
    return false;
  const bool keep = kept(name, false);
  std::lock_guard<std::mutex> g(b.lock);
  (keep ? b.kept_calls : b.skipped_calls)++;
  return !keep;
}

bool leave_out_kernel(const void *kernel) {
  Bench &b = bench();
  if (!armed || !b.comm_only)
    return false;
  std::lock_guard<std::mutex> g(b.lock);
  auto it = b.left_out.find(kernel);
  if (it == b.left_out.end()) {
    auto stub = b.stub_of.find(kernel);
    auto name = b.host_names.find(stub == b.stub_of.end() ? kernel : stub->second);
    const bool known = name != b.host_names.end();
    const bool out =
        known && name->second.find("cucocc") == std::string::npos && !kept(name->second, true);
    it = b.left_out.insert({kernel, out}).first;
  }
  (it->second ? b.skipped_kernels : b.kept_kernels)++;
  return it->second;
}

void before_region() {
  Bench &b = bench();
  if (b.flush_bytes) {
    if (!b.flush_buffer && cudaMalloc(&b.flush_buffer, b.flush_bytes) != cudaSuccess)
      b.flush_bytes = 0;
    if (b.flush_bytes)
      cudaMemset(b.flush_buffer, 0x5a, b.flush_bytes);
    cudaDeviceSynchronize();
  }
  size_t left = 0, total = 0;
  if (cudaMemGetInfo(&left, &total) == cudaSuccess) {
    const size_t used = total - left - (b.flush_buffer ? b.flush_bytes : 0);
    if (used > b.peak)
      b.peak = used;
  }
}

} // namespace

extern "C" {

// ---- MPI
// ------------------------------------------------------------------------------------------------

int __real_MPI_Barrier(MPI_Comm comm);
int __wrap_MPI_Barrier(MPI_Comm comm) {
  before_region();
  armed = true;
  return __real_MPI_Barrier(comm);
}

int __real_MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm);
int __wrap_MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm) {
  const bool time = count == 1 && op == MPI_MAX && (type == MPI_DOUBLE || type == MPI_FLOAT);
  if (!time)
    return __real_MPI_Allreduce(in, out, count, type, op, comm);
  armed = false;
  auto number = [&](const void *p) {
    return type == MPI_DOUBLE ? *(const double *)p : *(const float *)p;
  };
  records().mine.push_back(number(in == MPI_IN_PLACE ? out : in));
  const int r = __real_MPI_Allreduce(in, out, count, type, op, comm);
  records().most.push_back(number(out));
  return r;
}

int __real_MPI_Finalize(void);
int __wrap_MPI_Finalize(void) {
  MPI_Comm_rank(MPI_COMM_WORLD, &bench().rank);
  bench().write();
  return __real_MPI_Finalize();
}

// ---- programs without MPI
// -------------------------------------------------------------------------------

std::chrono::steady_clock::time_point __real__ZNSt6chrono3_V212steady_clock3nowEv(void);
std::chrono::steady_clock::time_point __wrap__ZNSt6chrono3_V212steady_clock3nowEv(void) {
  static thread_local std::chrono::steady_clock::time_point begin;
  auto now = __real__ZNSt6chrono3_V212steady_clock3nowEv();
  armed = !armed;
  if (armed) {
    begin = now;
    return now;
  }
  records().mine.push_back(std::chrono::duration<double, std::milli>(now - begin).count());
  return now;
}

// ---- CUDA
// -----------------------------------------------------------------------------------------------

void __real___cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                   int limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid,
                                   int *warp);
void __wrap___cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                   int limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid,
                                   int *warp) {
  {
    std::lock_guard<std::mutex> g(bench().lock);
    bench().host_names[host] = name;
  }
  __real___cudaRegisterFunction(handle, host, device, name, limit, tid, bid, block, grid, warp);
}

cudaError_t __real___cudaGetKernel(Kernel *kernel, const void *host);
cudaError_t __wrap___cudaGetKernel(Kernel *kernel, const void *host) {
  const cudaError_t e = __real___cudaGetKernel(kernel, host);
  std::lock_guard<std::mutex> g(bench().lock);
  if (e == cudaSuccess)
    bench().stub_of[*kernel] = host;
  return e;
}

cudaError_t __real___cudaLaunchKernel(Kernel kernel, dim3 grid, dim3 block, void **args,
                                      size_t shared, cudaStream_t stream);
cudaError_t __wrap___cudaLaunchKernel(Kernel kernel, dim3 grid, dim3 block, void **args,
                                      size_t shared, cudaStream_t stream) {
  if (leave_out_kernel(kernel))
    return cudaSuccess;
  return __real___cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

cublasStatus_t __real_cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                   int m, int n, int k, const void *alpha, const void *a,
                                   cudaDataType at, int lda, const void *b, cudaDataType bt,
                                   int ldb, const void *beta, void *c, cudaDataType ct, int ldc,
                                   cublasComputeType_t compute, cublasGemmAlgo_t algo);
cublasStatus_t __wrap_cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                   int m, int n, int k, const void *alpha, const void *a,
                                   cudaDataType at, int lda, const void *b, cudaDataType bt,
                                   int ldb, const void *beta, void *c, cudaDataType ct, int ldc,
                                   cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  if (armed && bench().comm_only) {
    std::lock_guard<std::mutex> g(bench().lock);
    bench().skipped_kernels++;
    return CUBLAS_STATUS_SUCCESS;
  }
  return __real_cublasGemmEx(h, ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc,
                             compute, algo);
}

// ---- NCCL
// -----------------------------------------------------------------------------------------------

#define NCCL_CALL(name, parameters, arguments)                                                     \
  ncclResult_t __real_##name parameters;                                                           \
  ncclResult_t __wrap_##name parameters {                                                          \
    return leave_out_call(#name) ? ncclSuccess : __real_##name arguments;                          \
  }

NCCL_CALL(ncclAllReduce,
          (const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o, ncclComm_t c,
           cudaStream_t q),
          (s, r, n, t, o, c, q))
NCCL_CALL(ncclReduceScatter,
          (const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o, ncclComm_t c,
           cudaStream_t q),
          (s, r, n, t, o, c, q))
NCCL_CALL(ncclReduce,
          (const void *s, void *r, size_t n, ncclDataType_t t, ncclRedOp_t o, int root,
           ncclComm_t c, cudaStream_t q),
          (s, r, n, t, o, root, c, q))
NCCL_CALL(ncclAllGather,
          (const void *s, void *r, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t q),
          (s, r, n, t, c, q))
NCCL_CALL(ncclAlltoAll,
          (const void *s, void *r, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t q),
          (s, r, n, t, c, q))
NCCL_CALL(ncclBroadcast,
          (const void *s, void *r, size_t n, ncclDataType_t t, int root, ncclComm_t c,
           cudaStream_t q),
          (s, r, n, t, root, c, q))
NCCL_CALL(ncclBcast, (void *b, size_t n, ncclDataType_t t, int root, ncclComm_t c, cudaStream_t q),
          (b, n, t, root, c, q))
NCCL_CALL(ncclGather,
          (const void *s, void *r, size_t n, ncclDataType_t t, int root, ncclComm_t c,
           cudaStream_t q),
          (s, r, n, t, root, c, q))
NCCL_CALL(ncclScatter,
          (const void *s, void *r, size_t n, ncclDataType_t t, int root, ncclComm_t c,
           cudaStream_t q),
          (s, r, n, t, root, c, q))
NCCL_CALL(ncclSend,
          (const void *b, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t q),
          (b, n, t, peer, c, q))
NCCL_CALL(ncclRecv, (void *b, size_t n, ncclDataType_t t, int peer, ncclComm_t c, cudaStream_t q),
          (b, n, t, peer, c, q))
}

namespace {
struct AtExit {
  ~AtExit() { bench().write(); }
} at_exit; // for programs without MPI
} // namespace
