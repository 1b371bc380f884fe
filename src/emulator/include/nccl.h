// SPDX-License-Identifier: Apache-2.0
/* NCCL's host interface on emulated ranks: the names, values and signatures of NCCL 2.28, and with
 * -DCUCOCC_EMU_NCCL=230xx those that 2.29 and 2.30 added. Collectives are operations of their
 * stream: they complete when every rank of the communicator has arrived, and reduce in rank order.
 * Mismatches between ranks are findings. */
#ifndef NCCL_H_
#define NCCL_H_

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <limits.h>
#include <stddef.h>

#ifndef CUCOCC_EMU_NCCL
#define CUCOCC_EMU_NCCL 22809
#endif
#if CUCOCC_EMU_NCCL < 22807
#error "the emulated NCCL is 2.28.7 or later"
#endif

#define NCCL_MAJOR (CUCOCC_EMU_NCCL / 10000)
#define NCCL_MINOR (CUCOCC_EMU_NCCL / 100 % 100)
#define NCCL_PATCH (CUCOCC_EMU_NCCL % 100)
#define NCCL_SUFFIX ""
/* Releases up to 2.8 were numbered with one digit less. */
#define NCCL_VERSION(x, y, z)                                                                      \
  ((x) <= 2 && (y) <= 8 ? (x)*1000 + (y)*100 + (z) : (x)*10000 + (y)*100 + (z))
/* A plain number, so that programs can use it in #if. */
#define NCCL_VERSION_CODE CUCOCC_EMU_NCCL

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess,
  ncclUnhandledCudaError,
  ncclSystemError,
  ncclInternalError,
  ncclInvalidArgument,
  ncclInvalidUsage,
  ncclRemoteError,
  ncclInProgress,
  ncclNumResults
} ncclResult_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

/* Accepted and ignored, but for blocking (0: calls return ncclInProgress) and splitShare. */
typedef struct ncclConfig_v22800 {
  size_t size;
  unsigned int magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char *netName;
  int splitShare, trafficClass;
  const char *commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs, nChannelsPerNetPeer, nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
  {                                                                                                \
    sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT,                    \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                       \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                       \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                       \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT \
  }

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
  ncclSum,
  ncclProd,
  ncclMax,
  ncclMin,
  ncclAvg,
  ncclNumOps,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclScalarDevice, ncclScalarHostImmediate } ncclScalarResidence_t;

#ifdef __cplusplus
extern "C" {
#endif

/* Each function under its own name and, as in NCCL, under the profiling name with a p before it. */
#define EMU_NCCL_CALL(result, name, arguments)                                                     \
  result name arguments;                                                                           \
  result p##name arguments

EMU_NCCL_CALL(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size));
EMU_NCCL_CALL(ncclResult_t, ncclMemFree, (void *ptr));
EMU_NCCL_CALL(ncclResult_t, ncclGetVersion, (int *version));
EMU_NCCL_CALL(const char *, ncclGetErrorString, (ncclResult_t result));
EMU_NCCL_CALL(const char *, ncclGetLastError, (ncclComm_t comm));

EMU_NCCL_CALL(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id));
EMU_NCCL_CALL(ncclResult_t, ncclCommInitRank, (ncclComm_t *, int nranks, ncclUniqueId, int rank));
EMU_NCCL_CALL(ncclResult_t, ncclCommInitRankConfig,
              (ncclComm_t *, int nranks, ncclUniqueId, int rank, ncclConfig_t *));
EMU_NCCL_CALL(ncclResult_t, ncclCommInitRankScalable,
              (ncclComm_t *, int nranks, int rank, int nids, ncclUniqueId *, ncclConfig_t *));
EMU_NCCL_CALL(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int ndev, const int *devices));
EMU_NCCL_CALL(ncclResult_t, ncclCommSplit,
              (ncclComm_t, int color, int key, ncclComm_t *newcomm, ncclConfig_t *));
EMU_NCCL_CALL(ncclResult_t, ncclCommFinalize, (ncclComm_t));
EMU_NCCL_CALL(ncclResult_t, ncclCommDestroy, (ncclComm_t));
EMU_NCCL_CALL(ncclResult_t, ncclCommAbort, (ncclComm_t));
EMU_NCCL_CALL(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t, ncclResult_t *error));
EMU_NCCL_CALL(ncclResult_t, ncclCommCount, (const ncclComm_t, int *count));
EMU_NCCL_CALL(ncclResult_t, ncclCommCuDevice, (const ncclComm_t, int *device));
EMU_NCCL_CALL(ncclResult_t, ncclCommUserRank, (const ncclComm_t, int *rank));

EMU_NCCL_CALL(ncclResult_t, ncclCommRegister, (const ncclComm_t, void *, size_t, void **handle));
EMU_NCCL_CALL(ncclResult_t, ncclCommDeregister, (const ncclComm_t, void *handle));
EMU_NCCL_CALL(ncclResult_t, ncclCommWindowRegister,
              (ncclComm_t, void *, size_t, ncclWindow_t *, int flags));
EMU_NCCL_CALL(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t, ncclWindow_t));

EMU_NCCL_CALL(ncclResult_t, ncclRedOpCreatePreMulSum,
              (ncclRedOp_t *, void *scalar, ncclDataType_t, ncclScalarResidence_t, ncclComm_t));
EMU_NCCL_CALL(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t, ncclComm_t));

EMU_NCCL_CALL(ncclResult_t, ncclReduce,
              (const void *send, void *recv, size_t count, ncclDataType_t, ncclRedOp_t, int root,
               ncclComm_t, cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclBcast,
              (void *buffer, size_t count, ncclDataType_t, int root, ncclComm_t, cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclBroadcast,
              (const void *send, void *recv, size_t count, ncclDataType_t, int root, ncclComm_t,
               cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclAllReduce,
              (const void *send, void *recv, size_t count, ncclDataType_t, ncclRedOp_t, ncclComm_t,
               cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclReduceScatter,
              (const void *send, void *recv, size_t recvcount, ncclDataType_t, ncclRedOp_t,
               ncclComm_t, cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclAllGather,
              (const void *send, void *recv, size_t sendcount, ncclDataType_t, ncclComm_t,
               cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclAlltoAll,
              (const void *send, void *recv, size_t count, ncclDataType_t, ncclComm_t,
               cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclGather,
              (const void *send, void *recv, size_t count, ncclDataType_t, int root, ncclComm_t,
               cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclScatter,
              (const void *send, void *recv, size_t count, ncclDataType_t, int root, ncclComm_t,
               cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclSend,
              (const void *send, size_t count, ncclDataType_t, int peer, ncclComm_t, cudaStream_t));
EMU_NCCL_CALL(ncclResult_t, ncclRecv,
              (void *recv, size_t count, ncclDataType_t, int peer, ncclComm_t, cudaStream_t));

EMU_NCCL_CALL(ncclResult_t, ncclGroupStart, (void));
EMU_NCCL_CALL(ncclResult_t, ncclGroupEnd, (void));

#undef EMU_NCCL_CALL
#ifdef __cplusplus
}
#endif

#endif
