/* test_tensor_lazy.c - when things are computed, written and read: laziness, writes in place, stale reads, plans, symbols;
 * and that broadcasting and constants stay cheap in the graph. On every device. */
#include "an_test.h"

#include "tensor/tensor.h"
#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/plan.h>

#include <math.h>

/* Runs body on a fresh graph of each device. */
static void on_every_device(an_test *t, void (*body)(an_test *t, an_graph *g))
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    CHECK(t, n > 0);
    for (size_t i = 0; i < n; i++) {
        an_graph *g = NULL;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, backends[i]->name));
        body(t, g);
        an_graph_destroy(g);
    }
}

static an_tensor *vec3(an_graph *g, float a, float b, float c)
{
    return an_tensor_from_host(g, AN_F32, AN_DIMS(3), (const float[]){a, b, c});
}

#define CHECK_VEC3(t, x, a, b, c)                                                                                      \
    do {                                                                                                               \
        float vec3_[3] = {0};                                                                                          \
        CHECK_OK(t, an_tensor_read((x), vec3_, sizeof vec3_));                                                          \
        CHECK_NEAR(t, vec3_[0], a, 0);                                                                                 \
        CHECK_NEAR(t, vec3_[1], b, 0);                                                                                 \
        CHECK_NEAR(t, vec3_[2], c, 0);                                                                                 \
    } while (0)

/* --- what a handle says ------------------------------------------------------------------------------------------ */

static void a_handle_knows_its_shape_and_dtype(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *x = an_zeros(g, AN_F16, AN_DIMS(2, 3, 0, 5)), *s = an_scalar_f64(g, AN_F32, 1);
    CHECK(t, an_tensor_graph(x) == g);
    CHECK_EQ(t, an_tensor_dtype(x), AN_F16);
    CHECK_EQ(t, an_tensor_rank(x), 4);
    CHECK_EQ(t, an_tensor_dim(x, 1), 3);
    CHECK_EQ(t, an_tensor_dim(x, -1), 5);
    CHECK_EQ(t, an_tensor_dim(x, 4), -1);
    CHECK_EQ(t, an_tensor_dim(x, -5), -1);
    CHECK_EQ(t, an_tensor_numel(x), 0);
    CHECK_EQ(t, an_tensor_nbytes(x), 0);
    CHECK_EQ(t, an_tensor_rank(s), 0);
    CHECK_EQ(t, an_tensor_numel(s), 1);
    CHECK_EQ(t, an_tensor_nbytes(s), 4);
    CHECK_SAME(t, an_tensor_dim_uop(x, 0), an_dim(g, 2));
}

static void scalars_and_equal_shapes_need_no_movement(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(2, 3), NULL);
    const an_uop sum = an_tensor_uop(an_add(x, x)), more = an_tensor_uop(an_mul_scalar(x, 2));
    CHECK_SAME(t, an_uop_src(g, sum, 0), an_tensor_uop(x));
    CHECK_SAME(t, an_uop_src(g, sum, 1), an_tensor_uop(x));
    CHECK_EQ(t, an_uop_op(g, an_uop_src(g, more, 1)), AN_OP_CONST);
    an_tensor *y = an_add(x, x);
    CHECK_SAME(t, an_tensor_uop(an_reshape(y, AN_DIMS(2, 3))), an_tensor_uop(y));
    CHECK_SAME(t, an_tensor_uop(an_permute(y, AN_DIMS(0, 1))), an_tensor_uop(y));
    CHECK_SAME(t, an_tensor_uop(an_slice(y, 0, AN_NONE, AN_NONE, 1)), an_tensor_uop(y));
    CHECK_SAME(t, an_tensor_uop(an_broadcast_to(y, AN_DIMS(2, 3))), an_tensor_uop(y));
    CHECK_SAME(t, an_tensor_uop(an_cast(y, AN_F32)), an_tensor_uop(y));
}

/* What a call that has nothing to do returns is a tensor of its own: a write into x is not seen through it. */
static void write_through(an_test *t, an_graph *g)
{
    an_tensor *x = vec3(g, 1, 2, 3);
    an_tensor *same[5] = {an_reshape(x, AN_DIMS(3)), an_cast(x, AN_F32), an_roll(x, 3, 0), an_detach(x), an_repeat(x, AN_DIMS(1))};
    an_tensor *whole = an_cast(an_tensor_from_host(g, AN_I32, AN_DIMS(3), (const int32_t[]){4, 5, 6}), AN_F32);
    for (int i = 0; i < 5; i++) CHECK(t, same[i] && same[i] != x);
    CHECK_OK(t, an_realize(same, 5));
    CHECK_OK(t, an_assign(x, whole));
    CHECK_OK(t, an_realize(&x, 1));
    CHECK_VEC3(t, x, 4, 5, 6);
    for (int i = 0; i < 5; i++) CHECK_VEC3(t, same[i], 1, 2, 3);
    CHECK_OK(t, an_tensor_write(same[0], (const float[]){7, 8, 9}, 12));
    CHECK_VEC3(t, same[0], 7, 8, 9);
    CHECK_VEC3(t, same[1], 1, 2, 3);
    CHECK_VEC3(t, x, 4, 5, 6);
}

static void a_call_with_nothing_to_do_gives_a_tensor_of_its_own(an_test *t)
{
    on_every_device(t, write_through);
}

static void equal_expressions_are_one_node_and_leaves_are_not(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *one = an_ones(g, AN_F32, AN_DIMS(2));
    CHECK_SAME(t, an_tensor_uop(an_gelu(one)), an_tensor_uop(an_gelu(an_ones(g, AN_F32, AN_DIMS(2)))));
    CHECK(t, an_tensor_uop(an_leaf_of(one)).id != an_tensor_uop(an_leaf_of(one)).id);
}

/* --- computing and reading --------------------------------------------------------------------------------------- */

static void read_what_was_written(an_test *t, an_graph *g)
{
    an_tensor *x = vec3(g, 1, 2, 3), *y = an_add_scalar(x, 1);
    CHECK_VEC3(t, y, 2, 3, 4); /* realizes y */
    CHECK_EQ(t, an_uop_op(g, an_tensor_uop(y)), AN_OP_BUFFER);
    CHECK_OK(t, an_tensor_write(x, (const float[]){7, 8, 9}, 12));
    CHECK_VEC3(t, x, 7, 8, 9);
    CHECK_VEC3(t, y, 2, 3, 4);
    CHECK_VEC3(t, an_add_scalar(x, 1), 8, 9, 10);
}

static void reading_realizes_and_writing_replaces(an_test *t)
{
    on_every_device(t, read_what_was_written);
}

static void realize_many(an_test *t, an_graph *g)
{
    an_tensor *x = vec3(g, 1, 2, 3), *c = an_full(g, AN_F32, AN_DIMS(3), 5);
    an_tensor *empty = an_add_scalar(an_zeros(g, AN_F32, AN_DIMS(0, 3)), 1);
    an_tensor *all[6] = {an_square(x), c, x, an_scalar_f64(g, AN_F32, 2.5), empty, an_sum(x, AN_ALL, false)};
    double v = 0;
    int64_t i = 0;
    CHECK_OK(t, an_realize(all, 6));
    CHECK_OK(t, an_realize(all, 6)); /* again: nothing to do */
    CHECK_OK(t, an_realize(NULL, 0));
    CHECK_VEC3(t, all[0], 1, 4, 9);
    CHECK_VEC3(t, all[1], 5, 5, 5);
    CHECK_VEC3(t, all[2], 1, 2, 3);
    CHECK_OK(t, an_item_f64(all[3], &v));
    CHECK_NEAR(t, v, 2.5, 0);
    CHECK_OK(t, an_tensor_read(empty, NULL, 0));
    CHECK_OK(t, an_item_f64(all[5], &v));
    CHECK_NEAR(t, v, 6, 0);
    CHECK_OK(t, an_item_i64(all[5], &i));
    CHECK_EQ(t, i, 6);
    CHECK_OK(t, an_item_i64(an_full_i64(g, AN_I64, AN_DIMS(1, 1), INT64_MIN + 1), &i));
    CHECK_EQ(t, i, INT64_MIN + 1);
    CHECK_OK(t, an_item_f64(an_full(g, AN_BF16, AN_SCALAR, 1.5), &v));
    CHECK_NEAR(t, v, 1.5, 0);
}

static void many_tensors_are_realized_at_once(an_test *t)
{
    on_every_device(t, realize_many);
}

/* --- in place ---------------------------------------------------------------------------------------------------- */

static void assign_updates(an_test *t, an_graph *g)
{
    an_tensor *w = vec3(g, 1, 2, 3);
    an_tensor *half = an_scalar_f64(g, AN_F32, 0.5); /* made once, before any write: never stale */
    for (int step = 0; step < 3; step++) {
        CHECK_OK(t, an_assign(w, an_mul(w, half)));
        CHECK_OK(t, an_realize(&w, 1));
    }
    CHECK_VEC3(t, w, 0.125, 0.25, 0.375);
    /* Two writes before anything runs: the second sees the first. */
    CHECK_OK(t, an_assign(w, an_mul_scalar(w, 8)));
    CHECK_OK(t, an_assign(w, an_add_scalar(w, 1)));
    CHECK_VEC3(t, w, 2, 3, 4);
    /* A scalar of another dtype is stretched and cast. */
    CHECK_OK(t, an_assign(w, an_full(g, AN_I32, AN_SCALAR, 7)));
    CHECK_VEC3(t, w, 7, 7, 7);
}

static void a_parameter_is_updated_in_place(an_test *t)
{
    on_every_device(t, assign_updates);
}

static void two_swap(an_test *t, an_graph *g)
{
    an_tensor *a = vec3(g, 1, 2, 3), *b = vec3(g, 4, 5, 6), *old = an_add_scalar(a, 0.5);
    an_tensor *to_a = an_add_scalar(b, 0), *to_b = an_add_scalar(a, 0);
    CHECK_OK(t, an_assign(a, to_a));
    CHECK_OK(t, an_assign(b, to_b));
    CHECK_OK(t, an_realize((an_tensor *[]){a, b, old}, 3));
    CHECK_VEC3(t, a, 4, 5, 6);
    CHECK_VEC3(t, b, 1, 2, 3);
    CHECK_VEC3(t, old, 1.5, 2.5, 3.5);
}

static void writes_wait_for_the_reads_of_what_was_there(an_test *t)
{
    on_every_device(t, two_swap);
}

static void read_stale(an_test *t, an_graph *g)
{
    an_tensor *w = vec3(g, 1, 2, 3), *before = an_add_scalar(w, 1), *kept = an_add_scalar(w, 2);
    CHECK_OK(t, an_realize(&kept, 1));
    CHECK_OK(t, an_assign(w, an_mul_scalar(w, 10)));
    an_tensor *after = an_add_scalar(w, 1); /* of the new contents, before they are there */
    CHECK_OK(t, an_realize(&w, 1));
    float got[3];
    CHECK_FAILS(t, an_tensor_read(before, got, sizeof got), AN_ERR_STALE, "has been overwritten since");
    CHECK_FAILS(t, an_tensor_read(an_add(before, w), got, sizeof got), AN_ERR_STALE, "has been overwritten since");
    CHECK_VEC3(t, kept, 3, 4, 5);
    CHECK_VEC3(t, after, 11, 21, 31);
    an_tensor *held = an_add_scalar(w, 1);
    CHECK_OK(t, an_tensor_write(w, (const float[]){0, 0, 0}, 12)); /* the host writes, too */
    CHECK_FAILS(t, an_tensor_read(held, got, sizeof got), AN_ERR_STALE, "has been overwritten since");
    CHECK_FAILS(t, an_tensor_read(after = an_mul_scalar(held, 2), got, sizeof got), AN_ERR_STALE, "overwritten");
    CHECK_VEC3(t, an_add_scalar(w, 1), 1, 1, 1);
}

static void a_read_of_what_is_gone_is_an_error_not_an_answer(an_test *t)
{
    on_every_device(t, read_stale);
}

/* --- plans ------------------------------------------------------------------------------------------------------- */

static void run_plan(an_test *t, an_graph *g)
{
    an_plan *plan = NULL;
    an_tensor *x = vec3(g, 0, 0, 0), *total = an_tensor_from_host(g, AN_F32, AN_DIMS(3), NULL);
    CHECK_OK(t, an_assign(total, an_add(total, x)));
    an_tensor *sum = an_sum(total, AN_ALL, false);
    CHECK_OK(t, an_plan_create(g, (an_tensor *[]){total, sum}, 2, NULL, &plan));
    double v = 0;
    for (int i = 1; i <= 3; i++) {
        const float in[3] = {(float)i, 1, 0};
        CHECK_OK(t, an_tensor_write(x, in, sizeof in));
        CHECK_OK(t, an_plan_run(plan));
    }
    CHECK_VEC3(t, total, 6, 3, 0);
    CHECK_OK(t, an_item_f64(sum, &v));
    CHECK_NEAR(t, v, 9, 0);
    an_plan_destroy(plan);
}

static void a_plan_runs_again_on_new_inputs(an_test *t)
{
    on_every_device(t, run_plan);
}

static void run_symbolic(an_test *t, an_graph *g)
{
    float data[24];
    for (int i = 0; i < 24; i++) data[i] = (float)i;
    const an_uop n = an_symbol(g, "n", 1, 8), three = an_dim(g, 3), zero = an_dim(g, 0);
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(8, 3), data);
    an_tensor *part = an_shrink_uop(x, (an_uop[]){zero, zero}, (an_uop[]){n, three}, 2);
    an_tensor *outs[3] = {an_sum(part, AN_ALL, false), an_mean(part, AN_DIMS(0), false),
                          an_sum(an_softmax(part, 0), AN_ALL, false)};
    an_plan *plan = NULL;
    double v = 0;
    CHECK_OK(t, an_plan_create(g, outs, 3, NULL, &plan));
    CHECK_FAILS(t, an_plan_run(plan), AN_ERR_ARG, "n");
    CHECK_FAILS(t, an_plan_bind(plan, "n", 9), AN_ERR_ARG, "n");
    for (int rows = 1; rows <= 8; rows += 3) {
        CHECK_OK(t, an_plan_bind(plan, "n", rows));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_item_f64(outs[0], &v));
        CHECK_NEAR(t, v, 3 * rows * (3 * rows - 1) / 2, 0);
        const float first = 1.5f * (float)(rows - 1);
        CHECK_VEC3(t, outs[1], first, first + 1, first + 2);
        CHECK_OK(t, an_item_f64(outs[2], &v));
        CHECK_NEAR(t, v, 3, 1e-6);
    }
    an_plan_destroy(plan);
}

static void a_plan_with_a_symbol_runs_at_any_of_its_values(an_test *t)
{
    on_every_device(t, run_symbolic);
}

static void symbolic_shapes_are_shapes(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    const an_uop n = an_symbol(g, "n", 1, 8), three = an_dim(g, 3), zero = an_dim(g, 0);
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(8, 3), NULL);
    an_tensor *part = an_shrink_uop(x, (an_uop[]){zero, zero}, (an_uop[]){n, three}, 2);
    CHECK_SAME(t, n, an_symbol(g, "n", 1, 8));
    CHECK_EQ(t, an_tensor_dim(part, 0), -1);
    CHECK_SAME(t, an_tensor_dim_uop(part, 0), n);
    CHECK_EQ(t, an_tensor_numel(part), -1);
    CHECK_EQ(t, an_tensor_nbytes(part), 0);
    an_tensor *y = an_softmax(an_add(part, an_ones(g, AN_F32, AN_DIMS(3))), 1);
    CHECK_SAME(t, an_tensor_dim_uop(y, 0), n);
    CHECK_SAME(t, an_tensor_dim_uop(an_matmul(y, an_ones(g, AN_F32, AN_DIMS(3, 5))), 0), n);
    CHECK_EQ(t, an_tensor_rank(an_mean(y, AN_ALL, false)), 0);
    an_tensor *flat = an_reshape_uop(y, (an_uop[]){an_idx_mul(g, n, three)}, 1);
    CHECK_EQ(t, an_tensor_rank(flat), 1);
    CHECK(t, !an_add(part, an_broadcast_to_uop(an_ones(g, AN_F32, AN_DIMS(1, 1)), (an_uop[]){an_symbol(g, "m", 1, 8), three}, 2)));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_SHAPE, "an_add: shapes (n, 3) and (m, 3) do not broadcast");
}

/* --- versions ---------------------------------------------------------------------------------------------------- */

static void join_old_and_new(an_test *t, an_graph *g)
{
    an_tensor *a = vec3(g, 1, 2, 3), *b = vec3(g, 0, 0, 0), *old = an_mul_scalar(a, 10);
    CHECK_OK(t, an_tensor_write(b, (const float[]){1, 1, 1}, 12)); /* nothing reads b yet */
    CHECK_VEC3(t, an_add(old, b), 11, 21, 31);
    an_tensor *of_b = an_add_scalar(b, 0.5);
    CHECK_OK(t, an_tensor_write(b, (const float[]){2, 2, 2}, 12));
    CHECK_VEC3(t, an_add(old, b), 12, 22, 32); /* old reads a alone */
    float got[3];
    CHECK_FAILS(t, an_tensor_read(an_add(old, of_b), got, sizeof got), AN_ERR_STALE, "has been overwritten since");
}

static void a_write_makes_stale_only_what_reads_it(an_test *t)
{
    on_every_device(t, join_old_and_new);
}

static void a_write_that_nothing_read_before_makes_no_node(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_tensor *x = vec3(g, 1, 2, 3), *y = an_square(x);
    an_plan *plan = NULL;
    CHECK_OK(t, an_plan_create(g, &y, 1, NULL, &plan));
    uint32_t len = 0;
    size_t calls = 0;
    for (int i = 0; i < 5; i++) {
        CHECK_OK(t, an_tensor_write(x, (const float[]){(float)i, 0, 1}, 12));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_VEC3(t, y, i * i, 0, 1);
        if (i == 1) {
            len = an_graph_len(g);
            calls = t->memory.calls;
        }
    }
    CHECK_EQ(t, an_graph_len(g), len);
    if (strcmp(an_device_name(an_graph_device(g)), "interp") != 0) CHECK_EQ(t, t->memory.calls, calls); /* nothing is allocated */
    an_plan_destroy(plan);
}

static void cover_writes(an_test *t, an_graph *g)
{
    an_tensor *w = vec3(g, 1, 2, 3);
    float got[3];
    CHECK_OK(t, an_assign(w, an_mul_scalar(w, 2)));
    an_tensor *between = an_add_scalar(w, 0.5), *between_too = an_add_scalar(w, 0.25);
    CHECK_OK(t, an_assign(w, an_mul_scalar(w, 2)));
    CHECK_OK(t, an_realize((an_tensor *[]){w, between}, 2));
    CHECK_VEC3(t, w, 4, 8, 12);
    CHECK_VEC3(t, between, 2.5, 4.5, 6.5);
    CHECK_FAILS(t, an_tensor_read(between_too, got, sizeof got), AN_ERR_STALE, "has been overwritten since");
}

static void what_one_write_left_is_gone_after_the_next(an_test *t)
{
    on_every_device(t, cover_writes);
}

static void read_early(an_test *t, an_graph *g)
{
    an_tensor *x = vec3(g, 1, 2, 3), *y = an_square(x), *other = an_add_scalar(y, 1);
    an_plan *plan = NULL;
    float got[3];
    CHECK_OK(t, an_plan_create(g, &y, 1, NULL, &plan));
    CHECK_FAILS(t, an_tensor_read(y, got, sizeof got), AN_ERR_ARG, "has not run yet");
    an_tensor *built = an_add_scalar(y, 1); /* of what the run will leave */
    CHECK_FAILS(t, an_tensor_read(built, got, sizeof got), AN_ERR_ARG, "run the plan first");
    CHECK_OK(t, an_plan_run(plan));
    CHECK_VEC3(t, built, 2, 5, 10);
    CHECK_VEC3(t, other, 2, 5, 10);
    an_plan_destroy(plan);
}

static void what_a_plan_has_not_computed_yet_cannot_be_read(an_test *t)
{
    on_every_device(t, read_early);
}

static void replace_before_run(an_test *t, an_graph *g)
{
    an_tensor *x = vec3(g, 1, 2, 3), *y = an_square(x), *more = an_add_scalar(y, 1);
    an_plan *plan = NULL;
    float got[3];
    CHECK_OK(t, an_plan_create(g, &y, 1, NULL, &plan));
    CHECK_OK(t, an_tensor_write(x, (const float[]){5, 6, 7}, 12));
    CHECK_OK(t, an_plan_run(plan));
    CHECK_VEC3(t, y, 25, 36, 49);
    /* more means the square of 1, 2, 3, which nobody computed. */
    CHECK_FAILS(t, an_tensor_read(more, got, sizeof got), AN_ERR_STALE, "has been overwritten since");
    CHECK_VEC3(t, an_add_scalar(y, 1), 26, 37, 50);
    an_plan_destroy(plan);
}

static void a_plan_run_on_other_inputs_is_not_taken_for_what_was_built(an_test *t)
{
    on_every_device(t, replace_before_run);
}

static void run_twice_with_reader(an_test *t, an_graph *g)
{
    an_tensor *w = vec3(g, 1, 2, 3);
    an_plan *plan = NULL;
    float got[3];
    CHECK_OK(t, an_assign(w, an_mul_scalar(w, 2)));
    CHECK_OK(t, an_plan_create(g, &w, 1, NULL, &plan));
    CHECK_OK(t, an_plan_run(plan));
    an_tensor *reader = an_add_scalar(w, 1), *kept = an_add_scalar(w, 2);
    CHECK_OK(t, an_realize(&kept, 1));
    CHECK_OK(t, an_plan_run(plan));
    CHECK_VEC3(t, w, 4, 8, 12);
    CHECK_VEC3(t, kept, 4, 6, 8);
    CHECK_FAILS(t, an_tensor_read(reader, got, sizeof got), AN_ERR_STALE, "has been overwritten since");
    an_plan_destroy(plan);
}

static void running_a_plan_again_overwrites_what_was_read_in_between(an_test *t)
{
    on_every_device(t, run_twice_with_reader);
}

static void a_plan_that_never_ran_leaves_its_writes_to_others(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_tensor *w = vec3(g, 1, 2, 3);
    an_plan *plan = NULL;
    CHECK_OK(t, an_assign(w, an_mul_scalar(w, 2)));
    an_tensor *sum = an_sum(w, AN_ALL, false), *again = an_mul_scalar(sum, 1);
    CHECK_OK(t, an_plan_create(g, &sum, 1, NULL, &plan));
    an_plan_destroy(plan);
    double v = 0;
    CHECK_OK(t, an_item_f64(again, &v)); /* runs the write */
    CHECK_NEAR(t, v, 12, 0);
    CHECK_VEC3(t, w, 2, 4, 6);
}

static void a_loss_is_not_differentiated_by_what_replaced_its_operand(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_tensor *w = vec3(g, 1, 2, 3), *loss = an_sum(an_square(w), AN_ALL, false), *grad = NULL;
    CHECK_OK(t, an_tensor_write(w, (const float[]){5, 6, 7}, 12));
    CHECK_FAILS(t, an_backward(loss, &w, 1, &grad), AN_ERR_STALE, "has been overwritten since");
    loss = an_sum(an_square(w), AN_ALL, false);
    CHECK_OK(t, an_backward(loss, &w, 1, &grad));
    CHECK_VEC3(t, grad, 10, 12, 14);
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static an_status build_much(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_tensor *parts[3] = {NULL};
    an_status st = an_graph_create(ctx, &g);
    if (st) return st;
    st = an_graph_set_device(g, "interp");
    an_tensor *x = st ? NULL : an_arange(g, AN_F32, 0, 24, 1);
    x = an_reshape(x, AN_DIMS(2, 3, 4));
    an_tensor *y = an_softmax(an_gelu(an_pow_scalar(x, 1.5)), -1);
    y = an_add(y, an_cat((an_tensor *[]){an_slice(x, 1, AN_NONE, AN_NONE, -2), an_unsqueeze(an_pick(x, 1, 0), 1)}, 2, 1));
    y = an_add(y, an_cumsum(an_roll(x, 1, 0), 2));
    y = an_add(an_std(y, AN_DIMS(1), 1, true), an_cast(an_argmax(y, 2, true), AN_F32));
    an_tensor *c = an_conv1d(x, an_ones(g, AN_F32, AN_DIMS(2, 3, 2)), NULL, NULL);
    if (an_split(y, (const int64_t[]){1, 0, 3}, 3, 2, parts)) y = NULL;
    y = y ? an_add(parts[0], an_sum(c, AN_ALL, false)) : NULL;
    an_rng *rng = y ? an_rng_from_seed(g, 3) : NULL;
    y = an_dropout(rng, y, 0.5);
    an_tensor *loss = an_mean(y, AN_ALL, false);
    double v = 0;
    st = an_item_f64(loss, &v);
    if (st && an_ctx_status(ctx)) st = an_ctx_status(ctx);
    an_graph_destroy(g);
    return st;
}

static void every_failing_allocation_is_an_error(an_test *t)
{
    an_test_every_alloc_failure(t, build_much, NULL);
}

AN_TEST_MAIN(AN_CASE(a_handle_knows_its_shape_and_dtype), AN_CASE(scalars_and_equal_shapes_need_no_movement),
             AN_CASE(equal_expressions_are_one_node_and_leaves_are_not),
             AN_CASE(a_call_with_nothing_to_do_gives_a_tensor_of_its_own), AN_CASE(reading_realizes_and_writing_replaces),
             AN_CASE(many_tensors_are_realized_at_once), AN_CASE(a_parameter_is_updated_in_place),
             AN_CASE(writes_wait_for_the_reads_of_what_was_there),
             AN_CASE(a_read_of_what_is_gone_is_an_error_not_an_answer), AN_CASE(a_write_makes_stale_only_what_reads_it),
             AN_CASE(a_write_that_nothing_read_before_makes_no_node), AN_CASE(what_one_write_left_is_gone_after_the_next),
             AN_CASE(what_a_plan_has_not_computed_yet_cannot_be_read),
             AN_CASE(a_plan_run_on_other_inputs_is_not_taken_for_what_was_built),
             AN_CASE(running_a_plan_again_overwrites_what_was_read_in_between),
             AN_CASE(a_plan_that_never_ran_leaves_its_writes_to_others),
             AN_CASE(a_loss_is_not_differentiated_by_what_replaced_its_operand), AN_CASE(a_plan_runs_again_on_new_inputs),
             AN_CASE(a_plan_with_a_symbol_runs_at_any_of_its_values), AN_CASE(symbolic_shapes_are_shapes), AN_CASE(every_failing_allocation_is_an_error))
