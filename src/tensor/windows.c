/* windows.c - sliding windows by movement alone, for convolution and pooling.
 *
 * Windows of one axis of n elements, kernel k, stride s, dilation d, o outputs: window j has the elements j*s + i*d. Where
 * windows do not overlap (k <= s, d = 1) the axis splits into (o, s) and keeps the first k of each s. Else the axis is
 * repeated end to end, and cut into k rows of n + d elements (or a multiple of n, and d, where strides reach further):
 *
 *     row i starts at i * (n + d), which is element i*d of a copy: it is the axis moved by i*d
 *     0 1 2 3 4 | 1 2 3 4 0 .. | 2 3 ..        n = 5, d = 1: rows of 6, one element further on each
 *
 * Row i then splits into (o, s), keeps the first of each s, and (k, o) is transposed to (o, k). The k copies are k * d elements
 * short of k rows, so zeros are added at the end; no element past the end of a copy is ever reached. (A copy more would do as
 * well, but in the gradient each copy is a term of the sum for every element: k of them are what there must be.) */
#include "tensor/tensor.h"

/* Sizes of one spatial axis. */
typedef struct window {
    int64_t n, k, s, d, o;
} window;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* x's axes up to lead as they are, then the given ones. */
static an_tensor *with_axes(an_tensor *x, uint32_t lead, const int64_t *dims, uint32_t n)
{
    an_uop d[AN_RANK_MAX];
    if (!x) return NULL;
    for (uint32_t i = 0; i < lead; i++) d[i] = an_tensor_shape(x).dims[i];
    an_dims_to_uops(x->graph, dims, n, d + lead);
    return an_reshape_uop(x, d, lead + n);
}

/* Every axis from lead on cut to the given size. */
static an_tensor *cut_to(an_tensor *x, uint32_t lead, const int64_t *sizes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x = an_slice(x, (int)(lead + i), 0, sizes[i], 1);
    return x;
}

/* (..., o_0.., k_0..) of the n last axes; they come interleaved, a pair an axis, swapped if the kernel is first. */
static an_tensor *gather_pairs(an_tensor *x, uint32_t lead, uint32_t n, bool kernel_first)
{
    int64_t order[AN_RANK_MAX];
    for (uint32_t i = 0; i < lead; i++) order[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        order[lead + i] = lead + 2 * i + (kernel_first ? 1 : 0);
        order[lead + n + i] = lead + 2 * i + (kernel_first ? 0 : 1);
    }
    return an_permute(x, order, lead + 2 * n);
}

static an_tensor *apart(an_tensor *x, uint32_t lead, const window *w, uint32_t n)
{
    int64_t zero[AN_RANK_MAX] = {0}, after[AN_RANK_MAX] = {0}, size[3], pairs[6];
    for (uint32_t i = 0; i < n; i++) {
        size[i] = w[i].o * w[i].s;
        after[lead + i] = size[i] > w[i].n ? size[i] - w[i].n : 0;
    }
    x = cut_to(an_pad(x, zero, after, lead + n, 0), lead, size, n);
    for (uint32_t i = 0; i < n; i++) {
        pairs[2 * i] = w[i].o;
        pairs[2 * i + 1] = w[i].s;
    }
    x = with_axes(x, lead, pairs, 2 * n);
    for (uint32_t i = 0; i < n; i++) pairs[2 * i + 1] = w[i].k;
    return gather_pairs(cut_to(x, lead, pairs, 2 * n), lead, n, false);
}

static an_tensor *overlapping(an_tensor *x, uint32_t lead, const window *w, uint32_t n)
{
    int64_t times[AN_RANK_MAX], zero[AN_RANK_MAX] = {0}, after[AN_RANK_MAX] = {0}, row[3], axes[6];
    for (uint32_t i = 0; i < lead; i++) times[i] = 1;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t copies = ceil_div(w[i].o * w[i].s, w[i].n);
        row[i] = w[i].n * copies + w[i].d;
        times[lead + i] = w[i].k * copies;
        after[lead + i] = w[i].k * w[i].d;
    }
    x = an_pad(an_repeat(x, times, lead + n), zero, after, lead + n, 0);
    for (uint32_t i = 0; i < n; i++) {
        axes[2 * i] = w[i].k;
        axes[2 * i + 1] = row[i];
    }
    x = with_axes(x, lead, axes, 2 * n);
    for (uint32_t i = 0; i < n; i++) axes[2 * i + 1] = w[i].o * w[i].s;
    x = cut_to(x, lead, axes, 2 * n);
    /* One axis at a time from here, so that the rank grows by one only. */
    for (uint32_t i = 0; i < n && x; i++) x = an_slice(x, (int)(lead + 2 * i + 1), AN_NONE, AN_NONE, w[i].s);
    return gather_pairs(x, lead, n, true);
}

an_tensor *an_windows(an_tensor *x, uint32_t n, const int64_t *kernel, const int64_t *stride, const int64_t *dilation)
{
    window w[3] = {{0}};
    if (!x) return NULL;
    an_graph *g = x->graph;
    const uint32_t rank = an_tensor_rank(x);
    if (n < 1 || n > 3 || rank < n)
        return an_tensor_fail(g, AN_ERR_ARG, "%s: over %u axes of shape %s: 1 to 3, and no more than it has", __func__, n,
                              an_text_shape(x).s);
    if (rank + n >= AN_RANK_MAX)
        return an_tensor_fail(g, AN_ERR_LIMIT, "%s: shape %s has too many axes: %u more are needed of %d", __func__,
                              an_text_shape(x).s, n + 1, AN_RANK_MAX);
    const uint32_t lead = rank - n;
    bool overlap = false;
    for (uint32_t i = 0; i < n; i++) {
        w[i].n = an_tensor_dim(x, (int)(lead + i));
        w[i].k = kernel[i];
        w[i].s = stride ? stride[i] : 1;
        w[i].d = dilation ? dilation[i] : 1;
        if (w[i].n < 0)
            return an_tensor_fail(g, AN_ERR_UNSUPPORTED, "%s: axis %u of shape %s is symbolic", __func__, lead + i,
                                  an_text_shape(x).s);
        const int64_t most = INT64_C(1) << 30;
        if (w[i].k < 1 || w[i].s < 1 || w[i].d < 1 || w[i].k > most || w[i].s > most || w[i].d > most)
            return an_tensor_fail(g, AN_ERR_ARG, "%s: kernel %lld, stride %lld, dilation %lld: each must be 1 or more",
                                  __func__, (long long)w[i].k, (long long)w[i].s, (long long)w[i].d);
        const int64_t reach = w[i].d * (w[i].k - 1) + 1;
        if (reach > w[i].n)
            return an_tensor_fail(g, AN_ERR_SHAPE,
                                  "%s: a kernel that spans %lld elements does not fit axis %u of shape %s; pad it, or take a "
                                  "smaller kernel",
                                  __func__, (long long)reach, lead + i, an_text_shape(x).s);
        w[i].o = (w[i].n - reach) / w[i].s + 1;
        overlap = overlap || w[i].k > w[i].s || w[i].d > 1;
    }
    return overlap ? overlapping(x, lead, w, n) : apart(x, lead, w, n);
}
