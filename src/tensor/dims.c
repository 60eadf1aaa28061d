/* dims.c - what is known of symbolic dims before the symbols are bound. Intervals decide; what they leave open is checked when a
 * plan runs (runtime/symbols.c). */
#include "tensor/tensor.h"

#include "rewrite/rewrite.h"

#include <stdio.h>

/* Bounds are a guess when memory is out: false then. */
static bool bounds_of(an_graph *g, an_uop u, int64_t *lo, int64_t *hi)
{
    const size_t failures = an_mem_failures(an_graph_ctx(g));
    if (an_uop_is_none(u)) return false;
    an_bounds(g, u, lo, hi);
    return an_mem_failures(an_graph_ctx(g)) == failures;
}

/* The interval of b - a. */
static bool difference(an_graph *g, an_uop a, an_uop b, int64_t *lo, int64_t *hi)
{
    return bounds_of(g, an_dim_sub(g, b, a), lo, hi);
}

an_truth an_dims_le(an_graph *g, an_uop a, an_uop b)
{
    int64_t lo = 0, hi = 0;
    if (!difference(g, a, b, &lo, &hi)) return AN_NO;
    if (lo >= 0 || hi < 0) return lo >= 0 ? AN_YES : AN_NO;
    /* Each side of a max, or one of a min, on the left; the other way round on the right. */
    for (int right = 0; right < 2; right++) {
        const an_uop u = right ? b : a;
        const an_op op = an_uop_op(g, u);
        int yes = 0;
        if (op != AN_OP_MAX && op != AN_OP_MIN) continue;
        for (uint32_t i = 0; i < 2; i++) {
            const an_uop side = an_uop_src(g, u, i);
            if (!difference(g, right ? a : side, right ? side : b, &lo, &hi)) return AN_NO;
            yes += lo >= 0;
        }
        if (yes == 2 || (yes == 1 && (op == AN_OP_MAX) == (right == 1))) return AN_YES;
    }
    return AN_MAYBE;
}

/* min and max in the order that the rules have. */
static an_uop either(an_graph *g, an_op op, an_uop a, an_uop b)
{
    return an_uop_cmp(g, a, b) > 0 ? an_binary(g, op, b, a) : an_binary(g, op, a, b);
}

an_truth an_dims_equal(an_graph *g, an_uop a, an_uop b)
{
    int64_t lo = 0, hi = 0;
    if (an_uop_eq(a, b)) return AN_YES;
    if (!difference(g, a, b, &lo, &hi)) return AN_NO;
    return lo == 0 && hi == 0 ? AN_YES : lo > 0 || hi < 0 ? AN_NO : AN_MAYBE;
}

/* The less of two, or the greater. */
static an_uop choose(an_graph *g, an_op op, an_uop a, an_uop b)
{
    const size_t failures = an_mem_failures(an_graph_ctx(g));
    if (an_uop_is_none(a) || an_uop_is_none(b)) return AN_UOP_NONE;
    const bool below = an_dims_le(g, a, b) == AN_YES, above = an_dims_le(g, b, a) == AN_YES;
    if (an_mem_failures(an_graph_ctx(g)) != failures) return AN_UOP_NONE;
    if (below || above) return below == (op == AN_OP_MIN) ? a : b;
    return either(g, op, a, b);
}

an_uop an_dims_min(an_graph *g, an_uop a, an_uop b)
{
    return choose(g, AN_OP_MIN, a, b);
}

an_uop an_dims_max(an_graph *g, an_uop a, an_uop b)
{
    return choose(g, AN_OP_MAX, a, b);
}

an_uop an_dims_ceil_div(an_graph *g, an_uop a, int64_t by)
{
    an_uop q = AN_UOP_NONE;
    int64_t n = 0;
    if (an_uop_is_none(a) || by == 1) return a;
    if (an_uop_int(g, a, &n)) return an_index(g, n <= 0 ? 0 : (n - 1) / by + 1);
    if (an_dim_divides(g, a, an_index(g, by), &q)) return q;
    return an_binary(g, AN_OP_FLOORDIV, an_dim_add(g, a, an_index(g, by - 1)), an_index(g, by));
}

int64_t an_dims_most(an_graph *g, an_uop u)
{
    int64_t lo = 0, hi = 0;
    return bounds_of(g, u, &lo, &hi) ? hi : INT64_MAX;
}

an_text an_text_uops(an_graph *g, const an_uop *dims, uint32_t n)
{
    an_text text = {"(...)"};
    an_str s;
    an_str_init(&s, an_graph_ctx(g));
    an_shape_print(&s, g, (an_shape){n, dims});
    if (!s.failed) (void)snprintf(text.s, sizeof text.s, "%s", an_str_cstr(&s));
    an_str_fini(&s);
    return text;
}

an_text an_text_dim(an_graph *g, an_uop u)
{
    an_text text = {"..."};
    an_str s;
    an_str_init(&s, an_graph_ctx(g));
    an_dim_print(&s, g, u);
    if (!s.failed) (void)snprintf(text.s, sizeof text.s, "%s", an_str_cstr(&s));
    an_str_fini(&s);
    return text;
}

bool an_check_dims_uop(an_graph *g, const char *call, an_dtype dtype, const an_uop *dims, uint32_t rank)
{
    int64_t most[AN_RANK_MAX];
    if (rank > AN_RANK_MAX) {
        an_tensor_fail(g, AN_ERR_LIMIT, "%s: a shape of %u axes: at most %d are supported", call, rank, AN_RANK_MAX);
        return false;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (an_uop_is_none(dims[i])) return false;
        int64_t hi = 0;
        if (!bounds_of(g, dims[i], &most[i], &hi)) return false;
        if (hi < 0) {
            an_tensor_fail(g, AN_ERR_SHAPE, "%s: dim %s in shape %s: sizes are 0 or more", call, an_text_dim(g, dims[i]).s,
                           an_text_uops(g, dims, rank).s);
            return false;
        }
        most[i] = hi;
    }
    return an_check_dims(g, call, dtype, most, rank);
}
