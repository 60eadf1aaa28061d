/* test_profile.c - profiles: what is recorded, and that the trace is what Chrome and Perfetto read. */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/plan.h>
#include <anneal/profile.h>
#include <anneal/tensor.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    char *data;
    size_t len;
} text;

static void gather(void *user, const char *piece)
{
    text *to = user;
    const size_t n = strlen(piece);
    char *data = realloc(to->data, to->len + n + 1);
    if (!data) return;
    memcpy(data + to->len, piece, n + 1);
    to->data = data;
    to->len += n;
}

static void a_profile_has_passes_kernels_and_transfers(an_test *t)
{
    an_graph *g = an_test_graph(t);
    an_profile *p = an_profile_start(t->ctx);
    an_plan *plan = NULL;
    float got[8 * 8];
    CHECK(t, p);
    CHECK(t, !an_profile_start(t->ctx));
    CHECK_FAILS(t, an_ctx_status(t->ctx), AN_ERR_ARG, "records a profile already");
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(8, 8), NULL), *y = an_softmax(an_matmul(x, x), 0);
    CHECK_OK(t, an_plan_create(g, &y, 1, NULL, &plan));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(t, an_tensor_write(x, got, sizeof got));
        CHECK_OK(t, an_plan_run(plan));
    }
    CHECK_OK(t, an_tensor_read(y, got, sizeof got));
    an_profile_stop(p);
    CHECK_OK(t, an_plan_run(plan)); /* not recorded */

    size_t count[4] = {0};
    double nbytes = 0;
    for (size_t i = 0; i < an_profile_count(p); i++) {
        const an_event e = an_profile_get(p, i);
        CHECK(t, e.name && e.start >= 0 && e.seconds >= 0);
        count[e.kind]++;
        if (e.kind == AN_EVENT_TRANSFER) nbytes += e.nbytes;
        if (e.kind == AN_EVENT_KERNEL) CHECK(t, e.nbytes > 0);
    }
    CHECK_EQ(t, count[AN_EVENT_KERNEL], 2 * an_plan_kernel_count(plan));
    CHECK_EQ(t, count[AN_EVENT_TRANSFER], 3);
    CHECK_EQ(t, count[AN_EVENT_COMPILE], 1);
    CHECK(t, count[AN_EVENT_PASS] > 3);
    CHECK_NEAR(t, nbytes, 3 * sizeof got, 0);
    CHECK(t, an_profile_is_whole(p));

    text json = {0};
    CHECK_OK(t, an_profile_print(p, gather, &json));
    json_error_t error;
    json_t *root = json_loads(json.data, JSON_REJECT_DUPLICATES, &error);
    CHECK(t, root);
    json_t *events = json_object_get(root, "traceEvents");
    CHECK_EQ(t, json_array_size(events), an_profile_count(p) + 4);
    size_t complete = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        json_t *e = json_array_get(events, i);
        const char *ph = json_string_value(json_object_get(e, "ph"));
        CHECK(t, json_is_string(json_object_get(e, "name")) && ph);
        CHECK(t, json_is_integer(json_object_get(e, "pid")) && json_is_integer(json_object_get(e, "tid")));
        CHECK(t, json_is_object(json_object_get(e, "args")));
        if (strcmp(ph, "M") == 0) continue;
        CHECK_STR(t, ph, "X");
        CHECK(t, json_is_number(json_object_get(e, "ts")) && json_number_value(json_object_get(e, "dur")) >= 0);
        complete++;
    }
    CHECK_EQ(t, complete, an_profile_count(p));
    json_decref(root);
    free(json.data);
    an_profile_clear(p);
    CHECK_EQ(t, an_profile_count(p), 0);
    an_profile_destroy(p);
    an_profile_destroy(NULL);
    an_plan_destroy(plan);
}

static void ignore(void *user, const char *piece)
{
    (void)user;
    (void)piece;
}

static an_status record(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    double v = 0;
    an_profile *p = an_profile_start(ctx);
    if (!p) return an_ctx_status(ctx);
    an_status st = an_graph_create(ctx, &g);
    if (!st) st = an_graph_set_device(g, "interp");
    if (!st) st = an_item_f64(an_sum(an_exp(an_arange(g, AN_F32, 0, 5, 1)), AN_ALL, false), &v);
    if (an_ctx_status(ctx)) st = an_ctx_status(ctx); /* a record that was cut off, too */
    if (!st) st = an_profile_print(p, ignore, NULL);
    if (!st && !an_profile_is_whole(p)) st = AN_ERR_INTERNAL;
    an_graph_destroy(g);
    an_profile_destroy(p);
    return st;
}

static void every_failing_allocation_is_an_error_or_a_cut(an_test *t)
{
    an_test_every_alloc_failure(t, record, NULL);
}

AN_TEST_MAIN(AN_CASE(a_profile_has_passes_kernels_and_transfers), AN_CASE(every_failing_allocation_is_an_error_or_a_cut))
