// SPDX-License-Identifier: Apache-2.0
/* Recognition tables: which callee is what. */
#include "frontend/internal.h"
#include <string.h>

#define HOST IR_ORIGIN_OTHER
static const struct fe_api table[] = {
#define COLL(id, nccl, ...) {nccl, FE_COLL, IR_COLL_##id, -1, -1, -1, -1},
#include "collectives.def"
#undef COLL
    {"ncclGroupStart", FE_GROUP_START, -1, -1, -1, -1, -1},
    {"ncclGroupEnd", FE_GROUP_END, -1, -1, -1, -1, -1},
    {"ncclCommInitRank", FE_COMM_CREATE, 0, 1, -1, -1, -1},
    {"ncclCommInitRankConfig", FE_COMM_CREATE, 0, 1, 1, -1, -1},
    {"ncclCommInitRankScalable", FE_COMM_CREATE, 0, 1, 1, -1, -1},
    {"ncclCommInitAll", FE_COMM_INIT_ALL, 0, 1, -1, -1, -1},
    {"ncclCommSplit", FE_COMM_SPLIT, 3, -1, -1, -1, -1},
    {"ncclCommShrink", FE_COMM_SPLIT, 3, -1, -1, -1, -1},
    {"ncclCommDestroy", FE_COMM_DESTROY, 0, -1, -1, -1, -1},
    {"ncclCommFinalize", FE_COMM_DESTROY, 0, -1, -1, -1, -1},
    {"ncclCommAbort", FE_COMM_DESTROY, 0, -1, -1, -1, -1},
    {"ncclCommGetAsyncError", FE_COMM_OTHER, 0, -1, -1, -1, -1},
    {"ncclCommRegister", FE_COMM_OTHER, 0, -1, -1, -1, -1},
    {"ncclCommDeregister", FE_COMM_OTHER, 0, -1, -1, -1, -1},
    {"ncclCommWindowRegister", FE_COMM_OTHER, 0, -1, -1, -1, -1},
    {"ncclCommWindowDeregister", FE_COMM_OTHER, 0, -1, -1, -1, -1},
    {"ncclDevCommCreate", FE_COMM_OTHER, 0, -1, -1, -1, -1},
    {"ncclRedOpCreatePreMulSum", FE_COMM_OTHER, 4, -1, -1, -1, -1},
    {"ncclRedOpDestroy", FE_COMM_OTHER, 1, -1, -1, -1, -1},
    {"ncclMemAlloc", FE_ALLOC, 0, 1, IR_ORIGIN_NCCL, -1, -1},
    {"ncclMemFree", FE_FREE, 0, -1, -1, -1, -1},
    {"cudaMalloc", FE_ALLOC, 0, 1, IR_ORIGIN_CUDA, -1, -1},
    {"cudaMallocManaged", FE_ALLOC, 0, 1, HOST, -1, -1},
    {"cudaMallocAsync", FE_ALLOC, 0, 1, HOST, -1, 2},
    {"cudaMallocHost", FE_ALLOC, 0, 1, IR_ORIGIN_HOST, -1, -1},
    {"cudaHostAlloc", FE_ALLOC, 0, 1, IR_ORIGIN_HOST, -1, -1},
    {"cudaMallocPitch", FE_ALLOC, 0, -1, HOST, -1, -1},
    {"cudaFree", FE_FREE, 0, -1, -1, -1, -1},
    {"cudaFreeHost", FE_FREE, 0, -1, -1, -1, -1},
    {"cudaFreeAsync", FE_FREE, 0, -1, -1, -1, 1},
    {"cudaMemcpy", FE_COPY, 0, 1, 2, 3, -1},
    {"cudaMemcpyAsync", FE_COPY, 0, 1, 2, 3, 4},
    {"cudaMemcpyPeer", FE_COPY, 0, 2, 4, -1, -1},
    {"cudaMemcpyPeerAsync", FE_COPY, 0, 2, 4, -1, 5},
    {"cudaMemcpy2D", FE_COPY, 0, 2, -1, 6, -1},
    {"cudaMemcpy2DAsync", FE_COPY, 0, 2, -1, 6, 7},
    {"cudaMemset", FE_MEMSET, 0, -1, 2, -1, -1},
    {"cudaMemsetAsync", FE_MEMSET, 0, -1, 2, -1, 3},
    {"cudaDeviceSynchronize", FE_SYNC_DEVICE, -1, -1, -1, -1, -1},
    {"cudaStreamSynchronize", FE_SYNC_STREAM, -1, -1, -1, -1, 0},
    {"cudaStreamQuery", FE_QUERY, -1, -1, -1, -1, 0},
    {"cudaEventQuery", FE_QUERY, 0, -1, -1, -1, -1},
    {"cudaEventRecord", FE_EVENT_RECORD, 0, -1, -1, -1, 1},
    {"cudaStreamWaitEvent", FE_EVENT_WAIT, 1, -1, -1, -1, 0},
    {"cudaEventSynchronize", FE_EVENT_HOST, 0, -1, -1, -1, -1},
    {"cudaStreamCreate", FE_STREAM_CREATE, 0, -1, -1, -1, -1},
    {"cudaStreamCreateWithFlags", FE_STREAM_CREATE, 0, 1, -1, -1, -1},
    {"cudaStreamCreateWithPriority", FE_STREAM_CREATE, 0, 1, -1, -1, -1},
    {"cudaStreamBeginCapture", FE_CAPTURE_BEGIN, -1, -1, -1, -1, 0},
    {"cudaStreamBeginCaptureToGraph", FE_CAPTURE_BEGIN, -1, -1, -1, -1, 0},
    {"cudaStreamEndCapture", FE_CAPTURE_END, -1, -1, -1, -1, 0},
    {"cudaSetDevice", FE_SET_DEVICE, 0, -1, -1, -1, -1},
    {"cudaIpcGetMemHandle", FE_IPC, -1, -1, -1, -1, -1},
    {"cudaIpcOpenMemHandle", FE_IPC, -1, -1, -1, -1, -1},
    {"cudaLaunchKernel", FE_LAUNCH, 0, -1, -1, -1, 5},
    {"cudaLaunchCooperativeKernel", FE_LAUNCH, 0, -1, -1, -1, 5},
    {"cudaLaunchHostFunc", FE_HOST_FUNC, -1, -1, -1, -1, 0},
    {"cudaStreamAddCallback", FE_HOST_FUNC, -1, -1, -1, -1, 0},
    {"cublasSetStream", FE_CUBLAS_STREAM, 0, -1, -1, -1, 1},
    {"cublasSetStream_v2", FE_CUBLAS_STREAM, 0, -1, -1, -1, 1},
    {"cublasSgemm", FE_CUBLAS, 7, 9, 12, -1, 0},
    {"cublasDgemm", FE_CUBLAS, 7, 9, 12, -1, 0},
    {"cublasHgemm", FE_CUBLAS, 7, 9, 12, -1, 0},
    {"cublasSgemm_v2", FE_CUBLAS, 7, 9, 12, -1, 0},
    {"cublasDgemm_v2", FE_CUBLAS, 7, 9, 12, -1, 0},
    {"cublasCgemm_v2", FE_CUBLAS, 7, 9, 12, -1, 0},
    {"cublasZgemm_v2", FE_CUBLAS, 7, 9, 12, -1, 0},
    {"cublasGemmEx", FE_CUBLAS, 7, 10, 14, -1, 0},
    {"cublasSgemmEx", FE_CUBLAS, 7, 10, 14, -1, 0},
    {"cublasSgemmStridedBatched", FE_CUBLAS, 7, 10, 14, -1, 0},
    {"cublasDgemmStridedBatched", FE_CUBLAS, 7, 10, 14, -1, 0},
    {"cublasHgemmStridedBatched", FE_CUBLAS, 7, 10, 14, -1, 0},
    {"cublasGemmStridedBatchedEx", FE_CUBLAS, 7, 11, 16, -1, 0},
    {"cublasSgemv_v2", FE_CUBLAS, 5, 7, 10, -1, 0},
    {"cublasDgemv_v2", FE_CUBLAS, 5, 7, 10, -1, 0},
    {"cublasSaxpy_v2", FE_CUBLAS, 3, -1, 5, -1, 0},
    {"cublasDaxpy_v2", FE_CUBLAS, 3, -1, 5, -1, 0},
    {"cublasLtMatmul", FE_CUBLAS, 3, 5, 10, 8, 15},
    {"MPI_Init", FE_MPI, -1, -1, -1, -1, -1},
    {"MPI_Init_thread", FE_MPI, -1, -1, -1, -1, -1},
    {"MPI_Comm_rank", FE_RANK, 1, -1, -1, -1, -1},
    {"ncclCommUserRank", FE_RANK, 1, -1, -1, -1, -1},
    {"ncclCommCuDevice", FE_RANK, 1, -1, -1, -1, -1},
    {"cudaGetDevice", FE_RANK, 0, -1, -1, -1, -1},
    {"gethostname", FE_RANK, 0, -1, -1, -1, -1},
    {"MPI_Get_processor_name", FE_RANK, 0, -1, -1, -1, -1},
    {"cudaMemGetInfo", FE_RANK, 0, 1, -1, -1, -1},
    {"MPI_Recv", FE_RANK, 0, -1, -1, -1, -1},
    {"MPI_Irecv", FE_RANK, 0, -1, -1, -1, -1},
    {"MPI_Sendrecv", FE_RANK, 5, -1, -1, -1, -1},
    {"MPI_Scatter", FE_RANK, 3, -1, -1, -1, -1},
    {"MPI_Alltoall", FE_RANK, 3, -1, -1, -1, -1},
    {"MPI_Reduce", FE_RANK, 1, -1, -1, -1, -1},
    {"MPI_Barrier", FE_MPI_SYNC, -1, -1, -1, -1, -1},
    {"MPI_Allreduce", FE_MPI_SYNC, 1, -1, -1, -1, -1},
    {"MPI_Bcast", FE_MPI_SYNC, 0, -1, -1, -1, -1},
    {"MPI_Wait", FE_MPI_SYNC, -1, -1, -1, -1, -1},
    {"MPI_Waitall", FE_MPI_SYNC, -1, -1, -1, -1, -1},
    {"MPI_Allgather", FE_MPI_SYNC, 3, -1, -1, -1, -1},
    {"pthread_create", FE_THREAD, 2, 3, -1, -1, -1},
    {"pthread_join", FE_THREAD_SYNC, -1, -1, -1, -1, -1},
    {"pthread_barrier_wait", FE_THREAD_SYNC, -1, -1, -1, -1, -1},
};

const struct fe_api *fe_api_find(const char *name) {
  if (name[0] != 'n' && name[0] != 'c' && name[0] != 'M' && name[0] != 'p' && name[0] != 'g')
    return NULL;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, name))
      return &table[i];
  return NULL;
}

bool fe_api_known(const char *name) {
  return !strncmp(name, "nccl", 4) || !strncmp(name, "cuda", 4) || !strncmp(name, "cublas", 6) ||
         !strncmp(name, "MPI_", 4) || !strncmp(name, "cudnn", 5) || !strncmp(name, "curand", 6);
}

bool fe_api_pure(const char *name) {
  static const char *const pure[] = {
      "atoi",       "atol",          "atoll",      "atof",         "strtol",     "strtoul",
      "strtoull",   "strtoll",       "strtod",     "strtof",       "stoi",       "stol",
      "stoul",      "stoull",        "stod",       "stof",         "min",        "max",
      "abs",        "labs",          "fabs",       "sqrt",         "sqrtf",      "ceil",
      "ceilf",      "floor",         "log2",       "pow",          "exp",        "log",
      "round",      "strcmp",        "strncmp",    "strlen",       "strstr",     "strchr",
      "getopt",     "getopt_long",   "malloc",     "calloc",       "printf",     "fprintf",
      "move",       "make_pair",     "operator+",  "operator-",    "operator*",  "operator/",
      "operator%",  "operator[]",    "operator<",  "operator>",    "operator<=", "operator>=",
      "operator==", "operator!=",    "operator!",  "operator&&",   "operator||", "operator->",
      "operator<<", "size",          "at",         "data",         "begin",      "end",
      "empty",      "front",         "back",       "c_str",        "length",     "get",
      "string",     "vector",        "dim3",       "free",         "swap",       "lcm",
      "gcd",        "snprintf",      "sscanf",     "puts",         "strdup",     "memcpy",
      "memset",     "resize",        "reserve",    "push_back",    "assign",     "emplace_back",
      "operator=",  "operator bool", "operator++", "exit",         "abort",      "fflush",
      "clamp",      "isalpha",       "isdigit",    "__assert_fail"};
  for (size_t i = 0; i < sizeof pure / sizeof *pure; i++)
    if (!strcmp(pure[i], name))
      return true;
  return false;
}

size_t fe_type_size(const char *t) {
  static const struct {
    const char *name;
    size_t size;
  } sizes[] = {{"ncclInt8", 1},      {"ncclChar", 1},   {"ncclUint8", 1},    {"ncclInt32", 4},
               {"ncclInt", 4},       {"ncclUint32", 4}, {"ncclInt64", 8},    {"ncclUint64", 8},
               {"ncclFloat16", 2},   {"ncclHalf", 2},   {"ncclFloat32", 4},  {"ncclFloat", 4},
               {"ncclFloat64", 8},   {"ncclDouble", 8}, {"ncclBfloat16", 2}, {"ncclFloat8e4m3", 1},
               {"ncclFloat8e5m2", 1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (!strcmp(sizes[i].name, t))
      return sizes[i].size;
  return 0;
}
