/* cmd_bench.c - `anneal bench [NAME]`: rates of generated kernels, beside the machine's peak and, for matmul, OpenBLAS. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include "bench.h"
#include "print.h"

#include <anneal/device.h>
#include <anneal/plan.h>
#include <anneal/profile.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench_args {
    const char *name, *device, *layout, *against, *dtype;
    uint64_t size, m, n, k, b, repeats;
    bool json, no_check, kernels;
} bench_args;

enum { REPEATS_MAX = 101 };
static const double ROUND_SECONDS = 0.03; /* of one sample: short programs run many times in it */
static const struct timespec SETTLE = {.tv_nsec = 10000000}; /* until threads that wait for more work have gone to sleep */

typedef struct result {
    double seconds, flops, nbytes;
    double other_seconds, ratio, difference; /* against OpenBLAS; 0 without */
    double copy; /* bytes a second, between buffers of the same size */
    double idle_seconds; /* of is_launch: a run after the threads have gone to sleep */
    double checked; /* difference from the interpreter; negative: not compared */
    size_t kernels;
    double compile_s;
} result;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* One thing to time: a plan, or OpenBLAS on the same numbers. */
typedef struct subject {
    an_plan *plan;
    an_device *device;
    const bench_blas *blas;
    const bench_size *size;
    const float *x, *y;
    float *out;
} subject;

static an_status run_once(const subject *s)
{
    if (s->plan) return an_plan_run(s->plan);
    bench_blas_matmul(s->blas, s->size, s->x, s->y, s->out);
    return AN_OK;
}

/* Seconds a run, over as many as fill a sample. */
static an_status sample(const subject *s, uint64_t times, double *seconds)
{
    const double t = bench_clock();
    an_status st = AN_OK;
    for (uint64_t i = 0; i < times && !st; i++) st = run_once(s);
    if (!st && s->device) st = ((const an_device_base *)s->device)->backend->wait(s->device);
    *seconds = (bench_clock() - t) / (double)times;
    return st;
}

static uint64_t times_in_a_sample(double seconds)
{
    const double n = ceil(ROUND_SECONDS / (seconds > 1e-9 ? seconds : 1e-9));
    return n < 1 ? 1 : n > 1e6 ? 1000000 : (uint64_t)n;
}

/* A sample of one of two in turn: once the other's threads sleep, and its own are awake and find caches as they leave them. */
static an_status sample_in_turn(const subject *s, uint64_t times, double *seconds)
{
    (void)nanosleep(&SETTLE, NULL);
    const an_status st = sample(s, times / 8 + 1, seconds);
    return st ? st : sample(s, times, seconds);
}

/* Times the plan, copying as many bytes, and the other if there is one, in turn; medians over the rounds. */
static an_status measure(const subject *ours, const subject *other, int threads, uint64_t repeats, result *r)
{
    double a[REPEATS_MAX], b[REPEATS_MAX], ratio[REPEATS_MAX], copy[REPEATS_MAX], first = 0, first_other = 0;
    an_status st = sample(ours, 1, &first);
    if (!st) st = sample(ours, 1, &first); /* the first run warms caches */
    if (!st && other) st = sample(other, 1, &first_other);
    if (!st && other) st = sample(other, 1, &first_other);
    for (uint64_t i = 0; i < repeats && !st; i++) {
        st = (other ? sample_in_turn : sample)(ours, times_in_a_sample(first), &a[i]);
        copy[i] = bench_copy_rate((size_t)r->nbytes, threads);
        if (st || !other) continue;
        st = sample_in_turn(other, times_in_a_sample(first_other), &b[i]);
        ratio[i] = b[i] / a[i];
    }
    if (st) return st;
    r->seconds = median(a, repeats);
    r->copy = median(copy, repeats);
    r->other_seconds = other ? median(b, repeats) : 0;
    r->ratio = other ? median(ratio, repeats) : 0;
    return AN_OK;
}

/* A run that finds the threads asleep, as the first of a step after a pause would. */
static an_status measure_idle(const subject *ours, uint64_t repeats, result *r)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    double a[REPEATS_MAX];
    an_status st = AN_OK;
    for (uint64_t i = 0; i < repeats && !st; i++) {
        (void)nanosleep(&pause, NULL);
        st = sample(ours, 1, &a[i]);
    }
    if (!st) r->idle_seconds = median(a, repeats);
    return st;
}

/* The greatest difference of the two products, relative to the greatest value. */
static double difference(const float *a, const float *b, size_t n)
{
    double worst = 0, scale = 1e-30;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst)) worst = d;
        if (fabs((double)b[i]) > scale) scale = fabs((double)b[i]);
    }
    return worst / scale;
}

static int against_blas(const bench_args *a, const bench_blas *blas, const bench_size *size, subject *ours, an_tensor *out,
                        an_ctx *ctx, int threads, result *r, cli_error *e)
{
    const size_t nout = (size_t)(size->m * size->n);
    float *x = bench_data((size_t)(size->m * size->k)), *y = bench_data((size_t)(size->k * size->n));
    float *mine = malloc(nout * sizeof *mine), *theirs = malloc(nout * sizeof *theirs);
    const subject other = {.blas = blas, .size = size, .x = x, .y = y, .out = theirs};
    if (!x || !y || !mine || !theirs)
        cli_fail(e, AN_ERR_NOMEM, "out of memory");
    else if (measure(ours, &other, threads, a->repeats, r) || an_tensor_read(out, mine, nout * sizeof *mine))
        cli_fail_ctx(e, ctx);
    else
        r->difference = difference(mine, theirs, nout);
    free(x);
    free(y);
    free(mine);
    free(theirs);
    if (!e->code && !(r->difference < 1e-4))
        return cli_fail(e, AN_ERR_INTERNAL, "bench: the product differs from OpenBLAS's by %.2g of its greatest value", r->difference);
    return e->code;
}

/* Seconds that the kernels of a run take one by one, by the device's own clock: the median of some. */
static an_status measure_kernels(an_ctx *ctx, an_plan *plan, uint64_t repeats, result *r)
{
    double a[REPEATS_MAX];
    an_profile *p = an_profile_start(ctx);
    an_status st = p ? AN_OK : an_ctx_status(ctx);
    for (uint64_t i = 0; i < repeats && !st; i++) {
        an_profile_clear(p);
        st = an_plan_run(plan);
        a[i] = 0;
        for (size_t k = 0; k < r->kernels && !st; k++) a[i] += an_profile_get(p, k).seconds;
    }
    an_profile_destroy(p);
    if (!st) r->seconds = median(a, repeats);
    return st;
}

static int run_case(const bench_args *a, const bench_case *c, const bench_size *size, const bench_blas *blas, int threads,
                    result *r, cli_error *e)
{
    an_ctx *ctx = NULL;
    an_graph *g = NULL;
    an_plan *plan = NULL;
    an_tensor *out[BENCH_OUTS] = {NULL};
    size_t nout = 0;
    r->checked = -1;
    if (!a->no_check && !bench_check(c, size, a->device, &r->checked, e)) return e->code;
    if (an_ctx_create(NULL, &ctx)) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    if (an_graph_create(ctx, &g) || an_graph_set_device(g, a->device) || !c->build(g, size, out, &nout, &r->flops, &r->nbytes) ||
        an_plan_create(g, out, nout, NULL, &plan)) {
        cli_fail_ctx(e, ctx);
        goto done;
    }
    r->kernels = an_plan_kernel_count(plan);
    r->compile_s = an_plan_time(plan).compile;
    subject ours = {.plan = plan, .device = an_graph_device(g)};
    if (blas)
        against_blas(a, blas, size, &ours, out[0], ctx, threads, r, e);
    else if (measure(&ours, NULL, threads, a->repeats, r) || (c->is_launch && measure_idle(&ours, a->repeats, r)) ||
             (a->kernels && measure_kernels(ctx, plan, a->repeats, r)))
        cli_fail_ctx(e, ctx);
done:
    an_plan_destroy(plan);
    an_graph_destroy(g);
    an_ctx_destroy(ctx);
    return e->code;
}

static const char *dtype_of(const bench_size *s)
{
    return an_dtype_name(s->dtype == AN_DTYPE_NONE ? AN_F32 : s->dtype);
}

static void print_json(const bench_args *a, const bench_case *c, const bench_size *s, const result *r, double peak_flops)
{
    const double gf = r->flops / r->seconds * 1e-9, gb = r->nbytes / r->seconds * 1e-9;
    printf("  {\"name\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"b\": %lld, \"layout\": \"%s\", \"dtype\": \"%s\", "
           "\"seconds\": %.9g, \"gflops\": %.6g, \"gbytes_per_s\": %.6g, \"of_peak_flops\": %.4g, \"copy_gbytes_per_s\": %.6g, "
           "\"of_copy\": %.4g, \"kernels\": %zu, \"compile_s\": %.6f",
           c->name, (long long)s->m, (long long)s->n, (long long)s->k, (long long)s->b, s->layout, dtype_of(s), r->seconds, gf, gb,
           gf * 1e9 / peak_flops, r->copy * 1e-9, gb * 1e9 / r->copy, r->kernels, r->compile_s);
    if (c->is_launch)
        printf(", \"us_a_kernel\": %.6g, \"us_a_kernel_after_idle\": %.6g", r->seconds / (double)r->kernels * 1e6,
               r->idle_seconds / (double)r->kernels * 1e6);
    if (r->checked >= 0) printf(", \"difference_from_interp\": %.3g", r->checked);
    if (r->ratio > 0)
        printf(", \"against\": \"%s\", \"against_seconds\": %.9g, \"ratio\": %.4g, \"difference\": %.3g", a->against,
               r->other_seconds, r->ratio, r->difference);
    putchar('}');
}

static void print_text(const bench_args *a, const bench_case *c, const bench_size *s, const result *r, double peak_flops)
{
    const double gf = r->flops / r->seconds * 1e-9, gb = r->nbytes / r->seconds * 1e-9;
    printf("%-12s %5lld %5lld %5lld %s %-4s %10.4f ms", c->name, (long long)s->m, (long long)s->n, (long long)s->k, s->layout,
           dtype_of(s), r->seconds * 1e3);
    if (c->is_launch)
        printf("  %.3f us a kernel, %.3f after a pause", r->seconds / (double)r->kernels * 1e6,
               r->idle_seconds / (double)r->kernels * 1e6);
    else
        printf("  %8.2f GF/s (%3.0f %%)  %7.2f GB/s (%3.0f %% of copying)", gf, 100 * gf * 1e9 / peak_flops, gb,
               100 * gb * 1e9 / r->copy);
    printf("  %zu kernel%s", r->kernels, r->kernels == 1 ? "" : "s");
    if (r->ratio > 0) printf("  %.3f of %s", r->ratio, a->against);
    putchar('\n');
    fflush(stdout);
}

static bench_size size_of(const bench_args *a, const bench_case *c)
{
    bench_size s = c->preset;
    if (a->size) s.m = s.n = s.k = (int64_t)a->size;
    if (a->m) s.m = (int64_t)a->m;
    if (a->n) s.n = (int64_t)a->n;
    if (a->k) s.k = (int64_t)a->k;
    if (a->b) s.b = (int64_t)a->b;
    if (a->layout) s.layout = a->layout;
    if (a->dtype) s.dtype = an_dtype_parse(a->dtype);
    return s;
}

static const bench_case *find_case(const char *name)
{
    const char *words[32];
    for (size_t i = 0; i < bench_count(); i++) {
        words[i] = bench_get(i)->name;
        if (strcmp(name, words[i]) == 0) return bench_get(i);
    }
    cli_unknown("benchmark", name, words, bench_count());
    return NULL;
}

/* How many threads a launch may use there; 0 with the sentence in e. */
static int device_threads(const char *name, cli_error *e)
{
    an_ctx *ctx = NULL;
    an_device *dev = NULL;
    int threads = 0;
    if (an_ctx_create(NULL, &ctx)) {
        cli_fail(e, AN_ERR_NOMEM, "out of memory");
        return 0;
    }
    if (an_device_get(ctx, name, &dev))
        cli_fail_ctx(e, ctx);
    else
        threads = ((const an_device_base *)dev)->threads;
    an_ctx_destroy(ctx);
    return threads > 1 ? threads : e->code ? 0 : 1;
}

static int verb_run(const void *args)
{
    const bench_args *a = args;
    cli_error e = {0};
    bench_blas *blas = NULL;
    const bench_case *only = a->name ? find_case(a->name) : NULL;
    if (a->name && !only) return AN_ERR_ARG;
    if (a->against && (a->b > 1 || (a->dtype && strcmp(a->dtype, "f32") != 0)))
        return cli_usage_error("bench: --against compares single products of f32: leave out --b and --dtype");
    if (a->against && (!only || strcmp(only->name, "matmul") != 0))
        return cli_usage_error("bench: --against compares matrix products: anneal bench matmul --against %s", a->against);
    const int threads = device_threads(a->device, &e);
    if (!threads) return cli_say(&e);
    if (a->against && !(blas = bench_blas_open(threads, &e))) return cli_say(&e);
    const double peak_flops = bench_peak_flops(threads);
    if (a->json)
        printf("{\"peak_gflops\": %.6g, \"threads\": %d, \"results\": [", peak_flops * 1e-9, threads);
    else
        printf("%d thread%s; at best %.1f GF/s from registers\n", threads, threads == 1 ? "" : "s", peak_flops * 1e-9);
    bool first = true;
    for (size_t i = 0; i < bench_count() && !e.code; i++) {
        const bench_case *c = bench_get(i);
        if (only && c != only) continue;
        const bench_size s = size_of(a, c);
        result r = {0};
        if (run_case(a, c, &s, blas, threads, &r, &e)) break;
        if (a->json) puts(first ? "" : ",");
        if (a->json)
            print_json(a, c, &s, &r, peak_flops);
        else
            print_text(a, c, &s, &r, peak_flops);
        first = false;
    }
    if (a->json && !e.code) puts("\n]}");
    bench_blas_close(blas);
    return e.code ? cli_say(&e) : 0;
}

#define SIZE_OPTION(field, what) {#field, CLI_WHOLE, offsetof(bench_args, field), "N", NULL, what, 1, 1048576, NULL}
static const cli_option options[] = {
    SIZE_OPTION(size, "m, n and k at once"),
    SIZE_OPTION(m, "first size, as above"),
    SIZE_OPTION(n, "second size"),
    SIZE_OPTION(k, "third size"),
    SIZE_OPTION(b, "how many products, of matmul"),
    {"layout", CLI_CHOICE, offsetof(bench_args, layout), "XY", NULL, "of matmul's operands, n as they are or t stored transposed",
     0, 0, "nn nt tn tt"},
    {"against", CLI_CHOICE, offsetof(bench_args, against), "LIB", NULL, "time a library on the same product, in turn", 0, 0,
     "openblas"},
    {"dtype", CLI_CHOICE, offsetof(bench_args, dtype), "TYPE", NULL, "of inputs and outputs, where a case has a choice [f32]", 0, 0,
     "f32 f16 bf16 f8e4m3 f8e5m2"},
    {"kernels", CLI_FLAG, offsetof(bench_args, kernels), NULL, NULL, "only what the kernels take, one by one, by the device's own clock", 0, 0, NULL},
    {"no-check", CLI_FLAG, offsetof(bench_args, no_check), NULL, NULL, "do not compare the results with the interpreter's", 0, 0, NULL},
    {"repeats", CLI_WHOLE, offsetof(bench_args, repeats), "N", "9", "samples; the median counts", 1, REPEATS_MAX, NULL},
    {"device", CLI_TEXT, offsetof(bench_args, device), "NAME", NULL, "where it runs: cpu (the default), interp", 0, 0, NULL},
    CLI_OPTION_JSON(bench_args, "an object with an array \"results\""),
};

const cli_verb cli_verb_bench = {
    .name = "bench",
    .operand = "NAME",
    .operand_optional = true,
    .operand_offset = offsetof(bench_args, name),
    .summary = "how fast generated kernels are, beside what the machine can do",
    .about = "Without NAME, all of: matmul (m, k) @ (k, n); elementwise, softmax, layernorm over (m, n); reduce (m, n) over m;\n"
             "conv 3x3, k channels, m images of n x n; attention of m heads, n positions, k features; gather m rows of k\n"
             "out of n; mlp, a step of n-k-10; gpt, a step on\n"
             "m sequences of n positions, width k; launch, n kernels of m floats.\n"
             "Results are compared with the interpreter's first. Percentages are of what the same number of threads does at best: multiply-adds from\n"
             "registers, copying between buffers of the same size. ANNEAL_THREADS sets how many, for the library too; ratios above 1 mean faster than it.\n",
    .examples = "  anneal bench\n"
                "  anneal bench matmul --size 512 --against openblas\n"
                "  anneal bench matmul --m 64 --n 3072 --k 768 --layout nt --json\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .args_size = sizeof(bench_args),
    .run = verb_run,
};
