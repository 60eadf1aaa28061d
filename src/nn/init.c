/* init.c - parameters drawn on the host, so that no device or kernel has a say in them. */
#include <anneal/nn.h>

#include "base/base.h"
#include "base/threefry.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* The numbers of one draw: element i of a tensor has its own counter, and a second key word for each attempt. */
typedef struct draw {
    uint32_t key[2], stream;
} draw;

static draw next_draw(an_init *init)
{
    /* "init" apart from other uses of the seed */
    const draw d = {{(uint32_t)init->seed, (uint32_t)(init->seed >> 32) ^ 0x696e6974u}, init->draws++};
    return d;
}

static void bits(const draw *d, size_t i, uint32_t attempt, uint32_t out[2])
{
    const uint32_t key[2] = {d->key[0] + attempt, d->key[1] ^ (uint32_t)((uint64_t)i >> 32)};
    const uint32_t ctr[2] = {(uint32_t)i, d->stream};
    an_threefry(key, ctr, out);
}

/* 53 bits, 0 <= u < 1. */
static double uniform01(const draw *d, size_t i)
{
    uint32_t r[2];
    bits(d, i, 0, r);
    return ((double)(r[0] >> 5) * 67108864.0 + (double)(r[1] >> 6)) / 9007199254740992.0;
}

/* Box and Muller's transform of one block. */
static double normal01(const draw *d, size_t i, uint32_t attempt)
{
    uint32_t r[2];
    bits(d, i, attempt, r);
    const double u = ((double)r[0] + 1.0) / 4294967296.0, v = (double)r[1] / 4294967296.0;
    return sqrt(-2.0 * log(u)) * cos(2.0 * pi * v);
}

typedef enum kind { CONSTANT, UNIFORM, NORMAL, TRUNC_NORMAL } kind;
typedef struct shape_of_values {
    kind kind;
    double a, b, low, high; /* the value; low, high; mean, std; mean, std and bounds */
} shape_of_values;

static double value_at(const shape_of_values *s, const draw *d, size_t i)
{
    switch (s->kind) {
    case CONSTANT: return s->a;
    case UNIFORM: return s->a + (s->b - s->a) * uniform01(d, i);
    case NORMAL: return s->a + s->b * normal01(d, i, 0);
    case TRUNC_NORMAL: break;
    }
    for (uint32_t attempt = 0; attempt < 1000; attempt++) { /* each succeeds with a chance above 0.34 */
        const double v = s->a + s->b * normal01(d, i, attempt);
        if (v >= s->low && v <= s->high) return v;
    }
    return s->a;
}

static an_tensor *make(an_init *init, const int64_t *dims, uint32_t rank, const shape_of_values *s)
{
    if (!init || !init->graph) return NULL;
    const an_dtype dtype = init->dtype == AN_DTYPE_NONE ? AN_F32 : init->dtype;
    an_ctx *ctx = an_graph_ctx(init->graph);
    if (an_dtype_kind_of(dtype) != AN_KIND_FLOAT) {
        an_fail(ctx, AN_ERR_DTYPE, "parameters of dtype %s: an initialiser makes floats", an_dtype_name(dtype));
        return NULL;
    }
    an_tensor *shape = an_zeros(init->graph, dtype, dims, rank); /* checks dims */
    const draw d = next_draw(init);
    if (!shape) return NULL;
    if (s->kind == CONSTANT && s->a == 0.0) return an_tensor_from_host(init->graph, dtype, dims, rank, NULL);
    const size_t nbytes = an_tensor_nbytes(shape), size = an_dtype_nbytes(dtype);
    unsigned char *data = an_mem_alloc(ctx, nbytes);
    if (!data) return NULL;
    for (size_t i = 0; i < nbytes / size; i++)
        an_scalar_store(dtype, (an_scalar){.f = value_at(s, &d, i)}, data + i * size);
    an_tensor *t = an_tensor_from_host(init->graph, dtype, dims, rank, data);
    an_mem_free(ctx, data, nbytes);
    return t;
}

an_tensor *an_init_constant(an_init *init, const int64_t *dims, uint32_t rank, double value)
{
    return make(init, dims, rank, &(shape_of_values){.kind = CONSTANT, .a = value});
}

an_tensor *an_init_uniform(an_init *init, const int64_t *dims, uint32_t rank, double low, double high)
{
    if (!init || !init->graph) return NULL;
    if (!(low <= high) || !isfinite(high - low)) {
        an_fail(an_graph_ctx(init->graph), AN_ERR_ARG, "an_init_uniform: from %g to %g is no finite range", low, high);
        return NULL;
    }
    return make(init, dims, rank, &(shape_of_values){.kind = UNIFORM, .a = low, .b = high});
}

static bool check_normal(const an_init *init, const char *call, double mean, double std)
{
    if (!init || !init->graph) return false;
    if (isfinite(mean) && std >= 0.0 && isfinite(std)) return true;
    an_fail(an_graph_ctx(init->graph), AN_ERR_ARG, "%s: mean %g and standard deviation %g must be finite, the latter >= 0",
            call, mean, std);
    return false;
}

an_tensor *an_init_normal(an_init *init, const int64_t *dims, uint32_t rank, double mean, double std)
{
    if (!check_normal(init, "an_init_normal", mean, std)) return NULL;
    return make(init, dims, rank, &(shape_of_values){.kind = NORMAL, .a = mean, .b = std});
}

an_tensor *an_init_trunc_normal(an_init *init, const int64_t *dims, uint32_t rank, double mean, double std, double low,
                                double high)
{
    if (!check_normal(init, "an_init_trunc_normal", mean, std)) return NULL;
    if (!(low <= mean && mean <= high && high - low >= std)) {
        an_fail(an_graph_ctx(init->graph), AN_ERR_ARG,
                "an_init_trunc_normal: [%g, %g] must hold the mean %g and be at least one deviation, %g, wide", low, high,
                mean, std);
        return NULL;
    }
    return make(init, dims, rank,
                &(shape_of_values){.kind = TRUNC_NORMAL, .a = mean, .b = std, .low = low, .high = high});
}

/* fan_in and fan_out of a weight (out, in, kernel...). */
static bool fans(const an_init *init, const char *call, const int64_t *dims, uint32_t rank, double *in, double *out)
{
    if (!init || !init->graph) return false;
    if (rank < 2) {
        an_fail(an_graph_ctx(init->graph), AN_ERR_ARG, "%s: a tensor of rank %u has no fans; it takes at least 2 axes",
                call, rank);
        return false;
    }
    double kernel = 1.0;
    for (uint32_t i = 2; i < rank; i++) kernel *= (double)dims[i];
    *out = (double)dims[0] * kernel;
    *in = (double)dims[1] * kernel;
    if (*in > 0.0) return true;
    *in = *out = 1.0; /* no elements to fill */
    return true;
}

an_tensor *an_init_kaiming_uniform(an_init *init, const int64_t *dims, uint32_t rank, double slope)
{
    double in = 0.0, out = 0.0;
    if (!fans(init, "an_init_kaiming_uniform", dims, rank, &in, &out)) return NULL;
    const double b = sqrt(6.0 / ((1.0 + slope * slope) * in));
    return an_init_uniform(init, dims, rank, -b, b);
}

an_tensor *an_init_kaiming_normal(an_init *init, const int64_t *dims, uint32_t rank, double slope)
{
    double in = 0.0, out = 0.0;
    if (!fans(init, "an_init_kaiming_normal", dims, rank, &in, &out)) return NULL;
    return an_init_normal(init, dims, rank, 0.0, sqrt(2.0 / ((1.0 + slope * slope) * in)));
}

an_tensor *an_init_xavier_uniform(an_init *init, const int64_t *dims, uint32_t rank, double gain)
{
    double in = 0.0, out = 0.0;
    if (!fans(init, "an_init_xavier_uniform", dims, rank, &in, &out)) return NULL;
    const double b = gain * sqrt(6.0 / (in + out));
    return an_init_uniform(init, dims, rank, -b, b);
}

an_tensor *an_init_xavier_normal(an_init *init, const int64_t *dims, uint32_t rank, double gain)
{
    double in = 0.0, out = 0.0;
    if (!fans(init, "an_init_xavier_normal", dims, rank, &in, &out)) return NULL;
    return an_init_normal(init, dims, rank, 0.0, gain * sqrt(2.0 / (in + out)));
}
