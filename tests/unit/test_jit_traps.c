/* test_jit_traps.c - captured functions (anneal/jit.h): views, shapes, lifetimes and writes that wait, as they go wrong elsewhere when
 * replayed, a case each. Each gives the right values or fails with a sentence. On every device. */
#include "jit_cases.h"

#include "runtime/state.h"
#include <anneal/tensor.h>

static an_status plus_one(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    ((results *)out)->a = an_add_scalar(((const args *)in)->x, 1);
    return AN_OK;
}

/* --- shapes ------------------------------------------------------------------------------------------------------ */

static an_status doubled_and_summed(void *user, an_graph *g, const void *in, void *out)
{
    an_tensor *x = ((const args *)in)->x;
    (void)user, (void)g;
    *(results *)out = (results){an_add(x, x), an_sum(x, AN_ALL, false)};
    return AN_OK;
}

/* Size-dependent graphs that are replayed with the size of the capture: the results are those of each call's, and stay so. */
CASE(results_over_a_symbol_have_the_size_of_their_call)
{
    enum { MOST = 9 };
    const an_uop n = an_symbol(g, "n", 1, MOST);
    an_jit *j = make(t, g, doubled_and_summed, NULL, 1, 2);
    args in = {an_tensor_alloc_uop(g, AN_F32, (const an_uop[]){n}, 1), NULL, 0};
    results kept[MOST + 1] = {{0}}, again = {0};
    float data[MOST], got[MOST];
    size_t compiled = 0;
    for (int i = 0; i < MOST; i++) data[i] = (float)(i * i + 1);
    for (int round = 0; round < 2; round++)
        for (int size = MOST; size >= 1; size -= 2) {
            results *r = round ? &again : &kept[size];
            CHECK_OK(t, an_graph_bind(g, "n", size));
            CHECK_OK(t, an_tensor_write(in.x, data, (size_t)size * sizeof *data));
            CHECK_OK(t, an_jit_call(j, &in, r));
            if (!compiled) compiled = an_programs_count(t->ctx);
            CHECK_EQ(t, an_tensor_nbytes(r->a), (size_t)size * sizeof *data);
            CHECK_OK(t, an_tensor_read(r->a, got, (size_t)size * sizeof *data));
            double sum = 0, want = 0;
            for (int i = 0; i < size; i++) {
                CHECK_NEAR(t, got[i], 2 * data[i], 0);
                want += (double)data[i];
            }
            CHECK_OK(t, an_item_f64(r->b, &sum));
            CHECK_NEAR(t, sum, want, 0);
        }
    CHECK_EQ(t, an_programs_count(t->ctx), compiled);
    for (int size = MOST; size >= 1; size -= 2) { /* of the first round, each as it was */
        CHECK_EQ(t, an_tensor_nbytes(kept[size].a), (size_t)size * sizeof *data);
        CHECK_OK(t, an_tensor_read(kept[size].a, got, (size_t)size * sizeof *data));
        CHECK_NEAR(t, got[size - 1], 2 * data[size - 1], 0);
    }
    /* An argument that holds what was written at another size. */
    CHECK_OK(t, an_graph_bind(g, "n", 4));
    CHECK_FAILS(t, an_jit_call(j, &in, &again), AN_ERR_ARG, "was last written with 4 bytes, but has 16 with n = 4");
    an_jit_destroy(j);
}

CASE(arguments_without_elements_or_axes_are_arguments)
{
    an_jit *j = make(t, g, doubled_and_summed, NULL, 1, 2);
    double got = -1;
    args in = {an_tensor_from_host(g, AN_F32, AN_DIMS(0, 3), NULL), NULL, 0};
    for (int i = 0; i < 2; i++) {
        results r = {0};
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_EQ(t, an_tensor_nbytes(r.a), 0);
        CHECK_OK(t, an_item_f64(r.b, &got));
        CHECK_NEAR(t, got, 0, 0);
    }
    an_jit_reset(j);
    for (int i = 1; i < 4; i++) {
        const float value = (float)i;
        results r = {0};
        in.x = an_tensor_from_host(g, AN_F32, AN_SCALAR, &value);
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_OK(t, an_item_f64(r.a, &got));
        CHECK_NEAR(t, got, 2 * i, 0);
        CHECK_OK(t, an_item_f64(r.b, &got));
        CHECK_NEAR(t, got, i, 0);
    }
    an_jit_destroy(j);
}

static an_status moved(void *user, an_graph *g, const void *in, void *out)
{
    an_tensor *x = ((const args *)in)->x;
    (void)user, (void)g;
    *(results *)out = (results){an_flip(x, AN_DIMS(0)), an_broadcast_to(an_slice(x, 0, 1, 2, 1), AN_DIMS(3))};
    return AN_OK;
}

/* Views that leave a replayed function with the strides of the capture. */
CASE(an_argument_turned_or_repeated_is_a_tensor_of_its_own)
{
    an_jit *j = make(t, g, moved, NULL, 1, 2);
    for (int i = 0; i < 3; i++) {
        args in = {vec3(g, 1, (float)i, 3), NULL, 0};
        results r = {0};
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_OK(t, an_tensor_write(in.x, (const float[]){9, 9, 9}, 12));
        CHECK_VEC3(t, r.a, 3, i, 1);
        CHECK_VEC3(t, r.b, i, i, i);
    }
    an_jit_destroy(j);
}

static an_status above_two(void *user, an_graph *g, const void *in, void *out)
{
    an_tensor *x = ((const args *)in)->x;
    (void)user, (void)g;
    *(results *)out = (results){an_gt_scalar(x, 2), an_cast(x, AN_F16)};
    return AN_OK;
}

CASE(results_of_one_and_two_bytes_have_buffers_of_their_own)
{
    an_jit *j = make(t, g, above_two, NULL, 1, 2);
    for (int i = 0; i < 3; i++) {
        args in = {vec3(g, 1, 2, (float)i + 1.5f), NULL, 0};
        results r = {0};
        bool flags[3] = {true, true, false};
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_OK(t, an_tensor_read(r.a, flags, sizeof flags));
        CHECK(t, !flags[0] && !flags[1] && flags[2] == (i > 0));
        CHECK_EQ(t, an_tensor_nbytes(r.b), 6);
        CHECK_VEC3(t, an_cast(r.b, AN_F32), 1, 2, i + 1.5);
    }
    an_jit_destroy(j);
}

/* --- writes ------------------------------------------------------------------------------------------------------ */

static an_status write_a_part(void *user, an_graph *g, const void *in, void *out)
{
    const args *a = in;
    (void)user, (void)g;
    an_tensor *old = an_neg(a->x);
    if (an_assign(an_slice(a->x, 0, 1, 3, 1), an_slice(a->x, 0, 0, 2, 1))) return AN_ERR_ARG; /* overlapping */
    if (an_assign(an_slice(a->x, 0, 0, 1, 1), an_slice(a->y, 0, 2, 3, 1))) return AN_ERR_ARG;
    ((results *)out)->a = old;
    return AN_OK;
}

CASE(a_part_of_an_argument_is_written_in_place)
{
    an_jit *j = make(t, g, write_a_part, NULL, 2, 1);
    args in = {vec3(g, 1, 2, 3), vec3(g, 0, 0, 7), 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, in.x, 7, 1, 2);
    CHECK_VEC3(t, r.a, -1, -2, -3);
    CHECK_OK(t, an_tensor_write(in.y, (const float[]){0, 0, 8}, 12));
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, in.x, 8, 7, 1);
    CHECK_VEC3(t, r.a, -7, -1, -2);
    an_tensor *other = vec3(g, 4, 5, 6), *first = in.x;
    in.x = other;
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, other, 8, 4, 5);
    CHECK_VEC3(t, first, 8, 7, 1);
    an_jit_destroy(j);
}

static an_status write_twice(void *user, an_graph *g, const void *in, void *out)
{
    world *w = user;
    (void)g;
    if (an_assign(w->w, an_add(w->w, ((const args *)in)->x))) return AN_ERR_ARG;
    ((results *)out)->a = an_neg(w->w); /* between the two */
    if (an_assign(w->w, an_mul_scalar(w->w, 2))) return AN_ERR_ARG;
    ((results *)out)->b = an_neg(w->w);
    return AN_OK;
}

CASE(two_writes_of_one_state_keep_their_order_and_reads_their_place)
{
    world w = {.w = vec3(g, 0, 1, 2)};
    an_jit *j = make(t, g, write_twice, &w, 1, 2);
    args in = {vec3(g, 1, 1, 1), NULL, 0};
    float want[3] = {0, 1, 2};
    for (int i = 0; i < 4; i++) {
        results r = {0};
        CHECK_OK(t, an_jit_call(j, &in, &r));
        for (int k = 0; k < 3; k++) want[k] += 1;
        CHECK_VEC3(t, r.a, -want[0], -want[1], -want[2]);
        for (int k = 0; k < 3; k++) want[k] *= 2;
        CHECK_VEC3(t, r.b, -want[0], -want[1], -want[2]);
        CHECK_VEC3(t, w.w, want[0], want[1], want[2]);
    }
    an_jit_destroy(j);
}

CASE(what_was_built_of_the_state_before_a_call_is_stale_after_it)
{
    world w = {.w = vec3(g, 1, 2, 3)};
    an_jit *j = make(t, g, write_twice, &w, 1, 2);
    args in = {vec3(g, 1, 1, 1), NULL, 0};
    results r = {0};
    float got[3];
    for (int i = 0; i < 2; i++) {
        an_tensor *lazy = an_add_scalar(w.w, 1);
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_FAILS(t, an_tensor_read(lazy, got, sizeof got), AN_ERR_STALE, "overwritten");
    }
    CHECK_VEC3(t, w.w, 10, 14, 18);
    an_jit_destroy(j);
}

CASE(a_view_of_the_state_as_the_argument_is_read_as_it_was)
{
    world w = {.w = vec3(g, 1, 2, 3)};
    an_jit *j = make(t, g, write_twice, &w, 1, 2);
    results r = {0};
    for (int i = 0; i < 2; i++) {
        args in = {an_flip(w.w, AN_DIMS(0)), NULL, 0};
        CHECK_OK(t, an_jit_call(j, &in, &r));
    }
    CHECK_VEC3(t, w.w, 32, 32, 32); /* 2 (1 2 3 + 3 2 1) = 8 8 8, then 2 (8 + 8) */
    an_jit_destroy(j);
}

CASE(a_write_that_waits_for_an_argument_runs_before_the_call)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    for (int i = 1; i < 4; i++) {
        results r = {0};
        CHECK_OK(t, an_assign(in.x, an_mul_scalar(in.x, 10)));
        CHECK_OK(t, an_jit_call(j, &in, &r));
        const float ten = i == 1 ? 10 : i == 2 ? 100 : 1000;
        CHECK_VEC3(t, r.a, ten + 1, 2 * ten + 1, 3 * ten + 1);
    }
    an_jit_destroy(j);
}

CASE(a_result_with_a_write_that_waits_is_not_written_into)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_OK(t, an_assign(r.a, an_mul_scalar(r.a, 2)));
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "without a buffer; realize that first");
    CHECK_VEC3(t, r.a, 4, 6, 8); /* the write is still to come, and comes */
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.a, 2, 3, 4);
    an_jit_destroy(j);
}

static an_status makes_state(void *user, an_graph *g, const void *in, void *out)
{
    an_tensor *m = an_contiguous(an_zeros(g, AN_F32, AN_DIMS(3)));
    (void)user;
    if (an_assign(m, an_add(m, ((const args *)in)->x))) return an_ctx_status(an_graph_ctx(g));
    ((results *)out)->a = m;
    return AN_OK;
}

/* An optimiser that makes its moments inside of the step: each replay would start them anew. */
CASE(state_that_is_made_in_the_function_is_refused)
{
    an_jit *j = make(t, g, makes_state, NULL, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "the target has no buffer to write into");
    CHECK(t, !r.a && !an_jit_plan(j));
    an_jit_destroy(j);
}

/* --- over time --------------------------------------------------------------------------------------------------- */

static an_status corrected(void *user, an_graph *g, const void *in, void *out)
{
    world *w = user;
    (void)g;
    if (an_assign(w->w, an_add_scalar(w->w, 1))) return AN_ERR_ARG; /* the step's number */
    ((results *)out)->a = an_div(((const args *)in)->x, w->w);
    return AN_OK;
}

/* A step counter that stays at 1, as bias correction of Adam does where it is a host's number. */
CASE(a_counter_in_the_state_goes_on)
{
    world w = {.w = vec3(g, 0, 0, 0)};
    an_jit *j = make(t, g, corrected, &w, 1, 1);
    args in = {vec3(g, 12, 24, 36), NULL, 0};
    results r = {0};
    for (int i = 1; i <= 4; i++) {
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_VEC3(t, an_mul_scalar(r.a, i), 12, 24, 36);
    }
    an_jit_destroy(j);
}

static an_status draw(void *user, an_graph *g, const void *in, void *out)
{
    (void)g, (void)in;
    ((results *)out)->a = an_uniform(((world *)user)->rng, AN_F32, AN_DIMS(3), 0, 1);
    return AN_OK;
}

CASE(two_jits_and_the_caller_draw_from_one_generator_without_a_repeat)
{
    enum { CALLS = 4 };
    world w = {.rng = an_rng_from_seed(g, 3)};
    an_jit *a = make(t, g, draw, &w, 1, 1), *b = make(t, g, draw, &w, 1, 1);
    args in = {vec3(g, 0, 0, 0), NULL, 0};
    float got[3 * CALLS][3];
    for (int i = 0; i < 3 * CALLS; i++) {
        results r = {0};
        if (i % 3 < 2) CHECK_OK(t, an_jit_call(i % 3 ? b : a, &in, &r));
        an_tensor *x = i % 3 < 2 ? r.a : an_uniform(w.rng, AN_F32, AN_DIMS(3), 0, 1);
        CHECK_OK(t, an_tensor_read(x, got[i], sizeof got[i]));
        for (int k = 0; k < i; k++) CHECK(t, memcmp(got[i], got[k], sizeof got[i]) != 0);
    }
    an_jit_destroy(a);
    an_jit_destroy(b);
}

CASE(results_outlive_their_jit)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0}, s = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    in.x = r.a; /* results as arguments of the next */
    CHECK_OK(t, an_jit_call(j, &in, &s));
    an_tensor *lazy = an_add(r.a, s.a);
    an_jit_reset(j);
    CHECK_VEC3(t, r.a, 2, 3, 4);
    an_jit_destroy(j);
    CHECK_VEC3(t, s.a, 3, 4, 5);
    CHECK_VEC3(t, lazy, 5, 7, 9);
}

CASE(a_plan_in_between_reads_and_writes_the_state)
{
    world w = {.w = vec3(g, 0, 0, 0)};
    an_jit *j = make(t, g, corrected, &w, 1, 1);
    args in = {vec3(g, 6, 6, 6), NULL, 0};
    results r = {0};
    an_plan *plan = NULL;
    CHECK_OK(t, an_jit_call(j, &in, &r)); /* 1 */
    CHECK_OK(t, an_assign(w.w, an_mul_scalar(w.w, 2)));
    CHECK_OK(t, an_plan_create(g, &w.w, 1, NULL, &plan));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(t, an_plan_run(plan));       /* 2, then 6 */
        CHECK_OK(t, an_jit_call(j, &in, &r)); /* 3, then 7 */
    }
    CHECK_VEC3(t, w.w, 7, 7, 7);
    CHECK_VEC3(t, an_mul(r.a, w.w), 6, 6, 6);
    an_plan_destroy(plan);
    an_jit_destroy(j);
}

AN_TEST_MAIN(AN_CASE(results_over_a_symbol_have_the_size_of_their_call),
             AN_CASE(arguments_without_elements_or_axes_are_arguments),
             AN_CASE(an_argument_turned_or_repeated_is_a_tensor_of_its_own),
             AN_CASE(results_of_one_and_two_bytes_have_buffers_of_their_own),
             AN_CASE(a_part_of_an_argument_is_written_in_place),
             AN_CASE(two_writes_of_one_state_keep_their_order_and_reads_their_place),
             AN_CASE(what_was_built_of_the_state_before_a_call_is_stale_after_it),
             AN_CASE(a_view_of_the_state_as_the_argument_is_read_as_it_was),
             AN_CASE(a_write_that_waits_for_an_argument_runs_before_the_call),
             AN_CASE(a_result_with_a_write_that_waits_is_not_written_into),
             AN_CASE(state_that_is_made_in_the_function_is_refused),
             AN_CASE(a_counter_in_the_state_goes_on),
             AN_CASE(two_jits_and_the_caller_draw_from_one_generator_without_a_repeat),
             AN_CASE(results_outlive_their_jit),
             AN_CASE(a_plan_in_between_reads_and_writes_the_state))
