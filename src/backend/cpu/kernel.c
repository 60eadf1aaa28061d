/* kernel.c - one kernel: its functions, and the walk over its linear list.
 *
 * Two functions a kernel: the body, whose buffers are noalias arguments, and the entry, which takes them from an array and
 * calls it. So a launch is one call whatever the number of buffers. */
#include "backend/cpu/emit.h"

#include <stdio.h>

an_status cpu_unsupported(const cpu_emit *e, an_uop u)
{
    return an_fail(e->ctx, AN_ERR_INTERNAL, "cpu: kernel %s: there is no %s of %s", e->kernel->name,
                   an_op_info_of(an_uop_op(e->g, u))->text, an_dtype_name(an_uop_dtype(e->g, u)));
}

static LLVMValueRef raw_value(const cpu_emit *e, an_uop u)
{
    return e->values.data[an_idmap_get(&e->value_of, u.id) - 1];
}

static LLVMValueRef ramp(const cpu_emit *e, LLVMValueRef base, uint32_t lanes)
{
    const LLVMTypeRef i64 = LLVMInt64TypeInContext(e->llvm);
    LLVMValueRef step[AN_LANES_MAX];
    for (uint32_t i = 0; i < lanes; i++) step[i] = LLVMConstInt(i64, i, false);
    return LLVMBuildAdd(e->b, cpu_splat(e, base, lanes), LLVMConstVector(step, lanes), "");
}

/* An accumulator is kept as its cell; a ramp as its base, since most are only addresses. */
LLVMValueRef cpu_value(const cpu_emit *e, an_uop u)
{
    const LLVMValueRef v = raw_value(e, u);
    switch (an_uop_op(e->g, u)) {
    case AN_OP_ACC: return LLVMBuildLoad2(e->b, cpu_reg_type(e, an_uop_dtype(e->g, u), an_uop_lanes(e->g, u)), v, "");
    case AN_OP_RAMP: return ramp(e, v, an_uop_lanes(e->g, u));
    default: return v;
    }
}

bool cpu_set_value(cpu_emit *e, an_uop u, LLVMValueRef v)
{
    return an_vec_push(e->ctx, &e->values, v) && an_idmap_set(&e->value_of, e->ctx, u.id, (uint32_t)e->values.len);
}

static LLVMValueRef var_value(const cpu_emit *e, an_uop u)
{
    const LLVMTypeRef i64 = LLVMInt64TypeInContext(e->llvm);
    for (uint32_t i = 0; i < e->kernel->nvars; i++) {
        if (!an_uop_eq(e->kernel->vars[i], u)) continue;
        LLVMValueRef at = LLVMConstInt(i64, i, false);
        at = LLVMBuildInBoundsGEP2(e->b, i64, e->vars, &at, 1, "");
        return LLVMBuildLoad2(e->b, i64, at, an_uop_name(e->g, u));
    }
    return NULL;
}

/* Are the sources of a VECTOR lane c of as many vectors, all of some lanes no more than those of u? */
static bool is_column(const cpu_emit *e, an_uop u)
{
    const an_graph *g = e->g;
    const uint32_t n = an_uop_lanes(g, u);
    if (n < 4 || n > CPU_TURN_MAX || (n & (n - 1))) return false;
    const an_uop first = an_uop_src(g, u, 0);
    for (uint32_t i = 0; i < n; i++) {
        const an_uop s = an_uop_src(g, u, i);
        if (an_uop_op(g, s) != AN_OP_LANE || an_uop_arg(g, s) != an_uop_arg(g, first)) return false;
        const uint32_t lanes = an_uop_lanes(g, an_uop_src(g, s, 0));
        if (lanes < 2 || lanes > n || (lanes & (lanes - 1)) || lanes != an_uop_lanes(g, an_uop_src(g, first, 0))) return false;
    }
    return true;
}

/* Column c of the block whose rows the sources of u are lanes of. The columns of one block are made together. */
static LLVMValueRef column(cpu_emit *e, an_uop u)
{
    const uint32_t n = an_uop_lanes(e->g, u);
    const LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
    bool same = e->turned.n == n && e->turned.block == here;
    for (uint32_t i = 0; i < n; i++) {
        const an_uop row = an_uop_src(e->g, an_uop_src(e->g, u, i), 0);
        same = same && an_uop_eq(row, e->turned.rows[i]);
        e->turned.rows[i] = row;
    }
    if (!same) {
        for (uint32_t i = 0; i < n; i++) e->turned.columns[i] = cpu_value(e, e->turned.rows[i]);
        cpu_turn(e, e->turned.columns, n);
        e->turned.n = n;
        e->turned.block = here;
    }
    return e->turned.columns[an_uop_arg(e->g, an_uop_src(e->g, u, 0))];
}

/* A VECTOR of lanes of a few vectors of its own width, by shuffles; NULL: it is none. */
static LLVMValueRef shuffled(const cpu_emit *e, an_uop u)
{
    enum { OF_MAX = 4 };
    const an_graph *g = e->g;
    const uint32_t lanes = an_uop_lanes(g, u);
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(e->llvm);
    an_uop of[OF_MAX];
    uint32_t n = 0, from[AN_LANES_MAX];
    for (uint32_t i = 0; i < lanes; i++) {
        const an_uop s = an_uop_src(g, u, i);
        if (an_uop_op(g, s) != AN_OP_LANE || an_uop_lanes(g, an_uop_src(g, s, 0)) != lanes) return NULL;
        for (from[i] = 0; from[i] < n && !an_uop_eq(of[from[i]], an_uop_src(g, s, 0));) from[i]++;
        if (from[i] == OF_MAX) return NULL;
        if (from[i] == n) of[n++] = an_uop_src(g, s, 0);
    }
    LLVMValueRef v = cpu_value(e, of[0]), at[AN_LANES_MAX];
    for (uint32_t k = 1; k < n || k == 1; k++) { /* the first two, then one more at a time */
        for (uint32_t i = 0; i < lanes; i++) {
            const uint32_t lane = (uint32_t)an_uop_arg(g, an_uop_src(g, u, i)), kept = k == 1 ? lane : i;
            at[i] = from[i] > k ? LLVMGetPoison(i32) : LLVMConstInt(i32, from[i] == k ? lanes + lane : kept, false);
        }
        v = LLVMBuildShuffleVector(e->b, v, cpu_value(e, of[k < n ? k : 0]), LLVMConstVector(at, lanes), "");
    }
    return v;
}

static LLVMValueRef vector(cpu_emit *e, an_uop u)
{
    if (is_column(e, u)) return column(e, u);
    const LLVMValueRef dealt = an_uop_lanes(e->g, u) > 1 ? shuffled(e, u) : NULL;
    if (dealt) return dealt;
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(e->llvm);
    const uint32_t lanes = an_uop_lanes(e->g, u);
    LLVMValueRef v = LLVMGetPoison(cpu_reg_type(e, an_uop_dtype(e->g, u), lanes));
    if (lanes == 1) return cpu_value(e, an_uop_src(e->g, u, 0));
    for (uint32_t i = 0; i < lanes; i++)
        v = LLVMBuildInsertElement(e->b, v, cpu_value(e, an_uop_src(e->g, u, i)), LLVMConstInt(i32, i, false), "");
    return v;
}

static LLVMValueRef lane(const cpu_emit *e, an_uop u)
{
    const an_uop x = an_uop_src(e->g, u, 0);
    if (an_uop_lanes(e->g, x) == 1) return cpu_value(e, x);
    const LLVMTypeRef i32 = LLVMInt32TypeInContext(e->llvm);
    return LLVMBuildExtractElement(e->b, cpu_value(e, x), LLVMConstInt(i32, an_uop_arg(e->g, u), false), "");
}

static LLVMValueRef elementwise(const cpu_emit *e, an_uop u)
{
    const an_op op = an_uop_op(e->g, u);
    const uint32_t nsrc = an_uop_nsrc(e->g, u);
    if (!an_op_has(op, AN_TRAIT_ELEM) || nsrc < 1 || nsrc > 3) return NULL;
    LLVMValueRef s[3] = {NULL, NULL, NULL};
    for (uint32_t i = 0; i < nsrc; i++) s[i] = cpu_value(e, an_uop_src(e->g, u, i));
    const an_dtype from = an_uop_dtype(e->g, an_uop_src(e->g, u, op == AN_OP_WHERE ? 1 : 0)), to = an_uop_dtype(e->g, u);
    if (op == AN_OP_CAST) return cpu_cast(e, from, to, s[0]);
    if (op == AN_OP_BITCAST) return cpu_bitcast(e, from, to, s[0]);
    return cpu_arith(e, op, from, s);
}

/* Large arrays are in scratch, which is in large pages. */
static LLVMValueRef local(cpu_emit *e, an_uop u)
{
    enum { ALIGNMENT = 64 };
    const uint32_t n = (uint32_t)an_uop_arg(e->g, u);
    const uint64_t nbytes = ((uint64_t)n * an_dtype_nbytes(an_uop_dtype(e->g, u)) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (nbytes >= CPU_IN_SCRATCH_NBYTES && nbytes <= CPU_SCRATCH_NBYTES - e->scratch_nbytes) {
        LLVMValueRef at = LLVMConstInt(LLVMInt64TypeInContext(e->llvm), e->scratch_nbytes, false);
        e->scratch_nbytes += nbytes;
        return LLVMBuildInBoundsGEP2(e->b, LLVMInt8TypeInContext(e->llvm), e->scratch, &at, 1, "");
    }
    const LLVMValueRef cell = cpu_alloca(e, LLVMArrayType2(cpu_mem_type(e, an_uop_dtype(e->g, u), 1), n));
    LLVMSetAlignment(cell, ALIGNMENT);
    return cell;
}

/* Values; NULL: there is none such. */
static LLVMValueRef make_value(cpu_emit *e, an_uop u)
{
    const an_graph *g = e->g;
    const uint32_t lanes = an_uop_lanes(g, u);
    switch (an_uop_op(g, u)) {
    case AN_OP_PARAM: return an_uop_arg(g, u) < e->kernel->nparams ? e->params[an_uop_arg(g, u)] : NULL;
    case AN_OP_LOCAL: return local(e, u);
    case AN_OP_CONST: return cpu_const(e, an_uop_dtype(g, u), an_uop_const_value(g, u));
    case AN_OP_VAR: return var_value(e, u);
    case AN_OP_ACC: {
        const LLVMValueRef init = cpu_value(e, an_uop_src(g, u, 0)), cell = cpu_alloca(e, LLVMTypeOf(init));
        LLVMBuildStore(e->b, init, cell);
        return cell;
    }
    case AN_OP_ACC_GET:
    case AN_OP_RAMP: return cpu_value(e, an_uop_src(g, u, 0));
    case AN_OP_BROADCAST: return cpu_splat(e, cpu_value(e, an_uop_src(g, u, 0)), lanes);
    case AN_OP_LANE: return lane(e, u);
    case AN_OP_VECTOR: return vector(e, u);
    case AN_OP_HREDUCE:
        return cpu_hreduce(e, an_reduce_op(an_uop_arg(g, u)), an_uop_dtype(g, u), cpu_value(e, an_uop_src(g, u, 0)));
    default: return elementwise(e, u);
    }
}

static an_status emit_one(cpu_emit *e, an_uop u)
{
    switch (an_uop_op(e->g, u)) {
    case AN_OP_LOAD: return cpu_emit_load(e, u);
    case AN_OP_STORE: return cpu_emit_store(e, u);
    case AN_OP_PREFETCH: cpu_emit_prefetch(e, u); return AN_OK;
    case AN_OP_RANGE: return cpu_emit_range(e, u);
    case AN_OP_END: return cpu_emit_end(e);
    case AN_OP_ACC_SET: {
        const LLVMValueRef cell = raw_value(e, an_uop_src(e->g, u, 0));
        LLVMBuildStore(e->b, cpu_value(e, an_uop_src(e->g, u, 1)), cell);
        return AN_OK;
    }
    default: {
        const LLVMValueRef v = make_value(e, u);
        if (!v) return cpu_unsupported(e, u);
        return cpu_set_value(e, u, v) ? AN_OK : AN_ERR_NOMEM;
    }
    }
}

static void add_attribute(const cpu_emit *e, LLVMValueRef fn, unsigned at, const char *name)
{
    const unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, at, LLVMCreateEnumAttribute(e->llvm, kind, 0));
}

static LLVMValueRef add_function(const cpu_emit *e, const char *name, LLVMTypeRef type)
{
    const LLVMValueRef fn = LLVMAddFunction(e->module, name, type);
    add_attribute(e, fn, (unsigned)LLVMAttributeFunctionIndex, "nounwind");
    char width[16]; /* without this LLVM halves 64-byte vectors on machines that once ran slower with them */
    (void)snprintf(width, sizeof width, "%u", 8 * e->host->vector_nbytes);
    static const char key[] = "prefer-vector-width";
    LLVMAddAttributeAtIndex(fn, (unsigned)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(e->llvm, key, (unsigned)strlen(key), width, (unsigned)strlen(width)));
    return fn;
}

int64_t cpu_kernel_parts(const an_kernel *kernel)
{
    const an_graph *g = kernel->graph;
    int64_t parts = 1;
    uint32_t depth = 0;
    for (size_t i = 0; i < kernel->nlinear; i++) {
        const an_uop u = kernel->linear[i];
        const an_op op = an_uop_op(g, u);
        if (op == AN_OP_END) depth--;
        if (op == AN_OP_STORE && depth == 0) return 1;
        if (op != AN_OP_RANGE || depth++ > 0) continue;
        int64_t n = INT64_MAX; /* a symbolic bound */
        if (an_range_kind_of(an_uop_arg(g, u)) != AN_RANGE_THREAD) return 1;
        (void)an_uop_int(g, an_uop_src(g, u, 0), &n);
        if (n > parts) parts = n;
    }
    return parts;
}

/* void name.body(ptr noalias p0, ..., ptr vars, i64 part, i64 nparts, ptr noalias scratch) */
static LLVMTypeRef add_body(cpu_emit *e, const char *name)
{
    LLVMTypeRef args[AN_KERNEL_PARAM_MAX + 4];
    const uint32_t n = e->kernel->nparams;
    for (uint32_t i = 0; i <= n + 3; i++) args[i] = LLVMPointerTypeInContext(e->llvm, 0);
    args[n + 1] = args[n + 2] = LLVMInt64TypeInContext(e->llvm);
    const LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), args, n + 4, false);
    char text[80];
    (void)snprintf(text, sizeof text, "%.64s.body", name);
    e->fn = add_function(e, text, type);
    LLVMSetLinkage(e->fn, LLVMInternalLinkage);
    for (uint32_t i = 0; i < n; i++) {
        e->params[i] = LLVMGetParam(e->fn, i);
        const int len = snprintf(text, sizeof text, "p%u", i);
        LLVMSetValueName2(e->params[i], text, (size_t)len);
        add_attribute(e, e->fn, i + 1, "noalias");
    }
    e->vars = LLVMGetParam(e->fn, n);
    e->part = LLVMGetParam(e->fn, n + 1);
    e->nparts = LLVMGetParam(e->fn, n + 2);
    e->scratch = LLVMGetParam(e->fn, n + 3);
    add_attribute(e, e->fn, n + 4, "noalias");
    return type;
}

static void add_entry(const cpu_emit *e, const char *name, LLVMTypeRef body_type)
{
    LLVMTypeRef ptr = LLVMPointerTypeInContext(e->llvm, 0), i64 = LLVMInt64TypeInContext(e->llvm), args[5] = {ptr, ptr, i64, i64, ptr};
    const LLVMValueRef fn = add_function(e, name, LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), args, 5, false));
    LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->llvm, fn, "entry"));
    LLVMValueRef all[AN_KERNEL_PARAM_MAX + 4];
    const uint32_t n = e->kernel->nparams;
    for (uint32_t i = 0; i < n; i++) {
        LLVMValueRef at = LLVMConstInt(i64, i, false);
        at = LLVMBuildInBoundsGEP2(e->b, ptr, LLVMGetParam(fn, 0), &at, 1, "");
        all[i] = LLVMBuildLoad2(e->b, ptr, at, "");
    }
    for (uint32_t i = 0; i < 4; i++) all[n + i] = LLVMGetParam(fn, i + 1);
    LLVMBuildCall2(e->b, body_type, e->fn, all, n + 4, "");
    LLVMBuildRetVoid(e->b);
}

an_status cpu_emit_kernel(an_ctx *ctx, const cpu_host *host, LLVMContextRef llvm, LLVMModuleRef module,
                          const an_kernel *kernel, const char *name)
{
    cpu_emit e = {.ctx = ctx, .host = host, .kernel = kernel, .g = kernel->graph, .llvm = llvm, .module = module};
    e.b = LLVMCreateBuilderInContext(llvm);
    const LLVMTypeRef body_type = add_body(&e, name);
    e.entry = LLVMAppendBasicBlockInContext(llvm, e.fn, "entry");
    const LLVMBasicBlockRef first = LLVMAppendBasicBlockInContext(llvm, e.fn, "start");
    LLVMPositionBuilderAtEnd(e.b, first);
    an_status st = AN_OK;
    for (size_t i = 0; i < kernel->nlinear && !st; i++) st = emit_one(&e, kernel->linear[i]);
    if (!st) {
        LLVMBuildRetVoid(e.b);
        LLVMPositionBuilderAtEnd(e.b, e.entry);
        LLVMBuildBr(e.b, first);
        add_entry(&e, name, body_type);
    }
    LLVMDisposeBuilder(e.b);
    an_idmap_fini(&e.value_of, ctx);
    an_vec_fini(ctx, &e.values);
    an_vec_fini(ctx, &e.loops);
    return st;
}
