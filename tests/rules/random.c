/* random.c - see random.h. */
#include "random.h"

#include "ir/eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

rng rng_seeded(uint64_t seed)
{
    const char *more = getenv("AN_TEST_SEED");
    return (rng){seed + (more ? strtoull(more, NULL, 10) : 0) * 1000003u};
}

uint64_t rng_next(rng *r)
{
    /* splitmix64 */
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t rng_below(rng *r, uint32_t n)
{
    return (uint32_t)(rng_next(r) % n);
}

bool rng_chance(rng *r, uint32_t percent)
{
    return rng_below(r, 100) < percent;
}

static int64_t between(rng *r, int64_t lo, int64_t hi)
{
    const uint64_t n = (uint64_t)hi - (uint64_t)lo + 1; /* 0: all of them */
    return (int64_t)((uint64_t)lo + (n ? rng_next(r) % n : rng_next(r)));
}

/* ---- leaves --------------------------------------------------------------------------------------- */

static bool is_float(an_dtype d)
{
    return an_dtype_kind_of(d) == AN_KIND_FLOAT;
}

static bool is_anyint(an_dtype d)
{
    const an_dtype_kind k = an_dtype_kind_of(d);
    return k == AN_KIND_INT || k == AN_KIND_UINT || k == AN_KIND_INDEX;
}

an_dtype random_dtype(rng *r)
{
    static const an_dtype pool[] = {AN_BOOL, AN_I8, AN_I32, AN_I32, AN_I64, AN_U8, AN_U32, AN_U64, AN_INDEX, AN_INDEX, AN_INDEX,
                                    AN_F16, AN_BF16, AN_F32, AN_F32, AN_F64, AN_F8E5M2};
    return pool[rng_below(r, sizeof pool / sizeof *pool)];
}

static double special_float(rng *r)
{
    static const double pool[] = {0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.25, 3.0, 1.5, 1e-30, 1e30, 0.1, 1024.0, 7.0};
    if (rng_chance(r, 6)) return rng_chance(r, 50) ? HUGE_VAL : -HUGE_VAL;
    if (rng_chance(r, 4)) return (double)NAN;
    return pool[rng_below(r, sizeof pool / sizeof *pool)];
}

static int64_t special_int(rng *r, an_dtype dtype)
{
    static const int64_t small[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, -1, -2, -3, -4, -8, 64, 100, 127};
    if (dtype != AN_INDEX && rng_chance(r, 6)) return (int64_t)rng_next(r);
    if (dtype != AN_INDEX && rng_chance(r, 6)) return an_reduce_identity(rng_chance(r, 50) ? AN_OP_MAX : AN_OP_MIN, dtype).i;
    return small[rng_below(r, sizeof small / sizeof *small)];
}

static an_uop random_const(an_graph *g, rng *r, an_dtype dtype)
{
    if (is_float(dtype)) return an_const_float(g, dtype, special_float(r));
    if (dtype == AN_BOOL) return an_const_int(g, dtype, rng_below(r, 2));
    return an_const_int(g, dtype, special_int(r, dtype));
}

/* A VAR of any dtype, as an_expr_parse makes them. */
static an_uop random_var(an_graph *g, rng *r, an_dtype dtype)
{
    char name[16];
    int64_t lo = 0, hi = dtype == AN_BOOL;
    if (dtype == AN_INDEX && rng_chance(r, 60)) { /* few, so that they meet again */
        static const struct {
            const char *name;
            int64_t lo, hi;
        } pool[] = {{"a", 0, 63}, {"b", 0, 7}, {"c", 0, 1023}, {"d", -5, 5}};
        const uint32_t k = rng_below(r, 4);
        return an_uop_var(g, pool[k].name, pool[k].lo, pool[k].hi);
    }
    if (is_anyint(dtype)) {
        const bool is_signed = an_dtype_kind_of(dtype) != AN_KIND_UINT;
        const uint32_t kind = rng_below(r, 6);
        static const int64_t tops[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 63, 100, 127};
        hi = tops[rng_below(r, sizeof tops / sizeof *tops)];
        if (kind == 0 && is_signed) lo = -hi;
        if (kind == 1 && is_signed) lo = -tops[rng_below(r, 5)];
        if (kind == 2) lo = hi;
        if (kind == 3 && dtype != AN_INDEX) {
            lo = an_reduce_identity(AN_OP_MAX, dtype).i;
            hi = dtype == AN_U64 ? INT64_MAX : an_reduce_identity(AN_OP_MIN, dtype).i;
        }
    }
    snprintf(name, sizeof name, "v%u", rng_below(r, 6));
    const an_uop v = an_uop_var(g, name, lo, hi);
    if (an_uop_is_none(v)) return v;
    const an_uop src[2] = {an_uop_src(g, v, 0), an_uop_src(g, v, 1)};
    return an_uop_new(g, AN_OP_VAR, dtype, src, 2, an_uop_arg(g, v));
}

/* ---- expressions ---------------------------------------------------------------------------------- */

/* Is the op defined for operands (not conditions) of this dtype? */
static bool op_takes(an_op op, an_dtype d)
{
    switch (op) {
    case AN_OP_SQRT:
    case AN_OP_EXP2:
    case AN_OP_LOG2:
    case AN_OP_SIN:
    case AN_OP_ERF:
    case AN_OP_TRUNC:
    case AN_OP_DIV: return is_float(d);
    case AN_OP_IDIV:
    case AN_OP_IMOD:
    case AN_OP_FLOORDIV:
    case AN_OP_FLOORMOD: return is_anyint(d);
    case AN_OP_SHL:
    case AN_OP_SHR: return is_anyint(d) && d != AN_INDEX;
    case AN_OP_AND:
    case AN_OP_OR:
    case AN_OP_XOR: return is_anyint(d) || d == AN_BOOL;
    default: return true;
    }
}

static an_uop random_bool(an_graph *g, rng *r, int depth)
{
    static const an_op cmps[] = {AN_OP_CMPLT, AN_OP_CMPLT, AN_OP_CMPLT, AN_OP_CMPEQ, AN_OP_CMPNE};
    static const an_op joins[] = {AN_OP_AND, AN_OP_AND, AN_OP_OR, AN_OP_XOR};
    if (rng_chance(r, 60)) {
        const an_dtype d = rng_chance(r, 60) ? AN_INDEX : random_dtype(r);
        const an_uop x = random_expr(g, r, d, depth - 1);
        const an_uop y = rng_chance(r, 60) ? random_const(g, r, d) : random_expr(g, r, d, depth - 1);
        return rng_chance(r, 25) ? an_binary(g, cmps[rng_below(r, 5)], y, x) : an_binary(g, cmps[rng_below(r, 5)], x, y);
    }
    const an_uop x = random_bool(g, r, depth - 2), y = random_expr(g, r, AN_BOOL, depth - 1);
    return rng_chance(r, 20) ? an_not(g, x) : an_binary(g, joins[rng_below(r, 4)], x, y);
}

/* What index expressions are made of. */
static an_uop random_sum(an_graph *g, rng *r, an_dtype dtype, int depth)
{
    const uint32_t n = 1 + rng_below(r, 4);
    an_uop sum = AN_UOP_NONE;
    for (uint32_t i = 0; i < n; i++) {
        an_uop x = random_expr(g, r, dtype, depth - 2);
        if (rng_chance(r, 60)) x = an_binary(g, AN_OP_MUL, x, random_const(g, r, dtype));
        sum = i ? an_binary(g, AN_OP_ADD, sum, x) : x;
    }
    return rng_chance(r, 40) ? an_binary(g, AN_OP_ADD, sum, random_const(g, r, dtype)) : sum;
}

an_uop random_expr(an_graph *g, rng *r, an_dtype dtype, int depth)
{
    if (depth <= 0 || rng_chance(r, 20)) return rng_chance(r, 25) ? random_const(g, r, dtype) : random_var(g, r, dtype);
    if (dtype == AN_BOOL) return random_bool(g, r, depth);
    if (is_anyint(dtype) && rng_chance(r, 45)) return random_sum(g, r, dtype, depth);
    if (is_anyint(dtype) && rng_chance(r, 35)) {
        static const an_op divs[] = {AN_OP_FLOORDIV, AN_OP_FLOORMOD, AN_OP_FLOORDIV, AN_OP_FLOORMOD, AN_OP_IDIV, AN_OP_IMOD};
        const an_uop x = random_sum(g, r, dtype, depth);
        return an_binary(g, divs[rng_below(r, 6)], x, random_const(g, r, dtype));
    }
    for (;;) {
        const an_op op = (an_op)(1 + rng_below(r, AN_OP_COUNT - 1));
        if (!an_op_has(op, AN_TRAIT_ELEM) || an_op_has(op, AN_TRAIT_CMP) || !op_takes(op, dtype)) continue;
        if (op == AN_OP_BITCAST) continue;
        if (op == AN_OP_CAST) return an_cast_to(g, dtype, random_expr(g, r, random_dtype(r), depth - 1));
        const an_uop x = random_expr(g, r, dtype, depth - 1);
        if (an_op_has(op, AN_TRAIT_UNARY)) return an_unary(g, op, x);
        const an_uop y = rng_chance(r, 15) ? x : random_expr(g, r, dtype, depth - 1);
        if (op == AN_OP_WHERE) return an_select(g, random_expr(g, r, AN_BOOL, depth - 1), x, y);
        if (op == AN_OP_MULACC) {
            const an_uop src[3] = {x, y, random_expr(g, r, dtype, depth - 1)};
            return an_uop_new(g, op, dtype, src, 3, 0);
        }
        return an_binary(g, op, x, y);
    }
}

/* ---- instances of patterns ------------------------------------------------------------------------- */

enum { NAMES_MAX = 32 };
typedef struct instance {
    an_graph *g;
    rng *r;
    const char *name[NAMES_MAX];
    an_uop to[NAMES_MAX];
    size_t n;
} instance;

static bool dtype_fits(uint32_t mask, an_dtype d)
{
    return mask >> d & 1u;
}

/* A dtype that the mask of t, and of what must share it, allows. */
static an_dtype choose_dtype(rng *r, uint32_t mask)
{
    for (int tries = 0; tries < 200; tries++) {
        const an_dtype d = tries < 60 ? random_dtype(r) : (an_dtype)(1 + rng_below(r, AN_DTYPE_COUNT - 1));
        if (dtype_fits(mask, d)) return d;
    }
    return AN_DTYPE_NONE;
}

/* What the operands of t, of result dtype d, must be. */
static an_dtype operand_dtype(instance *in, const up_term *t, an_op op, an_dtype d)
{
    if (op == AN_OP_CAST || op == AN_OP_BITCAST || an_op_has(op, AN_TRAIT_CMP)) {
        uint32_t mask = UP_ANY_DTYPE;
        for (size_t i = 0; i < t->nsrc; i++) {
            const up_term *s = t->src[i];
            if (s->kind == UP_VAR) mask &= s->dtypes;
            if (s->kind == UP_OP) mask &= s->dtypes;
            if (s->kind == UP_LIT && s->lit_is_bool) mask &= 1u << AN_BOOL;
        }
        for (int tries = 0; tries < 100; tries++) {
            const an_dtype from = choose_dtype(in->r, mask);
            if (op == AN_OP_BITCAST && an_dtype_nbytes(from) != an_dtype_nbytes(d)) continue;
            if (op == AN_OP_BITCAST && (from == AN_INDEX || from == AN_BOOL || d == AN_INDEX || d == AN_BOOL) && from != d) continue;
            return from;
        }
        return AN_DTYPE_NONE;
    }
    return d;
}

static an_uop make(instance *in, const up_term *t, an_dtype want);

static an_uop make_leaf(instance *in, const up_term *t, an_dtype want)
{
    if (!dtype_fits(t->dtypes, want)) return AN_UOP_NONE;
    if (t->is_const) return random_const(in->g, in->r, want);
    return random_expr(in->g, in->r, want, (int)rng_below(in->r, 4));
}

static an_op choose_op(rng *r, const up_term *t, an_dtype want, uint32_t *nsrc)
{
    for (int tries = 0; tries < 300; tries++) {
        const an_op op = (an_op)(1 + rng_below(r, AN_OP_COUNT - 1));
        const an_op_info *info = an_op_info_of(op);
        if (!(t->ops >> op & 1u)) continue;
        if (info->result == AN_RESULT_BOOL ? want != AN_BOOL : !op_takes(op, want)) continue;
        if (info->arity >= 0 && (t->rest ? t->nsrc > (size_t)info->arity : t->nsrc != (size_t)info->arity)) continue;
        *nsrc = info->arity >= 0 ? (uint32_t)info->arity : (uint32_t)t->nsrc + (t->rest ? rng_below(r, 3) : 0);
        return op;
    }
    return AN_OP_NONE;
}

static an_uop make_op(instance *in, const up_term *t, an_dtype want)
{
    enum { SRCS = 8 };
    an_uop src[SRCS];
    uint32_t nsrc = 0;
    const an_op op = choose_op(in->r, t, want, &nsrc);
    if (op == AN_OP_NONE || nsrc > SRCS || !dtype_fits(t->dtypes, want)) return AN_UOP_NONE;
    const an_dtype from = operand_dtype(in, t, op, want);
    if (from == AN_DTYPE_NONE || (an_op_has(op, AN_TRAIT_CMP) && !op_takes(op, from))) return AN_UOP_NONE;
    const bool flip = an_op_has(op, AN_TRAIT_COMM) && nsrc == 2 && !t->rest && rng_chance(in->r, 50);
    for (uint32_t i = 0; i < nsrc; i++) {
        an_dtype d = op == AN_OP_WHERE && i == 0 ? AN_BOOL : from;
        if (op == AN_OP_LOAD || op == AN_OP_STORE) {
            const uint32_t gate = op == AN_OP_LOAD ? 2 : 3;
            if (i == 1) d = AN_INDEX;
            if (i == gate) d = AN_BOOL;
            if (i == 0) {
                src[i] = an_param(in->g, want, rng_below(in->r, 3));
                if (t->src[0]->kind == UP_VAR && t->src[0]->name && in->n < NAMES_MAX) {
                    in->name[in->n] = t->src[0]->name;
                    in->to[in->n++] = src[i];
                }
                continue;
            }
        }
        const up_term *s = i < t->nsrc ? t->src[i] : t->rest;
        src[i] = make(in, s, d);
        if (an_uop_is_none(src[i])) return AN_UOP_NONE;
    }
    if (flip) {
        const an_uop first = src[0];
        src[0] = src[1];
        src[1] = first;
    }
    return an_uop_new(in->g, op, op == AN_OP_STORE ? AN_DTYPE_NONE : want, src, nsrc, 0);
}

static an_uop make(instance *in, const up_term *t, an_dtype want)
{
    for (size_t i = 0; t->name && strcmp(t->name, "_") != 0 && i < in->n; i++)
        if (strcmp(in->name[i], t->name) == 0)
            return an_uop_dtype(in->g, in->to[i]) == want ? in->to[i] : AN_UOP_NONE;
    an_uop u = AN_UOP_NONE;
    if (t->kind == UP_LIT) {
        if (t->lit_is_bool && want != AN_BOOL) return AN_UOP_NONE;
        u = an_const_float(in->g, want, t->lit);
        return an_uop_is_number(in->g, u, t->lit) ? u : AN_UOP_NONE;
    }
    if (t->kind == UP_VAR) {
        /* one name in a few is what another is */
        if (in->n && rng_chance(in->r, 10)) {
            const an_uop other = in->to[rng_below(in->r, (uint32_t)in->n)];
            const bool ok = an_uop_dtype(in->g, other) == want && dtype_fits(t->dtypes, want) &&
                            (!t->is_const || an_uop_is_const(in->g, other)) && an_uop_op(in->g, other) != AN_OP_PARAM;
            if (ok) u = other;
        }
        if (an_uop_is_none(u)) u = make_leaf(in, t, want);
    } else {
        u = make_op(in, t, want);
    }
    if (!an_uop_is_none(u) && t->name && strcmp(t->name, "_") != 0 && in->n < NAMES_MAX) {
        in->name[in->n] = t->name;
        in->to[in->n++] = u;
    }
    return u;
}

an_uop random_instance(an_graph *g, rng *r, const up_rule *rule)
{
    instance in = {.g = g, .r = r};
    return make(&in, rule->pattern, choose_dtype(r, rule->pattern->dtypes));
}

/* ---- values ---------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    rng r = {a ^ (b * 0x2545f4914f6cdd1du)};
    rng_next(&r);
    return rng_next(&r);
}

static an_scalar random_value(rng *r, an_dtype dtype, int64_t lo, int64_t hi)
{
    an_scalar v = {.u = 0};
    if (is_float(dtype)) {
        v.f = rng_chance(r, 60) ? special_float(r) : ((double)(int64_t)(rng_next(r) >> 40) - 8388608.0) / 65536.0;
    } else {
        v.i = rng_chance(r, 15) ? lo : rng_chance(r, 15) ? hi : between(r, lo, hi);
    }
    return an_scalar_round(dtype, v);
}

/* An index of a program counts elements of memory: larger numbers have no value, so that no order of adding overflows. */
static bool index_is_sane(int64_t v)
{
    return v > -(INT64_C(1) << 40) && v < INT64_C(1) << 40;
}

/* One node from the values of its sources. */
static bool step(an_graph *g, an_uop u, uint64_t seed, const value *s, value *out)
{
    const an_op op = an_uop_op(g, u);
    const an_dtype dtype = an_uop_dtype(g, u);
    const uint32_t n = an_uop_nsrc(g, u);
    *out = (value){.v = {.u = 0}};
    switch (op) {
    case AN_OP_CONST: out->v = an_uop_const_value(g, u); return true;
    case AN_OP_PARAM: return true;
    case AN_OP_VAR: {
        const char *name = an_uop_name(g, u);
        rng r = {mix(mix(seed, an_hash_bytes(0, name, strlen(name))), (uint64_t)dtype + 64 * (uint64_t)s[0].v.i + 4096 * (uint64_t)s[1].v.i)};
        out->v = random_value(&r, dtype, s[0].v.i, s[1].v.i);
        return true;
    }
    case AN_OP_LOAD: {
        rng r = {mix(mix(seed, an_uop_arg(g, an_uop_src(g, u, 0))), s[1].v.u)};
        if (n == 3 && !s[2].v.i) return true;
        out->v = random_value(&r, dtype, 0, dtype == AN_BOOL ? 1 : 100);
        return true;
    }
    case AN_OP_STORE:
        out->stored = n == 3 || s[3].v.i;
        if (out->stored) {
            out->at = s[1].v.i;
            out->v = s[2].v;
        }
        return true;
    default: break;
    }
    if (!an_op_has(op, AN_TRAIT_ELEM) || n > 3) return false;
    an_scalar v[3];
    for (uint32_t i = 0; i < n; i++) v[i] = s[i].v;
    const an_dtype from = an_uop_dtype(g, an_uop_src(g, u, n - 1));
    if (op == AN_OP_CAST)
        out->v = an_scalar_cast(from, dtype, v[0]);
    else if (op == AN_OP_BITCAST)
        out->v = an_eval_bitcast(from, dtype, v[0]);
    else
        out->v = an_eval(op, from, v);
    return dtype != AN_INDEX || index_is_sane(out->v.i);
}

bool value_of(an_graph *g, an_uop u, uint64_t seed, value *out)
{
    an_uop_vec order = {0};
    size_t nbytes = 0;
    value *values = NULL;
    bool ok = an_toposort(g, &u, 1, &order) == AN_OK;
    if (ok) values = an_graph_table(g, sizeof *values, &nbytes);
    ok = ok && values;
    for (size_t i = 0; ok && i < order.len; i++) {
        value s[8];
        const an_uop n = order.data[i];
        const uint32_t nsrc = an_uop_nsrc(g, n);
        ok = nsrc <= 8;
        for (uint32_t k = 0; ok && k < nsrc; k++) s[k] = values[an_uop_src(g, n, k).id];
        ok = ok && step(g, n, seed, s, &values[n.id]);
    }
    if (ok) *out = values[u.id];
    an_mem_free(an_graph_ctx(g), values, nbytes);
    an_vec_fini(an_graph_ctx(g), &order);
    return ok;
}

bool value_same(an_dtype dtype, value a, value b)
{
    if (a.stored != b.stored || a.at != b.at) return false;
    if (is_float(dtype) && isnan(a.v.f) && isnan(b.v.f)) return true;
    return a.v.u == b.v.u;
}

void value_print(an_str *s, an_dtype dtype, value v)
{
    if (is_float(dtype))
        an_str_printf(s, "%.17g", v.v.f);
    else
        an_str_printf(s, "%lld", (long long)v.v.i);
}
