/* verify.c - the rules for legal linear lists (codegen.h). A backend may assume all of them. */
#include "codegen/codegen.h"

#include "base/idmap.h"

typedef struct verifier {
    an_graph *g;
    an_ctx *ctx;
    const char *what;
    size_t at;
    an_idmap seen;             /* node id -> 1 + scope in which it was defined */
    AN_VEC(uint32_t) open;     /* scopes now open, outer first; scope 0 is the kernel */
    AN_VEC(an_uop) ranges;     /* by scope: its RANGE */
    AN_VEC(bool) is_open;      /* by scope */
} verifier;

static an_status broken(verifier *v, an_uop u, const char *rule)
{
    an_str text;
    an_str_init(&text, v->ctx);
    an_uop_print(&text, v->g, u, 2);
    const an_status st = an_fail(v->ctx, AN_ERR_INTERNAL, "%s: instruction %zu, %s: %s", v->what, v->at,
                                 an_str_cstr(&text), rule);
    an_str_fini(&text);
    return st;
}

static bool is_index(const verifier *v, an_uop u)
{
    return an_uop_dtype(v->g, u) == AN_INDEX;
}

static bool is_bool(const verifier *v, an_uop u)
{
    return an_uop_dtype(v->g, u) == AN_BOOL;
}

/* What was defined, and in a loop that is still open. */
static bool is_visible(const verifier *v, an_uop u)
{
    const uint32_t scope = an_idmap_get(&v->seen, u.id);
    return scope && v->is_open.data[scope - 1];
}

static uint32_t scope_now(const verifier *v)
{
    return v->open.data[v->open.len - 1];
}

static const char *check_memory(verifier *v, an_uop u)
{
    const an_graph *g = v->g;
    const bool store = an_uop_op(g, u) == AN_OP_STORE;
    const uint32_t n = an_uop_nsrc(g, u), gate = store ? 3 : 2;
    if (n != gate && n != gate + 1) return "it has the wrong number of sources";
    const an_uop ptr = an_uop_src(g, u, 0), index = an_uop_src(g, u, 1), value = store ? an_uop_src(g, u, 2) : u;
    if (an_uop_op(g, ptr) != AN_OP_PARAM && an_uop_op(g, ptr) != AN_OP_LOCAL) return "its pointer is no param and no scratch";
    if (!is_index(v, index)) return "its index is not of dtype index";
    if (an_uop_dtype(g, value) != an_uop_dtype(g, ptr)) return "its dtype is not that of the buffer";
    if (an_uop_lanes(g, value) != an_uop_lanes(g, index)) return "value and index differ in lanes";
    if (n == gate) return NULL;
    if (!is_bool(v, an_uop_src(g, u, gate))) return "its gate is no bool";
    if (an_uop_lanes(g, an_uop_src(g, u, gate)) != an_uop_lanes(g, index)) return "gate and index differ in lanes";
    return NULL;
}

static const char *check_matrix(verifier *v, an_uop u)
{
    const an_graph *g = v->g;
    if (an_uop_op(g, u) == AN_OP_FRAGMENT) {
        if (an_uop_op(g, an_uop_src(g, u, 0)) != AN_OP_LOCAL || an_uop_dtype(g, an_uop_src(g, u, 0)) != AN_F16) return "its pointer is no scratch of f16";
        return is_index(v, an_uop_src(g, u, 1)) && an_uop_lanes(g, an_uop_src(g, u, 1)) == 1 ? NULL : "its index is no scalar index";
    }
    for (uint32_t i = 0; i < 4; i++) {
        const an_uop x = an_uop_src(g, u, i);
        if (i < 2 && an_uop_op(g, x) != AN_OP_FRAGMENT) return "it multiplies what is no fragment";
        if (i >= 2 && (!is_index(v, x) || an_uop_lanes(g, x) != an_uop_lanes(g, u))) return "its row or column is no index of its lanes";
    }
    const an_fragment a = an_fragment_of(an_uop_arg(g, an_uop_src(g, u, 0))), b = an_fragment_of(an_uop_arg(g, an_uop_src(g, u, 1)));
    return a.columns == b.rows && an_uop_dtype(g, u) == AN_F32 ? NULL : "its fragments do not go together";
}

static const char *check_prefetch(verifier *v, an_uop u)
{
    if (an_uop_op(v->g, an_uop_src(v->g, u, 0)) != AN_OP_PARAM) return "its pointer is no param";
    const an_uop index = an_uop_src(v->g, u, 1);
    return is_index(v, index) && an_uop_lanes(v->g, index) == 1 ? NULL : "its index is no scalar index";
}

static const char *check_elementwise(verifier *v, an_uop u)
{
    const an_graph *g = v->g;
    const an_op op = an_uop_op(g, u);
    const an_op_info *info = an_op_info_of(op);
    const uint32_t n = an_uop_nsrc(g, u);
    if (n != (uint32_t)info->arity) return "it has the wrong number of sources";
    for (uint32_t i = 0; i < n; i++)
        if (an_uop_lanes(g, an_uop_src(g, u, i)) != an_uop_lanes(g, u)) return "its sources differ from it in lanes";
    if (op == AN_OP_WHERE && !is_bool(v, an_uop_src(g, u, 0))) return "its condition is no bool";
    const uint32_t from = op == AN_OP_WHERE ? 1 : 0;
    for (uint32_t i = from + 1; i < n; i++)
        if (an_uop_dtype(g, an_uop_src(g, u, i)) != an_uop_dtype(g, an_uop_src(g, u, from)))
            return "its operands differ in dtype";
    if (info->result == AN_RESULT_BOOL && !is_bool(v, u)) return "a comparison gives bool";
    if ((info->result == AN_RESULT_SAME || info->result == AN_RESULT_LAST) &&
        an_uop_dtype(g, u) != an_uop_dtype(g, an_uop_src(g, u, n - 1)))
        return "its dtype is not that of its operands";
    if (op == AN_OP_BITCAST && an_dtype_nbytes(an_uop_dtype(g, u)) != an_dtype_nbytes(an_uop_dtype(g, an_uop_src(g, u, 0))))
        return "a bitcast keeps the size";
    return NULL;
}

static const char *check_vector(verifier *v, an_uop u)
{
    const an_graph *g = v->g;
    const an_uop x = an_uop_src(g, u, 0);
    const uint32_t lanes = an_uop_lanes(g, u), x_lanes = an_uop_lanes(g, x);
    switch (an_uop_op(g, u)) {
    case AN_OP_VECTOR:
        for (uint32_t i = 0; i < an_uop_nsrc(g, u); i++) {
            if (an_uop_lanes(g, an_uop_src(g, u, i)) != 1) return "it joins what is a vector already";
            if (an_uop_dtype(g, an_uop_src(g, u, i)) != an_uop_dtype(g, u)) return "its sources differ in dtype";
        }
        return an_uop_nsrc(g, u) == lanes ? NULL : "it has not one source a lane";
    case AN_OP_LANE:
        return lanes == 1 && an_uop_arg(g, u) < x_lanes ? NULL : "there is no such lane";
    case AN_OP_RAMP:
        return is_index(v, x) && x_lanes == 1 && lanes > 1 ? NULL : "its base is no scalar index";
    case AN_OP_BROADCAST:
        if (an_uop_dtype(g, u) != an_uop_dtype(g, x)) return "its dtype is not that of its source";
        return x_lanes == 1 && lanes > 1 ? NULL : "it spreads what is a vector already";
    case AN_OP_HREDUCE:
        if (an_uop_dtype(g, u) != an_uop_dtype(g, x)) return "its dtype is not that of its source";
        return lanes == 1 && x_lanes > 1 ? NULL : "it reduces what is no vector";
    default: return NULL;
    }
}

static const char *check_acc(verifier *v, an_uop u)
{
    const an_graph *g = v->g;
    const an_uop acc = an_uop_src(g, u, 0);
    if (an_uop_op(g, u) == AN_OP_ACC)
        return an_uop_lanes(g, acc) == an_uop_lanes(g, u) && an_uop_dtype(g, acc) == an_uop_dtype(g, u)
                   ? NULL
                   : "it starts from another type";
    if (an_uop_op(g, acc) != AN_OP_ACC) return "its first source is no accumulator";
    if (an_uop_lanes(g, u) != an_uop_lanes(g, acc) || an_uop_dtype(g, u) != an_uop_dtype(g, acc))
        return "it is of another type than its accumulator";
    const uint32_t home = an_idmap_get(&v->seen, acc.id) - 1;
    if (an_uop_op(g, u) == AN_OP_ACC_SET) {
        const an_uop x = an_uop_src(g, u, 1);
        if (an_uop_lanes(g, x) != an_uop_lanes(g, acc) || an_uop_dtype(g, x) != an_uop_dtype(g, acc))
            return "it sets an accumulator to a value of another type";
        return home != scope_now(v) ? NULL : "it sets an accumulator outside a loop";
    }
    if (an_uop_op(g, an_uop_src(g, u, 1)) != AN_OP_END) return "it comes after no loop";
    return home == scope_now(v) ? NULL : "it reads an accumulator in a loop that the accumulator is outside of";
}

static const char *check_leaf(verifier *v, an_uop u)
{
    const an_graph *g = v->g;
    switch (an_uop_op(g, u)) {
    case AN_OP_PARAM:
        return an_uop_arg(g, u) < AN_KERNEL_PARAM_MAX ? NULL : "its slot is over the number of buffers a kernel may have";
    case AN_OP_LOCAL: return (uint32_t)an_uop_arg(g, u) > 0 && an_uop_arg(g, u) >> 32 < AN_LOCALS_MAX ? NULL : "there is no such scratch";
    case AN_OP_CONST:
    case AN_OP_VAR:
    case AN_OP_SPECIAL: return an_uop_lanes(g, u) == 1 ? NULL : "it is a vector";
    default: return NULL;
    }
}

/* RANGE opens a scope, END closes the innermost. */
static an_status step_loop(verifier *v, an_uop u, bool *is_loop)
{
    const an_op op = an_uop_op(v->g, u);
    *is_loop = op == AN_OP_RANGE || op == AN_OP_END;
    if (op == AN_OP_RANGE) {
        const an_uop bound = an_uop_src(v->g, u, 0);
        const uint32_t scope = (uint32_t)v->ranges.len;
        if (!is_index(v, u) || !is_index(v, bound) || an_uop_lanes(v->g, bound) != 1)
            return broken(v, u, "a loop counts in scalars of dtype index");
        if (!an_vec_push(v->ctx, &v->ranges, u) || !an_vec_push(v->ctx, &v->is_open, true) ||
            !an_vec_push(v->ctx, &v->open, scope))
            return AN_ERR_NOMEM;
        return an_idmap_set(&v->seen, v->ctx, u.id, scope + 1) ? AN_OK : AN_ERR_NOMEM;
    }
    if (op == AN_OP_END) {
        const uint32_t scope = scope_now(v);
        if (scope == 0) return broken(v, u, "no loop is open");
        if (!an_uop_eq(v->ranges.data[scope], an_uop_src(v->g, u, 0)))
            return broken(v, u, "it ends a loop that is not the innermost open one");
        v->is_open.data[scope] = false;
        v->open.len--;
        return an_idmap_set(&v->seen, v->ctx, u.id, scope_now(v) + 1) ? AN_OK : AN_ERR_NOMEM;
    }
    return AN_OK;
}

static an_status step(verifier *v, an_uop u)
{
    const an_op op = an_uop_op(v->g, u);
    const an_op_info *info = an_op_info_of(op);
    const uint32_t lanes = an_uop_lanes(v->g, u);
    if (an_idmap_get(&v->seen, u.id)) return broken(v, u, "it is there twice");
    if (lanes < 1 || lanes > AN_LANES_MAX) return broken(v, u, "it has more lanes than there may be");
    const bool fixed_scope = op == AN_OP_END;
    for (uint32_t i = 0; i < an_uop_nsrc(v->g, u) && !fixed_scope && op != AN_OP_VAR; i++)
        if (!is_visible(v, an_uop_src(v->g, u, i)))
            return broken(v, u, "it uses what is not defined there: later, or in a loop that has ended");
    bool is_loop = false;
    const an_status st = step_loop(v, u, &is_loop);
    if (st || is_loop) return st;
    const char *rule = NULL;
    switch (op) {
    case AN_OP_PARAM:
    case AN_OP_CONST:
    case AN_OP_VAR:
    case AN_OP_SPECIAL:
    case AN_OP_LOCAL:
    case AN_OP_BARRIER: rule = check_leaf(v, u); break;
    case AN_OP_LOAD:
    case AN_OP_STORE: rule = check_memory(v, u); break;
    case AN_OP_PREFETCH: rule = check_prefetch(v, u); break;
    case AN_OP_FRAGMENT:
    case AN_OP_MATRIX: rule = check_matrix(v, u); break;
    case AN_OP_ACC:
    case AN_OP_ACC_SET:
    case AN_OP_ACC_GET: rule = check_acc(v, u); break;
    case AN_OP_VECTOR:
    case AN_OP_LANE:
    case AN_OP_RAMP:
    case AN_OP_BROADCAST:
    case AN_OP_HREDUCE: rule = check_vector(v, u); break;
    default: rule = info->traits & AN_TRAIT_ELEM ? check_elementwise(v, u) : "no kernel in a linear list has this op";
    }
    if (rule) return broken(v, u, rule);
    return an_idmap_set(&v->seen, v->ctx, u.id, scope_now(v) + 1) ? AN_OK : AN_ERR_NOMEM;
}

an_status an_linear_verify(an_graph *g, const an_uop *linear, size_t n, const char *what)
{
    verifier v = {.g = g, .ctx = an_graph_ctx(g), .what = what};
    an_status st = AN_ERR_NOMEM;
    if (!an_vec_push(v.ctx, &v.open, 0u) || !an_vec_push(v.ctx, &v.ranges, AN_UOP_NONE) ||
        !an_vec_push(v.ctx, &v.is_open, true))
        goto done;
    st = AN_OK;
    for (size_t i = 0; i < n && !st; i++) {
        v.at = i;
        st = step(&v, linear[i]);
    }
    if (!st && v.open.len > 1) {
        v.at = n;
        st = broken(&v, v.ranges.data[scope_now(&v)], "its loop is never ended");
    }
done:
    an_idmap_fini(&v.seen, v.ctx);
    an_vec_fini(v.ctx, &v.open);
    an_vec_fini(v.ctx, &v.ranges);
    an_vec_fini(v.ctx, &v.is_open);
    return st;
}
