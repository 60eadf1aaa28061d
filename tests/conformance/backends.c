/* backends.c - the backends under test, as a table. */
#include "conformance.h"

#include "backend/backends.h"
#ifdef AN_HAVE_WEBGPU
#include "backend/webgpu/device.h"
#endif

#include <stdio.h>
#include <stdlib.h>

static const an_backend *const backends[] = {
    &an_backend_interp,
#ifdef AN_HAVE_CPU
    &an_backend_cpu,
#endif
#ifdef AN_HAVE_WEBGPU
    &an_backend_webgpu,
#endif
};

const an_backend *const *conf_backends(size_t *n)
{
    *n = sizeof backends / sizeof backends[0];
    return backends;
}

void conf_open(an_test *t, conf_devices *d)
{
    *d = (conf_devices){0};
    const char *only = getenv("AN_CONFORMANCE_ONLY"); /* the one beside the interpreter */
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        const an_device_desc desc = {0};
        const bool is_webgpu = strcmp(backends[i]->name, "webgpu") == 0;
        if (i && only && strcmp(backends[i]->name, only) != 0) continue;
        d->backend[d->n] = backends[i];
        if (is_webgpu && !getenv("AN_WEBGPU")) continue; /* opening it is dear, and so are its compilers */
        if (is_webgpu && getenv("AN_NEEDS_WEBGPU") == NULL) { /* a machine may have none */
            if (an_device_get(t->ctx, "webgpu", &d->device[d->n])) {
                printf("webgpu is left out: %s\n", an_ctx_error(t->ctx));
                an_ctx_clear_error(t->ctx);
                continue;
            }
        } else if (is_webgpu) {
            CHECK_OK(t, an_device_get(t->ctx, "webgpu", &d->device[d->n]));
        } else {
            CHECK_OK(t, backends[i]->open(t->ctx, &desc, &d->device[d->n]));
        }
        d->n++;
    }
}

void conf_close(conf_devices *d)
{
    for (size_t i = 0; i < d->n; i++) /* opening a GPU is dear: its device lives as long as the context */
        if (strcmp(d->backend[i]->name, "webgpu") != 0) d->backend[i]->close(d->device[i]);
}

bool conf_has_gpu(const conf_devices *d)
{
    bool any = false;
    for (size_t i = 0; i < d->n; i++) any = any || ((const an_device_base *)d->device[i])->gpu_threads > 0;
    return any;
}

uint32_t conf_lanes(const conf_devices *d, size_t nbytes)
{
    return conf_has_gpu(d) ? 4 : (uint32_t)(64 / nbytes);
}

static size_t row_of(const conf_devices *d, size_t which)
{
    size_t row = 0;
    while (backends[row] != d->backend[which]) row++;
    return row;
}

static bool is_software(const conf_devices *d, size_t which)
{
#ifdef AN_HAVE_WEBGPU
    return d->backend[which] == &an_backend_webgpu && gpu_of(d->device[which])->adapter.type == WG_ADAPTER_CPU;
#else
    (void)d, (void)which;
    return false;
#endif
}

bool conf_flushes(an_test *t, const conf_devices *d, size_t which, an_op op)
{
    static signed char known[sizeof backends / sizeof backends[0]]; /* 1: it does, -1: it does not */
    signed char *k = &known[row_of(d, which)];
    const bool asked = op == AN_OP_ADD || op == AN_OP_MUL || op == AN_OP_MULACC || ((op == AN_OP_DIV || op == AN_OP_SQRT) && is_software(d, which));
    if (*k || !asked) return asked && *k > 0;
    conf_list l;
    conf_list_init(&l, t);
    const an_uop out = conf_param(&l, AN_F32, true), x = conf_param(&l, AN_F32, false), zero = conf_index(&l, 0), one = conf_index(&l, 1);
    const an_uop sum = conf_binary(&l, AN_OP_ADD, conf_load(&l, x, zero, AN_UOP_NONE), conf_load(&l, x, one, AN_UOP_NONE));
    conf_store(&l, out, zero, sum, AN_UOP_NONE);
    conf_finish(&l, "sum");
    const an_kernel *kernel = &l.kernel;
    an_program *program = NULL;
    float in[2] = {0x1p-149f, 0}, got[1] = {7};
    const conf_buffer buffers[2] = {{got, sizeof got}, {in, sizeof in}};
    CHECK_OK(t, d->backend[which]->compile(d->device[which], &kernel, 1, &program));
    CHECK_OK(t, conf_run(d, which, program, buffers, 2, NULL));
    d->backend[which]->program_destroy(program);
    conf_list_fini(&l);
    *k = got[0] == 0 ? 1 : -1;
    if (*k > 0) printf("%s takes numbers below the normal ones as 0\n", d->backend[which]->name);
    return *k > 0;
}

bool conf_has_dtype(an_test *t, const conf_devices *d, size_t which, an_dtype dtype)
{
    static signed char known[sizeof backends / sizeof backends[0]][AN_DTYPE_COUNT]; /* 1: it has, -1: it has not */
    signed char *k = &known[row_of(d, which)][dtype];
    if (*k) return *k > 0;
    conf_list l;
    conf_list_init(&l, t);
    const an_uop out = conf_param(&l, dtype, true), x = conf_param(&l, dtype, false), i = conf_range(&l, conf_var(&l, "n"), 0);
    conf_store(&l, out, i, conf_load(&l, x, i, AN_UOP_NONE), AN_UOP_NONE);
    conf_end(&l, i);
    conf_finish(&l, "copy");
    const an_kernel *kernel = &l.kernel;
    an_program *program = NULL;
    *k = 1;
    if (d->backend[which]->compile(d->device[which], &kernel, 1, &program)) {
        *k = -1;
        CHECK_EQ(t, an_ctx_status(t->ctx), AN_ERR_UNSUPPORTED);
        CHECK_CONTAINS(t, an_ctx_error(t->ctx), an_dtype_name(dtype));
        an_ctx_clear_error(t->ctx);
        printf("%s has no %s\n", d->backend[which]->name, an_dtype_name(dtype));
    }
    d->backend[which]->program_destroy(program);
    conf_list_fini(&l);
    return *k > 0;
}

an_status conf_run(const conf_devices *d, size_t which, an_program *program, const conf_buffer *buffers, size_t n,
                   const int64_t *vars)
{
    const an_backend *b = d->backend[which];
    an_buffer *made[CONF_PARAMS_MAX] = {NULL};
    an_status st = AN_OK;
    for (size_t i = 0; i < n && !st; i++) {
        st = b->buffer_create(d->device[which], buffers[i].nbytes, &made[i]);
        if (!st) st = b->write(made[i], 0, buffers[i].data, buffers[i].nbytes);
    }
    if (!st) st = b->launch(program, &(an_launch){.buffers = made, .vars = vars});
    if (!st) st = b->wait(d->device[which]);
    for (size_t i = 0; i < n && !st; i++) st = b->read(made[i], 0, buffers[i].data, buffers[i].nbytes);
    for (size_t i = 0; i < n; i++) b->buffer_destroy(made[i]);
    return st;
}
