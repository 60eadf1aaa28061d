/* test_backward.c - the reverse sweep: what it visits, what its nodes remember, its errors. Values are in test_grad.c. */
#include "autodiff/autodiff.h"
#include "rewrite/rewrite.h"

#include "an_test.h"

#include <stdio.h>

static an_uop buffer(an_graph *g, an_dtype dtype, int64_t n)
{
    const an_uop dim = an_index(g, n);
    return an_buffer_node(g, dtype, &dim, 1);
}

static an_uop sum(an_graph *g, an_uop x)
{
    return an_reduce_axis(g, AN_OP_ADD, x, (1u << an_uop_shape(g, x).rank) - 1);
}

/* --- rules and tables ---------------------------------------------------------------------------- */

static bool rule_matches(const an_grad_ruleset *set, an_op op)
{
    for (uint32_t i = 0; i < set->nrules; i++)
        if (set->rules[i].nops && set->rules[i].ops[0] == op) return true;
    return false;
}

/* Of reverse mode, and of forward mode. */
static void every_tensor_op_has_rules_or_a_reason_for_none(an_test *t)
{
    static const an_grad_ruleset *const sets[] = {&an_rules_grad, &an_rules_jvp};
    int wrong = 0;
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        for (int op = 1; op < AN_OP_COUNT; op++) {
            if (an_op_has((an_op)op, AN_TRAIT_KERNEL)) continue;
            const bool rule = rule_matches(sets[s], (an_op)op), reason = an_nondiff_reason((an_op)op) != NULL;
            if (rule == reason) {
                printf("%s: %s %s.upat %s nondiff.def\n", an_op_info_of((an_op)op)->text, rule ? "in" : "neither in",
                       sets[s]->name, rule ? "and in" : "nor in");
                wrong++;
            }
        }
    }
    CHECK_EQ(t, wrong, 0);
}

static void ops_inside_kernels_are_not_listed_as_non_differentiable(an_test *t)
{
    for (int op = 1; op < AN_OP_COUNT; op++)
        if (an_op_has((an_op)op, AN_TRAIT_KERNEL)) CHECK(t, NULL == an_nondiff_reason((an_op)op));
}

/* --- what is visited ----------------------------------------------------------------------------- */

static void a_wrt_the_loss_does_not_reach_gets_zeros_of_its_shape(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), y = buffer(g, AN_F64, 5);
    an_uop grad = AN_UOP_NONE;
    CHECK_OK(t, an_backward_uops(g, sum(g, x), AN_UOP_NONE, &y, 1, &grad));
    CHECK_EQ(t, an_uop_dtype(g, grad), AN_F64);
    CHECK(t, an_shape_eq(an_uop_shape(g, grad), an_uop_shape(g, y)));
    while (an_op_has(an_uop_op(g, grad), AN_TRAIT_MOVE)) grad = an_uop_src(g, grad, 0);
    CHECK(t, an_uop_is_number(g, grad, 0.0));
}

static void the_loss_itself_has_the_cotangent_as_gradient(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), c = buffer(g, AN_F32, 3);
    an_uop grad = AN_UOP_NONE;
    CHECK_OK(t, an_backward_uops(g, x, c, &x, 1, &grad));
    CHECK(t, an_uop_eq(grad, c));
}

static void an_intermediate_node_gets_its_cotangent_and_lets_it_through(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), c = buffer(g, AN_F32, 3);
    const an_uop y = an_unary(g, AN_OP_CONTIGUOUS, x), z = an_uop_neg(g, y);
    const an_uop wrt[2] = {x, y};
    an_uop grads[2] = {AN_UOP_NONE, AN_UOP_NONE};
    CHECK_OK(t, an_backward_uops(g, z, c, wrt, 2, grads));
    CHECK(t, an_uop_eq(grads[0], grads[1]));
    CHECK(t, an_uop_eq(grads[1], an_uop_neg(g, c)));
}

static void two_leaves_of_one_constant_get_gradients_of_their_own(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop two = an_const_float(g, AN_F32, 2.0);
    const an_uop wrt[2] = {an_leaf(g, two), an_leaf(g, two)};
    an_uop grads[2] = {AN_UOP_NONE, AN_UOP_NONE};
    const an_uop loss = an_binary(g, AN_OP_ADD, wrt[0], an_binary(g, AN_OP_MUL, wrt[1], an_const_like(g, two, 3.0)));
    CHECK_OK(t, an_backward_uops(g, loss, AN_UOP_NONE, wrt, 2, grads));
    CHECK(t, an_uop_is_number(g, grads[0], 1.0));
    CHECK(t, !an_uop_eq(grads[0], grads[1]));
}

static void detach_and_integers_stop_the_sweep(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3);
    const an_uop paths[3] = {
        an_unary(g, AN_OP_DETACH, x),
        an_cast_to(g, AN_F32, an_cast_to(g, AN_I32, x)),
        an_unary(g, AN_OP_TRUNC, x),
    };
    for (int i = 0; i < 3; i++) {
        an_uop grad = AN_UOP_NONE;
        CHECK_OK(t, an_backward_uops(g, paths[i], AN_UOP_NONE, &x, 1, &grad));
        while (an_op_has(an_uop_op(g, grad), AN_TRAIT_MOVE)) grad = an_uop_src(g, grad, 0);
        CHECK(t, an_uop_is_number(g, grad, 0.0));
    }
}

static void branches_that_reach_no_wrt_are_not_swept(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), y = buffer(g, AN_F32, 3);
    an_uop deep = y;
    for (int i = 0; i < 1000; i++) deep = an_unary(g, AN_OP_SIN, deep);
    const an_uop loss = an_binary(g, AN_OP_ADD, x, deep);
    const uint32_t before = an_graph_len(g);
    an_uop grad = AN_UOP_NONE;
    CHECK_OK(t, an_backward_uops(g, loss, AN_UOP_NONE, &x, 1, &grad));
    CHECK(t, an_graph_len(g) - before < 50);
}

static void a_scalar_operand_gets_the_sum_over_what_it_was_broadcast_to(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), s = an_leaf(g, an_const_float(g, AN_F32, 2.0));
    an_uop grad = AN_UOP_NONE;
    CHECK_OK(t, an_backward_uops(g, an_binary(g, AN_OP_ADD, x, s), AN_UOP_NONE, &s, 1, &grad));
    CHECK_EQ(t, an_uop_shape(g, grad).rank, 0);
}

/* --- what nodes remember ------------------------------------------------------------------------- */

static void gradient_nodes_have_the_backward_phase_and_their_rule(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3);
    const an_uop y = an_binary(g, AN_OP_MUL, an_unary(g, AN_OP_EXP2, x), an_unary(g, AN_OP_SIN, x));
    const uint32_t before = an_graph_len(g);
    an_uop grad = AN_UOP_NONE;
    CHECK_OK(t, an_backward_uops(g, y, AN_UOP_NONE, &x, 1, &grad));
    int by_rule = 0;
    for (uint32_t id = before; id < an_graph_len(g); id++) {
        const an_node *n = an_node_of(g, (an_uop){id});
        CHECK_EQ(t, n->phase, AN_PHASE_BACKWARD);
        const char *set = NULL;
        const an_rule_info *rule = an_rule_find(n->rule, &set);
        if (!rule) continue;
        CHECK_STR(t, set, "grad");
        by_rule++;
    }
    CHECK(t, by_rule > 5);
    CHECK(t, NULL != an_rule_find(an_node_of(g, grad)->rule, NULL));
    /* and what comes after is forward again, made by nobody */
    const an_node *next = an_node_of(g, an_unary(g, AN_OP_ERF, grad));
    CHECK_EQ(t, next->phase, AN_PHASE_FORWARD);
    CHECK_EQ(t, next->rule, 0);
}

/* y = sin(x) + exp2(x) + x*x built in two orders: the sums of cotangents must be one graph. */
static void the_order_of_building_does_not_change_the_gradient(an_test *t)
{
    an_key keys[2];
    for (int reversed = 0; reversed < 2; reversed++) {
        an_graph *g = NULL;
        CHECK_EQ(t, an_graph_create(t->ctx, &g), AN_OK);
        const an_uop x = buffer(g, AN_F32, 3);
        an_uop parts[3] = {AN_UOP_NONE, AN_UOP_NONE, AN_UOP_NONE};
        for (int k = 0; k < 3; k++) {
            const int i = reversed ? 2 - k : k;
            if (i == 0) parts[i] = an_unary(g, AN_OP_SIN, x);
            if (i == 1) parts[i] = an_unary(g, AN_OP_EXP2, x);
            if (i == 2) parts[i] = an_binary(g, AN_OP_MUL, x, x);
        }
        const an_uop y = an_binary(g, AN_OP_ADD, an_binary(g, AN_OP_ADD, parts[0], parts[1]), parts[2]);
        an_uop grad = AN_UOP_NONE;
        CHECK_OK(t, an_backward_uops(g, y, AN_UOP_NONE, &x, 1, &grad));
        CHECK_EQ(t, an_uop_key(g, &grad, 1, &keys[reversed]), AN_OK);
        an_graph_destroy(g);
    }
    CHECK(t, an_key_eq(keys[0], keys[1]));
}

static void a_chain_a_hundred_thousand_deep_is_differentiated(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3);
    an_uop y = x;
    for (int i = 0; i < 100000; i++) y = an_unary(g, i % 2 ? AN_OP_SIN : AN_OP_EXP2, y);
    an_uop grad = AN_UOP_NONE;
    CHECK_OK(t, an_backward_uops(g, y, AN_UOP_NONE, &x, 1, &grad));
    CHECK(t, an_shape_eq(an_uop_shape(g, grad), an_uop_shape(g, x)));
}

/* --- contractions and masks ------------------------------------------------------------------------ */

static bool has_op(an_test *t, an_graph *g, an_uop root, an_op op)
{
    an_uop_vec order = {0};
    bool found = false;
    CHECK_EQ(t, an_toposort(g, &root, 1, &order), AN_OK);
    for (size_t i = 0; i < order.len; i++) found = found || an_uop_op(g, order.data[i]) == op;
    an_vec_fini(an_graph_ctx(g), &order);
    return found;
}

static void products_of_finite_factors_carry_no_mask(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), y = buffer(g, AN_F32, 3);
    an_uop grad = AN_UOP_NONE;
    CHECK_OK(t, an_backward_uops(g, an_binary(g, AN_OP_MUL, x, an_unary(g, AN_OP_SIN, y)), AN_UOP_NONE, &x, 1,
                                      &grad));
    CHECK(t, !has_op(t, g, grad, AN_OP_WHERE));
    CHECK_OK(t, an_backward_uops(g, an_binary(g, AN_OP_MUL, x, an_unary(g, AN_OP_LOG2, y)), AN_UOP_NONE, &x,
                                      1, &grad));
    CHECK(t, has_op(t, g, grad, AN_OP_WHERE));
}

/* A matrix product multiplies two broadcasts: a mask would be in its innermost loop. */
static void contractions_carry_no_mask(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop row_dims[2] = {an_index(g, 3), an_index(g, 1)}, column_dims[2] = {an_index(g, 1), an_index(g, 4)};
    const an_uop dims[2] = {an_index(g, 3), an_index(g, 4)};
    const an_uop x = an_buffer_node(g, AN_F32, row_dims, 2), y = an_buffer_node(g, AN_F32, column_dims, 2);
    const an_uop p = an_unary(g, AN_OP_EXP2, y);
    const an_uop product = an_binary(g, AN_OP_MUL, an_expand_node(g, x, dims, 2), an_expand_node(g, p, dims, 2));
    an_uop grad = AN_UOP_NONE;
    CHECK_OK(t, an_backward_uops(g, sum(g, product), AN_UOP_NONE, &x, 1, &grad));
    CHECK(t, !has_op(t, g, grad, AN_OP_WHERE));
}

/* --- mistakes ------------------------------------------------------------------------------------ */

static void integers_have_no_gradient_and_the_error_says_so(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3), i = buffer(g, AN_I32, 3);
    an_uop grad = {77};
    CHECK_FAILS(t, an_backward_uops(g, i, AN_UOP_NONE, &x, 1, &grad), AN_ERR_DTYPE, "i32");
    CHECK_FAILS(t, an_backward_uops(g, x, AN_UOP_NONE, &i, 1, &grad), AN_ERR_DTYPE, "operand 0");
    CHECK_EQ(t, grad.id, 77);
    CHECK_FAILS(t, an_backward_uops(g, AN_UOP_NONE, AN_UOP_NONE, &x, 1, &grad), AN_ERR_ARG, "no node");
}

static void an_op_without_a_rule_is_named(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop x = buffer(g, AN_F32, 3);
    an_uop grad = AN_UOP_NONE;
    CHECK_FAILS(t, an_backward_uops(g, an_reduce_axis(g, AN_OP_XOR, x, 1), AN_UOP_NONE, &x, 1, &grad), AN_ERR_UNSUPPORTED,
                "reduce_axis");
}

/* --- out of memory --------------------------------------------------------------------------------- */

static an_status differentiate(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_status st = an_graph_create(ctx, &g);
    if (st) return st;
    const an_uop x = buffer(g, AN_F32, 9), c = buffer(g, AN_F32, 9);
    an_uop y = x;
    for (int i = 0; i < 20; i++)
        y = an_binary(g, AN_OP_DIV, an_binary(g, AN_OP_MUL, an_unary(g, AN_OP_LOG2, y), y), an_unary(g, AN_OP_SQRT, c));
    y = an_binary(g, AN_OP_MUL, y, an_expand_node(g, an_reduce_axis(g, AN_OP_MUL, y, 1), an_uop_shape(g, x).dims, 1));
    an_uop grad = AN_UOP_NONE;
    st = an_uop_is_none(y) ? AN_ERR_NOMEM : an_backward_uops(g, sum(g, y), AN_UOP_NONE, &x, 1, &grad);
    an_graph_destroy(g);
    return st;
}

static void every_failing_allocation_is_a_clean_error(an_test *t)
{
    an_test_every_alloc_failure(t, differentiate, NULL);
}

AN_TEST_MAIN(AN_CASE(every_tensor_op_has_rules_or_a_reason_for_none),
             AN_CASE(ops_inside_kernels_are_not_listed_as_non_differentiable),
             AN_CASE(a_wrt_the_loss_does_not_reach_gets_zeros_of_its_shape),
             AN_CASE(the_loss_itself_has_the_cotangent_as_gradient),
             AN_CASE(an_intermediate_node_gets_its_cotangent_and_lets_it_through),
             AN_CASE(two_leaves_of_one_constant_get_gradients_of_their_own),
             AN_CASE(detach_and_integers_stop_the_sweep),
             AN_CASE(branches_that_reach_no_wrt_are_not_swept),
             AN_CASE(a_scalar_operand_gets_the_sum_over_what_it_was_broadcast_to),
             AN_CASE(gradient_nodes_have_the_backward_phase_and_their_rule),
             AN_CASE(the_order_of_building_does_not_change_the_gradient),
             AN_CASE(a_chain_a_hundred_thousand_deep_is_differentiated),
             AN_CASE(products_of_finite_factors_carry_no_mask),
             AN_CASE(contractions_carry_no_mask),
             AN_CASE(integers_have_no_gradient_and_the_error_says_so),
             AN_CASE(an_op_without_a_rule_is_named),
             AN_CASE(every_failing_allocation_is_a_clean_error))
