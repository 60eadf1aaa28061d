/* test_tensor_programs.c - random programs of the tensor API: what the scheduler, the passes and the devices make of them
 * against the graph as built, evaluated node by node (support/eval_graph.c). Integers only, whose sums wrap: every order
 * gives the same bits. PROGRAMS and SEED in the environment ask for more and for others. */
#include "an_test.h"
#include "eval_graph.h"

#include "tensor/tensor.h"
#include <anneal/device.h>

#include <stdio.h>
#include <stdlib.h>

enum { POOL = 12, OUTS = 3, MOST = 2000 };

typedef struct dice {
    uint64_t state;
} dice;

/* 0..n-1; splitmix64. */
static int64_t roll(dice *d, int64_t n)
{
    uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (int64_t)((z ^ z >> 31) % (uint64_t)n);
}

static an_tensor *fresh(an_graph *g, dice *d)
{
    int64_t dims[4];
    int32_t data[256];
    const uint32_t rank = (uint32_t)roll(d, 4);
    for (uint32_t i = 0; i < rank; i++) dims[i] = roll(d, 12) == 0 ? 0 : 1 + roll(d, 5);
    for (int i = 0; i < 256; i++) data[i] = (int32_t)roll(d, 41) - 20;
    return an_tensor_from_host(g, AN_I32, dims, rank, data);
}

static int64_t axis_of(dice *d, const an_tensor *x)
{
    return roll(d, an_tensor_rank(x));
}

/* Another shape of as many elements: axes merged and split at random. */
static an_tensor *reshape(dice *d, an_tensor *x)
{
    int64_t n = an_tensor_numel(x), dims[4];
    uint32_t rank = 0;
    if (n == 0) return an_reshape(x, AN_DIMS(0, 3));
    while (rank < 3) {
        int64_t factor = 1 + roll(d, 6);
        while (n % factor) factor--;
        dims[rank++] = factor;
        n /= factor;
    }
    dims[rank++] = n;
    return an_reshape(x, dims, rank);
}

static an_tensor *pad(dice *d, an_tensor *x)
{
    int64_t before[4] = {0}, after[4] = {0};
    for (uint32_t i = 0; i < an_tensor_rank(x); i++) {
        before[i] = roll(d, 3);
        after[i] = roll(d, 3);
    }
    return an_pad(x, before, after, an_tensor_rank(x), roll(d, 2) ? 0 : (double)roll(d, 9) - 4);
}

static an_tensor *slice(dice *d, an_tensor *x)
{
    const int axis = (int)axis_of(d, x);
    const int64_t n = an_tensor_dim(x, axis);
    const int64_t begin = roll(d, 4) ? roll(d, n + 1) : AN_NONE, end = roll(d, 4) ? roll(d, n + 1) : AN_NONE;
    static const int64_t steps[6] = {1, 1, 2, 3, -1, -2};
    return an_slice(x, axis, begin, end, steps[roll(d, 6)]);
}

/* One step: an operation on tensors of the pool. NULL where it does not apply (the error is cleared). */
static an_tensor *operation(an_graph *g, dice *d, an_tensor *x, an_tensor *y)
{
    const uint32_t rank = an_tensor_rank(x);
    int64_t order[4] = {0, 1, 2, 3};
    switch (roll(d, rank ? 30 : 12)) {
    case 0:
        return an_add(x, y);
    case 1:
        return an_mul(x, y);
    case 2:
        return an_sub(x, y);
    case 3:
        return an_maximum(x, an_neg(y));
    case 4:
        return an_where(an_lt(x, y), x, y);
    case 5:
        return an_mod_scalar(x, (double)roll(d, 13) - 6);
    case 6:
        return an_floor_div_scalar(an_add_scalar(x, 3), (double)roll(d, 7) - 3);
    case 7:
        return an_bit_xor(x, an_shr(y, an_full_like(y, (double)roll(d, 5))));
    case 8:
        return an_unsqueeze(x, 0);
    case 9:
        return reshape(d, x);
    case 10:
        return an_contiguous(an_add_scalar(x, 1));
    case 11:
        return an_repeat(an_unsqueeze(x, 0), (const int64_t[]){2, 1, 1, 1, 1}, rank + 1);
    case 12:
        for (uint32_t i = rank - 1; i > 0; i--) {
            const int64_t k = roll(d, i + 1), swap = order[i];
            order[i] = order[k];
            order[k] = swap;
        }
        return an_permute(x, order, rank);
    case 13:
        return pad(d, x);
    case 14:
    case 15:
        return slice(d, x);
    case 16:
        return an_flip(x, AN_DIMS(axis_of(d, x)));
    case 17:
        return an_cat((an_tensor *[]){x, an_roll(x, roll(d, 7) - 3, (int)axis_of(d, x)), x}, 3, (int)axis_of(d, x));
    case 18:
    case 19:
        return an_sum(x, AN_DIMS(axis_of(d, x)), roll(d, 2));
    case 20:
        return an_sum(x, AN_ALL, roll(d, 2));
    case 21:
        return an_max(x, AN_DIMS(axis_of(d, x)), roll(d, 2));
    case 22:
        return an_add(an_argmax(x, (int)axis_of(d, x), false), an_prod(x, AN_ALL, false));
    case 23:
        return an_cumsum(x, (int)axis_of(d, x));
    case 24:
        return an_take(x, an_mod_scalar(an_reshape(y, AN_DIMS(-1)), 5), (int)axis_of(d, x));
    case 25:
        return an_matmul(x, rank == 1 ? x : an_transpose(x, -1, -2));
    case 26:
        return an_windows(x, 1, (const int64_t[]){2}, (const int64_t[]){1 + roll(d, 2)}, (const int64_t[]){1 + roll(d, 2)});
    case 27:
        return an_sub(x, an_max(x, AN_DIMS(axis_of(d, x)), true));
    case 28:
        return an_mul(an_arange(g, AN_I32, 0, (double)an_tensor_dim(x, -1), 1), x);
    default:
        return an_cast(an_lt(x, an_sum(x, AN_DIMS(axis_of(d, x)), true)), AN_I32);
    }
}

/* A program from a seed: its last tensors against the oracle. False, and a line, where they differ. */
static bool run(an_test *t, uint64_t seed, const char *device)
{
    dice d = {seed};
    an_graph *g = NULL;
    an_tensor *pool[POOL] = {NULL}, *outs[OUTS];
    int32_t *want[OUTS] = {NULL}, *got = calloc(MOST, sizeof *got);
    size_t n[OUTS];
    bool right = true;
    CHECK(t, got);
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, device));
    for (int i = 0; i < 3; i++) pool[i] = fresh(g, &d);
    for (int i = 3, tries = 0; i < POOL && tries < 200; tries++) {
        an_tensor *x = operation(g, &d, pool[roll(&d, i)], pool[i - 1 - roll(&d, i < 4 ? i : 4)]);
        if (an_ctx_status(t->ctx) == AN_ERR_NOMEM) CHECK_STR(t, an_ctx_error(t->ctx), "");
        an_ctx_clear_error(t->ctx);
        if (!x || an_tensor_rank(x) > 4 || an_tensor_numel(x) > MOST) continue;
        pool[i++] = x;
    }
    int last = POOL;
    while (!pool[last - 1]) last--;
    for (int k = 0; k < OUTS; k++) {
        outs[k] = pool[last - 1 - k];
        n[k] = (size_t)an_tensor_numel(outs[k]);
        CHECK(t, want[k] = calloc(n[k] + 1, sizeof **want));
        CHECK_OK(t, an_test_eval(g, an_tensor_uop(outs[k]), want[k], n[k] * sizeof **want));
    }
    const an_status st = an_realize(outs, OUTS);
    if (st) fprintf(stderr, "%s: SEED=%llu PROGRAMS=1: %s\n", device, (unsigned long long)seed, an_ctx_error(t->ctx));
    right = !st;
    for (int k = 0; k < OUTS && right; k++) {
        CHECK_OK(t, an_tensor_read(outs[k], got, n[k] * sizeof *got));
        for (size_t i = 0; i < n[k] && right; i++) {
            right = got[i] == want[k][i];
            if (!right)
                fprintf(stderr, "%s: SEED=%llu PROGRAMS=1: output %d, element %zu of %zu is %d, not %d\n", device,
                        (unsigned long long)seed, k, i, n[k], got[i], want[k][i]);
        }
    }
    an_ctx_clear_error(t->ctx);
    for (int k = 0; k < OUTS; k++) free(want[k]);
    free(got);
    an_graph_destroy(g);
    return right;
}

static void run_many(an_test *t, const char *device, uint64_t programs)
{
    const char *more = getenv("PROGRAMS"), *first = getenv("SEED");
    const uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    int wrong = 0;
    if (more) programs = strtoull(more, NULL, 10);
    for (uint64_t i = 0; i < programs; i++) wrong += !run(t, seed + i, device);
    CHECK_EQ(t, wrong, 0);
}

static void random_programs_on_the_interpreter(an_test *t)
{
    run_many(t, "interp", 1500);
}

static void programs_that_once_went_wrong(an_test *t)
{
    /* No storage for temporaries of no elements; an index computed by a reduction over the range it is used
     * in; a reduction put into the loop of another that the one inside it runs over. */
    static const uint64_t seeds[] = {374, 10841, 11931, 31268, 128449, 133263};
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    for (size_t b = 0; b < n; b++)
        for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) CHECK(t, run(t, seeds[i], backends[b]->name));
}

/* Comparisons of halves that are joined at once: a processor with comparisons of its own for them may do both in one instruction. */
static void comparisons_of_halves_are_joined(an_test *t)
{
    enum { ROWS = 5, COLUMNS = 8 };
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    uint16_t halves[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) halves[i] = i % 7 < 4 ? 0xc400 : 0x4400; /* -4, 4 */
    for (size_t b = 0; b < n; b++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, backends[b]->name));
        an_tensor *x = an_tensor_from_host(g, AN_F16, AN_DIMS(ROWS, COLUMNS), halves);
        an_tensor *least = an_argmin(an_lt_scalar(x, -1.5), 0, false);
        int32_t got[COLUMNS];
        CHECK_OK(t, an_tensor_read(least, got, sizeof got));
        for (int c = 0; c < COLUMNS; c++) {
            int want = 0;
            while (want < ROWS && (want * COLUMNS + c) % 7 < 4) want++;
            CHECK_EQ(t, got[c], want == ROWS ? 0 : want);
        }
        an_graph_destroy(g);
    }
}

/* Fewer: each has its own kernels to compile. */
static void random_programs_on_the_default_device(an_test *t)
{
    size_t n = 0;
    run_many(t, an_test_backends(&n)[0]->name, 40);
}

AN_TEST_MAIN(AN_CASE(random_programs_on_the_interpreter), AN_CASE(programs_that_once_went_wrong), AN_CASE(comparisons_of_halves_are_joined),
             AN_CASE(random_programs_on_the_default_device))
