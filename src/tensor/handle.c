/* handle.c - tensor handles: making them, asking about them, and the checks and sentences every call shares. */
#include "tensor/tensor.h"
#include "runtime/runtime.h"

#include <stdio.h>

/* --- handles ----------------------------------------------------------------------------------------------------- */

an_uop an_tensor_node(an_tensor *x)
{
    return x->uop = an_runtime_resolve(x->graph, x->uop);
}

an_tensor *an_tensor_wrap(an_graph *g, an_uop u, an_tensor *const *operands, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!operands[i]) return NULL;
    if (an_uop_is_none(u)) return NULL;
    /* Only its own handle stands for a place; any other for what the place holds now. */
    if (n && (an_uop_op(g, u) == AN_OP_BUFFER || an_uop_op(g, u) == AN_OP_ASSIGN)) u = an_uop_same(g, u);
    if (an_uop_is_none(u)) return NULL;
    an_tensor *t = an_graph_alloc(g, sizeof *t);
    if (!t) return NULL;
    *t = (an_tensor){.graph = g, .uop = u};
    return t;
}

an_tensor *an_tensor_wrap1(an_tensor *x, an_uop u)
{
    return an_tensor_wrap(x->graph, u, &x, 1);
}

an_tensor *an_tensor_same(an_tensor *x)
{
    return x ? an_tensor_wrap1(x, an_tensor_node(x)) : NULL;
}

bool an_tensor_separate(an_tensor *const *tensors, an_uop *uops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            if (tensors[k] == tensors[i] || !an_uop_eq(uops[k], uops[i])) continue;
            uops[i] = an_uop_same(tensors[i]->graph, uops[i]);
            if (an_uop_is_none(uops[i])) return false;
            k = SIZE_MAX; /* look again from the first */
        }
    return true;
}

an_shape an_tensor_shape(const an_tensor *x)
{
    return an_uop_shape(x->graph, x->uop);
}

an_graph *an_tensor_graph(const an_tensor *x)
{
    return x ? x->graph : NULL;
}

an_uop an_tensor_uop(const an_tensor *x)
{
    return x ? an_runtime_resolve(x->graph, x->uop) : AN_UOP_NONE;
}

an_dtype an_tensor_dtype(const an_tensor *x)
{
    return x ? an_uop_dtype(x->graph, x->uop) : AN_DTYPE_NONE;
}

uint32_t an_tensor_rank(const an_tensor *x)
{
    return x ? an_tensor_shape(x).rank : 0;
}

an_uop an_tensor_dim_uop(const an_tensor *x, int axis)
{
    if (!x) return AN_UOP_NONE;
    const an_shape s = an_tensor_shape(x);
    const int64_t i = axis < 0 ? (int64_t)axis + s.rank : axis;
    return i < 0 || i >= (int64_t)s.rank ? AN_UOP_NONE : s.dims[i];
}

int64_t an_tensor_dim(const an_tensor *x, int axis)
{
    const an_uop d = an_tensor_dim_uop(x, axis);
    int64_t n = -1;
    return !an_uop_is_none(d) && an_uop_int(x->graph, d, &n) ? n : -1;
}

int64_t an_tensor_numel(const an_tensor *x)
{
    int64_t dims[AN_RANK_MAX], n = 1;
    if (!x || !an_shape_static(x->graph, an_tensor_shape(x), dims)) return -1;
    for (uint32_t i = 0; i < an_tensor_rank(x); i++) n *= dims[i]; /* an_check_dims saw that it fits */
    return n;
}

size_t an_tensor_nbytes(const an_tensor *x)
{
    const int64_t n = an_tensor_numel(x);
    size_t nbytes = 0;
    if (x && n < 0) return an_runtime_nbytes(x->graph, an_tensor_uop(x), &nbytes) ? nbytes : 0;
    return n >= 0 && an_size_mul((size_t)n, an_dtype_nbytes(an_tensor_dtype(x)), &nbytes) ? nbytes : 0;
}

/* --- sentences --------------------------------------------------------------------------------------------------- */

an_text an_text_shape(const an_tensor *x)
{
    an_text text = {"(...)"};
    an_str s;
    an_str_init(&s, an_graph_ctx(x->graph));
    an_shape_print(&s, x->graph, an_tensor_shape(x));
    if (!s.failed) snprintf(text.s, sizeof text.s, "%s", an_str_cstr(&s));
    an_str_fini(&s);
    return text;
}

an_text an_text_dims(const int64_t *dims, uint32_t n)
{
    an_text text = {"("};
    size_t len = 1;
    for (uint32_t i = 0; i < n && len + 24 < sizeof text.s; i++)
        len += (size_t)snprintf(text.s + len, sizeof text.s - len, i ? ", %lld" : "%lld", (long long)dims[i]);
    snprintf(text.s + len, sizeof text.s - len, n == 1 ? ",)" : ")");
    return text;
}

an_tensor *an_tensor_fail(an_graph *g, an_status status, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    an_fail(an_graph_ctx(g), status, "%s", text);
    return NULL;
}

/* --- checks ------------------------------------------------------------------------------------------------------ */

bool an_check_axis(an_tensor *x, const char *call, int64_t axis, uint32_t *out)
{
    const int64_t rank = an_tensor_rank(x);
    const int64_t i = axis < 0 ? axis + rank : axis;
    if (i >= 0 && i < rank) {
        *out = (uint32_t)i;
        return true;
    }
    if (rank == 0)
        an_tensor_fail(x->graph, AN_ERR_ARG, "%s: axis %lld of a tensor of rank 0: it has no axes", call,
                       (long long)axis);
    else
        an_tensor_fail(x->graph, AN_ERR_ARG, "%s: axis %lld of shape %s: axes go from %lld to %lld", call,
                       (long long)axis, an_text_shape(x).s, (long long)-rank, (long long)rank - 1);
    return false;
}

bool an_check_axes(an_tensor *x, const char *call, const int64_t *axes, uint32_t n, uint32_t *mask)
{
    *mask = 0;
    if (n == 0) {
        *mask = (1u << an_tensor_rank(x)) - 1;
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t axis = 0;
        if (!an_check_axis(x, call, axes[i], &axis)) return false;
        if (*mask >> axis & 1u) {
            an_tensor_fail(x->graph, AN_ERR_ARG, "%s: axis %u of shape %s is given twice in %s", call, axis,
                           an_text_shape(x).s, an_text_dims(axes, n).s);
            return false;
        }
        *mask |= 1u << axis;
    }
    return true;
}

bool an_check_graph(const char *call, const an_tensor *a, const an_tensor *b)
{
    if (a->graph == b->graph) return true;
    an_tensor_fail(a->graph, AN_ERR_ARG, "%s: the operands belong to two graphs; build both in one", call);
    return false;
}

bool an_check_dtype(an_graph *g, const char *call, an_dtype dtype)
{
    if (dtype > AN_DTYPE_NONE && dtype < AN_DTYPE_COUNT && dtype != AN_INDEX) return true;
    an_tensor_fail(g, AN_ERR_DTYPE, "%s: %s is no dtype of a tensor", call,
                   dtype == AN_INDEX ? "index" : "this number");
    return false;
}

bool an_check_float(an_graph *g, const char *call, an_dtype dtype)
{
    if (!an_check_dtype(g, call, dtype)) return false;
    if (an_is_float(dtype)) return true;
    an_tensor_fail(g, AN_ERR_DTYPE, "%s: dtype %s: it must be a float", call, an_dtype_name(dtype));
    return false;
}

bool an_check_integer(an_tensor *x, const char *call, const char *what)
{
    if (an_is_integer(an_tensor_dtype(x))) return true;
    an_tensor_fail(x->graph, AN_ERR_DTYPE, "%s: %s has dtype %s: it must be an integer one; an_cast makes it so", call,
                   what, an_dtype_name(an_tensor_dtype(x)));
    return false;
}

bool an_check_dims(an_graph *g, const char *call, an_dtype dtype, const int64_t *dims, uint32_t rank)
{
    if (rank > AN_RANK_MAX) {
        an_tensor_fail(g, AN_ERR_LIMIT, "%s: a shape of %u axes: at most %d are supported", call, rank, AN_RANK_MAX);
        return false;
    }
    /* A zero among them hides no overflow of the others: they may come apart again. */
    size_t n = an_dtype_nbytes(dtype);
    bool fits = true;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            an_tensor_fail(g, AN_ERR_SHAPE, "%s: dim %lld in shape %s: sizes are 0 or more", call, (long long)dims[i],
                           an_text_dims(dims, rank).s);
            return false;
        }
        const size_t dim = (size_t)dims[i];
        fits = fits && (int64_t)dim == dims[i] && (dim == 0 || an_size_mul(n, dim, &n)) && n <= PTRDIFF_MAX;
    }
    if (!fits)
        an_tensor_fail(g, AN_ERR_LIMIT, "%s: shape %s of %s takes more bytes than can be addressed", call,
                       an_text_dims(dims, rank).s, an_dtype_name(dtype));
    return fits;
}

bool an_check_static(an_tensor *x, const char *call, int64_t dims[AN_RANK_MAX])
{
    if (an_shape_static(x->graph, an_tensor_shape(x), dims)) return true;
    an_tensor_fail(x->graph, AN_ERR_UNSUPPORTED,
                   "%s: shape %s has symbolic axes, and this call needs numbers; cut them out with an_shrink_uop first",
                   call, an_text_shape(x).s);
    return false;
}
