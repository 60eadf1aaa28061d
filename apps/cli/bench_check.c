/* bench_check.c - what is timed is also right: each program beside the interpreter. The interpreter is slow, so of every
 * output only corners are compared, and it computes no more than they need. */
#include "bench.h"

#include <anneal/device.h>

#include <math.h>
#include <stdlib.h>

enum { CORNERS = 2, WIDTH = 3, VALUES_MAX = 4096, RANK_MAX = 8 };

typedef struct values {
    float *data;
    size_t n;
    size_t end[CORNERS * BENCH_OUTS]; /* of each corner in data */
    size_t ncorners;
} values;

/* The first or last elements along every axis, as f32. */
static an_tensor *corner(an_tensor *x, int which)
{
    int64_t begin[RANK_MAX], end[RANK_MAX];
    const uint32_t rank = an_tensor_rank(x);
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t dim = an_tensor_dim(x, (int)i), width = dim < WIDTH ? dim : WIDTH;
        begin[i] = which ? dim - width : 0;
        end[i] = begin[i] + width;
    }
    return an_cast(rank ? an_shrink(x, begin, end, rank) : x, AN_F32);
}

/* whole: computes every output, then takes the corners; else only what they need. */
static bool compute(const bench_case *c, const bench_size *size, const char *device, bool whole, values *v, cli_error *e)
{
    an_ctx *ctx = NULL;
    an_graph *g = NULL;
    an_tensor *out[BENCH_OUTS] = {NULL}, *part[CORNERS * BENCH_OUTS] = {NULL};
    size_t nout = 0, nparts = 0;
    double flops = 0, nbytes = 0;
    if (an_ctx_create(NULL, &ctx)) return !cli_fail(e, AN_ERR_NOMEM, "out of memory");
    bool good = !an_graph_create(ctx, &g) && !an_graph_set_device(g, device) && c->build(g, size, out, &nout, &flops, &nbytes);
    if (good && whole) good = !an_realize(out, nout);
    for (size_t i = 0; i < nout && good; i++)
        for (int k = 0; k < CORNERS; k++) good = (part[nparts++] = corner(out[i], k)) != NULL;
    if (good) good = !an_realize(part, nparts);
    v->data = good ? malloc(VALUES_MAX * sizeof *v->data) : NULL;
    v->n = v->ncorners = 0;
    for (size_t i = 0; i < nparts && good && v->data; i++) {
        const size_t n = (size_t)an_tensor_numel(part[i]);
        if (v->n + n > VALUES_MAX) break;
        good = !an_tensor_read(part[i], v->data + v->n, n * sizeof *v->data);
        v->n += n;
        v->end[v->ncorners++] = v->n;
    }
    if (!good) cli_fail_ctx(e, ctx);
    if (good && !v->data) cli_fail(e, AN_ERR_NOMEM, "out of memory");
    an_graph_destroy(g);
    an_ctx_destroy(ctx);
    return !e->code;
}

/* What rounding allows, relative to the greatest value of the same corner: sums in another order; one rounding to a narrow type. */
static double allowed(an_dtype dtype)
{
    switch (an_dtype_nbytes(dtype == AN_DTYPE_NONE ? AN_F32 : dtype)) {
    case 1: return 0.13;
    case 2: return dtype == AN_BF16 ? 0.01 : 0.0015;
    default: return 2e-4;
    }
}

bool bench_check(const bench_case *c, const bench_size *size, const char *device, double *difference, cli_error *e)
{
    static values mine, want;
    double worst = 0;
    bench_size s = *size;
    if (c->check_m && s.m > c->check_m) s.m = c->check_m;
    if (c->check_n && s.n > c->check_n) s.n = c->check_n;
    mine = want = (values){0};
    if (compute(c, &s, device, true, &mine, e) && compute(c, &s, "interp", c->check_m != 0, &want, e)) {
        for (size_t k = 0, i = 0; k < want.ncorners && mine.n == want.n; k++) {
            double most = 0, scale = 1e-30;
            for (; i < want.end[k]; i++) {
                const double d = fabs((double)mine.data[i] - (double)want.data[i]), w = fabs((double)want.data[i]);
                if (!(d <= most)) most = d; /* NaN too */
                if (w > scale) scale = w;
            }
            if (!(most / scale <= worst)) worst = most / scale;
        }
        *difference = worst;
        if (mine.n != want.n || want.n == 0 || !(*difference <= allowed(s.dtype)))
            cli_fail(e, AN_ERR_INTERNAL, "bench: %s differs from the interpreter by %.2g of its greatest value", c->name, *difference);
    }
    free(mine.data);
    free(want.data);
    return !e->code;
}
