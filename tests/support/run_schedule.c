/* run_schedule.c - see run_schedule.h. */
#include "run_schedule.h"

#include "backend/backends.h"

#include <anneal/plan.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS_MAX = 64 };

typedef struct runner {
    an_test *t;
    an_graph *g;
    an_device *dev;
    const an_test_input *in;
    uint32_t nin, n;
    an_uop nodes[BUFFERS_MAX];
    an_buffer *bufs[BUFFERS_MAX];
} runner;

/* The buffer of a node: an input's has its data, all others NaN. */
static an_buffer *buffer_of(runner *r, an_uop node)
{
    size_t nbytes = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (an_uop_eq(r->nodes[i], node)) return r->bufs[i];
    CHECK(r->t, r->n < BUFFERS_MAX && an_buffer_nbytes(r->g, node, &nbytes));
    unsigned char *data = malloc(nbytes);
    CHECK(r->t, data);
    memset(data, 0xff, nbytes);
    for (uint32_t i = 0; i < r->nin; i++)
        if (an_uop_eq(an_tensor_uop(r->in[i].x), node)) memcpy(data, r->in[i].data, nbytes);
    CHECK_OK(r->t, an_backend_interp.buffer_create(r->dev, nbytes, &r->bufs[r->n]));
    CHECK_OK(r->t, an_backend_interp.write(r->bufs[r->n], 0, data, nbytes));
    free(data);
    r->nodes[r->n] = node;
    return r->bufs[r->n++];
}

static void run_call(runner *r, const an_call *call, an_codegen_opts opts)
{
    an_uop_vec list = {0};
    an_program *prog = NULL;
    an_buffer *bufs[AN_KERNEL_PARAM_MAX];
    CHECK_OK(r->t, an_codegen(r->g, call->sink, &opts, NULL, &list));
    an_kernel k = {.name = call->name, .graph = r->g, .sink = call->sink, .linear = list.data, .nlinear = list.len, .nparams = call->nbuffers};
    for (uint32_t i = 0; i < call->nbuffers; i++) {
        k.params[i] = (an_kernel_param){an_uop_dtype(r->g, call->buffers[i]), call->is_read[i], call->is_written[i]};
        bufs[i] = buffer_of(r, call->buffers[i]);
    }
    const an_kernel *kernels[1] = {&k};
    CHECK_OK(r->t, an_backend_interp.compile(r->dev, kernels, 1, &prog));
    CHECK_OK(r->t, an_backend_interp.launch(prog, &(an_launch){.buffers = bufs}));
    CHECK_OK(r->t, an_backend_interp.wait(r->dev));
    an_backend_interp.program_destroy(prog);
    an_vec_fini(r->t->ctx, &list);
}

void an_test_run_schedule(an_test *t, an_graph *g, const an_cost *cost, an_codegen_opts opts, const an_test_input *in, uint32_t nin, an_tensor *out, void *data,
                          an_schedule *s)
{
    runner r = {.t = t, .g = g, .in = in, .nin = nin};
    CHECK(t, out);
    const an_uop root = an_tensor_uop(out);
    CHECK_OK(t, an_schedule_make(g, &root, 1, cost, NULL, s));
    CHECK_OK(t, an_backend_interp.open(t->ctx, NULL, &r.dev));
    for (size_t i = 0; i < s->calls.len; i++) run_call(&r, &s->calls.data[i], opts);
    CHECK_OK(t, an_backend_interp.read(buffer_of(&r, s->outputs.data[0]), 0, data, an_tensor_nbytes(out)));
    for (uint32_t i = 0; i < r.n; i++) an_backend_interp.buffer_destroy(r.bufs[i]);
    an_backend_interp.close(r.dev);
}
