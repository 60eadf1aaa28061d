/* cmd_kernels.c - `anneal kernels MODEL`: what a training step became. Source of every kernel, where its boundary is and,
 * with --why, what the cost model says about that. */
#include "bench.h"
#include "print.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>

typedef struct kernels_args {
    cli_model_args m;
    const char *show;
    bool why, json, time;
} kernels_args;

static an_kernel_text text_of(const char *show)
{
    if (strcmp(show, "linear") == 0) return AN_KERNEL_LINEAR;
    return strcmp(show, "dag") == 0 ? AN_KERNEL_DAG : AN_KERNEL_SOURCE;
}

/* The notes of all passes; as text, or as elements of a JSON array. */
static void print_notes(const an_trace *trace, bool json)
{
    bool any = false;
    for (size_t p = 0; p < an_trace_npasses(trace); p++) {
        const an_trace_pass pass = an_trace_get_pass(trace, p);
        for (size_t i = 0; i < pass.nnotes; i++) {
            const char *note = an_trace_get_note(trace, p, i);
            if (!json) {
                printf("  %s: %s\n", pass.name, note);
                continue;
            }
            printf("%s\n  {\"pass\": ", any ? "," : "");
            cli_json_string(stdout, pass.name);
            fputs(", \"text\": ", stdout);
            cli_json_string(stdout, note);
            putchar('}');
            any = true;
        }
    }
}

static void put_batch(const cli_session *s, char *text, size_t size)
{
    if (s->model->max_batch)
        (void)snprintf(text, size, "any up to %lld", (long long)s->model->max_batch);
    else
        (void)snprintf(text, size, "%lld", (long long)model_size(&s->options, MODEL_BATCH));
}

static void print_symbols(const an_plan *plan)
{
    for (size_t i = 0; i < an_plan_symbol_count(plan); i++) {
        const an_symbol_info x = an_plan_symbol_get(plan, i);
        printf("%s %s from %lld to %lld", i ? "," : "Symbols, which have their values when a step is run:", x.name, (long long)x.min, (long long)x.max);
    }
    if (an_plan_symbol_count(plan)) putchar('\n');
}

static int print_json(const kernels_args *a, cli_session *s, an_plan *plan, const an_trace *trace, cli_error *e)
{
    const an_plan_times times = an_plan_time(plan);
    printf("{\"model\": \"%s\", \"device\": \"%s\", \"batch\": %llu, \"bytes_between_kernels\": %zu, "
           "\"bytes_between_kernels_unplanned\": %zu, \"schedule_s\": %.6f, \"codegen_s\": %.6f, \"compile_s\": %.6f, "
           "\"symbols\": [",
           s->model->name, s->device, (unsigned long long)model_size(&s->options, MODEL_BATCH), an_plan_nbytes(plan), an_plan_nbytes_unplanned(plan),
           times.schedule, times.codegen, times.compile);
    for (size_t i = 0; i < an_plan_symbol_count(plan); i++) {
        const an_symbol_info x = an_plan_symbol_get(plan, i);
        printf("%s{\"name\": \"%s\", \"min\": %lld, \"max\": %lld}", i ? ", " : "", x.name, (long long)x.min, (long long)x.max);
    }
    fputs("], \"kernels\": [", stdout);
    for (size_t i = 0; i < an_plan_kernel_count(plan); i++) {
        const an_kernel_info k = an_plan_kernel(plan, i);
        printf("%s\n  {\"name\": ", i ? "," : "");
        cli_json_string(stdout, k.name);
        printf(", \"phase\": \"%s\", \"reason\": ", k.phase);
        cli_json_string(stdout, k.reason);
        printf(", \"flops\": %.17g, \"bytes_read\": %.17g, \"bytes_written\": %.17g, \"buffers\": %u, \"reused\": %s, "
               "\"key\": \"%016llx%016llx\"",
               k.flops, k.nbytes_read, k.nbytes_written, k.nbuffers, k.reused ? "true" : "false", (unsigned long long)k.key_hi,
               (unsigned long long)k.key_lo);
        if (strcmp(a->show, "none") != 0) {
            printf(", \"%s\": \"", a->show);
            if (an_plan_kernel_print(plan, i, text_of(a->show), cli_put_json, stdout)) return cli_fail_ctx(e, s->ctx);
            putchar('"');
        }
        putchar('}');
    }
    if (a->why) {
        fputs("\n], \"decisions\": [", stdout);
        print_notes(trace, true);
    }
    puts("\n]}");
    return 0;
}

static cli_colour colour_of(const char *phase)
{
    if (strcmp(phase, "backward") == 0) return CLI_EMBER;
    return strcmp(phase, "update") == 0 ? CLI_GOLD : CLI_TEAL;
}

static int print_text(const kernels_args *a, cli_session *s, an_plan *plan, const an_trace *trace, cli_error *e)
{
    const cli_style style = cli_style_of(stdout);
    const char *plain = cli_paint(&style, CLI_PLAIN), *dim = cli_paint(&style, CLI_DIM);
    const size_t n = an_plan_kernel_count(plan);
    const an_plan_times times = an_plan_time(plan);
    for (size_t i = 0; i < n; i++) {
        const an_kernel_info k = an_plan_kernel(plan, i);
        printf("%s%zu. %s%s  %s, %u buffers, %.4g operations, %.4g bytes read, %.4g written%s\n",
               cli_paint(&style, colour_of(k.phase)), i + 1, k.name, plain, k.phase, k.nbuffers, k.flops, k.nbytes_read,
               k.nbytes_written, k.reused ? "; the program of an equal kernel above" : "");
        printf("   boundary: %s\n", k.reason);
        if (k.reused || strcmp(a->show, "none") == 0) continue;
        fputs(dim, stdout);
        if (an_plan_kernel_print(plan, i, text_of(a->show), cli_put, stdout)) return cli_fail_ctx(e, s->ctx);
        printf("%s\n", plain);
    }
    if (a->why) {
        puts("What was decided, in the passes' words:");
        print_notes(trace, false);
    }
    print_symbols(plan);
    char batch[40];
    put_batch(s, batch, sizeof batch);
    printf("%zu kernels for a step of %s, batch %s, on %s; %zu bytes between them (%zu if none were shared)\n", n, s->model->name, batch, s->device, an_plan_nbytes(plan), an_plan_nbytes_unplanned(plan));
    printf("made in %.1f ms: schedule %.1f, codegen %.1f, compile %.1f\n",
           (times.schedule + times.codegen + times.compile) * 1e3, times.schedule * 1e3, times.codegen * 1e3,
           times.compile * 1e3);
    return 0;
}

/* --- times ------------------------------------------------------------------------------------------------------- */

typedef struct timed {
    an_kernel_info kernel;
    size_t number;
    double seconds, peak; /* median; the fraction of the machine's peak, in operations or bytes, whichever is more, with as many threads */
} timed;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int slowest_first(const void *a, const void *b)
{
    const timed *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

enum { TIME_RUNS = 21 };

/* Runs the plan some times, each kernel on its own, and takes medians. The first run only warms up. */
static int measure(cli_session *s, an_plan *plan, timed *out, cli_error *e)
{
    const size_t n = an_plan_kernel_count(plan);
    const int threads = ((const an_device_base *)an_graph_device(s->graph))->threads > 0 ? ((const an_device_base *)an_graph_device(s->graph))->threads : 1;
    const double peak_flops = bench_peak_flops(threads);
    an_profile *own = s->profile ? NULL : an_profile_start(s->ctx), *p = s->profile ? s->profile : own;
    double *seconds = calloc(n * TIME_RUNS + 1, sizeof *seconds);
    int code = p && seconds ? 0 : cli_fail(e, AN_ERR_NOMEM, "out of memory");
    for (int r = -1; r < TIME_RUNS && !code; r++) {
        const size_t before = an_profile_count(p);
        if (an_plan_run(plan)) code = cli_fail_ctx(e, s->ctx);
        for (size_t i = 0; i < n && !code && r >= 0; i++) seconds[i * TIME_RUNS + (size_t)r] = an_profile_get(p, before + i).seconds;
    }
    for (size_t i = 0; i < n && !code; i++) {
        qsort(seconds + i * TIME_RUNS, TIME_RUNS, sizeof *seconds, by_value);
        out[i] = (timed){.kernel = an_plan_kernel(plan, i), .number = i + 1, .seconds = seconds[i * TIME_RUNS + TIME_RUNS / 2]};
        if (out[i].seconds <= 0) continue;
        const double flops = out[i].kernel.flops / out[i].seconds / peak_flops;
        const double moved = out[i].kernel.nbytes_read + out[i].kernel.nbytes_written;
        const double bytes = moved / out[i].seconds / bench_copy_rate((size_t)moved, threads);
        out[i].peak = flops > bytes ? flops : bytes;
    }
    free(seconds);
    an_profile_destroy(own);
    return code;
}

static int print_times(const kernels_args *a, cli_session *s, an_plan *plan, cli_error *e)
{
    const size_t n = an_plan_kernel_count(plan);
    timed *all = calloc(n + 1, sizeof *all);
    double total = 0, done = 0;
    int code = all ? measure(s, plan, all, e) : cli_fail(e, AN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n && !code; i++) total += all[i].seconds;
    if (!code) qsort(all, n, sizeof *all, slowest_first);
    if (!code && a->json) printf("{\"model\": \"%s\", \"device\": \"%s\", \"seconds\": %.9f, \"kernels\": [", s->model->name, s->device, total);
    if (!code && !a->json) printf("%4s  %10s %6s %6s  %8s %8s %6s  %s\n", "no.", "us", "%", "sum %", "GF/s", "GB/s", "peak", "kernel");
    for (size_t i = 0; i < n && !code; i++) {
        const timed *k = &all[i];
        const double t = k->seconds > 0 ? k->seconds : 1e-9, nbytes = k->kernel.nbytes_read + k->kernel.nbytes_written;
        done += k->seconds;
        if (!a->json) {
            printf("%4zu  %10.1f %6.1f %6.1f  %8.2f %8.2f %5.0f%%  %s  %s\n", k->number, k->seconds * 1e6, 100 * k->seconds / total,
                   100 * done / total, k->kernel.flops / t * 1e-9, nbytes / t * 1e-9, 100 * k->peak, k->kernel.name, k->kernel.phase);
            continue;
        }
        printf("%s\n  {\"number\": %zu, \"name\": ", i ? "," : "", k->number);
        cli_json_string(stdout, k->kernel.name);
        printf(", \"phase\": \"%s\", \"seconds\": %.9f, \"flops\": %.17g, \"bytes\": %.17g, \"peak\": %.4f}", k->kernel.phase, k->seconds,
               k->kernel.flops, nbytes, k->peak);
    }
    if (!code && a->json) puts("\n]}");
    if (!code && !a->json)
        printf("%zu kernels, %.1f us; medians of %d runs; peak: of this machine's multiply-adds, or of copying as many bytes, whichever is nearer\n", n,
               total * 1e6, TIME_RUNS);
    free(all);
    return code;
}

static int verb_run(const void *args)
{
    const kernels_args *a = args;
    cli_error e = {0};
    cli_session s = {0};
    an_plan *plan = NULL;
    an_trace *trace = NULL;
    if (cli_session_open(&s, &a->m, NULL, &e)) goto done;
    trace = an_trace_create(s.ctx);
    if (!trace || model_plan(&s.m, trace, &plan)) {
        cli_fail_ctx(&e, s.ctx);
        goto done;
    }
    if (a->time)
        print_times(a, &s, plan, &e);
    else if (a->json)
        print_json(a, &s, plan, trace, &e);
    else
        print_text(a, &s, plan, trace, &e);
    cli_session_finish(&s, &e);
done:
    an_plan_destroy(plan);
    an_trace_destroy(trace);
    cli_session_close(&s);
    return e.code ? cli_say(&e) : 0;
}

static const cli_option options[] = {
    {"time", CLI_FLAG, offsetof(kernels_args, time), NULL, NULL, "run them and print a table, the slowest first, instead", 0, 0, NULL},
    {"why", CLI_FLAG, offsetof(kernels_args, why), NULL, NULL, "what the cost model and the passes decided, as well", 0, 0, NULL},
    {"show", CLI_CHOICE, offsetof(kernels_args, show), "WHAT", "source", "which form of a kernel", 0, 0, "source linear dag none"},
    CLI_OPTION_JSON(kernels_args, "an object with an array \"kernels\""),
    CLI_OPTIONS_OF_MODEL(kernels_args),
};

const cli_verb cli_verb_kernels = {
    .name = "kernels",
    CLI_VERB_OF_MODEL(kernels_args),
    .summary = "print every kernel of a training step, and why it ends where it does",
    .about = "source is the device's own language (LLVM IR on cpu), linear the instruction list, dag what the scheduler made.\n",
    .examples = "  anneal kernels mlp\n"
                "  anneal kernels mlp --why --show none\n"
                "  anneal kernels mlp --time\n"
                "  anneal kernels mlp --show linear --device interp\n"
                "  anneal kernels mlp --json | jq '.kernels[].name'\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .run = verb_run,
};
