/* test_schedules.c - schedules kept by structural key: found again for the same computation, whatever order it was built in, never
 * for another, nor under other settings; and bytes that are no schedule are refused. */
#define _DEFAULT_SOURCE /* setenv */
#include "an_test.h"
#include "folder.h"

#include "runtime/plan.h"
#include "tensor/tensor.h"
#include <anneal/grad.h>

#include <stdio.h>
#include <stdlib.h>

enum { IN = 6, HIDDEN = 5, OUT = 3, BATCH = 4 };

typedef struct net {
    an_graph *g;
    an_tensor *x, *y, *w1, *w2, *loss, *outs[3];
} net;

static an_tensor *numbers(an_graph *g, int64_t rows, int64_t cols, int seed)
{
    float data[64];
    for (int i = 0; i < rows * cols; i++) data[i] = (float)((i * 37 + seed * 11) % 19 - 9) / 8;
    return an_tensor_from_host(g, AN_F32, AN_DIMS(rows, cols), data);
}

/* The step of a small network; reversed: everything that can be is made in the other order. */
static void make(an_test *t, net *n, const char *device, bool reversed, int64_t hidden)
{
    *n = (net){0};
    CHECK_OK(t, an_graph_create(t->ctx, &n->g));
    CHECK_OK(t, an_graph_set_device(n->g, device));
    for (int i = 0; i < 4; i++) {
        switch (reversed ? 3 - i : i) {
        case 0: n->x = numbers(n->g, BATCH, IN, 1); break;
        case 1: n->w1 = numbers(n->g, hidden, IN, 2); break;
        case 2: n->w2 = numbers(n->g, OUT, hidden, 3); break;
        default: n->y = numbers(n->g, BATCH, OUT, 4); break;
        }
    }
    if (reversed) (void)an_exp(an_sum(n->y, AN_DIMS(1), false)); /* nodes that nobody asks for */
    an_tensor *h = an_tanh(an_linear(n->x, n->w1, NULL));
    an_tensor *out = an_linear(h, n->w2, NULL);
    n->loss = an_mean(an_square(an_sub(out, n->y)), AN_ALL, false);
    an_tensor *w[2] = {n->w1, n->w2}, *grads[2];
    CHECK_OK(t, an_backward(n->loss, w, 2, grads));
    for (int i = 0; i < 2; i++) {
        const int k = reversed ? 1 - i : i;
        CHECK_OK(t, an_assign(w[k], an_sub(w[k], an_mul_scalar(grads[k], 0.1))));
    }
    n->outs[0] = n->loss;
    n->outs[1] = n->w1;
    n->outs[2] = n->w2;
}

static void step(an_test *t, net *n, bool *kept, float *values, an_key *key)
{
    an_plan *plan = NULL;
    CHECK_OK(t, an_plan_create(n->g, n->outs, 3, NULL, &plan));
    *kept = plan->is_schedule_kept;
    *key = plan->key;
    CHECK_OK(t, an_plan_run(plan));
    CHECK_OK(t, an_tensor_read(n->loss, values, sizeof(float)));
    CHECK_OK(t, an_tensor_read(n->w2, values + 1, OUT * HIDDEN * sizeof(float)));
    an_plan_destroy(plan);
    an_graph_destroy(n->g);
}

static void the_same_network_built_in_another_order_is_found(an_test *t)
{
    float first[1 + OUT * HIDDEN], second[1 + OUT * HIDDEN];
    bool kept = true;
    an_key a = {0}, b = {0};
    net n;
    make(t, &n, "interp", false, HIDDEN);
    step(t, &n, &kept, first, &a);
    CHECK(t, !kept);
    make(t, &n, "interp", true, HIDDEN);
    step(t, &n, &kept, second, &b);
    CHECK(t, an_key_eq(a, b));
    CHECK(t, kept);
    CHECK(t, memcmp(first, second, sizeof first) == 0);
}

static an_key key_of(an_test *t, const char *device, int64_t hidden)
{
    net n;
    an_plan *plan = NULL;
    make(t, &n, device, false, hidden);
    CHECK_OK(t, an_plan_create(n.g, n.outs, 3, NULL, &plan));
    const an_key key = plan->key;
    an_plan_destroy(plan);
    an_graph_destroy(n.g);
    return key;
}

static void every_setting_is_in_the_key(an_test *t)
{
    an_key keys[32];
    size_t n = 0;
    char folder[TEST_PATH_SIZE];
    an_test_folder(folder);
    CHECK(t, setenv("XDG_CACHE_HOME", folder, 1) == 0);
    CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){0}));
    keys[n++] = key_of(t, "interp", HIDDEN);
#define OFF true
#define NUMBER (1 << 20)
#define AN_SETTING(type, field, variable, how, text)                                                                   \
    CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){.field = how}));                                             \
    keys[n++] = key_of(t, "interp", HIDDEN);
#include <anneal/settings.def>
#undef AN_SETTING
    CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){0}));
    CHECK(t, n > 4);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) CHECK(t, !an_key_eq(keys[i], keys[k]));
    CHECK(t, an_key_eq(keys[0], key_of(t, "interp", HIDDEN)));
    an_test_folder_remove(folder);
}

/* A context of its own, as another process would have. */
static bool step_elsewhere(an_test *t, float *values)
{
    an_ctx *mine = t->ctx;
    bool kept = false;
    an_key key;
    net n;
    CHECK_OK(t, an_ctx_create(NULL, &t->ctx));
    CHECK_OK(t, an_ctx_set_settings(t->ctx, (an_settings){0}));
    make(t, &n, "interp", false, HIDDEN);
    step(t, &n, &kept, values, &key);
    an_ctx_destroy(t->ctx);
    t->ctx = mine;
    return kept;
}

static void the_next_process_schedules_nothing(an_test *t)
{
    static char files[4][TEST_PATH_SIZE];
    static unsigned char bytes[1 << 16];
    char folder[TEST_PATH_SIZE], schedules[TEST_PATH_SIZE + 32];
    float first[1 + OUT * HIDDEN], second[1 + OUT * HIDDEN];
    an_test_folder(folder);
    snprintf(schedules, sizeof schedules, "%s/anneal/schedules", folder);
    CHECK(t, setenv("XDG_CACHE_HOME", folder, 1) == 0);
    CHECK(t, !step_elsewhere(t, first));
    CHECK(t, step_elsewhere(t, second));
    CHECK(t, memcmp(first, second, sizeof first) == 0);
    CHECK_EQ(t, an_test_files(schedules, ".pack", files, 4), 1);
    const size_t n = an_test_file_read(files[0], bytes, sizeof bytes);
    CHECK(t, n > 100);
    bytes[n - 20] ^= 1;
    an_test_file_write(files[0], bytes, n);
    CHECK(t, !step_elsewhere(t, second)); /* not taken, with a warning, and made again */
    CHECK(t, memcmp(first, second, sizeof first) == 0);
    CHECK(t, step_elsewhere(t, second));
    an_test_folder_remove(folder);
}

static void another_shape_or_device_is_another_key(an_test *t)
{
    size_t n = 0;
    const an_backend *const *all = an_test_backends(&n);
    const an_key a = key_of(t, "interp", HIDDEN);
    CHECK(t, !an_key_eq(a, key_of(t, "interp", HIDDEN + 1)));
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i]->name, "cpu") == 0) CHECK(t, !an_key_eq(a, key_of(t, "cpu", HIDDEN)));
}

static void a_step_that_is_built_again_is_not_scheduled_again(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    an_tensor *w = numbers(g, 2, 3, 5);
    double before = 1e9;
    for (int i = 0; i < 3; i++) {
        an_plan *plan = NULL;
        double v = 0;
        an_tensor *loss = an_sum(an_square(an_softmax(w, 0)), AN_ALL, false), *grad = NULL;
        CHECK_OK(t, an_backward(loss, &w, 1, &grad));
        CHECK_OK(t, an_assign(w, an_sub(w, grad)));
        CHECK_OK(t, an_plan_create(g, (an_tensor *[]){loss, w}, 2, NULL, &plan));
        CHECK_EQ(t, plan->is_schedule_kept, i > 0);
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_item_f64(loss, &v));
        CHECK(t, v < before);
        before = v;
        an_plan_destroy(plan);
    }
}

static void a_kept_schedule_takes_its_symbols_values(an_test *t)
{
    for (int i = 0; i < 2; i++) {
        an_graph *g = NULL;
        an_plan *plan = NULL;
        double v = 0;
        CHECK_OK(t, an_graph_create(t->ctx, &g));
        CHECK_OK(t, an_graph_set_device(g, "interp"));
        const an_uop n = an_symbol(g, "n", 1, 8), three = an_dim(g, 3), zero = an_dim(g, 0);
        an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(8, 3), NULL);
        an_tensor *part = an_shrink_uop(an_add_scalar(x, 1), (an_uop[]){zero, zero}, (an_uop[]){n, three}, 2);
        an_tensor *sum = an_sum(an_softmax(part, 0), AN_ALL, false);
        CHECK_OK(t, an_plan_create(g, &sum, 1, NULL, &plan));
        CHECK_EQ(t, plan->is_schedule_kept, i > 0);
        CHECK_OK(t, an_plan_bind(plan, "n", 5 + i));
        CHECK_OK(t, an_plan_run(plan));
        CHECK_OK(t, an_item_f64(sum, &v));
        CHECK_NEAR(t, v, 3, 1e-6);
        an_plan_destroy(plan);
        an_graph_destroy(g);
    }
}

/* A schedule as bytes: whole, cut anywhere, and with any byte changed. */
static void bytes_that_are_no_schedule_are_refused(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const an_uop eight = an_index(g, 8);
    const an_uop b = an_buffer_node(g, AN_F32, &eight, 1);
    const an_uop sum = an_reduce_axis(g, AN_OP_ADD, an_unary(g, AN_OP_SQRT, b), 1);
    an_cost cost = an_cost_for(an_backends(&(size_t){0})[0]);
    an_schedule s = {0}, back = {0};
    an_blob blob = {0}, again = {0};
    size_t nbytes = 0;
    bool good = false;
    CHECK_OK(t, an_schedule_make(g, &sum, 1, &cost, NULL, &s));
    CHECK_OK(t, an_schedule_save(g, &s, &b, 1, 123, &blob));
    CHECK(t, blob.len > 50);
    CHECK_OK(t, an_schedule_load(g, blob.data, blob.len, &b, 1, 1, &back, &nbytes, &good));
    CHECK(t, good);
    CHECK_EQ(t, nbytes, 123);
    CHECK_EQ(t, back.calls.len, s.calls.len);
    for (size_t i = 0; i < s.calls.len; i++) {
        CHECK_SAME(t, back.calls.data[i].sink, s.calls.data[i].sink);
        CHECK_STR(t, back.calls.data[i].name, s.calls.data[i].name);
    }
    CHECK_OK(t, an_schedule_save(g, &back, &b, 1, 123, &again));
    CHECK_EQ(t, again.len, blob.len);
    CHECK(t, memcmp(again.data, blob.data, blob.len) == 0);
    an_schedule_fini(g, &back);
    for (size_t n = 0; n < blob.len; n++) {
        CHECK_OK(t, an_schedule_load(g, blob.data, n, &b, 1, 1, &back, &nbytes, &good));
        CHECK(t, !good);
    }
    size_t refused = 0;
    for (size_t i = 0; i < blob.len; i++) { /* some bytes are numbers that may be anything: whatever comes, nothing breaks */
        blob.data[i] ^= 0xff;
        CHECK_OK(t, an_schedule_load(g, blob.data, blob.len, &b, 1, 1, &back, &nbytes, &good));
        refused += !good;
        if (good) an_schedule_fini(g, &back);
        blob.data[i] ^= 0xff;
    }
    CHECK(t, refused > blob.len / 4);
    CHECK_OK(t, an_schedule_load(g, blob.data, blob.len, &b, 1, 2, &back, &nbytes, &good)); /* of other roots */
    CHECK(t, !good);
    an_vec_fini(t->ctx, &blob);
    an_vec_fini(t->ctx, &again);
    an_schedule_fini(g, &s);
}

AN_TEST_MAIN(AN_CASE(the_same_network_built_in_another_order_is_found), AN_CASE(every_setting_is_in_the_key), AN_CASE(the_next_process_schedules_nothing),
             AN_CASE(another_shape_or_device_is_another_key), AN_CASE(a_step_that_is_built_again_is_not_scheduled_again),
             AN_CASE(a_kept_schedule_takes_its_symbols_values), AN_CASE(bytes_that_are_no_schedule_are_refused))
