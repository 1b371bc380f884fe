// SPDX-License-Identifier: Apache-2.0
/* The description of every struct in ir.h. A new field of the IR is a new line here. */
#include "ir/record.h"

/* ---- enumerations --------------------------------------------------------------------------- */

#define VALUES(id, what, ...)                                                                      \
  static const struct rec_value id##_v[] = {__VA_ARGS__};                                          \
  const struct rec_values id = {what, id##_v, sizeof id##_v / sizeof *id##_v}
#define LOCAL_VALUES(id, what, ...)                                                                \
  static const struct rec_value id##_v[] = {__VA_ARGS__};                                          \
  static const struct rec_values id = {what, id##_v, sizeof id##_v / sizeof *id##_v}

VALUES(rec_node_kinds, "a node kind", {"sequence", IR_SEQ}, {"loop", IR_LOOP},
       {"branch", IR_BRANCH}, {"group", IR_GROUP}, {"compute", IR_COMPUTE},
       {"collective", IR_COLLECTIVE}, {"copy", IR_COPY}, {"sync", IR_SYNC}, {"host", IR_HOST},
       {"call", IR_CALL});

static const struct rec_value collective_v[] = {
#define COLL(id, ...) {#id, IR_COLL_##id},
#include "collectives.def"
#undef COLL
};
const struct rec_values rec_collectives = {"a collective", collective_v, IR_COLL_COUNT};

VALUES(rec_patterns, "a pattern", {"none", IR_PATTERN_NONE}, {"ring_shift", IR_PATTERN_RING_SHIFT},
       {"all_to_all", IR_PATTERN_ALL_TO_ALL}, {"all_to_all_v", IR_PATTERN_ALL_TO_ALL_V},
       {"halo", IR_PATTERN_HALO}, {"pairwise", IR_PATTERN_PAIRWISE});
VALUES(rec_deps, "a dependence kind", {"RAW", IR_DEP_RAW}, {"WAR", IR_DEP_WAR}, {"WAW", IR_DEP_WAW},
       {"stream", IR_DEP_STREAM}, {"event", IR_DEP_EVENT}, {"host", IR_DEP_HOST},
       {"comm", IR_DEP_COMM});
VALUES(rec_overlaps, "an overlap kind", {"data", IR_OVERLAP_DATA},
       {"order_only", IR_OVERLAP_ORDER_ONLY}, {"concurrent", IR_OVERLAP_CONCURRENT});
VALUES(rec_copies, "a copy kind", {"host_to_device", IR_COPY_H2D}, {"device_to_host", IR_COPY_D2H},
       {"device_to_device", IR_COPY_D2D}, {"peer", IR_COPY_PEER}, {"default", IR_COPY_DEFAULT},
       {"memset", IR_COPY_MEMSET});
VALUES(rec_syncs, "a sync kind", {"device", IR_SYNC_DEVICE}, {"stream", IR_SYNC_STREAM},
       {"event_record", IR_SYNC_EVENT_RECORD}, {"event_wait", IR_SYNC_EVENT_WAIT},
       {"event_host", IR_SYNC_EVENT_HOST}, {"mpi", IR_SYNC_MPI}, {"thread", IR_SYNC_THREAD},
       {"query", IR_SYNC_QUERY});
VALUES(rec_call_kinds, "a call kind", {"collective", IR_CALL_COLLECTIVE},
       {"group_start", IR_CALL_GROUP_START}, {"group_end", IR_CALL_GROUP_END},
       {"comm_create", IR_CALL_COMM_CREATE}, {"comm_destroy", IR_CALL_COMM_DESTROY},
       {"comm_other", IR_CALL_COMM_OTHER}, {"alloc", IR_CALL_ALLOC}, {"free", IR_CALL_FREE},
       {"other", IR_CALL_OTHER});
LOCAL_VALUES(computes, "a compute kind", {"launch", IR_COMPUTE_LAUNCH},
             {"cublas", IR_COMPUTE_CUBLAS}, {"host_func", IR_COMPUTE_HOST_FUNC});
LOCAL_VALUES(origins, "an origin", {"unknown", IR_ORIGIN_UNKNOWN}, {"cuda", IR_ORIGIN_CUDA},
             {"nccl", IR_ORIGIN_NCCL}, {"other", IR_ORIGIN_OTHER}, {"host", IR_ORIGIN_HOST},
             {"param", IR_ORIGIN_PARAM}, {"alias", IR_ORIGIN_ALIAS});
LOCAL_VALUES(comm_origins, "a communicator origin", {"unknown", IR_COMM_UNKNOWN},
             {"init_rank", IR_COMM_INIT_RANK}, {"init_all", IR_COMM_INIT_ALL},
             {"config", IR_COMM_CONFIG}, {"split", IR_COMM_SPLIT}, {"param", IR_COMM_PARAM});
LOCAL_VALUES(accesses, "an access kind", {"none", IR_ACCESS_NONE}, {"affine", IR_ACCESS_AFFINE},
             {"whole", IR_ACCESS_WHOLE}, {"unknown", IR_ACCESS_UNKNOWN});
LOCAL_VALUES(spellings, "a spelling", {"plain", IR_SPELLED_PLAIN},
             {"macro_arg", IR_SPELLED_MACRO_ARG}, {"macro_body", IR_SPELLED_MACRO_BODY});
LOCAL_VALUES(modes, "an access mode", {"read", IR_READ}, {"write", IR_WRITE},
             {"read_write", IR_READ_WRITE}, {"accumulate", IR_ACCUMULATE});
LOCAL_VALUES(models, "a process model", {"unknown", IR_MODEL_UNKNOWN}, {"mpi", IR_MODEL_MPI},
             {"single_process", IR_MODEL_SINGLE_PROCESS}, {"threads", IR_MODEL_THREADS});

/* ---- structs -------------------------------------------------------------------------------- */

#define F(type_, field) #field, REC_##type_, offsetof(struct THIS, field)
#define AT(key_, type_, path) #key_, REC_##type_, offsetof(struct THIS, path)
#define NUM(type_, field) {F(type_, field), .flags = 0}
#define STR(field) NUM(STR, field)
#define NAME(field) {F(STR, field), .flags = REC_REQUIRED}
#define BOOL(field) NUM(BOOL, field)
#define ID(field, table_) {F(ID, field), .table = TABLE_##table_, .flags = REC_MINUS_ONE}
#define IDS(field, table_) {F(IDS, field), .table = TABLE_##table_}
#define ENUM(field, values_) {F(ENUM, field), .values = &values_, .flags = REC_REQUIRED}
#define REC(field, sub_) {F(RECORD, field), .sub = &sub_}
#define LIST(field, sub_) {F(LIST, field), .sub = &sub_}
#define RECORD(id, name_, summary_)                                                                \
  const struct rec_record rec_##id = {name_, summary_, sizeof(struct THIS), id##_f,                \
                                      sizeof id##_f / sizeof *id##_f}

#define THIS ir_range
static const struct rec_field range_f[] = {ID(file, FILES), NUM(SIZE, begin), NUM(SIZE, end),
                                           NUM(UINT, line), NUM(UINT, col)};
RECORD(range, "range", "bytes [begin, end) of a file; line and column of begin, from 1");
#undef THIS

#define THIS ir_term
static const struct rec_field term_f[] = {NAME(symbol), {F(I64, coef), .flags = REC_REQUIRED}};
static RECORD(term, "term", "coef * symbol");
#undef THIS

#define THIS ir_expr
static const struct rec_field expr_f[] = {STR(text), BOOL(affine), NUM(I64, constant),
                                          LIST(terms, rec_term)};
RECORD(expr, "expr", "an integer expression; affine: constant + the sum of its terms");
#undef THIS

#define THIS ir_arg
static const struct rec_field arg_f[] = {STR(text), REC(range, rec_range)};
static RECORD(arg, "arg", "an argument as written");
#undef THIS

#define THIS ir_file
static const struct rec_field file_f[] = {NAME(path), BOOL(main_file)};
RECORD(file, "file", "a source file");
#undef THIS

#define THIS ir_buffer
static const struct rec_field buffer_f[] = {
    NAME(name), STR(function), REC(decl, rec_range), STR(elem_type), ENUM(origin, origins),
    ID(alias_of, BUFFERS), {F(INT, param), .flags = REC_MINUS_ONE}, BOOL(per_device),
    BOOL(reassigned), IDS(aliases, BUFFERS), IDS(allocs, CALLS), IDS(frees, CALLS),
    REC(size, rec_expr)};
RECORD(buffer, "buffer", "memory behind a pointer variable or member");
#undef THIS

#define THIS ir_comm
static const struct rec_field comm_f[] = {
    NAME(name), STR(function), ENUM(origin, comm_origins), {F(INT, param), .flags = REC_MINUS_ONE},
    BOOL(per_device), IDS(creates, CALLS), IDS(destroys, CALLS)};
RECORD(comm, "comm", "a communicator");
#undef THIS

#define THIS ir_stream
static const struct rec_field stream_f[] = {
    NAME(name), STR(function), {F(INT, param), .flags = REC_MINUS_ONE}, BOOL(is_default),
    BOOL(non_blocking), BOOL(per_device)};
RECORD(stream, "stream", "a CUDA stream");
#undef THIS

#define THIS ir_event
static const struct rec_field event_f[] = {NAME(name), STR(function), BOOL(per_device)};
RECORD(event, "event", "a CUDA event");
#undef THIS

#define THIS ir_access
static const struct rec_field access_f[] = {
    ENUM(kind, accesses), {F(TRIPLE, block_coef), .sub = &rec_expr}, REC(base, rec_expr),
    REC(extent, rec_expr), BOOL(exact), REC(all_base, rec_expr), REC(all_extent, rec_expr)};
static RECORD(access, "access", "bytes that one block, and that all blocks, may touch");
#undef THIS

#define THIS ir_kernel_param
static const struct rec_field kernel_param_f[] = {STR(name), STR(type), BOOL(pointer), BOOL(atomic),
                                                  REC(read, rec_access), REC(write, rec_access)};
static RECORD(kernel_param, "kernel_param", "a kernel parameter and what is done through it");
#undef THIS

#define THIS ir_kernel
static const struct rec_field kernel_f[] = {
    NAME(name), REC(range, rec_range), BOOL(is_template), BOOL(grid_sync), BOOL(opaque),
    LIST(params, rec_kernel_param), NUM(STRS, device_globals), NUM(SIZE, name_at),
    NUM(SIZE, body_at), NUM(STRS, template_params), STR(whole_grid)};
RECORD(kernel, "kernel", "a __global__ function");
#undef THIS

#define THIS ir_call
static const struct rec_field call_f[] = {
    ENUM(kind, rec_call_kinds), NAME(callee), REC(name, rec_range), REC(range, rec_range),
    ENUM(spelling, spellings), BOOL(in_main_file), BOOL(function_has_errors), STR(function),
    BOOL(uniform), STR(uniform_why), BOOL(in_loop), BOOL(in_device_loop), BOOL(captured),
    LIST(args, rec_arg), ID(buffer, BUFFERS), ID(comm, COMMS)};
RECORD(call, "call", "a call that may be edited");
#undef THIS

#define THIS ir_operand
static const struct rec_field operand_f[] = {
    ID(buffer, BUFFERS), STR(text), ENUM(mode, modes), REC(offset, rec_expr), REC(size, rec_expr),
    BOOL(exact), {F(INT, arg), .flags = REC_MINUS_ONE}};
RECORD(operand, "operand", "a use of memory, in bytes from the start of the buffer");
#undef THIS

#define KIND(k) (1u << IR_##k)
#define IN(key_, type_, path, kind_) AT(key_, type_, path), .kinds = kind_
#define THIS ir_node
#define CONTROL (KIND(LOOP) | KIND(BRANCH))
static const struct rec_field node_f[] = {
    {F(ID, id), .table = TABLE_NODES, .flags = REC_REQUIRED | REC_MINUS_ONE},
    ENUM(kind, rec_node_kinds), /* before the fields that depend on it */
    ID(parent, NODES), ID(function, FUNCTIONS), REC(range, rec_range), STR(label),
    IDS(children, NODES), ID(stream, STREAMS), BOOL(async), LIST(operands, rec_operand),
    ID(event, EVENTS), ID(call, CALLS), ID(call_end, CALLS),
    {IN(compute, ENUM, u.compute.kind, KIND(COMPUTE)), .values = &computes, .flags = REC_REQUIRED},
    {IN(kernel, ID, u.compute.kernel, KIND(COMPUTE)), .table = TABLE_KERNELS,
     .flags = REC_MINUS_ONE},
    {IN(grid, STR, u.compute.grid, KIND(COMPUTE))},
    {IN(block, STR, u.compute.block, KIND(COMPUTE))},
    {IN(shared, STR, u.compute.shared, KIND(COMPUTE))},
    {IN(launch, RECORD, u.compute.launch, KIND(COMPUTE)), .sub = &rec_range},
    {IN(args, LIST, u.compute.args, KIND(COMPUTE)), .sub = &rec_arg},
    {IN(collective, ENUM, u.coll.op, KIND(COLLECTIVE)), .values = &rec_collectives,
     .flags = REC_REQUIRED},
    {IN(comm, ID, u.coll.comm, KIND(COLLECTIVE)), .table = TABLE_COMMS, .flags = REC_MINUS_ONE},
    {IN(count, RECORD, u.coll.count, KIND(COLLECTIVE)), .sub = &rec_expr},
    {IN(type, STR, u.coll.type, KIND(COLLECTIVE))},
    {IN(type_static, BOOL, u.coll.type_static, KIND(COLLECTIVE))},
    {IN(redop, STR, u.coll.redop, KIND(COLLECTIVE))},
    {IN(redop_static, BOOL, u.coll.redop_static, KIND(COLLECTIVE))},
    {IN(root_or_peer, STR, u.coll.root_or_peer, KIND(COLLECTIVE))},
    {IN(in_place, BOOL, u.coll.in_place, KIND(COLLECTIVE))},
    {IN(pattern, ENUM, u.coll.pattern, KIND(COLLECTIVE)), .values = &rec_patterns},
    {IN(copy, ENUM, u.copy.kind, KIND(COPY)), .values = &rec_copies, .flags = REC_REQUIRED},
    {IN(sync, ENUM, u.sync.kind, KIND(SYNC)), .values = &rec_syncs, .flags = REC_REQUIRED},
    {IN(condition, STR, u.control.condition, CONTROL)},
    {IN(over_devices, BOOL, u.control.over_devices, CONTROL)},
    {IN(over_peers, BOOL, u.control.over_peers, CONTROL)},
    {IN(rank_dependent, BOOL, u.control.rank_dependent, CONTROL)},
    {IN(varying_known, BOOL, u.control.varying_known, CONTROL)},
    {IN(varying, STRS, u.control.varying, CONTROL)},
    {IN(callee, ID, u.callee.callee, KIND(CALL)), .table = TABLE_FUNCTIONS,
     .flags = REC_MINUS_ONE},
    {IN(call_args, LIST, u.callee.args, KIND(CALL)), .sub = &rec_arg},
};
RECORD(node, "node", "a node of a function's tree; which fields it has depends on its kind");
#undef THIS

#define THIS ir_jump
static const struct rec_field jump_f[] = {NUM(SIZE, at)};
static RECORD(jump, "jump", "an explicit change of control");
#undef THIS

#define THIS ir_function
static const struct rec_field function_f[] = {
    NAME(name), REC(range, rec_range), BOOL(is_main), BOOL(is_template), BOOL(is_lambda),
    BOOL(has_errors), STR(error), LIST(jumps, rec_jump), ID(body, NODES)};
RECORD(function, "function", "a function of the program");
#undef THIS

#define THIS ir_dep
static const struct rec_field dep_f[] = {
    {F(ID, from), .table = TABLE_NODES, .flags = REC_REQUIRED | REC_MINUS_ONE},
    {F(ID, to), .table = TABLE_NODES, .flags = REC_REQUIRED | REC_MINUS_ONE},
    ENUM(kind, rec_deps), ID(buffer, BUFFERS), BOOL(carried), ID(loop, NODES), BOOL(may)};
static RECORD(dep, "dependence", "leaf TO comes after leaf FROM");
#undef THIS

#define THIS ir_overlap
static const struct rec_field overlap_f[] = {
    {F(ID, a), .table = TABLE_NODES, .flags = REC_REQUIRED | REC_MINUS_ONE},
    {F(ID, b), .table = TABLE_NODES, .flags = REC_REQUIRED | REC_MINUS_ONE},
    ENUM(kind, rec_overlaps), BOOL(carried), STR(why)};
static RECORD(overlap, "overlap", "may communication A and computation B run at the same time?");
#undef THIS

#define THIS ir_program
static const struct rec_field program_f[] = {
    ENUM(model, models), NUM(INT, nccl_version), BOOL(translated), BOOL(uses_ipc),
    LIST(files, rec_file), LIST(functions, rec_function), LIST(kernels, rec_kernel),
    LIST(buffers, rec_buffer), LIST(comms, rec_comm), LIST(streams, rec_stream),
    LIST(events, rec_event), LIST(calls, rec_call), LIST(nodes, rec_node), LIST(deps, rec_dep),
    LIST(overlaps, rec_overlap)};
RECORD(program, "program", "a host-driven CUDA/NCCL program");
#undef THIS
