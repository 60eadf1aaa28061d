/* test_memory.c - memory between kernels: shared, kept under a budget by computing again, and the same bits whatever is done. */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/plan.h>
#include <anneal/settings.h>

#include <stdio.h>
#include <string.h>

enum { LAYERS = 10, WIDTH = 64, BATCH = 32, STEPS = 3 };

typedef struct outcome {
    float losses[STEPS], weight[WIDTH];
    size_t nbytes, unplanned, nkernels;
} outcome;

/* A step of a deep network under these settings: each layer keeps what its gradient needs. */
static an_status train(an_test *t, an_settings settings, outcome *out)
{
    an_graph *g = NULL;
    an_plan *plan = NULL;
    an_tensor *w[LAYERS], *grads[LAYERS], *outs[LAYERS + 1];
    float data[WIDTH * WIDTH];
    CHECK_OK(t, an_ctx_set_settings(t->ctx, settings));
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    for (int i = 0; i < WIDTH * WIDTH; i++) data[i] = (float)((i * 7919) % 257 - 128) / 1024;
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(BATCH, WIDTH), data), *h = x;
    for (int i = 0; i < LAYERS; i++) {
        w[i] = an_tensor_from_host(g, AN_F32, AN_DIMS(WIDTH, WIDTH), data);
        h = an_gelu(an_linear(an_rms_norm(h, 1, NULL, 1e-5), w[i], NULL));
    }
    an_tensor *loss = an_mean(an_square(h), AN_ALL, false);
    CHECK_OK(t, an_backward(loss, w, LAYERS, grads));
    for (int i = 0; i < LAYERS; i++) CHECK_OK(t, an_assign(w[i], an_sub(w[i], an_mul_scalar(grads[i], 0.1))));
    memcpy(outs, w, sizeof w);
    outs[LAYERS] = loss;
    const an_status st = an_plan_create(g, outs, LAYERS + 1, NULL, &plan);
    for (int s = 0; s < STEPS && !st; s++) {
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_tensor_read(loss, &out->losses[s], sizeof out->losses[s]));
    }
    if (!st) {
        float all[WIDTH * WIDTH];
        CHECK_OK(t, an_tensor_read(w[0], all, sizeof all));
        memcpy(out->weight, all, sizeof out->weight);
        out->nbytes = an_plan_nbytes(plan);
        out->unplanned = an_plan_nbytes_unplanned(plan);
        out->nkernels = an_plan_kernel_count(plan);
    }
    an_plan_destroy(plan);
    an_graph_destroy(g);
    return st;
}

static void check_same(an_test *t, const outcome *a, const outcome *b)
{
    CHECK(t, memcmp(a->losses, b->losses, sizeof a->losses) == 0);
    CHECK(t, memcmp(a->weight, b->weight, sizeof a->weight) == 0);
}

static void sharing_memory_changes_no_bit(an_test *t)
{
    static outcome shared, apart;
    CHECK_OK(t, train(t, (an_settings){0}, &shared));
    CHECK_OK(t, train(t, (an_settings){.no_reuse = true}, &apart));
    printf("    %zu bytes, %zu apart\n", shared.nbytes, apart.nbytes);
    CHECK_EQ(t, apart.nbytes, apart.unplanned);
    CHECK_EQ(t, shared.unplanned, apart.unplanned);
    CHECK(t, shared.nbytes < apart.nbytes);
    check_same(t, &shared, &apart);
}

static void a_budget_is_kept_by_computing_again(an_test *t)
{
    static outcome free_of, tight;
    CHECK_OK(t, train(t, (an_settings){0}, &free_of));
    for (int percent = 90; percent >= 60; percent -= 10) {
        const size_t budget = free_of.nbytes * (size_t)percent / 100;
        CHECK_OK(t, train(t, (an_settings){.memory_budget = budget}, &tight));
        printf("    budget %zu of %zu: %zu bytes, %zu kernels of %zu\n", budget, free_of.nbytes, tight.nbytes, tight.nkernels, free_of.nkernels);
        CHECK(t, tight.nbytes <= budget);
        CHECK(t, tight.nkernels > free_of.nkernels);
        check_same(t, &free_of, &tight);
    }
    /* Half of what it takes when nothing is shared. */
    CHECK_OK(t, train(t, (an_settings){.memory_budget = free_of.unplanned / 2}, &tight));
    CHECK(t, tight.nbytes <= free_of.unplanned / 2);
    check_same(t, &free_of, &tight);
}

static void a_budget_that_cannot_be_kept_is_a_sentence(an_test *t)
{
    static outcome out;
    CHECK_FAILS(t, train(t, (an_settings){.memory_budget = 1}, &out), AN_ERR_LIMIT, "the memory budget of 1 bytes between kernels is too small");
}

static void buffers_that_are_used_at_once_do_not_overlap(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_plan *plan = NULL;
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(16, 16), NULL), *y = x;
    for (int i = 0; i < 6; i++) y = an_softmax(an_matmul(y, an_add_scalar(x, i)), 0);
    CHECK_OK(t, an_plan_create(g, &y, 1, NULL, &plan));
    const size_t n = an_plan_buffer_count(plan);
    size_t ntemps = 0, nothers = 0, end = 0;
    for (size_t i = 0; i < n; i++) {
        const an_buffer_info a = an_plan_buffer(plan, i);
        CHECK(t, a.nbytes && a.first <= a.last && a.last < an_plan_kernel_count(plan));
        nothers += !a.is_temporary;
        if (!a.is_temporary) continue;
        ntemps++;
        CHECK(t, a.is_written && a.name[0]);
        end = a.offset + a.nbytes > end ? a.offset + a.nbytes : end;
        for (size_t k = 0; k < i; k++) {
            const an_buffer_info b = an_plan_buffer(plan, k);
            if (!b.is_temporary || a.last < b.first || b.last < a.first) continue;
            CHECK(t, a.offset + a.nbytes <= b.offset || b.offset + b.nbytes <= a.offset);
        }
    }
    CHECK(t, ntemps > 3);
    CHECK_EQ(t, nothers, 2); /* x and y */
    CHECK(t, end <= an_plan_nbytes(plan));
    an_plan_destroy(plan);
}

enum { SIDE = 64, LINKS = 6 };

/* LINKS kernels, one after the other; turned: each reads its input from the other end. */
static size_t chain(an_test *t, an_settings settings, bool turned, float out[SIDE])
{
    an_graph *g = NULL;
    an_plan *plan = NULL;
    static float data[SIDE * SIDE + LINKS];
    CHECK_OK(t, an_ctx_set_settings(t->ctx, settings));
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    for (int i = 0; i < SIDE * SIDE + LINKS; i++) data[i] = (float)(i % 251 - 100) / 64;
    an_tensor *w = an_tensor_from_host(g, AN_F32, AN_DIMS(SIDE, SIDE), data), *x = w;
    for (int i = 0; i < LINKS; i++) { /* with a product each, so that they stay kernels of their own */
        an_tensor *product = an_matmul(w, an_tensor_from_host(g, AN_F32, AN_DIMS(SIDE, SIDE), data + i));
        x = an_contiguous(an_add(turned ? an_flip(x, AN_DIMS(0)) : x, an_mul_scalar(product, 0.125)));
    }
    x = an_sum(x, AN_DIMS(1), false);
    CHECK_OK(t, an_plan_create(g, &x, 1, NULL, &plan));
    CHECK_OK(t, an_plan_run(plan));
    CHECK_OK(t, an_tensor_read(x, out, SIDE * sizeof *out));
    const size_t nbytes = an_plan_nbytes(plan);
    an_plan_destroy(plan);
    an_graph_destroy(g);
    return nbytes;
}

static void a_kernel_writes_over_what_dies_in_it_if_it_reads_nothing_else_of_that(an_test *t)
{
    const size_t one = SIDE * SIDE * sizeof(float);
    float want[SIDE], got[SIDE];
    for (int turned = 0; turned < 2; turned++) {
        CHECK_EQ(t, chain(t, (an_settings){.no_reuse = true}, turned, want), LINKS * one);
        CHECK_EQ(t, chain(t, (an_settings){0}, turned, got), turned ? 2 * one : one);
        CHECK(t, memcmp(want, got, sizeof want) == 0);
    }
}

/* What is read again later is not written over, nor what is read at two places. */
static void what_is_needed_later_is_not_written_over(an_test *t)
{
    for (int way = 0; way < 2; way++) {
        an_graph *g = NULL;
        an_plan *plan = NULL;
        float data[SIDE], got[SIDE];
        CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){0}));
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        for (int i = 0; i < SIDE; i++) data[i] = (float)i;
        an_tensor *x = an_contiguous(an_add_scalar(an_tensor_from_host(g, AN_F32, AN_DIMS(SIDE), data), 1)), *y;
        if (way == 0) { /* x twice */
            y = an_contiguous(an_mul_scalar(x, 2));
            y = an_add(an_contiguous(an_add_scalar(y, 3)), x);
        } else { /* x[i] and x[n - 1 - i] */
            y = an_contiguous(an_sub(an_mul_scalar(x, 3), an_flip(x, AN_DIMS(0))));
        }
        y = an_contiguous(an_neg(y));
        CHECK_OK(t, an_plan_create(g, &y, 1, NULL, &plan));
        for (int run = 0; run < 2; run++) {
            CHECK_OK(t, an_plan_run(plan));
            CHECK_OK(t, an_tensor_read(y, got, sizeof got));
            for (int i = 0; i < SIDE; i++)
                CHECK_NEAR(t, got[i], way ? -(3.0 * (i + 1) - (SIDE - i)) : -(2.0 * (i + 1) + 3 + (i + 1)), 0);
        }
        an_plan_destroy(plan);
        an_graph_destroy(g);
    }
}

/* Though most is held elsewhere: fewer bytes are touched. */
static void a_kernel_writes_over_what_dies_in_it_where_that_saves_no_memory(an_test *t)
{
    enum { HELD = 3 };
    static float data[SIDE * SIDE + HELD];
    an_graph *g = NULL;
    an_plan *plan = NULL;
    an_tensor *held[HELD];
    size_t ntemps = 0;
    CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){0}));
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    an_tensor *w = an_tensor_from_host(g, AN_F32, AN_DIMS(SIDE, SIDE), data), *x = NULL;
    for (int i = 0; i < HELD; i++) {
        held[i] = an_contiguous(an_matmul(w, an_tensor_from_host(g, AN_F32, AN_DIMS(SIDE, SIDE), data + i)));
        x = x ? an_add(x, an_flip(held[i], AN_DIMS(0))) : an_flip(held[i], AN_DIMS(0));
    }
    x = an_contiguous(x);
    an_tensor *rows = an_contiguous(an_sum(x, AN_DIMS(1), true));
    x = an_contiguous(an_add(x, an_flip(rows, AN_DIMS(0)))); /* turned, so that no two kernels become one */
    x = an_sum(an_flip(x, AN_DIMS(0)), AN_DIMS(1), false);
    CHECK_OK(t, an_plan_create(g, &x, 1, NULL, &plan));
    for (size_t i = 0; i < an_plan_buffer_count(plan); i++) ntemps += an_plan_buffer(plan, i).is_temporary;
    CHECK_EQ(t, an_plan_nbytes(plan), (HELD + 1) * SIDE * SIDE * sizeof(float));
    CHECK_EQ(t, ntemps, HELD + 2); /* with x and rows */
    an_plan_destroy(plan);
    an_graph_destroy(g);
}

AN_TEST_MAIN(AN_CASE(sharing_memory_changes_no_bit), AN_CASE(a_kernel_writes_over_what_dies_in_it_if_it_reads_nothing_else_of_that),
             AN_CASE(a_kernel_writes_over_what_dies_in_it_where_that_saves_no_memory),
             AN_CASE(what_is_needed_later_is_not_written_over), AN_CASE(a_budget_is_kept_by_computing_again),
             AN_CASE(a_budget_that_cannot_be_kept_is_a_sentence), AN_CASE(buffers_that_are_used_at_once_do_not_overlap))
