/* test_jvp.c - the forward sweep: what it visits, what its nodes remember, its errors; layers of nn, forward against reverse;
 * second derivatives against closed forms; replay and symbolic shapes. The value of each rule is held against reverse mode in
 * test_grad.c and test_tensor_grad.c, over their tables (check_grad.h). */
#include "an_test.h"
#include "autodiff/autodiff.h"
#include "rewrite/rewrite.h"
#include <anneal/device.h>
#include <anneal/nn.h>

#include <math.h>

static an_uop buffer(an_graph *g, an_dtype dtype, int64_t n)
{
    const an_uop dim = an_index(g, n);
    return an_buffer_node(g, dtype, &dim, 1);
}

static an_status jvp1(an_graph *g, an_uop y, an_uop x, an_uop d, an_uop *out)
{
    return an_jvp_uops(g, &(an_jvp_request){&y, 1, &x, &d, 1}, out);
}

/* --- what is visited ----------------------------------------------------------------------------- */

static bool is_zeros_like(an_graph *g, an_uop d, an_uop like)
{
    if (an_uop_dtype(g, d) != an_uop_dtype(g, like) || !an_shape_eq(an_uop_shape(g, d), an_uop_shape(g, like))) return false;
    while (an_op_has(an_uop_op(g, d), AN_TRAIT_MOVE)) d = an_uop_src(g, d, 0);
    return an_uop_is_number(g, d, 0.0);
}

static void zero_tangents_make_no_nodes(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), w = buffer(g, AN_F32, 3), d = buffer(g, AN_F32, 3);
    an_uop y = w;
    for (int i = 0; i < 50; i++) y = an_unary(g, i % 2 ? AN_OP_SIN : AN_OP_EXP2, y);
    const an_uop z = an_binary(g, AN_OP_MUL, y, x);
    const an_uop zeros = an_binary(g, AN_OP_ADD, an_unary(g, AN_OP_DETACH, z), an_unary(g, AN_OP_TRUNC, z));
    an_uop out = AN_UOP_NONE;
    uint32_t before = an_graph_len(g);
    CHECK_OK(t, jvp1(g, z, x, AN_UOP_NONE, &out));
    CHECK(t, is_zeros_like(g, out, z));
    CHECK_OK(t, jvp1(g, zeros, x, d, &out));
    CHECK(t, is_zeros_like(g, out, z));
    /* Only the product is differentiated: 50 nodes of y depend on no input. */
    CHECK_OK(t, jvp1(g, z, x, d, &out));
    CHECK(t, an_graph_len(g) - before < 50);
    CHECK(t, an_uop_op(g, out) != AN_OP_ADD);
}

/* Of a choice it is the tangent of what is chosen, not a sum with zeros. */
static void the_tangent_of_a_choice_is_a_choice(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), c = buffer(g, AN_BOOL, 3), d = buffer(g, AN_F32, 3);
    const an_uop y = an_select(g, c, x, an_binary(g, AN_OP_MUL, x, an_const_like(g, x, 2.0)));
    an_uop out = AN_UOP_NONE;
    CHECK_OK(t, jvp1(g, y, x, d, &out));
    CHECK_SAME(t, out, an_select(g, c, d, an_binary(g, AN_OP_MUL, d, an_const_like(g, x, 2.0))));
    CHECK_OK(t, jvp1(g, an_select(g, c, x, an_const_like(g, x, 2.0)), x, d, &out));
    CHECK_SAME(t, out, an_select(g, c, d, an_const_like(g, x, 0.0)));
}

static void an_input_has_the_tangent_given_and_hides_what_is_below(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), dx = buffer(g, AN_F32, 3), dy = buffer(g, AN_F32, 3);
    const an_uop y = an_unary(g, AN_OP_SIN, x), z = an_binary(g, AN_OP_ADD, y, x);
    const an_uop inputs[2] = {x, y}, outputs[3] = {x, y, z};
    an_uop out[3];
    CHECK_OK(t, an_jvp_uops(g, &(an_jvp_request){outputs, 3, inputs, (const an_uop[]){dx, dy}, 2}, out));
    CHECK_SAME(t, out[0], dx);
    CHECK_SAME(t, out[1], dy);
    CHECK_SAME(t, out[2], an_binary(g, AN_OP_ADD, dy, dx));
    /* and with a zero given for y, x alone counts */
    CHECK_OK(t, an_jvp_uops(g, &(an_jvp_request){outputs, 3, inputs, (const an_uop[]){dx, AN_UOP_NONE}, 2}, out));
    CHECK_SAME(t, out[2], dx);
}

static void tangent_nodes_have_their_phase_and_their_rule(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), d = buffer(g, AN_F32, 3);
    const an_uop y = an_binary(g, AN_OP_MUL, an_unary(g, AN_OP_EXP2, x), an_unary(g, AN_OP_SIN, x));
    const uint32_t before = an_graph_len(g);
    an_uop out = AN_UOP_NONE;
    CHECK_OK(t, jvp1(g, y, x, d, &out));
    int by_rule = 0;
    for (uint32_t id = before; id < an_graph_len(g); id++) {
        const an_node *n = an_node_of(g, (an_uop){id});
        const char *set = NULL;
        CHECK_EQ(t, n->phase, AN_PHASE_TANGENT);
        if (!an_rule_find(n->rule, &set)) continue;
        CHECK_STR(t, set, "jvp");
        by_rule++;
    }
    CHECK(t, by_rule > 5);
    CHECK_EQ(t, an_node_of(g, an_unary(g, AN_OP_ERF, out))->phase, AN_PHASE_FORWARD);
}

static void a_chain_a_hundred_thousand_deep_has_a_tangent(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), d = buffer(g, AN_F32, 3);
    an_uop y = x, out = AN_UOP_NONE;
    for (int i = 0; i < 100000; i++) y = an_unary(g, i % 2 ? AN_OP_SIN : AN_OP_EXP2, y);
    CHECK_OK(t, jvp1(g, y, x, d, &out));
    CHECK(t, an_shape_eq(an_uop_shape(g, out), an_uop_shape(g, x)));
}

/* --- mistakes ------------------------------------------------------------------------------------ */

static void mistakes_are_sentences(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(3), NULL), *i = an_tensor_from_host(g, AN_I32, AN_DIMS(3), NULL);
    an_tensor *d = an_tensor_from_host(g, AN_F32, AN_DIMS(3), NULL), *wide = an_tensor_from_host(g, AN_F64, AN_DIMS(3), NULL);
    an_tensor *more = an_tensor_from_host(g, AN_F32, AN_DIMS(4), NULL), *y = an_sin(x), *out = (an_tensor *)x, *none = NULL;
    CHECK_FAILS(t, an_jvp(&y, 1, &i, &d, 1, &out), AN_ERR_DTYPE, "input 0 is of dtype i32");
    CHECK_FAILS(t, an_jvp(&i, 1, &x, &d, 1, &out), AN_ERR_DTYPE, "output 0 is of dtype i32");
    CHECK_FAILS(t, an_jvp(&y, 1, &x, &wide, 1, &out), AN_ERR_DTYPE, "its tangent of dtype f64");
    CHECK_FAILS(t, an_jvp(&y, 1, &x, &more, 1, &out), AN_ERR_SHAPE, "input 0 has the shape (3,), its tangent (4,)");
    CHECK_FAILS(t, an_jvp(&y, 1, &none, &d, 1, &out), AN_ERR_ARG, "input 0 is NULL");
    CHECK_EQ(t, an_jvp(&none, 1, &x, &d, 1, &out), AN_ERR_ARG);
    CHECK_OK(t, an_realize(&y, 1));
    CHECK_FAILS(t, an_jvp(&y, 1, &x, &d, 1, &out), AN_ERR_ARG, "it was realized");
    CHECK(t, out == x);
    const an_uop b = buffer(g, AN_F32, 3);
    an_uop u = AN_UOP_NONE;
    CHECK_FAILS(t, jvp1(g, an_reduce_axis(g, AN_OP_XOR, b, 1), b, b, &u), AN_ERR_UNSUPPORTED, "reduce_axis");
    CHECK_FAILS(t, jvp1(g, AN_UOP_NONE, b, b, &u), AN_ERR_ARG, "no node");
}

static an_status differentiate(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_status st = an_graph_create(ctx, &g);
    if (st) return st;
    const an_uop x = buffer(g, AN_F32, 9), c = buffer(g, AN_F32, 9);
    an_uop y = x, out = AN_UOP_NONE;
    for (int i = 0; i < 20; i++)
        y = an_binary(g, AN_OP_DIV, an_binary(g, AN_OP_MUL, an_unary(g, AN_OP_LOG2, y), y), an_unary(g, AN_OP_SQRT, c));
    y = an_binary(g, AN_OP_MUL, y, an_expand_node(g, an_reduce_axis(g, AN_OP_MUL, y, 1), an_uop_shape(g, x).dims, 1));
    st = an_uop_is_none(y) ? AN_ERR_NOMEM : jvp1(g, y, x, c, &out);
    an_graph_destroy(g);
    return st;
}

static void every_failing_allocation_is_a_clean_error(an_test *t)
{
    an_test_every_alloc_failure(t, differentiate, NULL);
}

/* --- layers of nn: <u, J v> = <J^T u, v>, by x and all parameters at once, and differences of the loss ---------- */

static an_tensor *inner(an_tensor *a, an_tensor *b)
{
    return an_sum(an_mul(a, b), AN_ALL, false);
}

static double item(an_test *t, an_tensor *x)
{
    double v = (double)NAN;
    CHECK_OK(t, an_item_f64(x, &v));
    return v;
}

static an_tensor *random_like(an_rng *rng, an_tensor *x)
{
    int64_t dims[8];
    const uint32_t rank = an_tensor_rank(x);
    for (uint32_t i = 0; i < rank; i++) dims[i] = an_tensor_dim(x, (int)i);
    an_tensor *r = an_uniform(rng, AN_F64, dims, rank, -1.0, 1.0);
    return an_realize(&r, 1) ? NULL : r;
}

/* ds-derivative of inner(u, m(x)) at the parameters plus h times their directions */
static double shifted(an_test *t, an_module *m, an_tensor *x, an_tensor *u, an_tensor *const *in, an_tensor *const *d, size_t n, double h)
{
    an_tensor *start[16] = {NULL};
    for (size_t i = 0; i < n; i++) {
        start[i] = an_contiguous(an_add_scalar(in[i], 0.0));
        CHECK_OK(t, an_realize(&start[i], 1));
        CHECK_OK(t, an_assign(in[i], an_add(in[i], an_mul_scalar(d[i], h))));
        CHECK_OK(t, an_realize(&in[i], 1));
    }
    const double v = item(t, inner(u, an_module_forward(m, x)));
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(t, an_assign(in[i], start[i]));
        CHECK_OK(t, an_realize(&in[i], 1));
    }
    return v;
}

static void check_layer(an_test *t, const char *name, an_module *m, an_tensor *x)
{
    an_graph *g = an_module_graph(m);
    an_rng *rng = an_rng_from_seed(g, 5);
    const an_params params = an_module_parameters(m);
    an_tensor *in[16], *d[16], *grads[16], *out = NULL, *y = an_module_forward(m, x);
    size_t n = 0;
    if (an_dtype_kind_of(an_tensor_dtype(x)) == AN_KIND_FLOAT) in[n++] = x;
    for (size_t i = 0; i < params.n && n < 16; i++) in[n++] = params.items[i].tensor;
    CHECK(t, n > 0 && y != NULL);
    for (size_t i = 0; i < n; i++) d[i] = random_like(rng, in[i]);
    an_tensor *u = random_like(rng, y);
    CHECK_OK(t, an_jvp(&y, 1, in, d, n, &out));
    CHECK_OK(t, an_backward_from(y, u, in, n, grads));
    an_tensor *forward = inner(u, out), *reverse = an_scalar_f64(g, AN_F64, 0.0);
    for (size_t i = 0; i < n; i++) reverse = an_add(reverse, inner(grads[i], d[i]));
    an_tensor *both[2] = {forward, reverse};
    CHECK_OK(t, an_realize(both, 2));
    const double a = item(t, forward), b = item(t, reverse), h = ldexp(1.0, -12);
    const double difference = (shifted(t, m, x, u, in, d, n, h) - shifted(t, m, x, u, in, d, n, -h)) / (2.0 * h);
    if (!(fabs(a - b) <= 1e-11 * (1.0 + fabs(b)))) an_test_fail(__FILE__, __LINE__, "%s: <u, Jv> is %.17g, <J'u, v> %.17g", name, a, b);
    if (!(fabs(a - difference) <= 1e-5 * (1.0 + fabs(a))))
        an_test_fail(__FILE__, __LINE__, "%s: %.17g by rule, %.17g by differences", name, a, difference);
}

static void layers_agree_with_reverse_mode_and_differences(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_init init = {.graph = g, .seed = 3, .dtype = AN_F64};
    an_rng *rng = an_rng_from_seed(g, 1);
    an_tensor *image = an_normal(rng, AN_F64, AN_DIMS(2, 4, 5, 6), 0, 1), *rows = an_normal(rng, AN_F64, AN_DIMS(3, 6), 0, 1);
    static const int32_t ids[4] = {0, 2, 2, 6};
    an_tensor *words = an_tensor_from_host(g, AN_I32, AN_DIMS(4), ids);
    CHECK_OK(t, an_realize((an_tensor *const[]){image, rows}, 2));
    static const an_nn_conv_desc strided = {.conv = {.stride = {2, 1}, .pad_before = {1, 1}, .pad_after = {1, 0}, .groups = 2}};
    static const an_nn_conv_desc dilated = {.conv = {.dilation = {2, 2}, .pad_before = {2, 0}}, .no_bias = true};
    static const an_pool_desc pool = {.kernel = {2, 3}, .stride = {1, 2}};
    const struct {
        const char *name;
        an_module *m;
        an_tensor *x;
    } layers[] = {
        {"linear", an_nn_linear(&init, 6, 4, NULL), rows},
        {"conv, groups and stride", an_nn_conv2d(&init, 4, 6, 3, 3, &strided), image},
        {"conv, dilation", an_nn_conv2d(&init, 4, 2, 2, 3, &dilated), image},
        {"embedding", an_nn_embedding(&init, 7, 3), words},
        {"layer norm", an_nn_layer_norm(&init, AN_DIMS(6), NULL), rows},
        {"rms norm", an_nn_rms_norm(&init, AN_DIMS(5, 6), 1e-3), image},
        {"batch norm", an_nn_batch_norm(&init, 4, 0, 0), image},
        {"max pool", an_nn_max_pool2d(g, &pool), image},
        {"average pool", an_nn_avg_pool2d(g, &pool), image},
        {"mlp", an_nn_sequential(g, AN_MODULES(an_nn_linear(&init, 6, 5, NULL), an_nn_function(g, "gelu", an_gelu),
                                               an_nn_linear(&init, 5, 2, NULL))), rows},
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) check_layer(t, layers[i].name, layers[i].m, layers[i].x);
}

/* --- second derivatives against closed forms --------------------------------------------------------------- */

/* f = sum(exp(a x) sin(x)): its Hessian is diagonal, f'' = exp(a x) ((a^2 - 1) sin x + 2 a cos x). */
static void hessian_vector_products_are_those_of_a_closed_form(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    const double at[4] = {-1.0, 0.0, 0.5, 2.0}, direction[4] = {1.0, -2.0, 0.25, 3.0}, a = 0.75;
    an_tensor *x = an_tensor_from_host(g, AN_F64, AN_DIMS(4), at), *v = an_tensor_from_host(g, AN_F64, AN_DIMS(4), direction);
    an_tensor *f = inner(an_exp(an_mul_scalar(x, a)), an_sin(x)), *grad = NULL, *jvp = NULL, *hv[2] = {NULL, NULL}, *vhv = NULL;
    CHECK_OK(t, an_backward(f, &x, 1, &grad));
    CHECK_OK(t, an_jvp(&grad, 1, &x, &v, 1, &hv[0]));
    CHECK_OK(t, an_jvp(&f, 1, &x, &v, 1, &jvp));
    CHECK_OK(t, an_backward(jvp, &x, 1, &hv[1]));
    CHECK_OK(t, an_jvp(&jvp, 1, &x, &v, 1, &vhv));
    double got[4], want = 0.0;
    for (int way = 0; way < 2; way++) {
        CHECK_OK(t, an_tensor_read(hv[way], got, sizeof got));
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(t, got[i], direction[i] * exp(a * at[i]) * ((a * a - 1) * sin(at[i]) + 2 * a * cos(at[i])), 1e-14);
    }
    for (int i = 0; i < 4; i++) want += direction[i] * got[i];
    CHECK_NEAR(t, item(t, vhv), want, 1e-14);
}

/* --- replayed, and with a symbolic axis ---------------------------------------------------------------------- */

static void a_plan_replays_tangents_with_new_inputs(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const float zeros[3] = {0};
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(3), zeros), *d = an_tensor_from_host(g, AN_F32, AN_DIMS(3), zeros);
    an_tensor *y = an_square(x), *out[2] = {y, NULL};
    an_plan *plan = NULL;
    CHECK_OK(t, an_jvp(&y, 1, &x, &d, 1, &out[1]));
    CHECK_OK(t, an_plan_create(g, out, 2, NULL, &plan));
    for (int run = 1; run <= 3; run++) {
        const float at[3] = {1.0f, -2.0f, (float)run}, along[3] = {(float)run, 1.0f, 0.5f};
        float got[3];
        CHECK_OK(t, an_tensor_write(x, at, sizeof at));
        CHECK_OK(t, an_tensor_write(d, along, sizeof along));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_tensor_read(out[1], got, sizeof got));
        for (int i = 0; i < 3; i++) CHECK(t, got[i] == 2.0f * at[i] * along[i]);
    }
    an_plan_destroy(plan);
}

/* y = softmax(x) . w over the first n of 8 numbers, for n bound at each run. */
static void tangents_of_a_symbolic_axis_follow_what_is_bound(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const double at[8] = {0.5, -1, 2, 0, 0.25, 1, -2, 3}, along[8] = {1, 2, -1, 0.5, 0, 3, 1, -2};
    an_tensor *x = an_tensor_from_host(g, AN_F64, AN_DIMS(8), at), *d = an_tensor_from_host(g, AN_F64, AN_DIMS(8), along);
    const an_uop n = an_symbol(g, "n", 1, 8), zero = an_dim(g, 0);
    an_tensor *e = an_exp(an_shrink_uop(x, &zero, &n, 1)), *y = an_log(an_sum(e, AN_ALL, false)), *out = NULL;
    an_plan *plan = NULL;
    CHECK_OK(t, an_jvp(&y, 1, &x, &d, 1, &out));
    CHECK_OK(t, an_plan_create(g, &out, 1, NULL, &plan));
    for (int64_t bound = 1; bound <= 8; bound += 3) {
        double top = 0.0, bottom = 0.0, got = 0.0;
        for (int64_t i = 0; i < bound; i++) {
            top += exp(at[i]) * along[i];
            bottom += exp(at[i]);
        }
        CHECK_OK(t, an_plan_bind(plan, "n", bound));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_item_f64(out, &got));
        CHECK_NEAR(t, got, top / bottom, 1e-13);
    }
    an_plan_destroy(plan);
}

AN_TEST_MAIN(AN_CASE(zero_tangents_make_no_nodes), AN_CASE(the_tangent_of_a_choice_is_a_choice),
             AN_CASE(an_input_has_the_tangent_given_and_hides_what_is_below),
             AN_CASE(tangent_nodes_have_their_phase_and_their_rule),
             AN_CASE(a_chain_a_hundred_thousand_deep_has_a_tangent),
             AN_CASE(mistakes_are_sentences),
             AN_CASE(every_failing_allocation_is_a_clean_error),
             AN_CASE(layers_agree_with_reverse_mode_and_differences),
             AN_CASE(hessian_vector_products_are_those_of_a_closed_form),
             AN_CASE(a_plan_replays_tangents_with_new_inputs),
             AN_CASE(tangents_of_a_symbolic_axis_follow_what_is_bound))
