/* interp.c - the interpreter as a device: the value oracle, and the backend of the browser build. */
#include "backend/interp/program.h"

#include "backend/backends.h"
#include "codegen/codegen.h"

typedef struct interp_device {
    an_device_base base;
} interp_device;

static an_ctx *ctx_of(const an_device *dev)
{
    return ((const an_device_base *)dev)->ctx;
}

static an_status device_open(an_ctx *ctx, const an_device_desc *desc, an_device **out)
{
    (void)desc;
    interp_device *d = an_mem_zalloc(ctx, sizeof *d);
    if (!d) return AN_ERR_NOMEM;
    d->base = (an_device_base){.backend = &an_backend_interp, .ctx = ctx, .vector_nbytes = 0};
    *out = (an_device *)d;
    return AN_OK;
}

static void device_close(an_device *dev)
{
    if (dev) an_mem_free(ctx_of(dev), dev, sizeof(interp_device));
}

static an_status buffer_create(an_device *dev, size_t nbytes, an_buffer **out)
{
    interp_buffer *b = an_mem_zalloc(ctx_of(dev), sizeof *b);
    if (!b) return AN_ERR_NOMEM;
    b->base = (an_buffer_base){dev, nbytes};
    b->data = an_mem_zalloc(ctx_of(dev), nbytes);
    if (!b->data) {
        an_mem_free(ctx_of(dev), b, sizeof *b);
        return AN_ERR_NOMEM;
    }
    *out = (an_buffer *)b;
    return AN_OK;
}

static void buffer_destroy(an_buffer *buf)
{
    if (!buf) return;
    interp_buffer *b = (interp_buffer *)buf;
    an_ctx *ctx = ctx_of(b->base.device);
    an_mem_free(ctx, b->data, b->base.nbytes);
    an_mem_free(ctx, b, sizeof *b);
}

static an_status check_span(const interp_buffer *b, size_t offset, size_t nbytes)
{
    if (offset <= b->base.nbytes && nbytes <= b->base.nbytes - offset) return AN_OK;
    return an_fail(ctx_of(b->base.device), AN_ERR_ARG, "interp: bytes %zu..%zu of a buffer that has %zu", offset,
                   offset + nbytes, b->base.nbytes);
}

static an_status buffer_write(an_buffer *dst, size_t offset, const void *src, size_t nbytes)
{
    interp_buffer *b = (interp_buffer *)dst;
    const an_status st = check_span(b, offset, nbytes);
    if (!st && nbytes) memcpy(b->data + offset, src, nbytes);
    return st;
}

static an_status buffer_read(an_buffer *src, size_t offset, void *dst, size_t nbytes)
{
    const interp_buffer *b = (const interp_buffer *)src;
    const an_status st = check_span(b, offset, nbytes);
    if (!st && nbytes) memcpy(dst, b->data + offset, nbytes);
    return st;
}

static void program_destroy(an_program *prog)
{
    if (!prog) return;
    interp_program *p = (interp_program *)prog;
    an_ctx *ctx = ctx_of(p->base.device);
    interp_program_fini(ctx, p);
    an_mem_free(ctx, p, sizeof *p);
}

static an_status compile(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out)
{
    an_ctx *ctx = ctx_of(dev);
    for (size_t i = 0; i < n; i++) {
        interp_program *p = an_mem_zalloc(ctx, sizeof *p);
        an_status st = AN_ERR_NOMEM;
        if (p) {
            p->base.device = dev;
            st = interp_decode(ctx, kernels[i], p);
        }
        out[i] = (an_program *)p;
        if (!st) continue;
        for (size_t k = 0; k <= i; k++) {
            program_destroy(out[k]);
            out[k] = NULL;
        }
        return st;
    }
    return AN_OK;
}

/* Decoding is quick: nothing is kept. */
static an_status load(an_device *dev, const an_kernel *const *kernels, size_t n, an_program **out)
{
    (void)dev;
    (void)kernels;
    for (size_t i = 0; i < n; i++) out[i] = NULL;
    return AN_OK;
}

static an_status launch(an_program *prog, const an_launch *l)
{
    interp_program *p = (interp_program *)prog;
    return interp_run(ctx_of(p->base.device), p, l);
}

static an_status submit(an_device *dev)
{
    (void)dev; /* launch has started it */
    return AN_OK;
}

static an_status wait(an_device *dev)
{
    (void)dev; /* launch returns when done */
    return AN_OK;
}

static an_status source(an_device *dev, const an_kernel *kernel, void (*put)(void *user, const char *text), void *user)
{
    an_str text;
    an_str_init(&text, ctx_of(dev));
    const an_status st = an_linear_print(&text, kernel->graph, kernel->linear, kernel->nlinear);
    if (!st) put(user, an_str_cstr(&text));
    an_str_fini(&text);
    return st;
}

const an_backend an_backend_interp = {
    .name = "interp",
    .open = device_open,
    .close = device_close,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .write = buffer_write,
    .read = buffer_read,
    .compile = compile,
    .load = load,
    .program_destroy = program_destroy,
    .launch = launch,
    .submit = submit,
    .wait = wait,
    .time = an_backend_time,
    .source = source,
};
