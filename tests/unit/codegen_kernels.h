/* codegen_kernels.h - kernels built by hand, as the scheduler would make them, for the tests of codegen and backends. */
#ifndef AN_TEST_CODEGEN_KERNELS_H
#define AN_TEST_CODEGEN_KERNELS_H

#include "ir/uop.h"

enum { KERNEL_PARAMS_MAX = 6 };

/* A kernel and its buffers: slot s has nelem[s] elements of dtype[s]; is_out[s] ones are compared. */
typedef struct kernel {
    an_uop sink;
    uint32_t nparams;
    an_dtype dtype[KERNEL_PARAMS_MAX];
    int64_t nelem[KERNEL_PARAMS_MAX];
    bool is_out[KERNEL_PARAMS_MAX];
    an_uop var; /* a variable the bounds use, or none, and its value */
    int64_t var_value;
} kernel;

static inline an_uop kernel_param(an_graph *g, kernel *k, an_dtype dtype, int64_t nelem, bool is_out)
{
    const uint32_t slot = k->nparams++;
    k->dtype[slot] = dtype;
    k->nelem[slot] = nelem;
    k->is_out[slot] = is_out;
    return an_param(g, dtype, slot);
}

static inline an_uop loop(an_graph *g, int64_t n, uint32_t id)
{
    return an_range(g, an_index(g, n), id, AN_RANGE_LOOP);
}
static inline an_uop reduce_range(an_graph *g, int64_t n, uint32_t id)
{
    return an_range(g, an_index(g, n), id, AN_RANGE_REDUCE);
}
static inline an_uop reduce(an_graph *g, an_op op, an_uop value, an_uop range)
{
    const an_uop src[2] = {value, range};
    return an_uop_new(g, AN_OP_REDUCE, an_uop_dtype(g, value), src, 2, (uint64_t)op);
}
/* i * n + j */
static inline an_uop at2(an_graph *g, an_uop i, int64_t n, an_uop j)
{
    return an_idx_add(g, an_idx_mul(g, i, an_index(g, n)), j);
}
static inline an_uop load(an_graph *g, an_uop p, an_uop index)
{
    return an_load(g, p, index, AN_UOP_NONE);
}
static inline an_uop mul(an_graph *g, an_uop x, an_uop y)
{
    return an_binary(g, AN_OP_MUL, x, y);
}
static inline an_uop add(an_graph *g, an_uop x, an_uop y)
{
    return an_binary(g, AN_OP_ADD, x, y);
}
static inline an_uop minus(an_graph *g, an_uop x, an_uop y)
{
    return add(g, x, mul(g, y, an_const_like(g, y, -1.0)));
}
static inline kernel one_store(an_graph *g, kernel k, an_uop p, an_uop index, an_uop value)
{
    const an_uop s = an_store(g, p, index, value, AN_UOP_NONE);
    k.sink = an_sink(g, &s, 1);
    return k;
}

/* out[i] = x[i] * y[i] + 1 */
static inline kernel kernel_elementwise(an_graph *g, an_dtype dtype, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, dtype, n, true), x = kernel_param(g, &k, dtype, n, false),
                 y = kernel_param(g, &k, dtype, n, false), i = loop(g, n, 0), xi = load(g, x, i);
    return one_store(g, k, out, i, add(g, mul(g, xi, load(g, y, i)), an_const_like(g, xi, 1.0)));
}

/* out[j, i] = x[i, j]: no range has stride 1 on both sides. */
static inline kernel kernel_transpose(an_graph *g, int64_t m, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, m * n, true), x = kernel_param(g, &k, AN_F32, m * n, false),
                 j = loop(g, n, 0), i = loop(g, m, 1);
    return one_store(g, k, out, at2(g, j, m, i), load(g, x, at2(g, i, n, j)));
}

/* out[i, j] = sum over k of a(i, k) * b(k, j), m x n x l. trans_a: a is stored [k, i]; trans_b: b is stored [j, k]. bias and
 * max(.., 0) follow if epilogue. */
static inline kernel kernel_matmul(an_graph *g, an_dtype dtype, int64_t m, int64_t n, int64_t l, bool trans_a, bool trans_b,
                                   bool epilogue)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, dtype, m * n, true), a = kernel_param(g, &k, dtype, m * l, false),
                 b = kernel_param(g, &k, dtype, l * n, false), i = loop(g, m, 0), j = loop(g, n, 1),
                 r = reduce_range(g, l, 2);
    const an_uop ai = trans_a ? at2(g, r, m, i) : at2(g, i, l, r), bi = trans_b ? at2(g, j, l, r) : at2(g, r, n, j);
    an_uop v = reduce(g, AN_OP_ADD, mul(g, load(g, a, ai), load(g, b, bi)), r);
    if (epilogue) {
        const an_uop bias = kernel_param(g, &k, dtype, n, false);
        v = add(g, v, load(g, bias, j));
        v = an_binary(g, AN_OP_MAX, v, an_const_like(g, v, 0.0));
    }
    return one_store(g, k, out, at2(g, i, n, j), v);
}

/* out[b, o, y, x] = sum over c, i, j < 3 of weight[i, j, o, c] * picture[b, c, y + i, x + j], of f16: pictures of (h + 2) x (w + 2). */
static inline kernel kernel_pictures(an_graph *g, int64_t batch, int64_t out_channels, int64_t channels, int64_t h, int64_t w)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F16, batch * out_channels * h * w, true), weight = kernel_param(g, &k, AN_F16, 9 * out_channels * channels, false),
                 picture = kernel_param(g, &k, AN_F16, batch * channels * (h + 2) * (w + 2), false);
    const an_uop b = loop(g, batch, 0), o = loop(g, out_channels, 1), y = loop(g, h, 2), x = loop(g, w, 3);
    const an_uop c = reduce_range(g, channels, 4), i = reduce_range(g, 3, 5), j = reduce_range(g, 3, 6);
    const an_uop at_weight = at2(g, at2(g, at2(g, i, 3, j), out_channels, o), channels, c);
    const an_uop at_picture = at2(g, at2(g, at2(g, b, channels, c), h + 2, an_idx_add(g, y, i)), w + 2, an_idx_add(g, x, j));
    const an_uop src[4] = {mul(g, load(g, weight, at_weight), load(g, picture, at_picture)), c, i, j};
    const an_uop sum = an_uop_new(g, AN_OP_REDUCE, AN_F16, src, 4, (uint64_t)AN_OP_ADD);
    return one_store(g, k, out, at2(g, at2(g, at2(g, b, out_channels, o), h, y), w, x), sum);
}

/* out[i] = op over k of x[i, k], or of x[k, i] if columns. */
static inline kernel kernel_reduce(an_graph *g, an_op op, an_dtype dtype, int64_t m, int64_t n, bool columns)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, dtype, m, true), x = kernel_param(g, &k, dtype, m * n, false), i = loop(g, m, 0),
                 r = reduce_range(g, n, 1);
    return one_store(g, k, out, i, reduce(g, op, load(g, x, columns ? at2(g, r, m, i) : at2(g, i, n, r)), r));
}

/* out[i, j] = exp2(x[i, j] - max) / sum of the same over the row. */
static inline kernel kernel_softmax(an_graph *g, int64_t m, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, m * n, true), x = kernel_param(g, &k, AN_F32, m * n, false),
                 i = loop(g, m, 0), j = loop(g, n, 1), r = reduce_range(g, n, 2), s = reduce_range(g, n, 3);
    const an_uop top = reduce(g, AN_OP_MAX, load(g, x, at2(g, i, n, r)), r);
    const an_uop sum = reduce(g, AN_OP_ADD, an_unary(g, AN_OP_EXP2, minus(g, load(g, x, at2(g, i, n, s)), top)), s);
    const an_uop e = an_unary(g, AN_OP_EXP2, minus(g, load(g, x, at2(g, i, n, j)), top));
    return one_store(g, k, out, at2(g, i, n, j), an_binary(g, AN_OP_DIV, e, sum));
}

/* out[i, j] = (x - mean) / sqrt(mean square + 1e-5): sums over equal bounds that share no range. */
static inline kernel kernel_layernorm(an_graph *g, int64_t m, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, m * n, true), x = kernel_param(g, &k, AN_F32, m * n, false),
                 i = loop(g, m, 0), j = loop(g, n, 1), r = reduce_range(g, n, 2), s = reduce_range(g, n, 3);
    const an_uop scale = an_const_float(g, AN_F32, n ? 1.0 / (double)n : 0.0);
    const an_uop xr = load(g, x, at2(g, i, n, r)), xs = load(g, x, at2(g, i, n, s));
    const an_uop mean = mul(g, reduce(g, AN_OP_ADD, xr, r), scale);
    const an_uop square = mul(g, reduce(g, AN_OP_ADD, mul(g, xs, xs), s), scale);
    const an_uop var = add(g, minus(g, square, mul(g, mean, mean)), an_const_float(g, AN_F32, 1e-5));
    const an_uop d = minus(g, load(g, x, at2(g, i, n, j)), mean);
    return one_store(g, k, out, at2(g, i, n, j), an_binary(g, AN_OP_DIV, d, an_unary(g, AN_OP_SQRT, var)));
}

/* out[i] = sum over r of (max over s of x[i, s]) * x[r, s'], s' = sum over t of y[r, t]: a reduction nested in another. */
static inline kernel kernel_nested(an_graph *g, int64_t m, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, m, true), x = kernel_param(g, &k, AN_F32, m * n, false),
                 i = loop(g, m, 0), r = reduce_range(g, m, 1), s = reduce_range(g, n, 2), t = reduce_range(g, n, 3);
    const an_uop top = reduce(g, AN_OP_MAX, load(g, x, at2(g, i, n, s)), s);
    const an_uop sum = reduce(g, AN_OP_ADD, mul(g, load(g, x, at2(g, r, n, t)), load(g, x, at2(g, i, n, t))), t);
    return one_store(g, k, out, i, reduce(g, AN_OP_ADD, mul(g, top, sum), r));
}

/* out[i] = the first k where x[i, k] is the row's maximum: two reductions, the second of the first. */
static inline kernel kernel_argmax(an_graph *g, int64_t m, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_I32, m, true), x = kernel_param(g, &k, AN_F32, m * n, false),
                 i = loop(g, m, 0), r = reduce_range(g, n, 1), s = reduce_range(g, n, 2);
    const an_uop top = reduce(g, AN_OP_MAX, load(g, x, at2(g, i, n, r)), r);
    const an_uop here = an_binary(g, AN_OP_CMPEQ, load(g, x, at2(g, i, n, s)), top);
    const an_uop at = an_select(g, here, an_cast_to(g, AN_I32, s), an_const_int(g, AN_I32, n));
    return one_store(g, k, out, i, reduce(g, AN_OP_MIN, at, s));
}

/* out[i] = sum over k of w[k] * x[i + k - 1], zero outside x: a convolution of 3 taps with padding. */
static inline kernel kernel_conv(an_graph *g, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, n, true), x = kernel_param(g, &k, AN_F32, n, false),
                 w = kernel_param(g, &k, AN_F32, 3, false), i = loop(g, n, 0), r = reduce_range(g, 3, 1);
    const an_uop at = an_idx_add(g, an_idx_add(g, i, r), an_index(g, -1));
    const an_uop gate = an_binary(g, AN_OP_AND, an_binary(g, AN_OP_CMPLT, an_index(g, -1), at),
                                  an_binary(g, AN_OP_CMPLT, at, an_index(g, n)));
    return one_store(g, k, out, i, reduce(g, AN_OP_ADD, mul(g, load(g, w, r), an_load(g, x, at, gate)), r));
}

/* out[i, j] = sum over k of a[i, k] * b[k, j] + c[i, k] * d[k, j], as tangents of products are; square[i, j]: the square of that. */
static inline kernel kernel_sum_of_products(an_graph *g, int64_t m, int64_t n, int64_t l)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, m * n, true), square = kernel_param(g, &k, AN_F32, m * n, true);
    const an_uop i = loop(g, m, 0), j = loop(g, n, 1), r = reduce_range(g, l, 2);
    an_uop in[4], terms[2];
    for (int p = 0; p < 4; p++) in[p] = kernel_param(g, &k, AN_F32, p % 2 ? l * n : m * l, false);
    for (int p = 0; p < 2; p++) terms[p] = mul(g, load(g, in[2 * p], at2(g, i, l, r)), load(g, in[2 * p + 1], at2(g, r, n, j)));
    const an_uop sum = reduce(g, AN_OP_ADD, add(g, terms[0], terms[1]), r);
    const an_uop stores[2] = {an_store(g, out, at2(g, i, n, j), sum, AN_UOP_NONE),
                              an_store(g, square, at2(g, i, n, j), mul(g, sum, sum), AN_UOP_NONE)};
    k.sink = an_sink(g, stores, 2);
    return k;
}

/* out[i, j] = max over r of x[i, j * step + r]: windows that overlap, touch or leave room. */
static inline kernel kernel_windows(an_graph *g, int64_t m, int64_t n, int64_t step, int64_t size)
{
    kernel k = {0};
    const int64_t width = (n - 1) * step + size;
    const an_uop out = kernel_param(g, &k, AN_F32, m * n, true), x = kernel_param(g, &k, AN_F32, m * width, false), i = loop(g, m, 0),
                 j = loop(g, n, 1), r = reduce_range(g, size, 2);
    const an_uop at = an_idx_add(g, an_idx_mul(g, j, an_index(g, step)), r);
    return one_store(g, k, out, at2(g, i, n, j), reduce(g, AN_OP_MAX, load(g, x, at2(g, i, width, at)), r));
}

/* Two stores over i; the first over j, too: rows[i] = sum over k of x[i, k]; out[i, j] = x[i, j] - rows[i]. */
static inline kernel kernel_prefix(an_graph *g, int64_t m, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, m * n, true), rows = kernel_param(g, &k, AN_F32, m, true),
                 x = kernel_param(g, &k, AN_F32, m * n, false), i = loop(g, m, 0), j = loop(g, n, 1),
                 r = reduce_range(g, n, 2);
    const an_uop sum = reduce(g, AN_OP_ADD, load(g, x, at2(g, i, n, r)), r);
    const an_uop s[2] = {an_store(g, out, at2(g, i, n, j), minus(g, load(g, x, at2(g, i, n, j)), sum), AN_UOP_NONE),
                         an_store(g, rows, i, sum, AN_UOP_NONE)};
    k.sink = an_sink(g, s, 2);
    return k;
}

/* SGD with momentum, in place: v = 0.9 v + g; p = p - 0.1 v. */
static inline kernel kernel_update(an_graph *g, int64_t n)
{
    kernel k = {0};
    const an_uop p = kernel_param(g, &k, AN_F32, n, true), v = kernel_param(g, &k, AN_F32, n, true),
                 d = kernel_param(g, &k, AN_F32, n, false), i = loop(g, n, 0);
    const an_uop next = add(g, mul(g, load(g, v, i), an_const_float(g, AN_F32, 0.9)), load(g, d, i));
    const an_uop s[2] = {an_store(g, v, i, next, AN_UOP_NONE),
                         an_store(g, p, i, minus(g, load(g, p, i), mul(g, next, an_const_float(g, AN_F32, 0.1))),
                                  AN_UOP_NONE)};
    k.sink = an_sink(g, s, 2);
    return k;
}

/* x[i, j] = x[i, j] / sum of its row: the row is read whole before it is written. */
static inline kernel kernel_normalize_in_place(an_graph *g, int64_t m, int64_t n)
{
    kernel k = {0};
    const an_uop x = kernel_param(g, &k, AN_F32, m * n, true), i = loop(g, m, 0), j = loop(g, n, 1),
                 r = reduce_range(g, n, 2);
    const an_uop sum = reduce(g, AN_OP_ADD, load(g, x, at2(g, i, n, r)), r);
    return one_store(g, k, x, at2(g, i, n, j), an_binary(g, AN_OP_DIV, load(g, x, at2(g, i, n, j)), sum));
}

/* out[i, j] = (sum over k of a[i, k] b[j, k]) * (sum over k of a[i, k] c[j, k]) */
static inline kernel kernel_two_products(an_graph *g, int64_t m, int64_t n, int64_t l)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, m * n, true), a = kernel_param(g, &k, AN_F32, m * l, false), i = loop(g, m, 0), j = loop(g, n, 1);
    an_uop sums[2];
    for (uint32_t s = 0; s < 2; s++) {
        const an_uop b = kernel_param(g, &k, AN_F32, n * l, false), r = reduce_range(g, l, 2 + s);
        sums[s] = reduce(g, AN_OP_ADD, mul(g, load(g, a, at2(g, i, l, r)), load(g, b, at2(g, j, l, r))), r);
    }
    return one_store(g, k, out, at2(g, i, n, j), mul(g, sums[0], sums[1]));
}

/* x[i, j] = x[i, j]^2 + sum over k of a[i, k] b[j, k]: a product written over what is added to it. */
static inline kernel kernel_product_in_place(an_graph *g, int64_t m, int64_t n, int64_t l)
{
    kernel k = {0};
    const an_uop x = kernel_param(g, &k, AN_F32, m * n, true), a = kernel_param(g, &k, AN_F32, m * l, false),
                 b = kernel_param(g, &k, AN_F32, n * l, false), i = loop(g, m, 0), j = loop(g, n, 1), r = reduce_range(g, l, 2);
    const an_uop v = load(g, x, at2(g, i, n, j)), sum = reduce(g, AN_OP_ADD, mul(g, load(g, a, at2(g, i, l, r)), load(g, b, at2(g, j, l, r))), r);
    return one_store(g, k, x, at2(g, i, n, j), add(g, mul(g, v, v), sum));
}

/* out[i, j, k] = x[i, j, k] * x[i, j, k] + b[k], and total[0] = sum of x, over m x n x l: loops that merge. */
static inline kernel kernel_planes(an_graph *g, int64_t m, int64_t n, int64_t l)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, m * n * l, true), total = kernel_param(g, &k, AN_F32, 1, true),
                 x = kernel_param(g, &k, AN_F32, m * n * l, false), b = kernel_param(g, &k, AN_F32, l, false);
    an_uop r[6];
    for (uint32_t i = 0; i < 6; i++) {
        const int64_t bound = i % 3 == 0 ? m : i % 3 == 1 ? n : l;
        r[i] = i < 3 ? loop(g, bound, i) : reduce_range(g, bound, i);
    }
    const an_uop at = at2(g, at2(g, r[0], n, r[1]), l, r[2]), v = load(g, x, at);
    const an_uop src[4] = {load(g, x, at2(g, at2(g, r[3], n, r[4]), l, r[5])), r[3], r[4], r[5]};
    const an_uop sum = an_uop_new(g, AN_OP_REDUCE, AN_F32, src, 4, AN_OP_ADD);
    const an_uop s[2] = {an_store(g, out, at, add(g, mul(g, v, v), load(g, b, r[2])), AN_UOP_NONE),
                         an_store(g, total, an_index(g, 0), sum, AN_UOP_NONE)};
    k.sink = an_sink(g, s, 2);
    return k;
}

/* out[f] = x[f % n, f / n] + b[f % n] over m * n elements, and the sum over r < m * n of x[r] * b[r % n]: flat ranges used in
 * parts. */
static inline kernel kernel_flat(an_graph *g, int64_t m, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, m * n, true), total = kernel_param(g, &k, AN_F32, 1, true),
                 x = kernel_param(g, &k, AN_F32, m * n, false), b = kernel_param(g, &k, AN_F32, n, false),
                 f = loop(g, m * n, 0), r = reduce_range(g, m * n, 1), by = an_index(g, n ? n : 1);
    const an_uop i = an_binary(g, AN_OP_FLOORDIV, f, by), j = an_binary(g, AN_OP_FLOORMOD, f, by);
    const an_uop term = mul(g, load(g, x, r), load(g, b, an_binary(g, AN_OP_FLOORMOD, r, by)));
    const an_uop s[2] = {an_store(g, out, f, add(g, load(g, x, at2(g, j, m, i)), load(g, b, j)), AN_UOP_NONE),
                         an_store(g, total, an_index(g, 0), reduce(g, AN_OP_ADD, term, r), AN_UOP_NONE)};
    k.sink = an_sink(g, s, 2);
    return k;
}

/* out[i, j] = x[i, j] / sum of row i, and cols[j] = sum of column j, over n x l where n is a variable, here of value n. */
static inline kernel kernel_symbolic(an_graph *g, int64_t n, int64_t l)
{
    kernel k = {.var = an_uop_var(g, "n", 0, 100), .var_value = n};
    const an_uop out = kernel_param(g, &k, AN_F32, n * l, true), cols = kernel_param(g, &k, AN_F32, l, true),
                 x = kernel_param(g, &k, AN_F32, n * l, false), i = an_range(g, k.var, 0, AN_RANGE_LOOP), j = loop(g, l, 1),
                 c = loop(g, l, 2), r = reduce_range(g, l, 3), s = an_range(g, k.var, 4, AN_RANGE_REDUCE);
    const an_uop row = reduce(g, AN_OP_ADD, load(g, x, at2(g, i, l, r)), r);
    const an_uop col = reduce(g, AN_OP_ADD, load(g, x, at2(g, s, l, c)), s);
    const an_uop st[2] = {an_store(g, out, at2(g, i, l, j), an_binary(g, AN_OP_DIV, load(g, x, at2(g, i, l, j)), row), AN_UOP_NONE),
                          an_store(g, cols, c, col, AN_UOP_NONE)};
    k.sink = an_sink(g, st, 2);
    return k;
}

/* out[i] = x[(i * 7) // 3 mod n]: indices that no range walks evenly. */
static inline kernel kernel_gather(an_graph *g, int64_t n)
{
    kernel k = {0};
    const an_uop out = kernel_param(g, &k, AN_F32, n, true), x = kernel_param(g, &k, AN_F32, n, false), i = loop(g, n, 0);
    const an_uop at = an_binary(g, AN_OP_FLOORDIV, an_idx_mul(g, i, an_index(g, 7)), an_index(g, 3));
    const an_uop wrapped = an_binary(g, AN_OP_FLOORMOD, at, an_index(g, n ? n : 1));
    return one_store(g, k, out, i, load(g, x, wrapped));
}

#endif
