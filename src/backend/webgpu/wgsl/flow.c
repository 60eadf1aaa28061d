/* flow.c - loops: which are workgroups, which are threads, and what threads tell each other. */
#include "backend/webgpu/wgsl/emit.h"

#include <stdio.h>

enum { THREADS_FLAT = 256, THREADS_GROUP = 128, THREADS_GROUP_MAX = 1024, THREADS_GROUP_MIN = 32, THREADS_WANTED = 1 << 17 /* of all workgroups */, DEALT_COPIES_MAX = 8 };

static an_range_kind kind_of(const wgsl_emit *e, an_uop range)
{
    return an_range_kind_of(an_uop_arg(e->g, range));
}

static void put_code(wgsl_emit *e, an_op op, int64_t value)
{
    an_wgsl *w = e->out;
    if (w->ngroups_code == AN_WGSL_CODE_MAX) {
        if (!e->st)
            e->st = an_fail(e->ctx, AN_ERR_LIMIT, "webgpu: kernel %s: the number of its workgroups is too long an expression of "
                                                  "its symbolic dimensions", e->kernel->name);
        return;
    }
    w->groups[w->ngroups_code++] = (an_wgsl_code){(uint8_t)op, value};
}

/* The bound of a loop, in postfix: sources before users, each written out where it is used. */
static void put_bound(wgsl_emit *e, an_uop bound)
{
    AN_VEC(an_uop) stack = {0}, done = {0}; /* done: opened before, so that its sources are out */
    if (!an_vec_push(e->ctx, &stack, bound)) e->st = AN_ERR_NOMEM;
    while (stack.len && !e->st) {
        const an_uop u = stack.data[stack.len - 1];
        const an_op op = an_uop_op(e->g, u);
        int64_t v = 0;
        stack.len--;
        if (done.len && an_uop_eq(done.data[done.len - 1], u)) { /* its sources are out */
            done.len--;
            put_code(e, op, 0);
        } else if (an_uop_int(e->g, u, &v)) {
            put_code(e, AN_OP_CONST, v);
        } else if (op == AN_OP_VAR) {
            uint32_t at = 0;
            while (at < e->kernel->nvars && !an_uop_eq(e->kernel->vars[at], u)) at++;
            put_code(e, AN_OP_VAR, at);
        } else if (op == AN_OP_ADD || op == AN_OP_MUL || op == AN_OP_FLOORDIV || op == AN_OP_FLOORMOD || op == AN_OP_IDIV ||
                   op == AN_OP_IMOD || op == AN_OP_MAX || op == AN_OP_MIN || op == AN_OP_SHR) {
            if (!an_vec_push(e->ctx, &done, u) || !an_vec_push(e->ctx, &stack, u) ||
                !an_vec_push(e->ctx, &stack, an_uop_src(e->g, u, 1)) || !an_vec_push(e->ctx, &stack, an_uop_src(e->g, u, 0)))
                e->st = AN_ERR_NOMEM;
        } else {
            e->st = wgsl_unsupported(e, u, "no loop over workgroups has such a bound");
        }
    }
    an_vec_fini(e->ctx, &stack);
    an_vec_fini(e->ctx, &done);
}

/* Appends the loops of a kind that are opened from place i on, up to the end of the loop around i; other loops are passed over. */
static size_t chain_from(const wgsl_emit *e, size_t i, an_range_kind kind, an_uop *chain, size_t n, size_t max)
{
    for (int depth = 0; i < e->kernel->nlinear && depth >= 0; i++) {
        const an_uop u = e->kernel->linear[i];
        const an_op op = an_uop_op(e->g, u);
        if (op == AN_OP_END && kind_of(e, an_uop_src(e->g, u, 0)) != kind) depth--;
        if (op == AN_OP_END && kind_of(e, an_uop_src(e->g, u, 0)) == kind) break;
        if (op == AN_OP_RANGE && kind_of(e, u) != kind) depth++;
        if (op == AN_OP_RANGE && kind_of(e, u) == kind && n < max) chain[n++] = u;
    }
    return n;
}

/* The GLOBAL loops opened one in the other from place i on. */
static size_t global_chain(const wgsl_emit *e, size_t i, an_uop *chain, size_t max)
{
    return chain_from(e, i, AN_RANGE_GLOBAL, chain, 0, max);
}

enum { CHAIN_MAX = 16 };

/* Threads that share the n iterations of a GROUP loop: as few as keep an iteration's values in registers, where they divide n; more
 * where there are few workgroups. */
static uint32_t lanes_for(int64_t n, int64_t groups, int64_t rows)
{
    uint32_t lanes = THREADS_GROUP_MIN;
    for (uint32_t m = lanes; m <= THREADS_GROUP_MAX && n % m == 0; m *= 2) {
        lanes = m;
        if (n / m <= DEALT_COPIES_MAX / 2 && groups * m * rows >= THREADS_WANTED) return m;
    }
    if (n % lanes == 0 && n / lanes <= DEALT_COPIES_MAX) return lanes;
    for (lanes = THREADS_GROUP_MIN; lanes < THREADS_GROUP_MAX && (int64_t)lanes < n; lanes *= 2)
        if (lanes >= THREADS_GROUP && groups * lanes * rows >= THREADS_WANTED) break;
    return lanes;
}

an_status wgsl_plan_flow(wgsl_emit *e)
{
    int64_t group_most = 0, local = 1, local_most = 1, groups = 1;
    uint32_t depth = 0, globals = 0, nests = 0; /* loops that are open, GLOBAL ones among them */
    bool group = false, stage = false;
    for (size_t i = 0; i < e->kernel->nlinear && !e->st; i++) {
        const an_uop u = e->kernel->linear[i];
        const an_op op = an_uop_op(e->g, u);
        if (op == AN_OP_END) {
            depth--;
            globals -= kind_of(e, an_uop_src(e->g, u, 0)) == AN_RANGE_GLOBAL;
            if (depth == 0) local = 1;
        }
        if (op != AN_OP_RANGE) continue;
        int64_t n = -1;
        (void)an_uop_int(e->g, an_uop_src(e->g, u, 0), &n);
        switch (kind_of(e, u)) {
        case AN_RANGE_GLOBAL:
            e->has_global = true;
            if (globals++ == 0) { /* whatever loops are around it */
                an_uop chain[CHAIN_MAX];
                const size_t len = global_chain(e, i, chain, CHAIN_MAX);
                for (size_t k = 0; k < len; k++) {
                    int64_t many = THREADS_WANTED;
                    (void)an_uop_int(e->g, an_uop_src(e->g, chain[k], 0), &many);
                    if (groups < THREADS_WANTED) groups *= many;
                    put_bound(e, an_uop_src(e->g, chain[k], 0));
                    if (k) put_code(e, AN_OP_MUL, 0);
                }
                if (nests++) put_code(e, AN_OP_MAX, 0);
            }
            break;
        case AN_RANGE_LOCAL:
            local *= n;
            if (local > local_most) local_most = local;
            break;
        case AN_RANGE_GROUP:
            group = true;
            if (n < 0 || n > group_most) group_most = n < 0 ? INT64_MAX : n;
            break;
        case AN_RANGE_STAGE: stage = true; break;
        default: break;
        }
        depth++;
    }
    e->by_group = group || stage || local_most > 1;
    uint32_t lanes = 1;
    if (group) lanes = lanes_for(group_most, groups, local_most);
    while (lanes > 1 && (int64_t)lanes * local_most > THREADS_GROUP_MAX) lanes /= 2;
    while (lanes > 1 && (int64_t)lanes * local_most > (int64_t)e->caps->max_invocations) lanes /= 2;
    e->nthreads = e->by_group ? (uint32_t)local_most * lanes : e->has_global ? THREADS_FLAT : 1;
    while (!e->by_group && e->nthreads > e->caps->max_invocations) e->nthreads /= 2;
    e->lanes = lanes;
    e->out->size[0] = e->nthreads;
    e->out->size[1] = e->out->size[2] = 1;
    if (e->nthreads > e->caps->max_invocations || e->nthreads > e->caps->max_size[0])
        return an_fail(e->ctx, AN_ERR_LIMIT, "webgpu: kernel %s wants workgroups of %u threads; the device has %u at most",
                       e->kernel->name, e->nthreads, e->caps->max_invocations);
    if (!e->has_global) put_code(e, AN_OP_CONST, 1);
    if (e->has_global && !e->by_group) { /* one thread an iteration */
        put_code(e, AN_OP_CONST, e->nthreads - 1);
        put_code(e, AN_OP_ADD, 0);
        put_code(e, AN_OP_CONST, e->nthreads);
        put_code(e, AN_OP_FLOORDIV, 0);
    }
    return e->st;
}

/* The product of the bounds of ranges from..n-1, as text: "(64u * 10u)". */
static void product(wgsl_emit *e, const an_uop *ranges, size_t from, size_t n, char *text, size_t size)
{
    int64_t known = 1;
    char x[WGSL_OPERAND_MAX];
    text[0] = '\0';
    for (size_t k = from; k < n; k++) {
        int64_t v = 0;
        const an_uop bound = an_uop_src(e->g, ranges[k], 0);
        if (an_uop_int(e->g, bound, &v)) {
            known *= v;
            continue;
        }
        wgsl_operand(e, bound, 0, x);
        const size_t len = strlen(text);
        (void)snprintf(text + len, size - len, "%su32(%s)", len ? " * " : "", x);
    }
    const size_t len = strlen(text);
    if (known != 1 || !len) (void)snprintf(text + len, size - len, "%s%lldu", len ? " * " : "", (long long)known);
}

static void deal(wgsl_emit *e, const an_uop *chain, size_t k, size_t n, const char *from)
{
    char inner[256], own[256];
    product(e, chain, k + 1, n, inner, sizeof inner);
    product(e, chain, k, k + 1, own, sizeof own);
    const bool last = k + 1 == n;
    const char *const div = last ? "" : " / (", *const close = last ? "" : ")";
    if (k == 0)
        wgsl_line(e, "let v%u = i32(%s%s%s%s);", wgsl_place(e, chain[k]), from, div, last ? "" : inner, close);
    else
        wgsl_line(e, "let v%u = i32((%s%s%s%s) %% (%s));", wgsl_place(e, chain[k]), from, div, last ? "" : inner, close, own);
}

/* The loops of one kind around and at u that are nested directly: for the outermost, all that follow. */
static size_t chain_of(const wgsl_emit *e, an_uop u, an_range_kind kind, an_uop *chain, size_t *at)
{
    size_t n = 0;
    for (size_t i = 0; i < e->loops.len; i++)
        if (kind_of(e, e->loops.data[i].range) == kind && n < CHAIN_MAX) chain[n++] = e->loops.data[i].range;
    *at = n;
    return chain_from(e, wgsl_place(e, u), kind, chain, n, CHAIN_MAX);
}

static bool follows_stage(const wgsl_emit *e, size_t place)
{
    for (size_t i = place + 1; i < e->kernel->nlinear; i++) {
        const an_uop u = e->kernel->linear[i];
        const an_op op = an_uop_op(e->g, u);
        if (op == AN_OP_END || op == AN_OP_LOAD || op == AN_OP_STORE) return false;
        if (op == AN_OP_RANGE) return kind_of(e, u) == AN_RANGE_STAGE;
    }
    return false;
}

/* Which of the threads that share a GROUP loop this one is. */
static const char *lane_of(const wgsl_emit *e)
{
    return e->lanes == 1 ? "0" : e->lanes == e->nthreads ? "lid" : "lane";
}

an_status wgsl_emit_range(wgsl_emit *e, an_uop u)
{
    const an_range_kind kind = kind_of(e, u);
    const uint32_t place = wgsl_place(e, u);
    wgsl_loop loop = {u, 0, e->sets.len};
    char bound[WGSL_OPERAND_MAX], total[256];
    an_uop chain[CHAIN_MAX];
    size_t at = 0;
    wgsl_operand(e, an_uop_src(e->g, u, 0), 0, bound);
    switch (kind) {
    case AN_RANGE_GLOBAL: {
        const size_t n = chain_of(e, u, kind, chain, &at);
        if (at == 0) {
            product(e, chain, 0, n, total, sizeof total);
            wgsl_line(e, "if (%s < %s) {", e->by_group ? "group" : "tid", total);
            e->depth++;
            loop.nclose = 1;
        }
        deal(e, chain, at, n, e->by_group ? "group" : "tid");
        e->nglobal_open++;
        break;
    }
    case AN_RANGE_LOCAL: {
        const size_t n = chain_of(e, u, kind, chain, &at);
        deal(e, chain, at, n, e->lanes > 1 ? "row" : "lid");
        break;
    }
    case AN_RANGE_GROUP:
        wgsl_line(e, "for (var v%u = i32(%s); v%u < %s; v%u += %u) {", place, lane_of(e), place, bound,
                  place, e->lanes);
        e->depth++;
        loop.nclose = 1;
        break;
    case AN_RANGE_STAGE:
        if (!e->staging) wgsl_line(e, "workgroupBarrier();");
        e->staging = true;
        wgsl_line(e, "for (var v%u = i32(lid); v%u < %s; v%u += %u) {", place, place, bound, place, e->nthreads);
        e->depth++;
        loop.nclose = 1;
        break;
    default:
        wgsl_line(e, "for (var v%u = 0; v%u < %s; v%u++) {", place, place, bound, place);
        e->depth++;
        loop.nclose = 1;
        break;
    }
    return an_vec_push(e->ctx, &e->loops, loop) ? AN_OK : AN_ERR_NOMEM;
}

/* What joins the values of an accumulator that threads have apart. */
static an_op joining(const wgsl_emit *e, an_uop set)
{
    const an_op op = an_uop_op(e->g, an_uop_src(e->g, set, 1));
    return op == AN_OP_MULACC ? AN_OP_ADD : op;
}

/* Is what the accumulator holds after its loop used by HREDUCE of that op alone? */
static bool goes_to_hreduce(const wgsl_emit *e, an_uop acc, an_op op)
{
    bool any = false;
    for (size_t i = wgsl_place(e, acc); i < e->kernel->nlinear; i++) {
        const an_uop u = e->kernel->linear[i];
        for (uint32_t s = 0; s < an_uop_nsrc(e->g, u); s++) {
            const an_uop x = an_uop_src(e->g, u, s);
            if (an_uop_op(e->g, x) != AN_OP_ACC_GET || !an_uop_eq(an_uop_src(e->g, x, 0), acc)) continue;
            if (an_uop_op(e->g, u) != AN_OP_HREDUCE || an_reduce_op(an_uop_arg(e->g, u)) != op) return false;
            any = true;
        }
    }
    return any;
}

/* Lanes onto the first one; the others get what changes nothing. */
static bool join_lanes(wgsl_emit *e, an_uop acc, an_op op)
{
    const an_dtype dtype = an_uop_dtype(e->g, acc);
    char x[WGSL_OPERAND_MAX], y[WGSL_OPERAND_MAX], expr[256];
    for (uint32_t n = an_uop_lanes(e->g, acc); n > 1; n = (n + 1) / 2)
        for (uint32_t l = 0; l < n / 2; l++) {
            wgsl_operand(e, acc, l, x);
            wgsl_operand(e, acc, l + (n + 1) / 2, y);
            if (!wgsl_binary(e, op, dtype, x, y, expr, sizeof expr)) return false;
            wgsl_line(e, "%s = %s;", x, expr);
        }
    wgsl_literal(e, dtype, an_reduce_identity(op, dtype), y);
    for (uint32_t l = 1; l < an_uop_lanes(e->g, acc); l++) {
        wgsl_operand(e, acc, l, x);
        wgsl_line(e, "%s = %s;", x, y);
    }
    return true;
}

/* May subgroups join all threads of a workgroup? Threads of a subgroup lie side by side (device.c checks it). */
static bool joins_by_subgroups(const wgsl_emit *e, an_dtype dtype)
{
    const uint32_t n = e->caps->subgroup_nlanes;
    const wgsl_class class = wgsl_class_of(dtype);
    if (class != WGSL_F32 && class != WGSL_I32 && class != WGSL_U32) return false;
    return n > 1 && e->lanes == e->nthreads && e->nthreads % n == 0 && (e->nthreads & (e->nthreads - 1)) == 0;
}

/* x of so many neighbours onto all of them, by an exchange with ever nearer ones. */
static bool exchange(wgsl_emit *e, an_uop set, const char *x, uint32_t n)
{
    char y[WGSL_OPERAND_MAX + 32], expr[256];
    for (uint32_t h = n / 2; h > 0; h /= 2) {
        (void)snprintf(y, sizeof y, "subgroupShuffleXor(%s, %uu)", x, h);
        const uint32_t t = e->ntemps++;
        wgsl_line(e, "let t%u = %s;", t, y);
        (void)snprintf(y, sizeof y, "t%u", t);
        if (!wgsl_binary(e, joining(e, set), an_uop_dtype(e->g, set), x, y, expr, sizeof expr)) return false;
        wgsl_line(e, "%s = %s;", x, expr);
    }
    return true;
}

/* Those in memory t by halves, from h further on each, until the next half would be `last`. */
static bool halve(wgsl_emit *e, an_uop set, uint32_t t, uint32_t h, uint32_t last)
{
    char a[64], b[64], expr[256];
    wgsl_line(e, "for (var h = %uu; h > %uu; h >>= 1u) {", h, last);
    (void)snprintf(a, sizeof a, "j%u[lid]", t);
    (void)snprintf(b, sizeof b, "j%u[lid + h]", t);
    if (!wgsl_binary(e, joining(e, set), an_uop_dtype(e->g, set), a, b, expr, sizeof expr)) return false;
    wgsl_line(e, "  if (lid < h) { %s = %s; }", a, expr);
    wgsl_line(e, "  workgroupBarrier();");
    wgsl_line(e, "}");
    return true;
}

/* One value x of each thread, through memory t: those of each subgroup, then those that the subgroups have. */
static bool join_subgroups(wgsl_emit *e, an_uop set, const char *x, uint32_t t)
{
    const uint32_t n = e->caps->subgroup_nlanes, subgroups = e->nthreads / n;
    e->out->uses_subgroups = true;
    if (!exchange(e, set, x, n)) return false;
    if (subgroups > 1) {
        wgsl_line(e, "if (lid %% %uu == 0u) { j%u[lid / %uu] = %s; }", n, t, n, x);
        wgsl_line(e, "workgroupBarrier();");
        if (subgroups > n && !halve(e, set, t, subgroups / 2, n / 2)) return false;
        wgsl_line(e, "%s = j%u[lid %% %uu];", x, t, subgroups < n ? subgroups : n);
        wgsl_line(e, "workgroupBarrier();");
        if (!exchange(e, set, x, subgroups < n ? subgroups : n)) return false;
    }
    wgsl_line(e, "%s = subgroupBroadcastFirst(%s);", x, x); /* of 0 and -0 the same for all */
    return true;
}

/* acc of all threads of a row of lanes, by halves. */
static an_status join_threads(wgsl_emit *e, an_uop set)
{
    const an_uop acc = an_uop_src(e->g, set, 0);
    const an_dtype dtype = an_uop_dtype(e->g, acc);
    uint32_t lanes = an_uop_lanes(e->g, acc);
    const char *type = wgsl_type_name(dtype);
    char x[WGSL_OPERAND_MAX];
    const wgsl_class class = wgsl_class_of(dtype);
    const uint32_t nbytes = class == WGSL_I64 || class == WGSL_U64 ? 8 : 4;
    if (lanes > 1 && goes_to_hreduce(e, acc, joining(e, set)) && join_lanes(e, acc, joining(e, set))) lanes = 1;
    const uint32_t t = class; /* joins of a class share memory: a barrier is after each */
    if (!(e->joined >> t & 1)) {
        an_str_printf(&e->shared, "var<workgroup> j%u: array<%s, %u>;\n", t, type, e->nthreads);
        e->out->local_nbytes += e->nthreads * nbytes;
        e->joined |= 1u << t;
    }
    for (uint32_t l = 0; l < lanes; l++) {
        wgsl_operand(e, acc, l, x);
        if (joins_by_subgroups(e, dtype)) {
            if (!join_subgroups(e, set, x, t)) return wgsl_unsupported(e, acc, "no shader joins threads by this op");
            continue;
        }
        wgsl_line(e, "j%u[lid] = %s;", t, x);
        wgsl_line(e, "workgroupBarrier();");
        const uint32_t rows = e->nthreads / e->lanes; /* threads of one lane number lie side by side */
        if (!halve(e, set, t, e->nthreads / 2, rows / 2)) return wgsl_unsupported(e, acc, "no shader joins threads by this op");
        wgsl_line(e, e->lanes == e->nthreads ? "%s = j%u[0];" : "%s = j%u[row];", x, t);
        wgsl_line(e, "workgroupBarrier();");
    }
    return AN_OK;
}

an_status wgsl_emit_end(wgsl_emit *e, an_uop u)
{
    const wgsl_loop loop = e->loops.data[--e->loops.len];
    while (e->ndealt && e->dealt[e->ndealt - 1].nloops > e->loops.len) e->ndealt--; /* no longer in scope */
    const an_range_kind kind = kind_of(e, loop.range);
    for (uint32_t i = 0; i < loop.nclose; i++) {
        e->depth--;
        wgsl_line(e, "}");
    }
    if (kind == AN_RANGE_GLOBAL) e->nglobal_open--;
    if (kind == AN_RANGE_STAGE && !follows_stage(e, wgsl_place(e, u))) {
        wgsl_line(e, "workgroupBarrier();");
        e->staging = false;
    }
    for (size_t i = loop.first_set; i < e->sets.len && e->lanes > 1; i++) {
        const an_uop acc = an_uop_src(e->g, e->sets.data[i].node, 0);
        if (!e->sets.data[i].is_dealt || wgsl_place(e, acc) > wgsl_place(e, loop.range)) continue; /* its own of each iteration */
        bool later = false; /* where the loop is written out, or another one around it goes on with the acc */
        for (size_t k = loop.first_set; k < i; k++) later = later || an_uop_eq(acc, an_uop_src(e->g, e->sets.data[k].node, 0));
        for (size_t k = 0; k < e->loops.len; k++) later = later || wgsl_place(e, e->loops.data[k].range) > wgsl_place(e, acc);
        if (later) continue;
        const an_status st = join_threads(e, e->sets.data[i].node);
        if (st) return st;
    }
    return AN_OK;
}

/* The STAGE loops from place i on, up to the first load or end that is none of theirs. */
static bool find_stages(wgsl_emit *e, size_t i)
{
    enum { COPIES_MAX = 16 };
    e->nstages = 0;
    for (; i < e->kernel->nlinear; i++) {
        const an_uop u = e->kernel->linear[i];
        const an_op op = an_uop_op(e->g, u);
        if (op == AN_OP_LOAD || op == AN_OP_STORE || op == AN_OP_END || op == AN_OP_ACC_SET) break;
        if (op != AN_OP_RANGE) continue;
        int64_t n = 0;
        if (kind_of(e, u) != AN_RANGE_STAGE) break;
        if (!an_uop_int(e->g, an_uop_src(e->g, u, 0), &n) || n % e->nthreads || n / e->nthreads > COPIES_MAX) return false;
        if (e->nstages == WGSL_STAGES_MAX) return false;
        wgsl_stage *s = &e->stages[e->nstages++];
        *s = (wgsl_stage){.first = (uint32_t)i, .copies = (uint32_t)(n / e->nthreads)};
        for (i++; an_uop_op(e->g, e->kernel->linear[i]) != AN_OP_END; i++)
            if (an_uop_op(e->g, e->kernel->linear[i]) == AN_OP_RANGE) return false;
        s->end = (uint32_t)i;
    }
    return e->nstages > 0;
}

/* A row of STAGE loops that is written out has two halves: what is loaded and kept in variables (q and the name of the load), and what
 * is stored from them. */
static bool in_stage(const wgsl_emit *e, size_t i, uint32_t *stage)
{
    for (*stage = 0; *stage < e->nstages; (*stage)++)
        if (i >= e->stages[*stage].first && i <= e->stages[*stage].end) return true;
    return false;
}

/* For each load: the variable is declared; it keeps the load; the load is what it kept. */
typedef enum halves { DECLARE, KEEP, TAKE } halves;

static void pass_on(wgsl_emit *e, an_uop load, halves what)
{
    char name[WGSL_OPERAND_MAX], kept[WGSL_OPERAND_MAX + 1], value[4 * WGSL_OPERAND_MAX];
    const char *type = wgsl_value_type(e, load);
    for (uint32_t l = 0; l < an_uop_lanes(e->g, load); l++) {
        wgsl_name(e, load, l, name);
        if (what == DECLARE)
            wgsl_line(e, "var q%s = %s();", name, type);
        else if (what == KEEP)
            wgsl_line(e, "q%s = %s;", name, name);
        else {
            (void)snprintf(kept, sizeof kept, "q%s", name);
            if (an_uop_nsrc(e->g, load) > 2) wgsl_gated(e, load, l, kept, value, sizeof value);
            wgsl_line(e, "let %s = %s;", name, an_uop_nsrc(e->g, load) > 2 ? value : kept);
        }
    }
}

/* The half of the places from..last: all that loads need (KEEP), or all that stores need (TAKE). */
static an_status emit_half(wgsl_emit *e, size_t from, size_t last, halves what)
{
    an_status st = AN_OK;
    e->keeps = what == KEEP;
    for (size_t i = from; i <= last && !st; i++) {
        uint32_t s = 0;
        if (!in_stage(e, i, &s)) {
            if (what == KEEP) st = wgsl_emit_one(e, e->kernel->linear[i]);
            continue;
        }
        for (e->copy = 0; e->copy < e->stages[s].copies; e->copy++) {
            if (what != DECLARE) wgsl_line(e, "let v%uc%u = i32(lid + %uu);", e->stages[s].first, e->copy, e->copy * e->nthreads);
            for (size_t k = e->stages[s].first + 1; k < e->stages[s].end && !st; k++) {
                const an_uop u = e->kernel->linear[k];
                const an_op op = an_uop_op(e->g, u);
                if (op != AN_OP_LOAD && what == DECLARE) continue;
                if (op == AN_OP_LOAD ? what == KEEP : op != AN_OP_STORE || what == TAKE) st = wgsl_emit_one(e, u);
                if (op == AN_OP_LOAD && !st) pass_on(e, u, what);
            }
        }
        i = e->stages[s].end;
    }
    e->keeps = false;
    return st;
}

static void open_block(wgsl_emit *e)
{
    wgsl_line(e, "{");
    e->depth++;
}

static void close_block(wgsl_emit *e)
{
    e->depth--;
    wgsl_line(e, "}");
}

/* May the loads at places first..last be kept, and used later? Not behind a gate that is a branch, nor where what a gate lets through
 * decides on another load. */
static bool may_keep(wgsl_emit *e, size_t first, size_t last)
{
    const size_t n = last + 1 - first;
    bool *gated = an_mem_zalloc(e->ctx, n * sizeof *gated), ok = gated != NULL;
    if (!gated) e->st = AN_ERR_NOMEM;
    for (size_t i = first; i <= last && ok; i++) {
        const an_uop u = e->kernel->linear[i];
        const bool is_load = an_uop_op(e->g, u) == AN_OP_LOAD;
        for (uint32_t s = 0; s < an_uop_nsrc(e->g, u); s++) {
            const uint32_t at = wgsl_place(e, an_uop_src(e->g, u, s));
            gated[i - first] = gated[i - first] || (at >= first && at < i && gated[at - first]);
        }
        if (!is_load) continue;
        ok = !gated[i - first] && (an_uop_nsrc(e->g, u) < 3 || wgsl_is_branchless(e, u));
        gated[i - first] = an_uop_nsrc(e->g, u) > 2;
    }
    an_mem_free(e->ctx, gated, n * sizeof *gated);
    return ok;
}

/* Does the loop at place i begin by filling tiles? *first, *last: the places of the row of STAGE loops. */
static bool begins_with_stages(wgsl_emit *e, size_t i, size_t *first, size_t *last)
{
    const an_uop u = e->kernel->linear[i];
    int64_t n = 0;
    if (an_uop_op(e->g, u) != AN_OP_RANGE || kind_of(e, u) != AN_RANGE_REDUCE || !an_uop_int(e->g, an_uop_src(e->g, u, 0), &n) || n < 2) return false;
    for (*first = i + 1; *first < e->kernel->nlinear; (*first)++) {
        const an_op op = an_uop_op(e->g, e->kernel->linear[*first]);
        if (op == AN_OP_RANGE) break;
        if (!an_op_has(op, AN_TRAIT_ELEM) && op != AN_OP_RAMP && op != AN_OP_BROADCAST && op != AN_OP_CONST && op != AN_OP_PARAM && op != AN_OP_LOCAL)
            return false;
    }
    if (*first == e->kernel->nlinear || kind_of(e, e->kernel->linear[*first]) != AN_RANGE_STAGE || !find_stages(e, *first)) return false;
    *last = e->stages[e->nstages - 1].end;
    return may_keep(e, *first, *last);
}

/* What is in none of the STAGE loops. */
static an_status emit_between(wgsl_emit *e, size_t from, size_t last)
{
    an_status st = AN_OK;
    uint32_t s = 0;
    for (size_t i = from; i <= last && !st; i++)
        if (!in_stage(e, i, &s)) st = wgsl_emit_one(e, e->kernel->linear[i]);
    return st;
}

/* Loads for the iteration that `step` names, into what is kept. */
static an_status emit_ahead(wgsl_emit *e, size_t i, size_t last, const char *step)
{
    open_block(e);
    wgsl_line(e, "let v%u = %s;", (unsigned)i, step);
    const an_status st = emit_half(e, i + 1, last, KEEP);
    close_block(e);
    return st;
}

an_status wgsl_emit_ahead(wgsl_emit *e, size_t i, size_t *next)
{
    const an_uop range = e->kernel->linear[i];
    size_t first = 0, last = 0;
    char bound[WGSL_OPERAND_MAX], step[2 * WGSL_OPERAND_MAX];
    if (!begins_with_stages(e, i, &first, &last)) {
        e->nstages = 0;
        return AN_OK;
    }
    wgsl_operand(e, an_uop_src(e->g, range, 0), 0, bound);
    an_status st = emit_half(e, first, last, DECLARE);
    if (!st) st = emit_ahead(e, i, last, "0");
    if (!st) st = wgsl_emit_range(e, range);
    if (!st) st = emit_between(e, i + 1, last);
    wgsl_line(e, "workgroupBarrier();");
    open_block(e);
    if (!st) st = emit_half(e, first, last, TAKE);
    close_block(e);
    wgsl_line(e, "workgroupBarrier();");
    /* The last iteration loads its own again: no branch is around loads, so they need not be waited for at its end. */
    wgsl_line(e, "let n%u = min(v%u + 1, %s - 1);", (unsigned)i, (unsigned)i, bound);
    (void)snprintf(step, sizeof step, "n%u", (unsigned)i);
    if (!st) st = emit_ahead(e, i, last, step);
    e->nstages = 0;
    *next = last + 1;
    return st;
}

/* Is operand x, in loop b, what y is in loop a, iteration by iteration? An accumulator changes. */
static bool is_same(const wgsl_emit *e, const wgsl_dealt *b, an_uop x, const wgsl_dealt *a, an_uop y)
{
    if (an_uop_op(e->g, x) == AN_OP_ACC || an_uop_op(e->g, y) == AN_OP_ACC) return false;
    if (an_uop_eq(x, y)) return true;
    const uint32_t at_x = wgsl_place(e, x), at_y = wgsl_place(e, y);
    if (at_x == b->first && at_y == a->first) return true;
    return e->same[at_x] && e->same[at_x] == (e->same[at_y] ? e->same[at_y] : at_y + 1);
}

/* Does node u of loop b compute what node v of loop a does? */
static bool computes(const wgsl_emit *e, const wgsl_dealt *b, an_uop u, const wgsl_dealt *a, an_uop v)
{
    const an_op op = an_uop_op(e->g, u);
    const uint32_t n = an_uop_nsrc(e->g, u);
    if (e->raw[wgsl_place(e, u)] != e->raw[wgsl_place(e, v)]) return false;
    if (op != an_uop_op(e->g, v) || an_uop_dtype(e->g, u) != an_uop_dtype(e->g, v) || an_uop_lanes(e->g, u) != an_uop_lanes(e->g, v) ||
        an_uop_arg(e->g, u) != an_uop_arg(e->g, v) || n != an_uop_nsrc(e->g, v))
        return false;
    bool straight = true, crossed = n == 2 && an_op_has(op, AN_TRAIT_COMM);
    for (uint32_t s = 0; s < n && straight; s++) straight = is_same(e, b, an_uop_src(e->g, u, s), a, an_uop_src(e->g, v, s));
    for (uint32_t s = 0; s < n && crossed && !straight; s++) crossed = is_same(e, b, an_uop_src(e->g, u, s), a, an_uop_src(e->g, v, 1 - s));
    return straight || crossed;
}

static bool keeps_value(const wgsl_emit *e, an_uop u)
{
    const an_op op = an_uop_op(e->g, u);
    if (op == AN_OP_LOAD) {
        const an_uop ptr = an_uop_src(e->g, u, 0);
        return an_uop_op(e->g, ptr) == AN_OP_PARAM && !e->params[an_uop_arg(e->g, ptr)].written;
    }
    return an_op_has(op, AN_TRAIT_ELEM) || op == AN_OP_RAMP || op == AN_OP_BROADCAST || op == AN_OP_LANE || op == AN_OP_VECTOR;
}

/* What loops before this one have computed already. */
static void find_same(wgsl_emit *e, const wgsl_dealt *b)
{
    for (size_t i = b->first + 1u; i < b->end; i++) {
        const an_uop u = e->kernel->linear[i];
        if (!keeps_value(e, u)) continue;
        for (uint32_t k = 0; k + 1 < e->ndealt && !e->same[i]; k++) {
            const wgsl_dealt *a = &e->dealt[k];
            for (size_t j = a->first + 1u; j < a->end && a->copies == b->copies && !e->same[i]; j++)
                if (keeps_value(e, e->kernel->linear[j]) && computes(e, b, u, a, e->kernel->linear[j])) e->same[i] = e->same[j] ? e->same[j] : (uint32_t)j + 1;
        }
    }
}

/* The END of the loop at place i, if its body is straight and short enough to be written out that often; 0 if not. */
static size_t straight_end(const wgsl_emit *e, size_t i, uint32_t copies)
{
    enum { NODES_MAX = 1024 };
    for (size_t k = i + 1; k < e->kernel->nlinear; k++) {
        const an_op op = an_uop_op(e->g, e->kernel->linear[k]);
        if (op == AN_OP_END) return (k - i) * copies <= NODES_MAX ? k : 0;
        if (op == AN_OP_RANGE || op == AN_OP_ACC) return 0;
    }
    return 0;
}

an_status wgsl_emit_dealt(wgsl_emit *e, size_t i, size_t *next)
{
    const an_uop range = e->kernel->linear[i];
    int64_t n = 0;
    if (an_uop_op(e->g, range) != AN_OP_RANGE || kind_of(e, range) != AN_RANGE_GROUP || !an_uop_int(e->g, an_uop_src(e->g, range, 0), &n)) return AN_OK;
    if (n % e->lanes || n / e->lanes > DEALT_COPIES_MAX || e->ndealt == WGSL_DEALT_MAX) return AN_OK;
    const uint32_t copies = (uint32_t)(n / e->lanes);
    const size_t end = straight_end(e, i, copies);
    if (!end) return AN_OK;
    const wgsl_dealt b = {(uint32_t)i, (uint32_t)end, copies, e->loops.len};
    const wgsl_loop loop = {range, 0, e->sets.len};
    e->dealt[e->ndealt++] = b;
    find_same(e, &b);
    if (!an_vec_push(e->ctx, &e->loops, loop)) return AN_ERR_NOMEM;
    an_status st = AN_OK;
    for (e->copy = 0; e->copy < copies && !st; e->copy++) {
        wgsl_line(e, "let v%uc%u = i32(%s + %uu);", b.first, e->copy, lane_of(e), e->copy * e->lanes);
        for (size_t k = i + 1; k < end && !st; k++)
            if (!e->same[k]) st = wgsl_emit_one(e, e->kernel->linear[k]);
    }
    e->copy = 0;
    *next = end; /* the END joins what threads have */
    return st;
}

an_status wgsl_emit_stages(wgsl_emit *e, size_t i, size_t *next)
{
    const an_uop first = e->kernel->linear[i];
    if (an_uop_op(e->g, first) != AN_OP_RANGE || kind_of(e, first) != AN_RANGE_STAGE || !find_stages(e, i)) {
        e->nstages = 0;
        return AN_OK;
    }
    an_status st = AN_OK;
    for (uint32_t s = 0; s < e->nstages && !st; s++) {
        const wgsl_stage *stage = &e->stages[s];
        for (; i < stage->first && !st; i++) st = wgsl_emit_one(e, e->kernel->linear[i]);
        for (e->copy = 0; e->copy < stage->copies; e->copy++) {
            wgsl_line(e, "let v%uc%u = i32(lid + %uu);", stage->first, e->copy, e->copy * e->nthreads);
            for (size_t k = stage->first + 1; k < stage->end && !st; k++)
                if (an_uop_op(e->g, e->kernel->linear[k]) != AN_OP_STORE) st = wgsl_emit_one(e, e->kernel->linear[k]);
        }
        i = stage->end + 1u;
    }
    wgsl_line(e, "workgroupBarrier();");
    for (uint32_t s = 0; s < e->nstages && !st; s++)
        for (e->copy = 0; e->copy < e->stages[s].copies; e->copy++)
            for (size_t k = e->stages[s].first + 1; k < e->stages[s].end && !st; k++)
                if (an_uop_op(e->g, e->kernel->linear[k]) == AN_OP_STORE) st = wgsl_emit_one(e, e->kernel->linear[k]);
    wgsl_line(e, "workgroupBarrier();");
    e->nstages = 0;
    *next = i;
    return st;
}
