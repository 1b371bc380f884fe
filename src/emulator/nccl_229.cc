// SPDX-License-Identifier: Apache-2.0
/* Host functions that NCCL 2.29 added; programs see them when they ask for that version. */
#define CUCOCC_EMU_NCCL 23007
#include "nccl_devcomm.h"

extern "C" {

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *p) {
  if (!comm || !p || p->size != sizeof *p || p->magic != EMU_NCCL_MAGIC)
    return ncclInvalidArgument;
  const ncclTeam lsa = ncclTeamLsa(comm);
  p->rank = comm->rank;
  p->nRanks = (int)comm->clique->ranks.size();
  p->cudaDev = p->nvmlDev = comm->device;
  p->deviceApiSupport = true;
  p->multimemSupport = false;
  p->ginType = NCCL_GIN_TYPE_PROXY;
  p->nLsaTeams = p->nRanks / lsa.nRanks;
  p->hostRmaSupport = false;
  p->railedGinType = NCCL_GIN_TYPE_PROXY;
  return ncclSuccess;
}

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t w, size_t offset, int peer, void **out) {
  if (!w || !out || peer < 0 || peer >= (int)w->set->base.size() || offset >= w->set->size[peer])
    return ncclInvalidArgument;
  const int k = w->set->lsa_size;
  *out = peer / k == w->rank / k ? w->set->base[peer] + offset : nullptr;
  return ncclSuccess;
}

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t w, size_t offset, int peer, void **out) {
  if (!w || peer < 0 || peer >= w->set->lsa_size)
    return ncclInvalidArgument;
  return ncclGetPeerDevicePointer(w, offset, w->rank / w->set->lsa_size * w->set->lsa_size + peer,
                                  out);
}
}
