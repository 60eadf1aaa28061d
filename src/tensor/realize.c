/* realize.c - from lazy to values and back: computing, writing in place, reading. */
#include "tensor/tensor.h"
#include "runtime/runtime.h"

#include <inttypes.h>

static an_status fail(const an_tensor *x, an_status status, const char *call, const char *text)
{
    return an_fail(an_graph_ctx(x->graph), status, "%s: shape %s: %s", call, an_text_shape(x).s, text);
}

/* --- nodes that are about values, not arithmetic ----------------------------------------------------------------- */

static an_tensor *same_values(an_tensor *x, an_op op)
{
    if (!x) return NULL;
    const an_uop u = an_tensor_node(x);
    return an_tensor_wrap1(x, an_uop_new(x->graph, op, an_tensor_dtype(x), &u, 1, 0));
}

an_tensor *an_contiguous(an_tensor *x)
{
    return same_values(x, AN_OP_CONTIGUOUS);
}

an_tensor *an_detach(an_tensor *x)
{
    return same_values(x, AN_OP_DETACH);
}

an_tensor *an_leaf_of(an_tensor *x)
{
    return x ? an_tensor_wrap1(x, an_leaf(x->graph, an_tensor_node(x))) : NULL;
}

/* --- computing --------------------------------------------------------------------------------------------------- */

an_status an_realize(an_tensor *const *tensors, size_t n)
{
    an_graph *g = NULL;
    size_t nulls = 0;
    for (size_t i = 0; i < n; i++) {
        if (tensors[i])
            g = tensors[i]->graph;
        else
            nulls++;
    }
    if (!g) return nulls ? AN_ERR_ARG : AN_OK;
    an_ctx *ctx = an_graph_ctx(g);
    if (nulls) return an_fail(ctx, AN_ERR_ARG, "%s: %zu of %zu tensors are NULL", __func__, nulls, n);
    an_status st = AN_ERR_NOMEM;
    size_t todo = 0;
    an_uop *uops = an_mem_alloc(ctx, n * sizeof *uops);
    an_tensor **lazy = an_mem_alloc(ctx, n * sizeof *lazy);
    if (!uops || !lazy) goto done;
    for (size_t i = 0; i < n; i++) {
        an_tensor *x = tensors[i];
        if (x->graph != g) {
            st = an_fail(ctx, AN_ERR_ARG, "%s: the tensors belong to two graphs; realize each graph's apart", __func__);
            goto done;
        }
        const an_uop u = an_tensor_node(x);
        if (an_runtime_is_bound(g, u)) continue;
        uops[todo] = u;
        lazy[todo++] = x;
    }
    if (!an_tensor_separate(lazy, uops, todo)) goto done;
    st = todo ? an_realize_uops(g, uops, todo) : AN_OK;
    for (size_t i = 0; i < todo && !st; i++) lazy[i]->uop = uops[i];
done:
    an_mem_free(ctx, uops, n * sizeof *uops);
    an_mem_free(ctx, lazy, n * sizeof *lazy);
    return st;
}

/* --- in place ---------------------------------------------------------------------------------------------------- */

/* Would value lose its kind in dtype? bool < integers < floats. */
static bool loses_kind(an_dtype value, an_dtype dtype)
{
    return an_dtype_promote(value, dtype) != dtype && !(an_is_float(value) && an_is_float(dtype)) &&
           !(an_is_integer(value) && an_is_integer(dtype));
}

/* The movement nodes from u down to a place, the last one made first, and the place, as it is now; false with a sentence. */
static bool view_of(an_tensor *target, an_uop u, an_uop_vec *chain, an_uop *place)
{
    an_graph *g = target->graph;
    for (; an_op_has(an_uop_op(g, u), AN_TRAIT_MOVE); u = an_uop_src(g, u, 0)) {
        if (an_uop_op(g, u) == AN_OP_EXPAND) {
            fail(target, AN_ERR_ARG, "an_assign", "the target repeats elements of a buffer (it was broadcast), so which value one "
                                                  "of them gets is open");
            return false;
        }
        if (!an_vec_push(an_graph_ctx(g), chain, u)) return false;
    }
    if (an_uop_op(g, u) != AN_OP_BUFFER && an_uop_op(g, u) != AN_OP_ASSIGN) {
        fail(target, AN_ERR_ARG, "an_assign", "the target has no buffer to write into; an_realize it first");
        return false;
    }
    *place = an_runtime_resolve(g, u);
    return true;
}

/* The chain again, over another place. */
static an_uop view_over(an_graph *g, const an_uop_vec *chain, an_uop place)
{
    an_uop src[2 * AN_RANK_MAX + 1], u = place;
    for (size_t i = chain->len; i-- > 0 && !an_uop_is_none(u);) {
        memcpy(src, an_uop_srcs(g, chain->data[i]), an_uop_nsrc(g, chain->data[i]) * sizeof *src);
        src[0] = u;
        u = an_uop_with_srcs(g, chain->data[i], src);
    }
    return u;
}

an_status an_assign(an_tensor *target, an_tensor *value)
{
    if (!target || !value) return AN_ERR_ARG;
    an_graph *g = target->graph;
    an_ctx *ctx = an_graph_ctx(g);
    if (!an_check_graph(__func__, target, value)) return AN_ERR_ARG;
    const an_uop to = an_tensor_node(target);
    const an_dtype d = an_tensor_dtype(target);
    if (loses_kind(an_tensor_dtype(value), d))
        return an_fail(ctx, AN_ERR_DTYPE, "%s: a value of %s into a target of %s: an_cast says that it is meant",
                       __func__, an_dtype_name(an_tensor_dtype(value)), an_dtype_name(d));
    const an_shape shape = an_tensor_shape(target);
    an_uop place = AN_UOP_NONE, view = AN_UOP_NONE;
    an_uop_vec chain = {0};
    an_status st = AN_ERR_NOMEM;
    if (!view_of(target, to, &chain, &place)) goto done;
    an_tensor *v = an_cast(an_tensor_stretch(value, __func__, shape.dims, shape.rank), d);
    if (!v) goto done;
    if (chain.len) {
        /* Over a LEAF that no value is over: a slice that was realized is in a buffer of its own, the same slice to write through is not. */
        view = view_over(g, &chain, an_uop_new(g, AN_OP_LEAF, an_uop_dtype(g, place), &place, 1, 0));
        if (an_uop_is_none(view)) goto done;
    }
    const an_uop u = an_assign_node(g, place, an_tensor_node(v), view);
    const an_uop after = view_over(g, &chain, u);
    if (an_uop_is_none(u) || an_uop_is_none(after)) goto done;
    if (!an_jit_note_assign(target, place, u)) goto done;
    target->uop = after;
    st = AN_OK;
done:
    an_vec_fini(ctx, &chain);
    return st && an_ctx_status(ctx) ? an_ctx_status(ctx) : st;
}

/* --- to and from the host ---------------------------------------------------------------------------------------- */

static an_status check_nbytes(const an_tensor *x, const char *call, size_t nbytes)
{
    size_t have = 0;
    if (!an_runtime_nbytes(x->graph, an_tensor_uop(x), &have))
        return fail(x, AN_ERR_ARG, call, "it has symbolic axes, and nothing says their values; bind them with an_graph_bind");
    if (nbytes == have) return AN_OK;
    return an_fail(an_graph_ctx(x->graph), AN_ERR_ARG,
                   "%s: room for %zu bytes, but shape %s of %s has %zu; an_tensor_nbytes tells", call, nbytes,
                   an_text_shape(x).s, an_dtype_name(an_tensor_dtype(x)), have);
}

an_status an_tensor_read(an_tensor *x, void *dst, size_t nbytes)
{
    if (!x) return AN_ERR_ARG;
    const bool is_static = an_shape_static(x->graph, an_tensor_shape(x), NULL);
    an_status st = is_static ? check_nbytes(x, __func__, nbytes) : AN_OK;
    if (!st && !an_runtime_is_bound(x->graph, an_tensor_node(x))) st = an_realize(&x, 1); /* else nothing is allocated */
    if (!st && !is_static) st = check_nbytes(x, __func__, nbytes); /* known when it is computed */
    if (!st) st = an_runtime_read(x->graph, an_tensor_node(x), dst, nbytes);
    return st;
}

an_status an_tensor_write(an_tensor *x, const void *src, size_t nbytes)
{
    if (!x) return AN_ERR_ARG;
    const bool is_static = an_shape_static(x->graph, an_tensor_shape(x), NULL);
    const an_status st = is_static ? check_nbytes(x, __func__, nbytes) : AN_OK; /* symbolic: the runtime knows */
    if (st) return st;
    const an_uop u = an_tensor_node(x);
    if (!an_runtime_is_bound(x->graph, u))
        return fail(x, AN_ERR_ARG, __func__, "it has no buffer to write into; an_realize it first");
    return an_runtime_write(x->graph, u, src, nbytes);
}

static an_status item(an_tensor *x, const char *call, an_dtype *dtype, an_scalar *value)
{
    unsigned char bytes[8] = {0};
    if (!x) return AN_ERR_ARG;
    if (an_tensor_numel(x) != 1) return fail(x, AN_ERR_SHAPE, call, "it has not exactly one element; an_tensor_read takes all");
    *dtype = an_tensor_dtype(x);
    const an_status st = an_tensor_read(x, bytes, an_dtype_nbytes(*dtype));
    if (!st) *value = an_scalar_load(*dtype, bytes);
    return st;
}

an_status an_item_f64(an_tensor *x, double *out)
{
    an_dtype d = AN_DTYPE_NONE;
    an_scalar v = {0};
    const an_status st = item(x, __func__, &d, &v);
    if (!st) *out = an_scalar_cast(d, AN_F64, v).f;
    return st;
}

an_status an_item_i64(an_tensor *x, int64_t *out)
{
    an_dtype d = AN_DTYPE_NONE;
    an_scalar v = {0};
    an_status st = item(x, __func__, &d, &v);
    if (st) return st;
    if (d == AN_U64 && v.i < 0)
        return an_fail(an_graph_ctx(x->graph), AN_ERR_ARG, "%s: %" PRIu64 " is no value of i64", __func__, v.u);
    *out = an_scalar_cast(d, AN_I64, v).i;
    return st;
}
