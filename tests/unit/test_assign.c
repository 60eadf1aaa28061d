/* test_assign.c - writes into views: parts of a buffer, strided, flipped, permuted, at symbolic places; what reads the buffer
 * while it is written; and what cannot be written. On every device. */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/plan.h>

enum { ROWS = 4, COLS = 6, N = ROWS * COLS };

/* Runs body on a fresh graph of each device. */
static void on_every_device(an_test *t, void (*body)(an_test *t, an_graph *g))
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    for (size_t i = 0; i < n; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, backends[i]->name));
        body(t, g);
        an_graph_destroy(g);
    }
}

/* 0, 1, 2, ... of (ROWS, COLS). */
static an_tensor *counted(an_graph *g)
{
    float data[N];
    for (int i = 0; i < N; i++) data[i] = (float)i;
    return an_tensor_from_host(g, AN_F32, AN_DIMS(ROWS, COLS), data);
}

/* x holds want. */
static void check_all(an_test *t, an_tensor *x, const float *want)
{
    float got[N] = {0};
    CHECK_OK(t, an_tensor_read(x, got, sizeof got));
    for (int i = 0; i < N; i++) CHECK_NEAR(t, got[i], want[i], 0);
}

static an_tensor *hundreds(an_graph *g, int64_t n)
{
    return an_arange(g, AN_F32, 100, 100 + (double)n, 1);
}

/* --- where the elements go ---------------------------------------------------------------------------------------- */

static void write_a_slice(an_test *t, an_graph *g)
{
    an_tensor *x = counted(g), *part = an_slice(an_slice(x, 0, 1, 3, 1), 1, 2, 5, 1);
    CHECK_OK(t, an_assign(part, an_reshape(hundreds(g, 6), AN_DIMS(2, 3))));
    float want[N];
    for (int i = 0; i < N; i++) {
        const int r = i / COLS, c = i % COLS;
        want[i] = r >= 1 && r < 3 && c >= 2 && c < 5 ? (float)(100 + (r - 1) * 3 + c - 2) : (float)i;
    }
    check_all(t, x, want);
}

static void a_slice_is_written_and_the_rest_stays(an_test *t)
{
    on_every_device(t, write_a_slice);
}

static void write_strided(an_test *t, an_graph *g)
{
    /* Columns 5, 3, 1, backwards; then rows 0 and 3, whose step does not divide the axis. */
    an_tensor *x = counted(g);
    CHECK_OK(t, an_assign(an_slice(x, 1, AN_NONE, AN_NONE, -2), an_reshape(hundreds(g, 12), AN_DIMS(ROWS, 3))));
    CHECK_OK(t, an_assign(an_slice(x, 0, AN_NONE, AN_NONE, 3), an_full(g, AN_F32, AN_SCALAR, -1)));
    float want[N];
    for (int i = 0; i < N; i++) {
        const int r = i / COLS, c = i % COLS;
        want[i] = c % 2 ? (float)(100 + r * 3 + (5 - c) / 2) : (float)i;
        if (r == 0 || r == 3) want[i] = -1;
    }
    check_all(t, x, want);
}

static void steps_and_flips_go_where_they_show(an_test *t)
{
    on_every_device(t, write_strided);
}

static void write_permuted(an_test *t, an_graph *g)
{
    an_tensor *x = counted(g), *view = an_pick(an_reshape(an_transpose(x, 0, 1), AN_DIMS(3, 2, ROWS)), 1, 1);
    CHECK_OK(t, an_assign(view, an_reshape(hundreds(g, 12), AN_DIMS(3, ROWS)))); /* columns 1, 3, 5 */
    float want[N];
    for (int i = 0; i < N; i++) {
        const int r = i / COLS, c = i % COLS;
        want[i] = c % 2 ? (float)(100 + c / 2 * ROWS + r) : (float)i;
    }
    check_all(t, x, want);
    /* A view of another shape of all of it, and of one element. */
    CHECK_OK(t, an_assign(an_reshape(x, AN_DIMS(N)), hundreds(g, N)));
    CHECK_OK(t, an_assign(an_pick(an_flatten(x, 0, 1), 0, 7), an_scalar_f64(g, AN_F32, 5)));
    for (int i = 0; i < N; i++) want[i] = i == 7 ? 5 : (float)(100 + i);
    check_all(t, x, want);
}

static void a_permuted_and_reshaped_view_is_written(an_test *t)
{
    on_every_device(t, write_permuted);
}

static void write_padded(an_test *t, an_graph *g)
{
    an_tensor *x = counted(g), *framed = an_pad(x, (int64_t[]){1, 0}, (int64_t[]){0, 2}, 2, 0);
    CHECK_OK(t, an_assign(framed, an_reshape(hundreds(g, (ROWS + 1) * (COLS + 2)), AN_DIMS(ROWS + 1, COLS + 2))));
    float want[N];
    for (int i = 0; i < N; i++) want[i] = (float)(100 + (i / COLS + 1) * (COLS + 2) + i % COLS);
    check_all(t, x, want);
}

static void padding_is_written_nowhere(an_test *t)
{
    on_every_device(t, write_padded);
}

/* The view that is written through was computed before: it is the view all the same. */
static void write_through_a_realized_view(an_test *t, an_graph *g)
{
    float want[N];
    an_tensor *x = counted(g), *row = an_slice(x, 0, 0, 1, 1);
    CHECK_OK(t, an_realize(&row, 1));
    CHECK_OK(t, an_assign(an_slice(x, 0, 0, 1, 1), an_full(g, AN_F32, AN_DIMS(1, COLS), 7)));
    for (int i = 0; i < N; i++) want[i] = i < COLS ? 7 : (float)i;
    check_all(t, x, want);
    float kept[COLS];
    CHECK_OK(t, an_tensor_read(row, kept, sizeof kept));
    for (int i = 0; i < COLS; i++) CHECK_NEAR(t, kept[i], i, 0);
}

/* What was built on a view before that was realized is of the view as it was, whatever is written later. */
static void read_a_realized_view(an_test *t, an_graph *g)
{
    float got[N];
    an_tensor *x = counted(g), *y = an_flip(x, AN_DIMS(0)), *twice = an_mul_scalar(y, 2);
    CHECK_OK(t, an_realize(&y, 1));
    CHECK_OK(t, an_assign(x, an_add_scalar(x, 10)));
    CHECK_OK(t, an_realize(&x, 1));
    CHECK_OK(t, an_tensor_read(twice, got, sizeof got));
    for (int i = 0; i < N; i++) CHECK_NEAR(t, got[i], 2 * ((ROWS - 1 - i / COLS) * COLS + i % COLS), 0);
}

static void a_realized_view_is_not_what_is_written_through(an_test *t)
{
    on_every_device(t, write_through_a_realized_view);
    on_every_device(t, read_a_realized_view);
}

static void write_nothing(an_test *t, an_graph *g)
{
    an_tensor *x = counted(g);
    CHECK_OK(t, an_assign(an_slice(x, 0, 2, 2, 1), an_full(g, AN_F32, AN_SCALAR, -1)));
    float want[N];
    for (int i = 0; i < N; i++) want[i] = (float)i;
    check_all(t, x, want);
}

/* What was written before, and not yet run, is not lost. */
static void write_nothing_after_something(an_test *t, an_graph *g)
{
    float want[N];
    an_tensor *x = counted(g);
    for (int i = 0; i < N; i++) want[i] = i < COLS ? 7 : (float)i + 1;
    CHECK_OK(t, an_assign(x, an_add_scalar(x, 1)));
    CHECK_OK(t, an_assign(an_slice(x, 0, 2, 2, 1), an_slice(x, 0, 1, 1, 1)));
    CHECK_OK(t, an_assign(an_slice(x, 0, 0, 1, 1), an_full(g, AN_F32, AN_DIMS(1, COLS), 7)));
    CHECK_OK(t, an_assign(an_slice(x, 1, 0, 0, 1), an_slice(x, 1, 3, 3, 1)));
    check_all(t, an_neg(an_neg(x)), want);
    check_all(t, x, want);
    /* As after any write, the handle stands for the new value, on which nothing earlier depends. */
    an_tensor *before = an_mul_scalar(x, 3), *grad = NULL;
    CHECK_OK(t, an_assign(an_slice(x, 0, 2, 2, 1), an_slice(x, 0, 1, 1, 1)));
    CHECK_OK(t, an_backward_from(before, NULL, &x, 1, &grad));
    check_all(t, grad, (float[N]){0});
    check_all(t, x, want);

    const an_uop dims[2] = {an_dim(g, ROWS), an_symbol(g, "n", 1, 2 * COLS)}; /* and where another axis is a symbol */
    CHECK_OK(t, an_graph_bind(g, "n", COLS));
    x = an_tensor_from_host_uop(g, AN_F32, dims, 2, want);
    CHECK_OK(t, an_assign(x, an_add_scalar(x, 1)));
    CHECK_OK(t, an_assign(an_slice(x, 0, 2, 2, 1), an_slice(x, 0, 1, 1, 1)));
    for (int i = 0; i < N; i++) want[i] += 1;
    check_all(t, an_neg(an_neg(x)), want);
}

static void an_empty_view_is_written_to_no_effect(an_test *t)
{
    on_every_device(t, write_nothing);
    on_every_device(t, write_nothing_after_something);
}

/* --- what is read meanwhile --------------------------------------------------------------------------------------- */

static void write_overlapping(an_test *t, an_graph *g)
{
    /* x[1:] = x[:-1] + x[1:]: each element is read by the one after it, and must be as it was. */
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(5), (const float[]){1, 2, 4, 8, 16}), *flat = x;
    CHECK_OK(t, an_assign(an_slice(flat, 0, 1, AN_NONE, 1), an_add(an_slice(flat, 0, 0, -1, 1), an_slice(flat, 0, 1, AN_NONE, 1))));
    float got[5];
    CHECK_OK(t, an_tensor_read(x, got, sizeof got));
    for (int i = 0; i < 5; i++) CHECK_NEAR(t, got[i], ((float[]){1, 3, 6, 12, 24})[i], 0);
    /* In reverse, in place: x = flip(x) of the first four. */
    an_tensor *head = an_slice(x, 0, 0, 4, 1);
    CHECK_OK(t, an_assign(head, an_flip(head, AN_DIMS(0))));
    CHECK_OK(t, an_tensor_read(x, got, sizeof got));
    for (int i = 0; i < 5; i++) CHECK_NEAR(t, got[i], ((float[]){12, 6, 3, 1, 24})[i], 0);
    /* The same elements: no copy is needed, and none is made. */
    an_plan *plan = NULL;
    CHECK_OK(t, an_assign(an_slice(x, 0, 2, 5, 1), an_mul_scalar(an_slice(x, 0, 2, 5, 1), 2)));
    CHECK_OK(t, an_plan_create(g, &x, 1, NULL, &plan));
    CHECK_EQ(t, an_plan_kernel_count(plan), 1);
    CHECK_OK(t, an_plan_run(plan));
    CHECK_OK(t, an_plan_run(plan));
    an_plan_destroy(plan);
    CHECK_OK(t, an_tensor_read(x, got, sizeof got));
    for (int i = 0; i < 5; i++) CHECK_NEAR(t, got[i], ((float[]){12, 6, 12, 4, 96})[i], 0);
}

static void a_value_that_reads_what_it_overwrites_sees_it_as_it_was(an_test *t)
{
    on_every_device(t, write_overlapping);
}

static void read_before_and_after(an_test *t, an_graph *g)
{
    an_tensor *x = counted(g), *old = an_sum(x, AN_ALL, false), *kept = an_mul_scalar(x, 2);
    an_tensor *row = an_slice(x, 0, 1, 2, 1);
    CHECK_OK(t, an_assign(row, an_full(g, AN_F32, AN_SCALAR, 0)));
    an_tensor *now = an_sum(x, AN_ALL, false), *shown = an_sum(row, AN_ALL, false);
    CHECK_OK(t, an_assign(an_slice(x, 0, 1, 3, 1), an_add_scalar(an_slice(x, 0, 0, 2, 1), 1)));
    an_tensor *last = an_sum(x, AN_ALL, false), *both = an_add(old, last);
    double v[5] = {0};
    an_tensor *all[6] = {old, now, shown, last, both, kept};
    CHECK_OK(t, an_realize(all, 6));
    for (int i = 0; i < 5; i++) CHECK_OK(t, an_item_f64(all[i], &v[i]));
    CHECK_NEAR(t, v[0], 276, 0);
    CHECK_NEAR(t, v[1], 276 - 51, 0);
    CHECK_NEAR(t, v[2], 0, 0);
    CHECK_NEAR(t, v[3], 15 + 21 + 6 + 123, 0); /* rows 0..5; 1..6; 1 each; 18..23 */
    CHECK_NEAR(t, v[4], v[0] + v[3], 0);
    float want[N];
    for (int i = 0; i < N; i++) want[i] = 2 * (float)i;
    check_all(t, kept, want);
    /* x itself has run with them. */
    for (int i = 0; i < N; i++) want[i] = (float)(i < 6 ? i : i < 12 ? i - 5 : i < 18 ? 1 : i);
    check_all(t, x, want);
    /* A view made before a write means what was there before it. */
    an_tensor *stale = an_mul_scalar(an_slice(x, 0, 0, 1, 1), 3);
    CHECK_OK(t, an_assign(an_slice(x, 0, 3, 4, 1), an_full(g, AN_F32, AN_SCALAR, 7)));
    CHECK_OK(t, an_realize(&x, 1));
    float got[COLS];
    CHECK_FAILS(t, an_tensor_read(stale, got, sizeof got), AN_ERR_STALE, "has been overwritten since");
}

static void reads_before_a_write_see_the_old_and_after_it_the_new(an_test *t)
{
    on_every_device(t, read_before_and_after);
}

/* A loop's worth of a plan: what a cache of keys and values is. */
static void write_at_a_symbol(an_test *t, an_graph *g)
{
    const an_uop pos = an_symbol(g, "pos", 0, ROWS - 1), zero = an_dim(g, 0), cols = an_dim(g, COLS), one = an_dim(g, 1);
    an_tensor *cache = an_tensor_from_host(g, AN_F32, AN_DIMS(ROWS, COLS), NULL);
    an_tensor *row = an_tensor_from_host(g, AN_F32, AN_DIMS(1, COLS), NULL);
    const an_uop after = an_dim_add(g, pos, one);
    CHECK_OK(t, an_assign(an_shrink_uop(cache, (an_uop[]){pos, zero}, (an_uop[]){after, cols}, 2), row));
    an_tensor *seen = an_shrink_uop(cache, (an_uop[]){zero, zero}, (an_uop[]){after, cols}, 2);
    an_tensor *sum = an_sum(seen, AN_ALL, false);
    an_plan *plan = NULL;
    CHECK_OK(t, an_plan_create(g, (an_tensor *[]){cache, sum}, 2, NULL, &plan));
    double total = 0, v = 0;
    float want[N] = {0};
    for (int i = 0; i < ROWS; i++) {
        float data[COLS];
        for (int c = 0; c < COLS; c++) {
            want[i * COLS + c] = data[c] = (float)(10 * i + c);
            total += 10 * i + c;
        }
        CHECK_OK(t, an_tensor_write(row, data, sizeof data));
        CHECK_OK(t, an_plan_bind(plan, "pos", i));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_item_f64(sum, &v));
        CHECK_NEAR(t, v, total, 0);
        check_all(t, cache, want);
    }
    an_plan_destroy(plan);
}

static void a_row_is_written_at_a_symbolic_place(an_test *t)
{
    on_every_device(t, write_at_a_symbol);
}

/* --- what cannot be ------------------------------------------------------------------------------------------------ */

static void what_is_no_part_of_a_buffer_is_refused(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *x = counted(g), *v = an_full(g, AN_F32, AN_SCALAR, 1);
    CHECK_FAILS(t, an_assign(an_slice(an_add(x, x), 0, 0, 1, 1), v), AN_ERR_ARG, "the target has no buffer to write into");
    CHECK_FAILS(t, an_assign(an_expand(an_slice(x, 0, 0, 1, 1), AN_DIMS(5, COLS)), v), AN_ERR_ARG, "repeats elements of a buffer");
    CHECK_FAILS(t, an_assign(an_detach(x), v), AN_ERR_ARG, "the target has no buffer to write into");
    CHECK_FAILS(t, an_assign(an_slice(x, 0, 0, 1, 1), an_zeros(g, AN_F32, AN_DIMS(5))), AN_ERR_SHAPE, "an_assign: shape (5,)");
    CHECK_OK(t, an_assign(an_slice(x, 0, 0, 1, 1), v));
    an_tensor *w = an_leaf_of(an_scalar_f64(g, AN_F32, 1));
    CHECK_OK(t, an_assign(an_slice(x, 0, 1, 2, 1), an_mul(w, v)));
    an_tensor *grad = NULL;
    CHECK_FAILS(t, an_backward(an_sum(x, AN_ALL, false), &w, 1, &grad), AN_ERR_UNSUPPORTED, "no gradient rule for assign");
}

static an_status write_much(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_status st = an_graph_create(ctx, &g);
    if (st) return st;
    st = an_graph_set_device(g, "interp");
    an_tensor *x = st ? NULL : an_tensor_from_host(g, AN_F32, AN_DIMS(3, 4), NULL);
    if (x && !st) st = an_assign(an_slice(x, 1, 0, 4, 2), an_slice(x, 1, 1, 4, 2));
    if (x && !st) st = an_assign(an_flip(an_slice(x, 0, 1, 3, 1), AN_DIMS(1)), an_slice(x, 0, 0, 2, 1));
    if (x && !st) st = an_realize(&x, 1);
    if ((!x || st) && an_ctx_status(ctx)) st = an_ctx_status(ctx);
    an_graph_destroy(g);
    return st;
}

static void every_failing_allocation_is_an_error(an_test *t)
{
    an_test_every_alloc_failure(t, write_much, NULL);
}

AN_TEST_MAIN(AN_CASE(a_slice_is_written_and_the_rest_stays), AN_CASE(steps_and_flips_go_where_they_show),
             AN_CASE(a_permuted_and_reshaped_view_is_written), AN_CASE(padding_is_written_nowhere),
             AN_CASE(a_realized_view_is_not_what_is_written_through), AN_CASE(an_empty_view_is_written_to_no_effect), AN_CASE(a_value_that_reads_what_it_overwrites_sees_it_as_it_was),
             AN_CASE(reads_before_a_write_see_the_old_and_after_it_the_new), AN_CASE(a_row_is_written_at_a_symbolic_place),
             AN_CASE(what_is_no_part_of_a_buffer_is_refused), AN_CASE(every_failing_allocation_is_an_error))
