/* test_nomem.c - memory runs out at every allocation of whole tasks, one after another: each ends in AN_ERR_NOMEM, leaves
 * nothing behind and does not crash. Parts have walks of their own; these go through their seams. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/inspect.h>
#include <anneal/io.h>
#include <anneal/nn.h>
#include <anneal/plan.h>
#include <anneal/tensor.h>
#include <anneal/view.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>


/* A graph on the interpreter, whatever the default. */
static an_status open_graph(an_ctx *ctx, an_graph **g)
{
    an_status st = an_graph_create(ctx, g);
    if (st) return st;
    st = an_graph_set_device(*g, "interp");
    if (st) an_graph_destroy(*g);
    return st;
}

static void ignore(void *user, const char *text)
{
    (void)user;
    (void)text;
}

/* --- building --- */

/* What a chain of calls ended with: NULL says that the context has the reason. */
static an_status said(an_ctx *ctx, const an_tensor *x)
{
    return x ? AN_OK : an_ctx_status(ctx);
}

static an_tensor *elementwise(an_tensor *x, an_tensor *y)
{
    an_tensor *z = an_add(an_mul(an_exp(x), an_tanh(y)), an_where(an_lt(x, y), an_gelu(x), an_erf(y)));
    z = an_maximum(an_clamp(z, -1, 1), an_pow(an_abs(x), y));
    return an_masked_fill(an_log1p(an_square(z)), an_isnan(z), 0);
}

static an_tensor *movement(an_tensor *x)
{
    an_tensor *z = an_permute(an_reshape(x, AN_DIMS(2, 3, -1)), AN_DIMS(2, 0, 1));
    z = an_pad(an_flip(z, AN_DIMS(1)), (int64_t[]){1, 0, 0}, (int64_t[]){2, 0, 1}, 3, 0.5);
    z = an_slice(an_roll(z, 1, 0), -1, AN_NONE, AN_NONE, -2);
    return an_cat((an_tensor *[]){z, an_repeat(z, AN_DIMS(1, 1, 2))}, 2, -1);
}

static an_tensor *reductions(an_tensor *x)
{
    an_tensor *z = an_add(an_softmax(x, -1), an_var(x, AN_DIMS(0), 1, true));
    z = an_add(z, an_logsumexp(x, AN_DIMS(1), true));
    return an_add(an_cumsum(z, 0), an_cast(an_argmax(x, 1, true), AN_F32));
}

static an_status build(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_status st = open_graph(ctx, &g);
    if (st) return st;
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(4, 6), NULL), *y = an_linspace(g, AN_F32, -1, 1, 6);
    st = said(ctx, elementwise(x, y));
    if (!st) st = said(ctx, movement(x));
    if (!st) st = said(ctx, reductions(x));
    if (!st) st = said(ctx, an_layer_norm(an_matmul(x, an_transpose(x, 0, 1)), 1, NULL, NULL, 1e-5));
    an_graph_destroy(g);
    return st;
}

static void building_tensors_survives_it(an_test *t)
{
    an_test_every_alloc_failure(t, build, NULL);
}

/* --- computing --- */

static an_status realize(an_ctx *ctx, an_tensor *x)
{
    float values[512];
    if (!x) return an_ctx_status(ctx);
    const size_t nbytes = an_tensor_nbytes(x);
    return nbytes <= sizeof values ? an_tensor_read(x, values, nbytes) : AN_ERR_LIMIT;
}

static an_status compute(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_status st = open_graph(ctx, &g);
    if (st) return st;
    static const float data[12] = {1, -2, 3, 4, 5, -6, 7, 8, 9, 10, -11, 12};
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(3, 4), data);
    st = realize(ctx, an_softmax(an_add(an_matmul(x, an_transpose(x, 0, 1)), an_arange(g, AN_F32, 0, 3, 1)), -1));
    if (!st) st = realize(ctx, reductions(x));
    if (!st) st = realize(ctx, movement(x));
    an_graph_destroy(g);
    return st;
}

static void computing_tensors_survives_it(an_test *t)
{
    an_test_every_alloc_failure(t, compute, NULL);
}

static an_status compute_images(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_status st = open_graph(ctx, &g);
    if (st) return st;
    an_rng *rng = an_rng_from_seed(g, 1);
    an_tensor *x = an_normal(rng, AN_F32, AN_DIMS(1, 2, 5, 5), 0, 1), *w = an_uniform(rng, AN_F32, AN_DIMS(2, 1, 3, 3), -1, 1);
    an_tensor *y = an_conv2d(x, w, NULL, &(an_conv_desc){.groups = 2, .pad_before = {1, 1}, .pad_after = {1, 1}});
    st = realize(ctx, an_max_pool2d(y, &(an_pool_desc){.kernel = {2, 2}}));
    an_tensor *rows = an_embedding(an_eye(g, AN_F32, 4, 4, 0), an_permutation(rng, 4));
    if (!st) st = realize(ctx, an_scatter_add(rows, 0, an_randint(rng, AN_I32, AN_DIMS(4, 4), 0, 4), an_dropout(rng, rows, 0.5)));
    an_graph_destroy(g);
    return st;
}

static void convolving_and_drawing_survives_it(an_test *t)
{
    an_test_every_alloc_failure(t, compute_images, NULL);
}

/* --- training --- */

static an_status look_at(an_plan *plan)
{
    an_status st = AN_OK;
    for (size_t i = 0; i < an_plan_kernel_count(plan) && !st; i++)
        for (int what = AN_KERNEL_SOURCE; what <= AN_KERNEL_DAG && !st; what++)
            st = an_plan_kernel_print(plan, i, (an_kernel_text)what, ignore, NULL);
    return st;
}

/* Forward, loss, gradients, clipping and the update of a small network, compiled with a trace and run twice. */
static an_status train_in(an_graph *g)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_trace *trace = NULL;
    an_plan *plan = NULL;
    an_tensor *grads[4] = {NULL};
    an_init init = {.graph = g, .seed = 3};
    an_module *net = an_nn_sequential(g, AN_MODULES(an_nn_linear(&init, 3, 4, NULL), an_nn_function(g, "relu", an_relu),
                                                    an_nn_linear(&init, 4, 2, NULL)));
    const an_params params = an_module_parameters(net);
    an_optim *optim = an_optim_adam(params, &(an_adam_desc){.lr = 0.1, .amsgrad = true});
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(2, 3), (float[]){1, 2, 3, 4, 5, 6});
    an_tensor *labels = an_tensor_from_host(g, AN_I32, AN_DIMS(2), (int32_t[]){0, 1});
    an_tensor *loss = an_cross_entropy(an_module_forward(net, x), labels, NULL);
    if (!loss || !optim || params.n != 4) return an_ctx_status(ctx);
    an_tensor *wrt[4];
    for (size_t i = 0; i < 4; i++) wrt[i] = params.items[i].tensor;
    an_status st = an_backward(loss, wrt, 4, grads);
    if (!st) st = said(ctx, an_clip_grad_norm(grads, 4, 1.0));
    if (!st) st = an_optim_step(optim, grads);
    trace = st ? NULL : an_trace_create(ctx);
    if (!st && !trace) st = an_ctx_status(ctx);
    if (!st) st = an_optim_plan(optim, &loss, 1, trace, &plan);
    for (int i = 0; i < 2 && !st; i++) {
        double value = 0;
        st = an_plan_run(plan);
        if (!st) st = an_item_f64(loss, &value);
    }
    if (!st) st = look_at(plan);
    /* A trace that ran out of memory says so itself; that is no failure of the plan. */
    if (!st && !an_trace_is_whole(trace)) st = AN_ERR_NOMEM;
    an_plan_destroy(plan);
    an_trace_destroy(trace);
    return st;
}

static an_status train(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_status st = open_graph(ctx, &g);
    if (st) return st;
    st = train_in(g);
    an_graph_destroy(g);
    return st;
}

static void training_a_network_survives_it(an_test *t)
{
    an_test_every_alloc_failure(t, train, NULL);
}

/* --- looking inside --- */

static void ignore_node(void *user, const an_node_view *node)
{
    (void)user;
    (void)node;
}

static an_status inspect(an_ctx *ctx, void *arg)
{
    (void)arg;
    an_graph *g = NULL;
    an_uop root = AN_UOP_NONE;
    uint64_t lo = 0, hi = 0;
    an_status st = an_graph_create(ctx, &g);
    if (!st) st = an_expr_parse(g, "x = var 0..1023\ny = f32\n(where (cmplt (floordiv (add (mul x 8) 3) 8) 5) (mul y 1.0) y)", &root);
    if (!st) st = an_expr_rewrite(g, "symbolic", &root, NULL);
    if (!st) st = an_expr_print(g, root, 8, ignore, NULL);
    if (!st) st = an_graph_walk(g, &root, 1, ignore_node, NULL);
    if (!st) st = an_graph_key(g, &root, 1, &lo, &hi);
    an_graph_destroy(g);
    return st;
}

static void reading_and_rewriting_expressions_survives_it(an_test *t)
{
    an_test_every_alloc_failure(t, inspect, NULL);
}

/* --- files --- */

static an_status use_files(an_ctx *ctx, void *arg)
{
    const char *path = arg;
    static const uint8_t idx[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
    char hex[AN_SHA256_HEX];
    an_bytes bytes = {0};
    an_idx read = {0};
    an_status st = an_file_write(ctx, path, idx, sizeof idx);
    if (!st) st = an_file_read(ctx, path, 1 << 20, &bytes);
    if (!st) st = an_idx_load(ctx, path, NULL, &read);
    if (!st) st = an_sha256_file(ctx, path, hex);
    an_idx_fini(&read);
    an_bytes_fini(&bytes);
    return st;
}

static void files_survive_it(an_test *t)
{
    char path[] = "/tmp/anneal-test-nomem-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(t, fd >= 0);
    close(fd);
    an_test_every_alloc_failure(t, use_files, path);
    CHECK_EQ(t, remove(path), 0);
}

AN_TEST_MAIN(AN_CASE(building_tensors_survives_it), AN_CASE(computing_tensors_survives_it),
             AN_CASE(convolving_and_drawing_survives_it), AN_CASE(training_a_network_survives_it),
             AN_CASE(reading_and_rewriting_expressions_survives_it),
             AN_CASE(files_survive_it))
