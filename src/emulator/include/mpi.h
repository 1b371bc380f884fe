// SPDX-License-Identifier: Apache-2.0
/* MPI for emulated programs: ranks are processes of the emulator, and a deadlock of MPI calls is one that
 * it reports. The part of MPI 3 that programs with one device per rank use. */
#ifndef CUCOCC_EMULATOR_MPI_H
#define CUCOCC_EMULATOR_MPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MPI_VERSION 3
#define MPI_SUBVERSION 1

typedef struct EmuMpiComm *MPI_Comm;
typedef struct EmuMpiRequest *MPI_Request;
typedef struct EmuMpiMessage *MPI_Message;
typedef int MPI_Datatype;
typedef int MPI_Op;
typedef int MPI_Info;
typedef int MPI_Errhandler;
typedef int MPI_Fint;
typedef ptrdiff_t MPI_Aint;
typedef long long MPI_Offset, MPI_Count;
typedef struct MPI_Status {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
  size_t emu_bytes;
} MPI_Status;
typedef void MPI_User_function(void *in, void *inout, int *count, MPI_Datatype *type);
typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);

#define MPI_COMM_NULL ((MPI_Comm)0)
#define MPI_COMM_WORLD ((MPI_Comm)1)
#define MPI_COMM_SELF ((MPI_Comm)2)
#define MPI_REQUEST_NULL ((MPI_Request)0)
#define MPI_MESSAGE_NULL ((MPI_Message)0)
#define MPI_INFO_NULL 0
#define MPI_IN_PLACE ((void *)-1)
#define MPI_BOTTOM ((void *)0)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)
#define MPI_ERRCODES_IGNORE ((int *)0)

#define MPI_ANY_SOURCE (-1)
#define MPI_ANY_TAG (-1)
#define MPI_PROC_NULL (-2)
#define MPI_ROOT (-3)
#define MPI_UNDEFINED (-32766)
#define MPI_TAG_UB 1
#define MPI_COMM_TYPE_SHARED 1
#define MPI_MAX_PROCESSOR_NAME 128
#define MPI_MAX_ERROR_STRING 256
#define MPI_MAX_LIBRARY_VERSION_STRING 256
#define MPI_MAX_OBJECT_NAME 128
#define MPI_THREAD_SINGLE 0
#define MPI_THREAD_FUNNELED 1
#define MPI_THREAD_SERIALIZED 2
#define MPI_THREAD_MULTIPLE 3
#define MPI_IDENT 0
#define MPI_CONGRUENT 1
#define MPI_SIMILAR 2
#define MPI_UNEQUAL 3
#define MPI_ERRHANDLER_NULL 0
#define MPI_ERRORS_ARE_FATAL 1
#define MPI_ERRORS_RETURN 2
#define MPI_SUCCESS 0
#define MPI_ERR_BUFFER 1
#define MPI_ERR_COUNT 2
#define MPI_ERR_TYPE 3
#define MPI_ERR_TAG 4
#define MPI_ERR_COMM 5
#define MPI_ERR_RANK 6
#define MPI_ERR_ROOT 7
#define MPI_ERR_OP 8
#define MPI_ERR_ARG 9
#define MPI_ERR_TRUNCATE 10
#define MPI_ERR_OTHER 11
#define MPI_ERR_IN_STATUS 12
#define MPI_ERR_REQUEST 13
#define MPI_ERR_LASTCODE 14
#define MPI_DATATYPE_NULL 0
#define MPI_CHAR 1
#define MPI_SIGNED_CHAR 2
#define MPI_UNSIGNED_CHAR 3
#define MPI_BYTE 4
#define MPI_PACKED 5
#define MPI_WCHAR 6
#define MPI_SHORT 7
#define MPI_UNSIGNED_SHORT 8
#define MPI_INT 9
#define MPI_UNSIGNED 10
#define MPI_LONG 11
#define MPI_UNSIGNED_LONG 12
#define MPI_LONG_LONG_INT 13
#define MPI_UNSIGNED_LONG_LONG 14
#define MPI_FLOAT 15
#define MPI_DOUBLE 16
#define MPI_LONG_DOUBLE 17
#define MPI_INT8_T 18
#define MPI_INT16_T 19
#define MPI_INT32_T 20
#define MPI_INT64_T 21
#define MPI_UINT8_T 22
#define MPI_UINT16_T 23
#define MPI_UINT32_T 24
#define MPI_UINT64_T 25
#define MPI_C_BOOL 26
#define MPI_CXX_BOOL 27
#define MPI_AINT 28
#define MPI_OFFSET 29
#define MPI_COUNT 30
#define MPI_2INT 31
#define MPI_FLOAT_INT 32
#define MPI_DOUBLE_INT 33
#define MPI_LONG_INT 34
#define EMU_MPI_TYPES 35
#define MPI_LONG_LONG MPI_LONG_LONG_INT
#define MPI_C_BYTE MPI_BYTE
#define MPI_OP_NULL 0
#define MPI_MAX 1
#define MPI_MIN 2
#define MPI_SUM 3
#define MPI_PROD 4
#define MPI_LAND 5
#define MPI_BAND 6
#define MPI_LOR 7
#define MPI_BOR 8
#define MPI_LXOR 9
#define MPI_BXOR 10
#define MPI_MAXLOC 11
#define MPI_MINLOC 12
#define MPI_REPLACE 13
#define MPI_NO_OP 14
#define EMU_MPI_OPS 15

int MPI_Init(int *argc, char ***argv);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Initialized(int *flag);
int MPI_Finalize(void);
int MPI_Finalized(int *flag);
int MPI_Query_thread(int *provided);
int MPI_Is_thread_main(int *flag);
int MPI_Abort(MPI_Comm comm, int code) __attribute__((noreturn));
double MPI_Wtime(void);
double MPI_Wtick(void);
int MPI_Get_processor_name(char *name, int *length);
int MPI_Get_version(int *version, int *subversion);
int MPI_Get_library_version(char *version, int *length);
int MPI_Error_string(int code, char *string, int *length);
int MPI_Error_class(int code, int *cls);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function *f, MPI_Errhandler *handler);
int MPI_Errhandler_free(MPI_Errhandler *handler);
int MPI_Info_create(MPI_Info *info);
int MPI_Info_set(MPI_Info info, const char *key, const char *value);
int MPI_Info_free(MPI_Info *info);

int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out);
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *result);
int MPI_Comm_set_name(MPI_Comm comm, const char *name);

int MPI_Type_size(MPI_Datatype type, int *size);
int MPI_Type_contiguous(int count, MPI_Datatype old, MPI_Datatype *out);
int MPI_Type_commit(MPI_Datatype *type);
int MPI_Type_free(MPI_Datatype *type);
int MPI_Op_create(MPI_User_function *f, int commute, MPI_Op *op);
int MPI_Op_free(MPI_Op *op);

int MPI_Barrier(MPI_Comm comm);
int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Gather(const void *send, int n, MPI_Datatype st, void *recv, int m, MPI_Datatype rt, int root,
               MPI_Comm comm);
int MPI_Gatherv(const void *send, int n, MPI_Datatype st, void *recv, const int *counts, const int *displs,
                MPI_Datatype rt, int root, MPI_Comm comm);
int MPI_Scatter(const void *send, int n, MPI_Datatype st, void *recv, int m, MPI_Datatype rt, int root,
                MPI_Comm comm);
int MPI_Scatterv(const void *send, const int *counts, const int *displs, MPI_Datatype st, void *recv, int m,
                 MPI_Datatype rt, int root, MPI_Comm comm);
int MPI_Allgather(const void *send, int n, MPI_Datatype st, void *recv, int m, MPI_Datatype rt,
                  MPI_Comm comm);
int MPI_Allgatherv(const void *send, int n, MPI_Datatype st, void *recv, const int *counts,
                   const int *displs, MPI_Datatype rt, MPI_Comm comm);
int MPI_Alltoall(const void *send, int n, MPI_Datatype st, void *recv, int m, MPI_Datatype rt,
                 MPI_Comm comm);
int MPI_Alltoallv(const void *send, const int *scounts, const int *sdispls, MPI_Datatype st, void *recv,
                  const int *rcounts, const int *rdispls, MPI_Datatype rt, MPI_Comm comm);
int MPI_Reduce(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm);
int MPI_Allreduce(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Reduce_scatter(const void *send, void *recv, const int *counts, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm);
int MPI_Reduce_scatter_block(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm);
int MPI_Scan(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Exscan(const void *send, void *recv, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm);

int MPI_Send(const void *buffer, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
int MPI_Ssend(const void *buffer, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
int MPI_Rsend(const void *buffer, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
int MPI_Isend(const void *buffer, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Recv(void *buffer, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status);
int MPI_Irecv(void *buffer, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request);
int MPI_Sendrecv(const void *send, int n, MPI_Datatype st, int dest, int stag, void *recv, int m,
                 MPI_Datatype rt, int source, int rtag, MPI_Comm comm, MPI_Status *status);
int MPI_Sendrecv_replace(void *buffer, int n, MPI_Datatype type, int dest, int stag, int source, int rtag,
                         MPI_Comm comm, MPI_Status *status);
int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status);
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status);
int MPI_Wait(MPI_Request *request, MPI_Status *status);
int MPI_Waitall(int n, MPI_Request *requests, MPI_Status *statuses);
int MPI_Waitany(int n, MPI_Request *requests, int *index, MPI_Status *status);
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status);
int MPI_Testall(int n, MPI_Request *requests, int *flag, MPI_Status *statuses);
int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count);

#ifdef __cplusplus
}
#endif

#endif
