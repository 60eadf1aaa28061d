/* random_make.c - the random program of a seed. Calls are tried on a graph of their own: what the library refuses, what gets
 * too large, or is mostly infinite or left open by rounding, is dropped. */
#include "random_program.h"

#include <anneal/device.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum form {
    INPUT, FULL, ARANGE, UNARY, BINARY, TERNARY, FILL, SCALAR, CAST, RESHAPE, PERMUTE, EXPAND, AXIS, PAD, AXES, SLICE, PICK, CAT,
    SAME, REPEAT, TIMES, REDUCE, MATMUL, VECTORS, CONV, POOL, GATHER, TAKE, SCATTER, ONE_HOT, CROSS, REALIZE, ASSIGN, ASSIGN_PART,
    GRAD
} form;

static const struct {
    form form;
    uint32_t weight;
} ops[] = {
#define RANDOM_OP(id, form, weight, text, call) {form, weight},
#include "random_ops.def"
#undef RANDOM_OP
};

typedef struct maker {
    random_program *p;
    an_graph *g;
    an_tensor *v[RANDOM_CALLS];
    evaluation ev;
    uint64_t rng;
    int64_t numel_max;
} maker;

static uint64_t below(maker *m, uint64_t n)
{
    return random_next(&m->rng) % n;
}

static bool chance(maker *m, uint64_t percent)
{
    return below(m, 100) < percent;
}

static int64_t between(maker *m, int64_t low, int64_t high)
{
    return low + (int64_t)below(m, (uint64_t)(high - low) + 1);
}

static an_dtype any_dtype(maker *m)
{
    static const an_dtype all[] = {AN_F32, AN_F32, AN_F32, AN_F32, AN_F32, AN_F32, AN_F16,  AN_BF16, AN_F64, AN_I32,
                                   AN_I32, AN_I32, AN_U8,  AN_BOOL, AN_BOOL, AN_I64, AN_I8, AN_U32, AN_I16, AN_F8E4M3};
    return all[below(m, sizeof all / sizeof *all - !chance(m, 20))];
}

static int64_t any_dim(maker *m)
{
    static const int64_t all[] = {1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 9, 16, 17, 32, 33, 64, 0};
    return all[below(m, sizeof all / sizeof *all - !chance(m, 15))];
}

static void any_shape(maker *m, random_call *c)
{
    static const uint32_t ranks[] = {0, 1, 1, 2, 2, 2, 3, 3, 4};
    int64_t numel = 1;
    c->n = ranks[below(m, sizeof ranks / sizeof *ranks)];
    for (uint32_t i = 0; i < c->n; i++) {
        c->p[i] = any_dim(m);
        if (numel * c->p[i] > m->numel_max) c->p[i] = between(m, 1, 2);
        numel *= c->p[i];
    }
}

static uint32_t rank_of(const maker *m, int i)
{
    return an_tensor_rank(m->v[i]);
}

static int64_t dim_of(const maker *m, int i, uint32_t axis)
{
    return an_tensor_dim(m->v[i], (int)axis);
}

static bool is_float(an_dtype d)
{
    return an_dtype_kind_of(d) == AN_KIND_FLOAT;
}

/* A value made before: one of the last more often. */
static int any_value(maker *m)
{
    const int n = m->p->n;
    return chance(m, 60) && n > 4 ? n - 1 - (int)below(m, 4) : (int)below(m, (uint64_t)n);
}

static int float_value(maker *m)
{
    for (int i = 0; i < 8; i++) {
        const int v = any_value(m);
        if (is_float(an_tensor_dtype(m->v[v]))) return v;
    }
    return any_value(m);
}

/* Adds a call if it works; its number, or -1. */
static int add(maker *m, random_call c)
{
    random_program *p = m->p;
    an_ctx *ctx = an_graph_ctx(m->g);
    if (p->n >= RANDOM_CALLS) return -1;
    const int i = p->n;
    p->call[i] = c;
    an_tensor *x = random_apply(m->g, p, i, m->v);
    if (!x) {
        if (an_ctx_status(ctx) != AN_ERR_NOMEM && an_ctx_status(ctx) != AN_ERR_INTERNAL) an_ctx_clear_error(ctx);
        return -1;
    }
    m->v[i] = x;
    const int64_t numel = an_tensor_numel(x);
    if (numel > m->numel_max) return -1;
    const eval_value *v = evaluation_of(&m->ev, an_tensor_uop(x));
    if (!v) return -1;
    int64_t bad = 0;
    const an_dtype d = an_tensor_dtype(x);
    for (size_t k = 0; k < v->n; k++) {
        const bool odd = is_float(d) && (!isfinite(v->data[k].f) || fabs(v->data[k].f) > 1e6);
        if (odd || !isfinite(v->error[k])) bad++;
    }
    /* An assignment has changed its target's handle and cannot be taken back. */
    if (2 * bad > numel && !chance(m, 15) && !random_writes(c.op)) return -1;
    p->n++;
    return i;
}

static random_call call_of(random_op op, int a, int b, int c)
{
    return (random_call){.op = op, .src = {a, b, c}};
}

static int add_input(maker *m, random_call c)
{
    c.op = RANDOM_INPUT;
    c.src[0] = c.src[1] = c.src[2] = -1;
    c.seed = random_next(&m->rng);
    return add(m, c);
}

static int new_input(maker *m, an_dtype d, const int64_t *dims, uint32_t rank)
{
    random_call c = {.dtype = d, .n = rank};
    for (uint32_t i = 0; i < rank; i++) c.p[i] = dims[i];
    return add_input(m, c);
}

/* Indices into an axis of n elements. */
static int new_index(maker *m, int64_t n, const int64_t *dims, uint32_t rank)
{
    static const an_dtype kinds[] = {AN_I32, AN_I32, AN_I64, AN_U8};
    random_call c = {.dtype = kinds[below(m, 4)], .n = rank, .below = n > 0 ? n : 1};
    for (uint32_t i = 0; i < rank; i++) c.p[i] = dims[i];
    return add_input(m, c);
}

static bool broadcasts(const maker *m, int a, int b)
{
    for (uint32_t i = 1; i <= rank_of(m, a) && i <= rank_of(m, b); i++) {
        const int64_t x = dim_of(m, a, rank_of(m, a) - i), y = dim_of(m, b, rank_of(m, b) - i);
        if (x != y && x != 1 && y != 1) return false;
    }
    return true;
}

/* A value that broadcasts with a: one there is, or a new one. */
static int partner(maker *m, int a)
{
    for (int i = 0; i < 6; i++) {
        const int b = any_value(m);
        if (broadcasts(m, a, b)) return b;
    }
    int64_t dims[AN_RANK_MAX];
    uint32_t n = 0;
    for (uint32_t i = (uint32_t)below(m, rank_of(m, a) + 1); i < rank_of(m, a); i++) dims[n++] = chance(m, 30) ? 1 : dim_of(m, a, i);
    return new_input(m, chance(m, 60) ? an_tensor_dtype(m->v[a]) : any_dtype(m), dims, n);
}

/* A value of a's shape. */
static int twin(maker *m, int a)
{
    int64_t dims[AN_RANK_MAX];
    for (uint32_t i = 0; i < rank_of(m, a); i++) dims[i] = dim_of(m, a, i);
    for (int i = 0; i < 6; i++) {
        const int b = any_value(m);
        bool same = rank_of(m, a) == rank_of(m, b);
        for (uint32_t k = 0; same && k < rank_of(m, a); k++) same = dims[k] == dim_of(m, b, k);
        if (same) return b;
    }
    return new_input(m, an_tensor_dtype(m->v[a]), dims, rank_of(m, a));
}

static void any_reshape(maker *m, int a, random_call *c)
{
    c->n = rank_of(m, a);
    for (uint32_t i = 0; i < c->n; i++) c->p[i] = dim_of(m, a, i);
    for (uint64_t steps = 1 + below(m, 4); steps > 0; steps--) {
        const uint64_t kind = below(m, 4);
        if (kind < 2 && c->n >= 2) { /* two axes become one */
            const uint32_t i = (uint32_t)below(m, c->n - 1);
            c->p[i] *= c->p[i + 1];
            for (uint32_t k = i + 1; k + 1 < c->n; k++) c->p[k] = c->p[k + 1];
            c->n--;
        } else if (c->n < 6) { /* one becomes two, or a new 1 */
            const uint32_t i = (uint32_t)below(m, c->n + 1);
            int64_t d = 1;
            if (i < c->n && c->p[i] > 1)
                for (int64_t t = between(m, 2, c->p[i]); t > 1 && d == 1; t--)
                    if (c->p[i] % t == 0) d = t;
            for (uint32_t k = c->n; k > i; k--) c->p[k] = c->p[k - 1];
            c->p[i] = d;
            c->n++;
            if (i + 1 < c->n) c->p[i + 1] /= d;
        }
    }
}

/* A convolution's input of that rank, and weights for it. */
static bool conv_operands(maker *m, random_call *c, uint32_t spatial)
{
    int a = -1;
    for (int i = 0; i < 4 && a < 0; i++) {
        const int v = any_value(m);
        if (rank_of(m, v) == spatial + 2) a = v;
    }
    const int64_t groups = chance(m, 25) ? 2 : 1;
    const int64_t x[4] = {between(m, 1, 2), groups * between(m, 1, 3), between(m, 3, 8), between(m, 3, 6)};
    if (a < 0) a = new_input(m, AN_F32, x, spatial + 2);
    if (a < 0) return false;
    const int64_t channels = dim_of(m, a, 1);
    c->p[4] = channels % groups == 0 ? groups : 1;
    const int64_t w[4] = {c->p[4] * between(m, 1, 3), channels / c->p[4], between(m, 1, 3), between(m, 1, 3)};
    c->src[0] = a;
    c->src[1] = new_input(m, chance(m, 85) ? an_tensor_dtype(m->v[a]) : AN_F32, w, spatial + 2);
    for (int i = 0; i < 4; i++) c->p[i] = i < 2 ? between(m, 1, 2) : between(m, 0, 2);
    c->n = 5;
    return c->src[1] >= 0;
}

/* Smaller or equal on every axis but one. */
static void index_shape(maker *m, int a, uint32_t axis, int64_t *dims)
{
    for (uint32_t i = 0; i < rank_of(m, a); i++) {
        const int64_t d = dim_of(m, a, i);
        dims[i] = i == axis ? between(m, 1, 5) : chance(m, 70) ? d : between(m, 0, d);
    }
}

static bool indexed(maker *m, random_call *c, form kind)
{
    int64_t dims[AN_RANK_MAX] = {between(m, 0, 5), between(m, 1, 3)};
    const int a = c->src[0];
    const uint32_t rank = rank_of(m, a);
    if (rank == 0) return false;
    const uint32_t axis = (uint32_t)below(m, rank);
    c->p[0] = axis;
    c->n = 1;
    if (kind == TAKE) {
        c->src[1] = new_index(m, dim_of(m, a, axis), dims, (uint32_t)below(m, 3));
    } else {
        index_shape(m, a, axis, dims);
        c->src[1] = new_index(m, dim_of(m, a, axis), dims, rank);
    }
    if (kind == SCATTER && c->src[1] >= 0) c->src[2] = new_input(m, an_tensor_dtype(m->v[a]), dims, rank);
    return c->src[1] >= 0 && (kind != SCATTER || c->src[2] >= 0);
}

static bool matmul_operands(maker *m, random_call *c)
{
    const uint32_t rank = rank_of(m, c->src[0]);
    if (rank == 0) return false;
    const int64_t k = dim_of(m, c->src[0], rank - 1);
    for (int i = 0; i < 6; i++) {
        const int b = any_value(m);
        const uint32_t r = rank_of(m, b);
        if (r > 0 && dim_of(m, b, r > 1 ? r - 2 : 0) == k) c->src[1] = b;
    }
    if (c->src[1] >= 0) return true;
    const int64_t dims[3] = {k, any_dim(m), 1};
    c->src[1] = new_input(m, chance(m, 80) ? an_tensor_dtype(m->v[c->src[0]]) : any_dtype(m), dims, chance(m, 20) ? 1 : 2);
    return c->src[1] >= 0;
}

/* An input that a depends on, of a float dtype, or anything. */
static int origin(maker *m, int a)
{
    for (int steps = 0; steps < 20; steps++) {
        const random_call *c = &m->p->call[a];
        const int next = c->src[below(m, 3)];
        if (next >= 0 && is_float(an_tensor_dtype(m->v[next]))) a = next;
        if (c->op == RANDOM_INPUT || chance(m, 5)) break;
    }
    return a;
}

static const int64_t steps[] = {1, 1, 1, 2, 3, -1, -1, -2, -3};

static bool any_slice(maker *m, int a, random_call *c)
{
    if (rank_of(m, a) == 0) return false;
    const uint32_t axis = (uint32_t)below(m, rank_of(m, a));
    const int64_t d = dim_of(m, a, axis);
    c->n = 4;
    c->p[0] = axis;
    c->p[1] = chance(m, 30) ? AN_NONE : between(m, -d - 1, d + 1);
    c->p[2] = chance(m, 30) ? AN_NONE : between(m, -d - 1, d + 1);
    c->p[3] = steps[below(m, sizeof steps / sizeof *steps)];
    return true;
}

/* Chooses operands and numbers. False: no luck. */
static bool fill_in(maker *m, random_call *c, form kind)
{
    static const double scalars[] = {-2, -1, 0, 1, 2, 3, 4, 0.5, -1.5, 10};
    const int a = kind == GRAD || kind == CROSS || kind == CONV ? float_value(m) : any_value(m);
    const uint32_t rank = rank_of(m, a);
    c->src[0] = a;
    c->dtype = any_dtype(m);
    c->f = scalars[below(m, sizeof scalars / sizeof *scalars)];
    switch (kind) {
    case INPUT:
    case FULL:
    case ARANGE:
        c->src[0] = -1;
        any_shape(m, c);
        c->seed = random_next(&m->rng);
        if (kind != ARANGE) break;
        c->n = 3;
        c->p[0] = between(m, -5, 5);
        c->p[2] = steps[below(m, sizeof steps / sizeof *steps)];
        c->p[1] = c->p[0] + c->p[2] * between(m, 0, 20);
        break;
    case UNARY:
    case SCALAR:
    case CAST: break;
    case BINARY: c->src[1] = partner(m, a); return c->src[1] >= 0;
    case TERNARY:
        c->src[1] = a;
        c->src[0] = partner(m, a);
        c->src[2] = partner(m, a);
        return c->src[0] >= 0 && c->src[2] >= 0;
    case FILL: c->src[1] = twin(m, a); return c->src[1] >= 0;
    case RESHAPE: any_reshape(m, a, c); break;
    case PERMUTE:
        c->n = rank;
        for (uint32_t i = 0; i < rank; i++) c->p[i] = i;
        for (uint32_t i = rank; i > 1; i--) {
            const uint64_t k = below(m, i);
            const int64_t t = c->p[i - 1];
            c->p[i - 1] = c->p[k];
            c->p[k] = t;
        }
        break;
    case EXPAND: {
        const uint32_t more = chance(m, 40) && rank < 5;
        c->n = rank + more;
        c->p[0] = between(m, 1, 4);
        for (uint32_t i = 0; i < rank; i++) c->p[i + more] = dim_of(m, a, i) == 1 ? between(m, 1, 5) : dim_of(m, a, i);
        break;
    }
    case AXIS:
    case TIMES:
        if (rank == 0 && c->op != RANDOM_UNSQUEEZE) return false;
        c->n = 2;
        c->p[0] = between(m, -(int64_t)rank, (int64_t)rank - (rank > 0));
        c->p[1] = kind == AXIS ? chance(m, 50) : between(m, -3, 3);
        break;
    case PAD:
        c->n = 2 * rank;
        for (uint32_t i = 0; i < c->n; i++) c->p[i] = chance(m, 40) ? between(m, 0, 3) : 0;
        if (chance(m, 70)) c->f = 0;
        break;
    case AXES:
        for (uint32_t i = 0; i < rank; i++)
            if (chance(m, 50)) c->p[c->n++] = i;
        return c->n > 0;
    case SLICE: return any_slice(m, a, c);
    case PICK: {
        if (rank == 0) return false;
        const uint32_t axis = (uint32_t)below(m, rank);
        c->n = 2;
        c->p[0] = axis;
        c->p[1] = between(m, 0, dim_of(m, a, axis));
        break;
    }
    case CAT: {
        if (rank == 0) return false;
        int64_t dims[AN_RANK_MAX];
        c->n = 1;
        c->p[0] = (int64_t)below(m, rank);
        for (uint32_t i = 0; i < rank; i++) dims[i] = i == c->p[0] ? between(m, 0, 4) : dim_of(m, a, i);
        c->src[1] = chance(m, 60) ? twin(m, a) : new_input(m, an_tensor_dtype(m->v[a]), dims, rank);
        return c->src[1] >= 0;
    }
    case SAME:
        c->n = 1;
        c->p[0] = between(m, 0, rank);
        c->src[1] = twin(m, a);
        return c->src[1] >= 0;
    case REPEAT:
        c->n = rank + chance(m, 30);
        for (uint32_t i = 0; i < c->n; i++) c->p[i] = between(m, 1, 2);
        break;
    case REDUCE:
        c->p[0] = chance(m, 40);
        c->n = 1;
        for (uint32_t i = 0; i < rank; i++)
            if (chance(m, 50)) c->p[c->n++] = i;
        break;
    case MATMUL: return matmul_operands(m, c);
    case VECTORS: c->src[1] = any_value(m); return rank == 1 && rank_of(m, c->src[1]) == 1;
    case CONV: return conv_operands(m, c, c->op == RANDOM_CONV1D ? 1 : 2);
    case POOL:
        c->n = 4;
        c->p[0] = between(m, 1, 4);
        c->p[1] = between(m, 1, 3);
        c->p[2] = between(m, 0, c->p[0] / 2);
        c->p[3] = between(m, 1, 3);
        break;
    case GATHER:
    case TAKE:
    case SCATTER: return indexed(m, c, kind);
    case ONE_HOT:
        c->n = 1;
        c->p[0] = between(m, 0, 6);
        break;
    case CROSS: {
        if (rank == 0) return false;
        int64_t dims[AN_RANK_MAX];
        uint32_t n = 0;
        const uint32_t classes = rank > 1;
        for (uint32_t i = 0; i < rank; i++)
            if (i != classes) dims[n++] = dim_of(m, a, i);
        c->src[1] = new_index(m, dim_of(m, a, classes), dims, n);
        return c->src[1] >= 0;
    }
    case REALIZE: /* not after an assignment: it would run, and what was built before on the old contents be stale */
        for (int i = 0; i < m->p->n; i++)
            if (random_writes(m->p->call[i].op)) return false;
        break;
    case ASSIGN:
    case ASSIGN_PART: {
        int targets[RANDOM_CALLS], n = 0;
        for (int i = 0; i < m->p->n; i++)
            if (m->p->call[i].op == RANDOM_INPUT || random_writes(m->p->call[i].op)) targets[n++] = i;
        if (n == 0) return false;
        c->src[0] = targets[below(m, (uint64_t)n)];
        if (kind == ASSIGN_PART) {
            if (!any_slice(m, c->src[0], c)) return false;
            c->p[4] = chance(m, 30);
            c->n = 5;
            c->src[1] = twin(m, c->src[0]);
            return c->src[1] >= 0;
        }
        for (int i = 0; i < 4; i++) {
            c->src[1] = i < 3 ? any_value(m) : partner(m, c->src[0]);
            if (c->src[1] >= 0 && broadcasts(m, c->src[0], c->src[1])) break;
        }
        return c->src[1] >= 0;
    }
    case GRAD: /* what is realized depends on nothing any more, which the oracle does not know */
        for (int i = 0; i < m->p->n; i++)
            if (m->p->call[i].op == RANDOM_REALIZE) return false;
        c->src[1] = origin(m, a); break;
    }
    return true;
}

static random_op any_op(maker *m)
{
    uint64_t total = 0;
    for (int i = 0; i < RANDOM_OP_COUNT; i++) total += ops[i].weight;
    uint64_t at = below(m, total);
    for (int i = 0; i < RANDOM_OP_COUNT; i++) {
        if (at < ops[i].weight) return (random_op)i;
        at -= ops[i].weight;
    }
    return RANDOM_ADD;
}

/* What nothing uses is asked for, mostly, and some of what is used. */
static void choose_outputs(maker *m)
{
    random_program *p = m->p;
    bool used[RANDOM_CALLS] = {false}, any = false;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < 3; k++)
            if (p->call[i].src[k] >= 0) used[p->call[i].src[k]] = true;
    for (int i = 0; i < p->n; i++) {
        if (p->call[i].op == RANDOM_INPUT) continue;
        const bool assigned = random_writes(p->call[i].op);
        p->call[i].output = chance(m, assigned ? 60 : used[i] ? 8 : 70);
        any = any || p->call[i].output;
    }
    if (p->n) p->call[p->n - 1].output |= !any;
}

an_status random_make(an_ctx *ctx, uint64_t seed, random_program *out)
{
    maker m = {.p = out, .rng = seed * 2 + 1};
    *out = (random_program){.seed = seed, .lazy = true};
    an_status st = an_graph_create(ctx, &m.g);
    if (!st) st = an_graph_set_device(m.g, "interp");
    m.ev = (evaluation){.g = m.g, .errors = true};
    m.numel_max = chance(&m, 6) ? 4096 : chance(&m, 30) ? 512 : 100;
    const int length = (int)between(&m, 3, chance(&m, 20) ? 28 : 13);
    const an_dtype first = chance(&m, 70) ? AN_F32 : any_dtype(&m);
    random_call start = {.dtype = first};
    any_shape(&m, &start);
    if (!st) (void)add_input(&m, start);
    for (int tries = 0; tries < 200 && out->n > 0 && out->n < length && !st; tries++) {
        const random_op op = any_op(&m);
        random_call c = call_of(op, -1, -1, -1);
        if (!fill_in(&m, &c, ops[op].form)) continue;
        (void)add(&m, c);
        st = an_ctx_status(ctx);
    }
    choose_outputs(&m);
    out->lazy = false;
    evaluation_fini(&m.ev);
    an_graph_destroy(m.g);
    return st;
}
