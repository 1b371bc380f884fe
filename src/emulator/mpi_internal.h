// SPDX-License-Identifier: Apache-2.0
/* What the files of the MPI shim share. */
#ifndef CUCOCC_EMULATOR_MPI_INTERNAL_H
#define CUCOCC_EMULATOR_MPI_INTERNAL_H

#include "engine.h"
#include "include/mpi.h"

/* A communicator as one of its processes has it. */
struct EmuMpiComm {
  uint64_t id; // the same for all its processes
  int rank;
  std::vector<int> members; // their processes
};

namespace emu {
namespace mpi {

/* The communicator behind a handle, or NULL after the error was raised. */
EmuMpiComm *comm_of(MPI_Comm comm, const char *call, Site site);
/* MPI's default: an error ends the program, unless it asked for codes. Returns CODE. */
int raise(int code, const char *call, const std::string &what, Site site);

/* Bytes of an element, 0 for no type. */
size_t type_size(MPI_Datatype type);
/* INOUT[i] = IN[i] op INOUT[i]. False when the operation does not fit the type. */
bool combine(MPI_Op op, MPI_Datatype type, void *in, void *inout, int count);

/* The running rank reads or writes a buffer. */
void reads(const void *buffer, size_t size, Site site);
void writes(void *buffer, size_t size, Site site);

/* Makes the communicators of a split: a collective call. Color MPI_UNDEFINED: none for this rank. */
MPI_Comm split(EmuMpiComm *comm, const char *call, int color, int key, Site site);

} // namespace mpi
} // namespace emu

#endif
