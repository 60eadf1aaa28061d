/* random.c - random tensors: Threefry-2x32, 20 rounds (Salmon, Moraes, Dror, Shaw, Parallel Random Numbers: As Easy as
 * 1, 2, 3, 2011).
 *
 *   seed --threefry(seed, j)--> key of draw j          on the host, when the draw is made
 *   state (3,) u32 = {key0, key1, count}               a buffer of the draw's own
 *   ASSIGN(state, state + {0, 0, 1})                   runs when the draw is computed, once in each run of a plan
 *   block i = threefry(key, {i, count})                what element i of the draw is made of
 *
 * A draw has its own state, so that computing one never makes another stale, and its key lies in the state, so that draws of
 * one shape are one kernel. */
#include "tensor/tensor.h"
#include "base/threefry.h"
#include "runtime/runtime.h"

#include <math.h>

struct an_rng {
    an_graph *graph;
    uint32_t seed[2];
    uint32_t draws; /* made so far */
    struct state *states, **last;
};

typedef struct state {
    struct state *next;
    an_tensor *tensor;
} state;

/* --- threefry ---------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 20 };
static const uint32_t rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
static const uint32_t parity = 0x1BD11BDA;

static an_uop u32(an_graph *g, uint32_t v)
{
    return an_const_int(g, AN_U32, (int64_t)v);
}

static an_uop add(an_graph *g, an_uop a, an_uop b)
{
    return an_binary(g, AN_OP_ADD, a, b);
}

static an_uop rotate(an_graph *g, an_uop x, uint32_t by)
{
    return an_binary(g, AN_OP_OR, an_binary(g, AN_OP_SHL, x, u32(g, by)), an_binary(g, AN_OP_SHR, x, u32(g, 32 - by)));
}

void an_threefry2x32_nodes(an_graph *g, const an_uop key[2], const an_uop counter[2], an_uop out[2])
{
    const an_uop mixed = an_binary(g, AN_OP_XOR, an_binary(g, AN_OP_XOR, key[0], key[1]), u32(g, parity));
    const an_uop ks[3] = {key[0], key[1], mixed};
    an_uop x = add(g, counter[0], ks[0]), y = add(g, counter[1], ks[1]);
    for (uint32_t r = 0; r < ROUNDS; r++) {
        x = add(g, x, y);
        y = an_binary(g, AN_OP_XOR, rotate(g, y, rotations[r % 8]), x);
        if (r % 4 == 3) {
            const uint32_t inject = r / 4 + 1;
            x = add(g, x, ks[inject % 3]);
            y = add(g, y, add(g, ks[(inject + 1) % 3], u32(g, inject)));
        }
    }
    out[0] = x;
    out[1] = y;
}

/* --- draws ------------------------------------------------------------------------------------------------------- */

an_rng *an_rng_from_seed(an_graph *g, uint64_t seed)
{
    if (an_runtime_capture(g)) {
        an_tensor_fail(g, AN_ERR_ARG, "%s: a function is being captured; make the generator before: its replays go on with it, they do not begin "
                       "anew", __func__);
        return NULL;
    }
    an_rng *rng = an_graph_alloc(g, sizeof *rng);
    if (!rng) return NULL;
    *rng = (an_rng){g, {(uint32_t)seed, (uint32_t)(seed >> 32)}, 0, NULL, NULL};
    rng->last = &rng->states;
    return rng;
}

uint32_t an_rng_count(const an_rng *rng)
{
    return rng ? rng->draws : 0;
}

an_tensor *an_rng_state(const an_rng *rng, uint32_t i)
{
    const state *s = rng ? rng->states : NULL;
    for (; s && i > 0; i--) s = s->next;
    return s ? s->tensor : NULL;
}

/* Two tensors of random u32 words of that shape: one block an element. */
static bool draw_uop(an_rng *rng, const char *call, an_dtype dtype, const an_uop *dims, uint32_t rank, an_tensor *words[2])
{
    an_graph *g = rng->graph;
    if (!an_check_dims_uop(g, call, dtype, dims, rank)) return false;
    const an_uop size = an_shape_numel(g, (an_shape){rank, dims});
    if (an_uop_is_none(size)) return false;
    if (an_dims_most(g, size) > UINT32_MAX) {
        an_tensor_fail(g, AN_ERR_LIMIT, "%s: shape %s: one draw has at most 2^32 - 1 elements", call, an_text_uops(g, dims, rank).s);
        return false;
    }
    uint32_t start[3] = {0};
    an_threefry(rng->seed, (uint32_t[]){rng->draws, 0}, start);
    an_tensor *before = an_tensor_place(g, AN_U32, AN_DIMS(3), start);
    state *kept = an_graph_alloc(g, sizeof *kept);
    if (!before || !kept) return false;
    *kept = (state){NULL, before};
    an_tensor *third = an_cast(an_eq_scalar(an_iota_along(before, AN_I32, 0), 2), AN_U32);
    an_tensor *after = an_add(before, third);
    if (!after || an_assign(before, after)) return false;
    an_tensor *key0 = an_pick(before, 0, 0), *key1 = an_pick(before, 0, 1), *count = an_pick(before, 0, 2);
    if (!key0 || !key1 || !count) return false;

    /* All as vectors of n, then the shape. */
    an_uop flat[3], out[2];
    an_tensor *const scalars[3] = {key0, key1, count};
    for (int i = 0; i < 3; i++) flat[i] = an_expand_to(g, scalars[i]->uop, &size, 1);
    const an_uop counter[2] = {an_iota_node(g, AN_U32, size), flat[2]};
    an_threefry2x32_nodes(g, flat, counter, out);
    for (int i = 0; i < 2; i++) {
        words[i] = an_reshape_uop(an_tensor_wrap(g, out[i], &before, 1), dims, rank);
        if (!words[i]) return false;
    }
    *rng->last = kept;
    rng->last = &kept->next;
    rng->draws++;
    return true;
}

static bool draw(an_rng *rng, const char *call, an_dtype dtype, const int64_t *dims, uint32_t rank, an_tensor *words[2])
{
    an_uop d[AN_RANK_MAX];
    if (!an_check_dims(rng->graph, call, dtype, dims, rank)) return false;
    an_dims_to_uops(rng->graph, dims, rank, d);
    return draw_uop(rng, call, dtype, d, rank, words);
}

/* A tensor of constants: of dtype, for what is computed in it. */
static an_tensor *scaled(an_tensor *x, double factor, double offset)
{
    x = an_mul_scalar(x, factor);
    return offset == 0 ? x : an_add_scalar(x, offset);
}

/* The top bits of words as whole numbers of dtype: 53 for f64, else 24, or as many as dtype holds. */
static an_tensor *top_bits(an_tensor *words[2], an_dtype dtype, int bits)
{
    if (dtype != AN_F64) return an_cast(an_shr(words[0], an_const_of(words[0], 32 - bits)), AN_F32);
    an_tensor *high = an_cast(words[0], AN_F64), *low = an_shr(words[1], an_const_of(words[1], 32 - (bits - 32)));
    return an_add(an_mul_scalar(high, ldexp(1, bits - 32)), an_cast(low, AN_F64));
}

static int significand_bits(an_dtype dtype)
{
    switch (dtype) {
    case AN_F64:
        return 53;
    case AN_F16:
        return 11;
    case AN_BF16:
        return 8;
    case AN_F8E4M3:
        return 4;
    case AN_F8E5M2:
        return 3;
    default:
        return 24;
    }
}

an_tensor *an_uniform(an_rng *rng, an_dtype dtype, const int64_t *dims, uint32_t rank, double low, double high)
{
    an_tensor *words[2];
    if (!rng || !an_check_float(rng->graph, __func__, dtype)) return NULL;
    if (!(isfinite(low) && isfinite(high) && low <= high))
        return an_tensor_fail(rng->graph, AN_ERR_ARG, "%s: from %g to %g: both finite, and the first not above the second",
                              __func__, low, high);
    if (!draw(rng, __func__, dtype, dims, rank, words)) return NULL;
    const int bits = significand_bits(dtype);
    an_tensor *u = scaled(top_bits(words, dtype, bits), ldexp(1, -bits), 0);
    if (low == 0 && high == 1) return an_cast(u, dtype);
    /* Rounding may reach high: keep below it. */
    an_tensor *x = an_cast(scaled(u, high - low, low), dtype);
    return x && low < high ? an_where(an_lt_scalar(x, high), x, an_const_of(x, low)) : x;
}

an_tensor *an_normal(an_rng *rng, an_dtype dtype, const int64_t *dims, uint32_t rank, double mean, double std)
{
    an_tensor *words[2];
    if (!rng || !an_check_float(rng->graph, __func__, dtype)) return NULL;
    if (!(isfinite(mean) && isfinite(std) && std >= 0))
        return an_tensor_fail(rng->graph, AN_ERR_ARG, "%s: mean %g, std %g: both finite, and std not negative", __func__,
                              mean, std);
    if (!draw(rng, __func__, dtype, dims, rank, words)) return NULL;
    /* Box-Muller: sqrt(-2 ln u) cos(2 pi v), u in (0, 1], v in [0, 1). */
    const an_dtype wide = an_dtype_accumulate(dtype);
    const int bits = wide == AN_F64 ? 32 : 24;
    an_tensor *shift = an_const_of(words[0], 32 - bits);
    an_tensor *u = scaled(an_add_scalar(an_cast(an_shr(words[0], shift), wide), 1), ldexp(1, -bits), 0);
    an_tensor *v = scaled(an_cast(an_shr(words[1], shift), wide), ldexp(1, -bits), 0);
    an_tensor *r = an_sqrt(an_mul_scalar(an_log(u), -2));
    an_tensor *z = an_mul(r, an_cos(an_mul_scalar(v, 6.28318530717958647693)));
    if (std != 1) z = an_mul_scalar(z, std);
    if (mean != 0) z = an_add_scalar(z, mean);
    return an_cast(z, dtype);
}

/* The high word of the product of two u32, from products of halves that do not overflow. */
static an_tensor *multiply_high(an_tensor *x, uint32_t n)
{
    an_tensor *half = an_const_of(x, 16), *mask = an_const_of(x, 0xffff);
    an_tensor *xh = an_shr(x, half), *xl = an_bit_and(x, mask);
    an_tensor *nh = an_const_of(x, n >> 16), *nl = an_const_of(x, n & 0xffff);
    an_tensor *low = an_shr(an_mul(xl, nl), half);
    an_tensor *mid = an_add(an_mul(xh, nl), low);                          /* < 2^32 */
    an_tensor *mid2 = an_add(an_mul(xl, nh), an_bit_and(mid, mask));       /* < 2^32 */
    return an_add(an_add(an_mul(xh, nh), an_shr(mid, half)), an_shr(mid2, half));
}

an_tensor *an_randint(an_rng *rng, an_dtype dtype, const int64_t *dims, uint32_t rank, int64_t low, int64_t high)
{
    an_tensor *words[2];
    if (!rng || !an_check_dtype(rng->graph, __func__, dtype)) return NULL;
    if (!an_is_integer(dtype))
        return an_tensor_fail(rng->graph, AN_ERR_DTYPE, "%s: dtype %s: it must be an integer one", __func__,
                              an_dtype_name(dtype));
    const uint64_t range = (uint64_t)high - (uint64_t)low;
    if (low >= high || range > UINT64_C(1) << 32)
        return an_tensor_fail(rng->graph, AN_ERR_ARG, "%s: from %lld up to %lld: 1 to 2^32 numbers are needed", __func__,
                              (long long)low, (long long)high);
    const int64_t last = high - 1;
    const bool fits = dtype == AN_U64 ? low >= 0
                      : dtype == AN_I64 ? true
                      : an_dtype_holds(dtype, (double)low) && an_dtype_holds(dtype, (double)last);
    if (!fits)
        return an_tensor_fail(rng->graph, AN_ERR_DTYPE, "%s: from %lld up to %lld: not all are values of %s", __func__,
                              (long long)low, (long long)high, an_dtype_name(dtype));
    if (!draw(rng, __func__, dtype, dims, rank, words)) return NULL;
    an_tensor *x = range >> 32 ? words[0] : multiply_high(words[0], (uint32_t)range);
    /* Casting and adding wrap, and come out right as the true sum fits. */
    x = an_cast(x, dtype);
    an_tensor *offset = an_tensor_wrap(rng->graph, an_const_int(rng->graph, dtype, low), NULL, 0);
    return low == 0 ? x : an_add(x, offset);
}

/* true with probability p, by random words. */
static an_tensor *chance(an_tensor *word, double p)
{
    const double threshold = floor(ldexp(p, 32));
    if (threshold >= ldexp(1, 32)) return an_full_like(an_cast(word, AN_BOOL), 1);
    return an_lt(word, an_const_of(word, threshold));
}

an_tensor *an_bernoulli(an_rng *rng, const int64_t *dims, uint32_t rank, double p)
{
    an_tensor *words[2];
    if (!rng) return NULL;
    if (!(p >= 0 && p <= 1))
        return an_tensor_fail(rng->graph, AN_ERR_ARG, "%s: probability %g: it must be between 0 and 1", __func__, p);
    return draw(rng, __func__, AN_BOOL, dims, rank, words) ? chance(words[0], p) : NULL;
}

an_tensor *an_permutation(an_rng *rng, int64_t n)
{
    an_tensor *words[2];
    if (!rng) return NULL;
    if (n < 0 || n > INT32_MAX)
        return an_tensor_fail(rng->graph, AN_ERR_ARG, "%s: of %lld numbers: 0 to 2^31 - 1", __func__, (long long)n);
    if (!draw(rng, __func__, AN_I32, &n, 1, words)) return NULL;
    /* Keys in a buffer, so that each comparison reads them instead of drawing them again. Ties go by position. */
    an_tensor *key = an_contiguous(words[0]);
    an_tensor *other = an_unsqueeze(key, 0), *self = an_unsqueeze(key, 1);
    if (!other || !self) return NULL;
    an_tensor *j = an_iota_along(other, AN_I32, 1), *i = an_iota_along(self, AN_I32, 0);
    an_tensor *before = an_logical_or(an_lt(other, self), an_logical_and(an_eq(other, self), an_lt(j, i)));
    return an_sum(before, AN_DIMS(1), false);
}

an_tensor *an_dropout(an_rng *rng, an_tensor *x, double p)
{
    x = an_to_float(x);
    if (!rng || !x) return NULL;
    an_tensor *words[2];
    if (rng->graph != x->graph)
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: the rng and the tensor belong to two graphs", __func__);
    if (!(p >= 0 && p < 1))
        return an_tensor_fail(x->graph, AN_ERR_ARG, "%s: probability %g: it must be at least 0 and less than 1", __func__,
                              p);
    if (p == 0) return an_tensor_same(x);
    const an_shape s = an_tensor_shape(x);
    if (!draw_uop(rng, __func__, AN_BOOL, s.dims, s.rank, words)) return NULL;
    return an_where(chance(words[0], 1 - p), an_mul_scalar(x, 1 / (1 - p)), an_const_of(x, 0));
}
