/* test_jit.c - captured functions (anneal/jit.h), their arguments and results: what replay gets wrong elsewhere, a case each. Each
 * gives the right values or fails with a sentence. On every device. */
#include "jit_cases.h"

/* --- arguments and results --------------------------------------------------------------------------------------- */

static an_status plus_one(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    ((results *)out)->a = an_add_scalar(((const args *)in)->x, 1);
    return AN_OK;
}

CASE(results_of_two_calls_are_two_tensors)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    args one = {vec3(g, 1, 2, 3), NULL, 0}, two = {vec3(g, 4, 5, 6), NULL, 0};
    results r = {0}, s = {0};
    CHECK_OK(t, an_jit_call(j, &one, &r));
    CHECK_OK(t, an_jit_call(j, &two, &s));
    CHECK(t, r.a != s.a);
    CHECK_VEC3(t, an_sub(s.a, r.a), 3, 3, 3);
    CHECK_VEC3(t, r.a, 2, 3, 4);
    CHECK_VEC3(t, s.a, 5, 6, 7);
    an_jit_destroy(j);
}

CASE(the_same_struct_again_is_written_into)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    an_tensor *first = r.a;
    CHECK_OK(t, an_tensor_write(in.x, (const float[]){7, 8, 9}, 12));
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK(t, r.a == first);
    CHECK_VEC3(t, r.a, 8, 9, 10);
    an_jit_destroy(j);
}

CASE(other_tensors_are_read_not_those_of_the_capture)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    results r = {0};
    for (int i = 0; i < 4; i++) {
        args in = {vec3(g, (float)i, 0, 1), NULL, 0};
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_VEC3(t, r.a, i + 1, 1, 2);
        CHECK_VEC3(t, in.x, i, 0, 1);
    }
    an_jit_destroy(j);
}

static an_status give_back(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    *(results *)out = (results){((const args *)in)->x, ((const args *)in)->x};
    return AN_OK;
}

CASE(an_argument_as_a_result_is_a_tensor_of_its_own)
{
    an_jit *j = make(t, g, give_back, NULL, 1, 2);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK(t, r.a != in.x && r.b != in.x && r.a != r.b);
        CHECK_OK(t, an_tensor_write(r.a, (const float[]){0, 0, 0}, 12));
        CHECK_VEC3(t, in.x, 1, 2, 3);
        CHECK_VEC3(t, r.b, 1, 2, 3);
    }
    an_jit_destroy(j);
}

static an_status twice(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    an_tensor *sum = an_add(((const args *)in)->x, ((const args *)in)->y);
    *(results *)out = (results){sum, sum};
    return AN_OK;
}

CASE(one_tensor_as_two_results_is_two_tensors)
{
    an_jit *j = make(t, g, twice, NULL, 2, 2);
    args in = {vec3(g, 1, 2, 3), vec3(g, 1, 1, 1), 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_OK(t, an_tensor_write(r.a, (const float[]){0, 0, 0}, 12));
    CHECK_VEC3(t, r.b, 2, 3, 4);
    an_jit_destroy(j);
}

CASE(one_tensor_for_two_arguments_is_read_twice)
{
    an_jit *j = make(t, g, twice, NULL, 2, 2);
    args in = {vec3(g, 1, 2, 3), vec3(g, 1, 1, 1), 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    in.y = in.x;
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.a, 2, 4, 6);
    in.y = vec3(g, 10, 10, 10); /* and apart again */
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.b, 11, 12, 13);
    an_jit_destroy(j);
}

static an_status shift(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    const args *a = in;
    an_tensor *parts[2] = {an_slice(a->x, 0, 1, AN_NONE, 1), an_slice(a->y, 0, 0, 1, 1)};
    ((results *)out)->a = an_cat(parts, 2, 0);
    ((results *)out)->b = an_slice(an_cat(parts, 2, 0), 0, 0, 2, 1);
    return AN_OK;
}

CASE(a_result_fed_back_as_the_argument_is_read_before_it_is_written)
{
    an_jit *j = make(t, g, shift, NULL, 2, 2);
    results r = {0};
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    for (int i = 4; i < 10; i++) {
        in.y = vec3(g, (float)i, 0, 0);
        CHECK_OK(t, an_jit_call(j, &in, &r));
        in.x = r.a; /* from now on argument and result are the same */
        CHECK_VEC3(t, r.a, i - 2, i - 1, i);
    }
    an_jit_destroy(j);
}

CASE(a_lazy_argument_is_computed)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    results r = {0};
    for (int i = 0; i < 3; i++) {
        args in = {an_mul_scalar(vec3(g, 1, 2, 3), i), NULL, 0};
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_VEC3(t, r.a, i + 1, 2 * i + 1, 3 * i + 1);
    }
    args zeros = {an_zeros(g, AN_F32, AN_DIMS(3)), NULL, 0};
    CHECK_OK(t, an_jit_call(j, &zeros, &r));
    CHECK_VEC3(t, r.a, 1, 1, 1);
    an_jit_destroy(j);
}

CASE(a_lazy_tensor_made_of_a_result_is_stale_when_that_is_written_again)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0}, other = {0};
    float got[3];
    CHECK_OK(t, an_jit_call(j, &in, &r));
    an_tensor *lazy = an_mul_scalar(r.a, 2), *kept = an_mul_scalar(r.a, 3);
    CHECK_OK(t, an_realize(&kept, 1));
    CHECK_OK(t, an_jit_call(j, &in, &other)); /* elsewhere */
    CHECK_OK(t, an_tensor_write(in.x, (const float[]){0, 0, 0}, 12));
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_FAILS(t, an_tensor_read(lazy, got, sizeof got), AN_ERR_STALE, "overwritten");
    CHECK_VEC3(t, kept, 6, 9, 12);
    CHECK_VEC3(t, r.a, 1, 1, 1);
    an_jit_destroy(j);
}

CASE(arguments_of_another_kind_are_refused)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    an_tensor *before = r.a;
    in.x = an_zeros(g, AN_F32, AN_DIMS(4));
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_SHAPE, "f: argument 'x' has shape (4,)");
    in.x = an_zeros(g, AN_F32, AN_DIMS(1, 3));
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_SHAPE, "argument 'x' has shape (1, 3)");
    in.x = an_zeros(g, AN_I32, AN_DIMS(3));
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_DTYPE, "argument 'x' has dtype i32; the function was captured for f32");
    in.x = NULL;
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "argument 'x' is NULL");
    CHECK_FAILS(t, an_jit_call(j, NULL, &r), AN_ERR_ARG, "NULL was given");
    an_graph *other = NULL;
    CHECK_OK(t, an_graph_create(t->ctx, &other));
    in.x = an_zeros(other, AN_F32, AN_DIMS(3));
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "belongs to another graph");
    an_graph_destroy(other);
    CHECK(t, r.a == before);
    CHECK_VEC3(t, r.a, 2, 3, 4); /* as it was */
    an_jit_destroy(j);
}

CASE(a_reset_jit_takes_another_shape)
{
    an_jit *j = make(t, g, plus_one, NULL, 1, 1);
    args in = {an_zeros(g, AN_F32, AN_DIMS(5)), NULL, 0};
    results r = {0}, s = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK(t, an_jit_plan(j));
    an_jit_reset(j);
    CHECK(t, !an_jit_plan(j));
    in.x = vec3(g, 1, 2, 3);
    CHECK_OK(t, an_jit_call(j, &in, &s));
    CHECK_VEC3(t, s.a, 2, 3, 4);
    an_jit_destroy(j);
}

static an_status scaled(void *user, an_graph *g, const void *in, void *out)
{
    (void)g;
    const args *a = in;
    world *w = user;
    if (a->y) return AN_ERR_INTERNAL; /* not listed, so not seen */
    w->calls++;
    ((results *)out)->a = an_mul_scalar(a->x, a->factor);
    return AN_OK;
}

CASE(a_number_among_the_arguments_must_stay_what_it_was)
{
    static const an_jit_value values[] = {AN_JIT_VALUE(args, factor)};
    world w = {0};
    an_jit *j = NULL;
    const an_jit_desc desc = {.fn = scaled, .user = &w, .args = {sizeof(args), one_in, 1, values, 1},
                              .results = AN_JIT_SLOTS(results, one_out)};
    CHECK_OK(t, an_jit_create(g, &desc, &j));
    args in = {vec3(g, 1, 2, 3), vec3(g, 0, 0, 0), 2};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_EQ(t, w.calls, 1);
    CHECK_VEC3(t, r.a, 2, 4, 6);
    in.factor = 3;
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_ARG, "the value 'factor' is not what it was");
    an_jit_destroy(j);
}

typedef struct nested_args {
    struct {
        an_tensor *images;
        int unused;
    } batch;
    an_tensor *weights[3];
} nested_args;

static an_status weighted(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    const nested_args *a = in;
    an_tensor *x = a->batch.images;
    for (int i = 0; i < 3; i++) x = an_add(x, a->weights[i]);
    ((results *)out)->a = x;
    return AN_OK;
}

CASE(arguments_in_nested_structs_and_arrays_are_slots)
{
    static const an_jit_slot slots[] = {AN_JIT_SLOT(nested_args, batch.images), AN_JIT_SLOT(nested_args, weights)};
    an_jit *j = NULL;
    const an_jit_desc desc = {.name = "f", .fn = weighted, .args = AN_JIT_SLOTS(nested_args, slots),
                              .results = AN_JIT_SLOTS(results, one_out)};
    CHECK_OK(t, an_jit_create(g, &desc, &j));
    nested_args in = {{vec3(g, 1, 2, 3), 0}, {vec3(g, 10, 0, 0), vec3(g, 0, 20, 0), vec3(g, 0, 0, 30)}};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.a, 11, 22, 33);
    in.weights[1] = vec3(g, 0, 0, 0);
    in.batch.images = vec3(g, 5, 5, 5);
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.a, 15, 5, 35);
    in.weights[2] = an_zeros(g, AN_F32, AN_DIMS(2));
    CHECK_FAILS(t, an_jit_call(j, &in, &r), AN_ERR_SHAPE, "argument 'weights[2]'");
    an_jit_destroy(j);
    const an_jit_slot outside[] = {{"far", sizeof(args), 1, false}};
    const an_jit_desc wrong = {.fn = plus_one, .args = AN_JIT_SLOTS(args, outside)};
    CHECK_FAILS(t, an_jit_create(g, &wrong, &j), AN_ERR_ARG, "'far'");
}

CASE(results_go_only_where_nothing_else_is)
{
    an_jit *j = make(t, g, shift, NULL, 2, 2);
    args in = {vec3(g, 1, 2, 3), vec3(g, 4, 5, 6), 0};
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    results same = {r.a, r.a}, other = {vec3(g, 0, 0, 0), NULL}, lazy = {an_add_scalar(in.x, 1), NULL};
    CHECK_FAILS(t, an_jit_call(j, &in, &same), AN_ERR_SHAPE, "result 'b' is to go into a tensor of another shape");
    CHECK_FAILS(t, an_jit_call(j, &in, &lazy), AN_ERR_ARG, "without a buffer");
    CHECK_FAILS(t, an_jit_call(j, &in, NULL), AN_ERR_ARG, "there is no struct for them");
    CHECK_OK(t, an_jit_call(j, &in, &other)); /* a tensor made by the caller */
    CHECK_VEC3(t, other.a, 2, 3, 4);
    an_jit_destroy(j);
    j = make(t, g, twice, NULL, 2, 2);
    r = (results){0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    same = (results){r.a, r.a};
    CHECK_FAILS(t, an_jit_call(j, &in, &same), AN_ERR_ARG, "the same tensor as another result");
    an_jit_destroy(j);
}

static an_status nothing(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g, (void)in, (void)out;
    return AN_OK;
}

CASE(a_result_that_is_not_given_is_an_error)
{
    an_jit *j = make(t, g, nothing, NULL, 0, 1);
    results r = {0};
    CHECK_FAILS(t, an_jit_call(j, NULL, &r), AN_ERR_ARG, "result 'a' was not given");
    an_jit_destroy(j);
    j = make(t, g, nothing, NULL, 0, 0);
    CHECK_OK(t, an_jit_call(j, NULL, NULL));
    CHECK_OK(t, an_jit_call(j, NULL, NULL));
    an_jit_destroy(j);
}

static an_status a_constant(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)in;
    ((results *)out)->a = an_arange(g, AN_F32, 1, 4, 1);
    return AN_OK;
}

CASE(a_function_without_arguments_is_replayed)
{
    an_jit *j = make(t, g, a_constant, NULL, 0, 1);
    results r = {0}, s = {0};
    CHECK_OK(t, an_jit_call(j, NULL, &r));
    CHECK_OK(t, an_jit_call(j, NULL, &s));
    CHECK_VEC3(t, r.a, 1, 2, 3);
    CHECK_VEC3(t, s.a, 1, 2, 3);
    an_jit_destroy(j);
}

/* --- donation ---------------------------------------------------------------------------------------------------- */

CASE(a_donated_argument_gives_its_buffer_and_is_used_up)
{
    static const an_jit_slot in_slots[] = {AN_JIT_DONATED(args, x)};
    an_jit *j = NULL;
    const an_jit_desc desc = {.name = "f", .fn = plus_one, .args = AN_JIT_SLOTS(args, in_slots), .results = AN_JIT_SLOTS(results, one_out)};
    CHECK_OK(t, an_jit_create(g, &desc, &j));
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    float got[3];
    an_tensor *used = in.x, *lazy = an_mul_scalar(used, 2);
    for (int i = 0; i < 4; i++) {
        results r = {0};
        CHECK_OK(t, an_jit_call(j, &in, &r));
        CHECK_VEC3(t, r.a, i + 2, i + 3, i + 4);
        CHECK_FAILS(t, an_tensor_read(in.x, got, sizeof got), AN_ERR_ARG, "was donated");
        CHECK_FAILS(t, an_tensor_write(in.x, got, sizeof got), AN_ERR_ARG, "was donated");
        CHECK_FAILS(t, an_tensor_read(an_add_scalar(in.x, 1), got, sizeof got), AN_ERR_ARG, "was donated");
        results again = {0};
        CHECK_FAILS(t, an_jit_call(j, &in, &again), AN_ERR_ARG, "argument 'x' was donated");
        in.x = r.a;
    }
    if (an_tensor_read(lazy, got, sizeof got)) { /* its operand went on to hold results */
        CHECK_EQ(t, an_ctx_status(t->ctx), AN_ERR_STALE);
        an_ctx_clear_error(t->ctx);
    } else {
        CHECK_NEAR(t, got[0], 2, 0); /* the buffer was not needed */
    }
    an_jit_destroy(j);
}

static an_status sum_of_two(void *user, an_graph *g, const void *in, void *out)
{
    (void)user, (void)g;
    ((results *)out)->a = an_add(((const args *)in)->x, an_flip(((const args *)in)->y, AN_DIMS(0)));
    return AN_OK;
}

CASE(a_donated_tensor_given_twice_is_not_written_over_itself)
{
    static const an_jit_slot slots[] = {AN_JIT_DONATED(args, x), AN_JIT_SLOT(args, y)};
    an_jit *j = NULL;
    const an_jit_desc desc = {.name = "f", .fn = sum_of_two, .args = AN_JIT_SLOTS(args, slots), .results = AN_JIT_SLOTS(results, one_out)};
    CHECK_OK(t, an_jit_create(g, &desc, &j));
    args in = {vec3(g, 1, 2, 3), NULL, 0};
    in.y = in.x;
    results r = {0};
    CHECK_OK(t, an_jit_call(j, &in, &r));
    CHECK_VEC3(t, r.a, 4, 4, 4);
    an_jit_destroy(j);
}

AN_TEST_MAIN(AN_CASE(results_of_two_calls_are_two_tensors),
             AN_CASE(the_same_struct_again_is_written_into),
             AN_CASE(other_tensors_are_read_not_those_of_the_capture),
             AN_CASE(an_argument_as_a_result_is_a_tensor_of_its_own),
             AN_CASE(one_tensor_as_two_results_is_two_tensors),
             AN_CASE(one_tensor_for_two_arguments_is_read_twice),
             AN_CASE(a_result_fed_back_as_the_argument_is_read_before_it_is_written),
             AN_CASE(a_lazy_argument_is_computed),
             AN_CASE(a_lazy_tensor_made_of_a_result_is_stale_when_that_is_written_again),
             AN_CASE(arguments_of_another_kind_are_refused),
             AN_CASE(a_reset_jit_takes_another_shape),
             AN_CASE(a_number_among_the_arguments_must_stay_what_it_was),
             AN_CASE(arguments_in_nested_structs_and_arrays_are_slots),
             AN_CASE(results_go_only_where_nothing_else_is),
             AN_CASE(a_result_that_is_not_given_is_an_error),
             AN_CASE(a_function_without_arguments_is_replayed),
             AN_CASE(a_donated_argument_gives_its_buffer_and_is_used_up),
             AN_CASE(a_donated_tensor_given_twice_is_not_written_over_itself))
