/* test_jit_state.c - captured functions (anneal/jit.h) that write in place, draw random numbers, read captured tensors and call each
 * other: what is wrong elsewhere, a case each. Each gives the right values or fails with a sentence. On every device. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "jit_cases.h"

#include <time.h>

static const an_jit_slot captured_w[] = {AN_JIT_SLOT(world, w)};

static an_status plus_one(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    ((results *)out)->a = an_add_scalar(((const args *)in)->x, 1);
    return AN_OK;
}

/* --- in place ---------------------------------------------------------------------------------------------------- */

static an_status step(void *user, an_graph *g, const void *in, void *out)
{
    world *w = user;
    (void)g;
    an_tensor *before = an_add_scalar(w->w, 100);
    if (an_assign(w->w, an_add(w->w, ((const args *)in)->x))) return AN_ERR_ARG;
    ((results *)out)->a = before;
    ((results *)out)->b = an_mul_scalar(w->w, 2);
    return w->fails ? AN_ERR_IO : AN_OK;
}

CASE(state_is_written_once_a_call_and_read_before_and_after)
{
    world w = {.w = vec3(g, 0, 0, 0)};
    an_jit *j = make(t, g, step, &w, 1, 2);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    for (int i = 1; i < 5; i++) {
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_VEC3(t, w.w, i, 2 * i, 3 * i);
        CHECK_VEC3(t, r.a, 100 + i - 1, 100 + 2 * (i - 1), 100 + 3 * (i - 1));
        CHECK_VEC3(t, r.b, 2 * i, 4 * i, 6 * i);
    }
    an_jit_destroy(j);
}

CASE(the_state_as_its_own_argument_is_read_as_it_was)
{
    world w = {.w = vec3(g, 1, 1, 1)};
    an_jit *j = make(t, g, step, &w, 1, 2);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    in.x = w.w; /* w = w + w */
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, w.w, 4, 6, 8);
    CHECK_VEC3(t, r.a, 102, 103, 104);
    an_jit_destroy(j);
}

CASE(the_first_call_with_the_state_as_argument_reads_it_as_it_was)
{
    world w = {.w = vec3(g, 1, 2, 3)};
    an_jit *j = make(t, g, step, &w, 1, 2);
    args in = {w.w, NULL, 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, w.w, 2, 4, 6);
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, w.w, 4, 8, 12);
    an_jit_destroy(j);
}

CASE(a_result_does_not_go_into_the_state)
{
    world w = {.w = vec3(g, 1, 2, 3)};
    an_jit *j = make(t, g, step, &w, 1, 2);
    args in = {vec3(g, 1, 1, 1), NULL, 0};
    results r = {0}, into = {w.w, NULL};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_FAILS(t, an_jit_call(j, &in, &into), AN_ERR_ARG, "result 'a' is to go into a tensor that the function reads or writes");
    CHECK_VEC3(t, w.w, 2, 3, 4);
    an_jit_destroy(j);
}

static an_status give_state(void *user, an_graph *g, const void *in, void *out)
{
    world *w = user;
    (void)g;
    if (an_assign(w->w, an_mul(w->w, ((const args *)in)->x))) return AN_ERR_ARG;
    ((results *)out)->a = w->w;
    return AN_OK;
}

CASE(a_parameter_as_a_result_is_the_parameter)
{
    world w = {.w = vec3(g, 1, 2, 3)};
    an_jit *j = make(t, g, give_state, &w, 1, 1);
    args in = {vec3(g, 2, 2, 2), NULL, 0};
    results r = {0};
    for (int i = 2; i <= 8; i *= 2) {
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK(t, r.a == w.w);
        CHECK_VEC3(t, r.a, i, 2 * i, 3 * i);
    }
    an_jit_destroy(j);
}

static an_status update_argument(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    const args *a = in;
    an_tensor *old = an_add_scalar(a->x, 0.5);
    if (an_assign(a->x, an_add(a->x, a->y))) return AN_ERR_ARG;
    ((results *)out)->a = old;
    ((results *)out)->b = a->x;
    return AN_OK;
}

CASE(an_argument_is_written_in_place)
{
    an_jit *j = make(t, g, update_argument, NULL, 2, 2);
    an_tensor *p = vec3(g, 1, 2, 3), *q = vec3(g, 10, 20, 30);
    args in = {p, vec3(g, 1, 1, 1), 0};
    results r = {0};
    float got[3];
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, p, 2, 3, 4);
    CHECK_VEC3(t, r.a, 1.5, 2.5, 3.5);
    CHECK_VEC3(t, r.b, 2, 3, 4);
    an_tensor *lazy = an_mul_scalar(q, 2);
    in.x = q;
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, q, 11, 21, 31);
    CHECK_VEC3(t, p, 2, 3, 4); /* not this time */
    CHECK_FAILS(t, an_tensor_read(lazy, got, sizeof got), AN_ERR_STALE, "overwritten");
    in.y = q; /* x = x + x: y is read as it was */
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, q, 22, 42, 62);
    CHECK_VEC3(t, r.b, 22, 42, 62);
    in = (args){p, p, 0};
    results to = {p, NULL};
    CHECK_FAILS(t, an_jit_call(j, &in, &to), AN_ERR_ARG, "argument 'x' is written by the function, and shares its buffer");
    an_jit_destroy(j);
}

static an_status update_both(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g, (void)out;
    const args *a = in;
    an_tensor *x = an_add_scalar(a->x, 1), *y = an_add_scalar(a->y, 2);
    return an_assign(a->x, y) || an_assign(a->y, x) ? AN_ERR_ARG : AN_OK;
}

CASE(two_arguments_are_swapped_in_place_but_not_one_with_itself)
{
    an_jit *j = make(t, g, update_both, NULL, 2, 0);
    args in = {vec3(g, 1, 2, 3), vec3(g, 10, 20, 30), 0};
    CHECK_OK(t, an_jit_call(j, &in, NULL));
    CHECK_VEC3(t, in.x, 12, 22, 32);
    CHECK_VEC3(t, in.y, 2, 3, 4);
    in.y = in.x;
    CHECK_FAILS(t, an_jit_call(j, &in, NULL), AN_ERR_ARG, "is written by the function, and shares its buffer with another argument");
    an_jit_destroy(j);
}

CASE(two_jits_share_their_state)
{
    world w = {.w = vec3(g, 0, 0, 0)};
    an_jit *add = make(t, g, step, &w, 1, 2), *mul = make(t, g, give_state, &w, 1, 1);
    args one = {vec3(g, 1, 1, 1), NULL, 0}, two = {vec3(g, 2, 2, 2), NULL, 0};
    results r = {0}, s = {0};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(t, an_jit_call(add, &one, &r));
        CHECK_OK(t, an_jit_call(mul, &two, &s));
    }
    CHECK_VEC3(t, w.w, 14, 14, 14); /* ((0 + 1) 2 + 1) 2 + 1) 2 */
    an_jit_destroy(add);
    CHECK_OK(t, an_jit_call(mul, &two, &s));
    CHECK_VEC3(t, w.w, 28, 28, 28);
    an_jit_destroy(mul);
}

static an_status accumulate(void *user, an_graph *g, const void *in, void *out)
{
    world *w = user;
    an_tensor *p = ((const args *)in)->y, *loss = an_sum(an_mul(p, ((const args *)in)->x), AN_ALL, false), *grad = NULL;
    (void)g, (void)out;
    if (an_backward(loss, &p, 1, &grad)) return AN_ERR_ARG;
    return an_assign(w->w, an_add(w->w, grad));
}

CASE(gradients_gather_over_calls_until_they_are_zeroed)
{
    world w = {.w = vec3(g, 0, 0, 0)};
    an_jit *j = make(t, g, accumulate, &w, 2, 0);
    args in = {vec3(g, 1, 2, 3), vec3(g, 5, 5, 5), 0};
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i <= 3; i++) {
            CHECK_OK(t, an_tensor_write(in.x, (const float[]){(float)i, 1, 0}, 12));
            CHECK_OK(t, an_jit_call(j, &in, NULL));
        }
        CHECK_VEC3(t, w.w, 6, 3, 0);
        CHECK_OK(t, an_tensor_write(w.w, (const float[]){0, 0, 0}, 12));
    }
    an_jit_destroy(j);
}

static an_status two_backwards(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    const args *a = in;
    results *r = out;
    an_tensor *x = a->x, *fresh = an_contiguous(an_transpose(an_outer(x, a->y), 0, 1));
    an_tensor *each = an_sum(an_square(fresh), AN_DIMS(0), false); /* a loss an element */
    an_tensor *one = an_sum(each, AN_ALL, false), *half = an_sum(an_mul_scalar(each, 0.5), AN_ALL, false);
    if (an_backward(one, &x, 1, &r->a) || an_backward(half, &x, 1, &r->b)) return AN_ERR_ARG;
    return AN_OK;
}

CASE(two_gradients_in_one_function_stay_apart)
{
    an_jit *j = make(t, g, two_backwards, NULL, 2, 2);
    args in = {vec3(g, 1, 2, 3), vec3(g, 1, 1, 1), 0};
    for (int i = 1; i < 4; i++) {
        results r = {0};
        CHECK_OK(t, an_tensor_write(in.x, (const float[]){(float)i, 2, 3}, 12));
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_VEC3(t, r.a, 6 * i, 12, 18);
        CHECK_VEC3(t, r.b, 3 * i, 6, 9);
    }
    an_jit_destroy(j);
}

/* --- what is captured -------------------------------------------------------------------------------------------- */

static an_status times_w(void *user, an_graph *g, const void *in, void *out)
{
    (void)g;
    ((results *)out)->a = an_mul(((const args *)in)->x, ((world *)user)->w);
    return AN_OK;
}

CASE(a_captured_tensor_means_what_it_holds_at_each_call)
{
    world w = {.w = vec3(g, 1, 2, 3)};
    an_jit *j = make(t, g, times_w, &w, 1, 1);
    args in = {vec3(g, 1, 1, 1), NULL, 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_OK(t, an_tensor_write(w.w, (const float[]){7, 8, 9}, 12));
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.a, 7, 8, 9);
    CHECK_OK(t, an_assign(w.w, an_add_scalar(w.w, 1)));
    CHECK_OK(t, an_realize(&w.w, 1));
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.a, 8, 9, 10);
    an_jit_destroy(j);
}

CASE(a_captured_tensor_that_was_replaced_is_an_error)
{
    world w = {.w = vec3(g, 1, 2, 3)};
    an_tensor *first = w.w;
    an_jit *j = NULL;
    const an_jit_desc desc = {.name = "f", .fn = times_w, .user = &w, .args = {sizeof(args), one_in, 1, NULL, 0},
                              .results = AN_JIT_SLOTS(results, one_out), .captured = AN_JIT_SLOTS(world, captured_w), .captured_at = &w};
    CHECK_OK(t, an_jit_create(g, &desc, &j));
    args in = {vec3(g, 1, 1, 1), NULL, 0};
    results r = {0};
    w.w = an_add_scalar(first, 1);
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "captured tensor 'w' is lazy; realize it first");
    w.w = first;
    CHECK_OK(t, an_jit_call(j, &in, &r));
    w.w = vec3(g, 4, 5, 6);
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "captured tensor 'w' was replaced by another");
    w.w = NULL;
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "captured tensor 'w' is NULL");
    w.w = first;
    CHECK_OK(t, an_assign(first, an_add_scalar(first, 1))); /* waits to be run */
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "or assigned to, since the capture; realize it");
    CHECK_OK(t, an_realize(&first, 1));
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.a, 2, 3, 4);
    an_jit_destroy(j);
}

CASE(a_write_from_before_the_capture_is_not_replayed)
{
    world w = {.w = vec3(g, 1, 2, 3)};
    an_jit *j = make(t, g, times_w, &w, 1, 1);
    args in = {vec3(g, 1, 1, 1), NULL, 0};
    results r = {0};
    CHECK_OK(t, an_assign(w.w, an_mul_scalar(w.w, 2)));
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "an in-place write (or random numbers) from before the capture");
    CHECK_OK(t, an_realize(&w.w, 1));
    for (int i = 0; i < 2; i++) CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.a, 2, 4, 6);
    an_jit_destroy(j);
}

static an_status leak(void *user, an_graph *g, const void *in, void *out)
{
    (void)g;
    ((world *)user)->leaked = an_mul_scalar(((const args *)in)->x, 2);
    ((results *)out)->a = an_add_scalar(((world *)user)->leaked, 1);
    return AN_OK;
}

CASE(a_tensor_that_leaves_the_function_by_the_side_door_has_no_value)
{
    world w = {0};
    an_jit *j = make(t, g, leak, &w, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    float got[3];
    for (int i = 0; i < 2; i++) {
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_FAILS(t, an_tensor_read(w.leaked, got, sizeof got), AN_ERR_ARG, "make it a result");
        CHECK_FAILS(t, an_tensor_read(an_add_scalar(w.leaked, 1), got, sizeof got), AN_ERR_ARG, "make it a result");
    }
    CHECK_VEC3(t, r.a, 3, 5, 7);
    an_jit_destroy(j);
}

/* What may not be done in a capture: each a function of its own. */
static an_status reads_inside(void *user, an_graph *g, const void *in, void *out)
{
    double v = 0;
    (void)g, (void)out, (void)user;
    return an_item_f64(an_sum(((const args *)in)->x, AN_ALL, false), &v);
}
static an_status reads_state_inside(void *user, an_graph *g, const void *in, void *out)
{
    float v[3];
    (void)g, (void)out, (void)in;
    return an_tensor_read(((world *)user)->w, v, sizeof v);
}
static an_status realizes_inside(void *user, an_graph *g, const void *in, void *out)
{
    an_tensor *x = an_add_scalar(((const args *)in)->x, 1);
    (void)g, (void)out, (void)user;
    return an_realize(&x, 1);
}
static an_status writes_inside(void *user, an_graph *g, const void *in, void *out)
{
    (void)g, (void)out, (void)in;
    return an_tensor_write(((world *)user)->w, (const float[]){1, 1, 1}, 12);
}
static an_status plans_inside(void *user, an_graph *g, const void *in, void *out)
{
    an_plan *p = NULL;
    an_tensor *x = an_add_scalar(((const args *)in)->x, 1);
    (void)out, (void)user;
    return an_plan_create(g, &x, 1, NULL, &p);
}
static an_status uploads_inside(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)in;
    ((results *)out)->a = vec3(g, 1, 2, 3);
    return AN_OK; /* without looking */
}
static an_status seeds_inside(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)in;
    ((results *)out)->a = an_uniform(an_rng_from_seed(g, 1), AN_F32, AN_DIMS(3), 0, 1);
    return an_ctx_status(an_graph_ctx(g));
}

CASE(nothing_is_read_written_or_run_in_a_capture)
{
    static const struct {
        an_jit_fn fn;
        const char *part;
    } all[] = {{reads_inside, "an_realize: a function is being captured"}, {reads_state_inside, "read: a function is being captured"},
               {realizes_inside, "an_realize: a function is being captured"}, {writes_inside, "write: a function is being captured"},
               {plans_inside, "an_plan_create: a function is being captured"}, {uploads_inside, "its replays would see the data of now"},
               {seeds_inside, "make the generator before"}};
    world w = {.w = vec3(g, 1, 2, 3)};
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        an_jit *j = make(t, g, all[i].fn, &w, 1, 1);
        results r = {0};
        CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, all[i].part);
        CHECK(t, !r.a && !an_jit_plan(j));
        an_jit_destroy(j);
        CHECK_VEC3(t, w.w, 1, 2, 3); /* and reading works again */
    }
}

CASE(a_failed_capture_leaves_everything_as_it_was_and_may_be_tried_again)
{
    world w = {.w = vec3(g, 0, 0, 0), .fails = true};
    an_jit *j = make(t, g, step, &w, 1, 2);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    CHECK_EQ(t, an_jit_call(j, &in, &r), AN_ERR_IO);
    CHECK_EQ(t, an_jit_call(j, &in, &r), AN_ERR_IO);
    CHECK_VEC3(t, w.w, 0, 0, 0);
    w.fails = false;
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, w.w, 1, 2, 3); /* once, not three times */
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, w.w, 2, 4, 6);
    an_jit_destroy(j);
}

/* --- random ------------------------------------------------------------------------------------------------------ */

static an_status draw(void *user, an_graph *g, const void *in, void *out)
{
    (void)g;
    ((results *)out)->a = an_dropout(((world *)user)->rng, ((const args *)in)->x, 0.5);
    return AN_OK;
}

CASE(each_call_draws_new_numbers)
{
    world w = {.rng = an_rng_from_seed(g, 5)};
    an_jit *j = make(t, g, draw, &w, 1, 1);
    args in = {an_ones(g, AN_F32, AN_DIMS(64)), NULL, 0};
    float got[4][64];
    for (int i = 0; i < 4; i++) {
        results r = {0};
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_OK(t, an_tensor_read(r.a, got[i], sizeof got[i]));
        for (int k = 0; k < i; k++) CHECK(t, memcmp(got[i], got[k], sizeof got[i]) != 0);
    }
    an_jit_destroy(j);
}

/* --- jits in jits ------------------------------------------------------------------------------------------------ */

static an_status outer(void *user, an_graph *g, const void *in, void *out)
{
    world *w = user;
    results r = {0};
    (void)g;
    for (int i = 0; i < 2; i++) {
        const an_status st = an_jit_call(w->inner, in, &r);
        if (st) return st;
    }
    ((results *)out)->a = an_mul_scalar(r.b, 10);
    return AN_OK;
}

CASE(a_jit_in_a_jit_is_captured_along)
{
    world in_w = {.w = vec3(g, 0, 0, 0)};
    world w = {.inner = make(t, g, step, &in_w, 1, 2)};
    an_jit *j = make(t, g, outer, &w, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0}, s = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r)); /* before the inner one was captured */
    CHECK_VEC3(t, in_w.w, 2, 4, 6);
    CHECK_VEC3(t, r.a, 40, 80, 120);
    CHECK_OK(t, an_jit_call(w.inner, &in, &s));
    CHECK_VEC3(t, in_w.w, 3, 6, 9);
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, in_w.w, 5, 10, 15);
    an_jit_reset(j); /* and captured again, after it was */
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, in_w.w, 7, 14, 21);
    an_jit_destroy(j);
    an_jit_destroy(w.inner);
}

static an_status itself(void *user, an_graph *g, const void *in, void *out)
{
    (void)g;
    return an_jit_call(((world *)user)->inner, in, out);
}

CASE(a_jit_that_calls_itself_is_an_error)
{
    world w = {0};
    w.inner = make(t, g, itself, &w, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    CHECK_FAILS(t, an_jit_call(w.inner, &in, &r), AN_ERR_ARG, "calls itself");
    an_jit_destroy(w.inner);
}

static void a_graph_may_be_destroyed_before_its_jit(an_test *t)
{
    an_graph *g = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    an_graph_destroy(g);
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "f: its graph was destroyed");
    CHECK(t, !an_jit_plan(j));
    an_jit_destroy(j);
    an_jit_destroy(NULL);
    CHECK_EQ(t, an_jit_call(NULL, NULL, NULL), AN_ERR_ARG);
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    const an_jit_desc none = {0};
    CHECK_FAILS(t, an_jit_create(g, &none, &j), AN_ERR_ARG, "no function");
    an_graph_destroy(g);
}

/* --- memory and time --------------------------------------------------------------------------------------------- */

static an_status build_and_call(an_ctx *ctx, void *arg)
{
    an_graph *g = NULL;
    an_jit *j = NULL;
    (void)arg;
    an_status st = an_graph_create(ctx, &g);
    if (st) return st;
    st = an_graph_set_device(g, "interp");
    world w = {.w = st ? NULL : an_tensor_from_host(g, AN_F32, AN_DIMS(3), NULL)};
    args in = {st ? NULL : an_tensor_from_host(g, AN_F32, AN_DIMS(3), NULL), NULL, 0};
    const an_jit_desc desc = {.name = "f", .fn = step, .user = &w, .args = {sizeof(args), one_in, 1, NULL, 0},
                              .results = AN_JIT_SLOTS(results, two_out)};
    if (!w.w || !in.x) st = an_ctx_status(ctx);
    if (!st) st = an_jit_create(g, &desc, &j);
    results r = {0};
    for (int i = 0; i < 2 && !st; i++) st = an_jit_call(j, &in, &r);
    in.x = w.w; /* with a copy */
    if (!st) st = an_jit_call(j, &in, &r);
    if (st && an_ctx_status(ctx)) st = an_ctx_status(ctx);
    an_jit_destroy(j);
    an_graph_destroy(g);
    return st;
}

static void every_failing_allocation_is_an_error(an_test *t)
{
    an_test_every_alloc_failure(t, build_and_call, NULL);
}

enum { CHAIN = 64 };

static an_status chain(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    an_tensor *x = ((const args *)in)->x;
    for (int i = 0; i < CHAIN; i++) x = an_contiguous(i % 2 ? an_abs(x) : an_add_scalar(x, 1));
    ((results *)out)->a = x;
    return AN_OK;
}

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void a_replayed_kernel_costs_two_microseconds_at_most(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){.no_fuse = true})); /* a kernel an operation */
    an_jit *j = make(t, g, chain, NULL, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    const size_t n = an_plan_kernel_count(an_jit_plan(j));
    CHECK(t, n >= CHAIN / 2);
    if (strcmp(an_device_name(an_graph_device(g)), "cpu") == 0) {
        double best = 1;
        for (int i = 0; i < 200; i++) {
            const double start = now();
            CHECK_OK(t, an_jit_call(j, &in, &r));
            const double took = now() - start;
            best = took < best ? took : best;
        }
        printf("    %zu kernels, %.2f us each\n", n, 1e6 * best / (double)n);
        if (AN_TEST_TIMES) CHECK(t, best < 2e-6 * (double)n);
    }
    CHECK_VEC3(t, r.a, CHAIN / 2 + 1, CHAIN / 2 + 2, CHAIN / 2 + 3);
    an_jit_destroy(j);
}

AN_TEST_MAIN(AN_CASE(state_is_written_once_a_call_and_read_before_and_after),
             AN_CASE(the_state_as_its_own_argument_is_read_as_it_was),
             AN_CASE(the_first_call_with_the_state_as_argument_reads_it_as_it_was),
             AN_CASE(a_result_does_not_go_into_the_state),
             AN_CASE(a_parameter_as_a_result_is_the_parameter),
             AN_CASE(an_argument_is_written_in_place),
             AN_CASE(two_arguments_are_swapped_in_place_but_not_one_with_itself),
             AN_CASE(two_jits_share_their_state),
             AN_CASE(gradients_gather_over_calls_until_they_are_zeroed),
             AN_CASE(two_gradients_in_one_function_stay_apart),
             AN_CASE(a_captured_tensor_means_what_it_holds_at_each_call),
             AN_CASE(a_captured_tensor_that_was_replaced_is_an_error),
             AN_CASE(a_write_from_before_the_capture_is_not_replayed),
             AN_CASE(a_tensor_that_leaves_the_function_by_the_side_door_has_no_value),
             AN_CASE(nothing_is_read_written_or_run_in_a_capture),
             AN_CASE(a_failed_capture_leaves_everything_as_it_was_and_may_be_tried_again),
             AN_CASE(each_call_draws_new_numbers),
             AN_CASE(a_jit_in_a_jit_is_captured_along),
             AN_CASE(a_jit_that_calls_itself_is_an_error),
             AN_CASE(a_graph_may_be_destroyed_before_its_jit),
             AN_CASE(every_failing_allocation_is_an_error),
             AN_CASE(a_replayed_kernel_costs_two_microseconds_at_most))
