/* random_check.c - a random program in every way there is, against the oracle. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "random_program.h"

#include <anneal/device.h>
#include <anneal/jit.h>
#include <anneal/plan.h>

#include "runtime/plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef enum kind {
    PLANNED,
    SYMBOLIC,      /* an axis size of the inputs is a symbol: where the library takes that */
    WITHIN_BUDGET, /* of three quarters of the memory between kernels, where that can be kept */
    REPLAYED,      /* captured by a jit: some inputs are its arguments, the others state of its own */
    REPLAYED_OVER_A_SYMBOL,
    FROM_DISK,     /* planned by one context, and by another that finds schedule and kernels on disk */
} kind;

typedef struct way {
    const char *name, *device;
    an_settings settings;
    kind kind;
} way;

static const way ways[] = {
    {"interp", "interp", {0}, PLANNED},
    {"interp, no fusion", "interp", {.no_fuse = true}, PLANNED},
    {"interp, no optimisation", "interp", {.no_opt = true}, PLANNED},
    {"cpu", "cpu", {0}, PLANNED},
    {"cpu, no fusion", "cpu", {.no_fuse = true}, PLANNED},
    {"interp, symbolic", "interp", {0}, SYMBOLIC},
    {"cpu, symbolic", "cpu", {0}, SYMBOLIC},
    {"cpu, memory not reused", "cpu", {.no_reuse = true}, PLANNED},
    {"cpu, replayed", "cpu", {0}, REPLAYED},
    {"interp, replayed", "interp", {0}, REPLAYED},
    {"cpu, replayed, no fusion, memory not reused", "cpu", {.no_fuse = true, .no_reuse = true}, REPLAYED},
    {"cpu, replayed, symbolic", "cpu", {0}, REPLAYED_OVER_A_SYMBOL},
    {"interp, no fusion, within a budget", "interp", {.no_fuse = true}, WITHIN_BUDGET},
    {"cpu, from disk", "cpu", {0}, FROM_DISK},
};
enum { WAYS = sizeof ways / sizeof *ways, LAB_USES = 200 };

struct random_lab {
    an_ctx *ctx[WAYS], *oracle;
    int uses;
};

static bool has_device(const char *name)
{
    size_t n = 0;
    const an_backend *const *all = an_backends(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(all[i]->name, name) == 0) return true;
    return false;
}

static void close_all(random_lab *lab)
{
    for (int i = 0; i < WAYS; i++) an_ctx_destroy(lab->ctx[i]);
    an_ctx_destroy(lab->oracle);
    *lab = (random_lab){0};
}

random_lab *random_lab_create(void)
{
    return calloc(1, sizeof(random_lab));
}

void random_lab_destroy(random_lab *lab)
{
    if (lab) close_all(lab);
    free(lab);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One build of a program. */
typedef struct build {
    an_graph *g;
    an_tensor *v[RANDOM_CALLS];
    an_uop uop[RANDOM_CALLS]; /* of outputs and inputs, before anything has run */
} build;

static bool say(random_verdict *out, const char *where, const char *what, const char *fmt, ...) AN_PRINTF(4, 5);
static bool say(random_verdict *out, const char *where, const char *what, const char *fmt, ...)
{
    snprintf(out->kind, sizeof out->kind, "%s: %s", where, what);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out->text, sizeof out->text, fmt, args);
    va_end(args);
    return false;
}

static bool build_up(an_ctx *ctx, const char *device, const char *where, const random_program *p, build *b, random_verdict *out)
{
    if (an_graph_create(ctx, &b->g) || an_graph_set_device(b->g, device))
        return say(out, where, "no graph", "%s", an_ctx_error(ctx));
    for (int i = 0; i < p->n; i++) {
        b->v[i] = random_apply(b->g, p, i, b->v);
        if (!b->v[i]) return say(out, where, "a call is refused", "v%d: %s", i, an_ctx_error(ctx));
    }
    for (int i = 0; i < p->n; i++) b->uop[i] = an_tensor_uop(b->v[i]);
    return true;
}

static bool assigns_to(const random_program *p, const build *b, int i)
{
    for (int k = 0; k < p->n; k++)
        if (random_writes(p->call[k].op) && b->v[k] == b->v[i]) return true;
    return false;
}

static bool agree(an_dtype d, an_scalar got, an_scalar want, double error)
{
    if (an_dtype_kind_of(d) != AN_KIND_FLOAT) return got.i == want.i;
    if (isnan(got.f) || isnan(want.f)) return isnan(got.f) && isnan(want.f);
    return got.f == want.f || fabs(got.f - want.f) <= error;
}

/* Value i against the oracle's. */
static bool compare(an_dtype d, const unsigned char *bytes, const eval_value *want, const char *where, const char *what, int i,
                    random_verdict *out)
{
    for (size_t k = 0; k < want->n; k++) {
        if (!isfinite(want->error[k])) {
            out->open++;
            continue;
        }
        out->compared++;
        const an_scalar got = an_scalar_load(d, bytes + k * an_dtype_nbytes(d));
        if (agree(d, got, want->data[k], want->error[k])) continue;
        if (an_dtype_kind_of(d) == AN_KIND_FLOAT)
            return say(out, where, what, "v%d[%zu] is %.9g (%a), not %.9g (%a, +- %.3g)", i, k, got.f, got.f, want->data[k].f,
                       want->data[k].f, want->error[k]);
        return say(out, where, what, "v%d[%zu] is %lld, not %lld", i, k, (long long)got.i, (long long)want->data[k].i);
    }
    return true;
}

/* Reads value i and compares; keeps the bytes (the caller's to free) if asked. */
static bool look(build *b, int i, const eval_value *want, const char *where, const char *what, unsigned char **keep,
                 random_verdict *out)
{
    const size_t nbytes = an_tensor_nbytes(b->v[i]);
    unsigned char *bytes = malloc(nbytes + 1);
    bool ok = false;
    if (want && nbytes != want->n * an_dtype_nbytes(an_tensor_dtype(b->v[i])))
        say(out, where, "size", "v%d has %zu bytes, not those of %zu elements", i, nbytes, want->n);
    else if (!want)
        say(out, where, "no oracle", "v%d: %s", i, an_ctx_error(an_graph_ctx(b->g)));
    else if (an_tensor_read(b->v[i], bytes, nbytes))
        say(out, where, "no values", "v%d: %s", i, an_ctx_error(an_graph_ctx(b->g)));
    else
        ok = compare(an_tensor_dtype(b->v[i]), bytes, want, where, what, i, out);
    if (keep)
        *keep = bytes;
    else
        free(bytes);
    return ok;
}

/* The second run: from what the buffers hold after the first. */
static bool run_again(build *b, const random_program *p, an_plan *plan, unsigned char *const *first, const char *where,
                      random_verdict *out)
{
    bool ok = true, writes = false, realizes = false;
    for (int i = 0; i < p->n; i++) {
        writes = writes || random_writes(p->call[i].op);
        realizes = realizes || p->call[i].op == RANDOM_REALIZE;
    }
    if (writes && realizes) return true; /* what was realized before the plan stays as it was, which the oracle does not know */
    evaluation ev = {.g = b->g, .errors = true};
    for (int i = 0; i < p->n && writes && ok; i++)
        if (p->call[i].output) ok = evaluation_of(&ev, b->uop[i]) != NULL;
    if (!ok) say(out, where, "no oracle for the second run", "%s", an_ctx_error(an_graph_ctx(b->g)));
    if (ok && an_plan_run(plan)) ok = say(out, where, "no second run", "%s", an_ctx_error(an_graph_ctx(b->g)));
    for (int i = 0; i < p->n && ok; i++) {
        if (!p->call[i].output) continue;
        if (writes) {
            ok = look(b, i, evaluation_of(&ev, b->uop[i]), where, "second run", NULL, out);
            continue;
        }
        const size_t nbytes = an_tensor_nbytes(b->v[i]);
        unsigned char *bytes = malloc(nbytes + 1);
        if (an_tensor_read(b->v[i], bytes, nbytes) || memcmp(bytes, first[i], nbytes) != 0)
            ok = say(out, where, "second run", "v%d is not what it was after the first run", i);
        free(bytes);
    }
    evaluation_fini(&ev);
    return ok;
}

/* A size of the inputs' axes, from 2 on: a symbolic axis does not stretch, as one of size 1 may, nor is it squeezed away, as a part of one
 * element is. 0: there is none. */
static int64_t choose_symbol(const random_program *p)
{
    int64_t sizes[RANDOM_CALLS * RANDOM_INTS];
    size_t n = 0;
    for (int i = 0; i < p->n; i++)
        if (p->call[i].op == RANDOM_SQUEEZEALL) return 0;
    for (int i = 0; i < p->n; i++)
        for (uint32_t k = 0; p->call[i].op == RANDOM_INPUT && k < p->call[i].n; k++)
            if (p->call[i].p[k] > 1) sizes[n++] = p->call[i].p[k];
    uint64_t state = p->seed;
    return n ? sizes[random_next(&state) % n] : 0;
}

static bool writes_in_place(const random_program *p)
{
    for (int i = 0; i < p->n; i++)
        if (random_writes(p->call[i].op)) return true;
    return false;
}

/* A build, and its plan. */
static an_status make_plan(an_ctx *ctx, const way *w, const random_program *p, build *b, an_plan **plan, random_verdict *out)
{
    an_tensor *outputs[RANDOM_CALLS];
    size_t n = 0;
    if (!build_up(ctx, w->device, w->name, p, b, out)) return an_ctx_status(ctx);
    for (int i = 0; i < p->n; i++)
        if (p->call[i].output) outputs[n++] = b->v[i];
    const an_status st = an_plan_create(b->g, outputs, n, NULL, plan);
    if (st) say(out, w->name, "no plan", "%s", an_ctx_error(ctx));
    return st;
}

static void unmake_plan(build *b, an_plan **plan)
{
    an_plan_destroy(*plan);
    an_graph_destroy(b->g);
    *plan = NULL;
    *b = (build){0};
}

/* The same with less memory between kernels than there would be; without a limit where that cannot be. */
static an_status make_plan_within_budget(an_ctx *ctx, const way *w, const random_program *p, build *b, an_plan **plan, random_verdict *out)
{
    an_settings settings = an_ctx_settings(ctx);
    an_status st = make_plan(ctx, w, p, b, plan, out);
    const uint64_t budget = st ? 0 : an_plan_nbytes(*plan) / 4 * 3;
    if (!budget) return st;
    unmake_plan(b, plan);
    settings.memory_budget = budget;
    st = an_ctx_set_settings(ctx, settings);
    if (!st) st = make_plan(ctx, w, p, b, plan, out);
    settings.memory_budget = 0;
    if (st == AN_ERR_LIMIT) {
        an_ctx_clear_error(ctx);
        unmake_plan(b, plan);
        *out->kind = *out->text = '\0';
        st = an_ctx_set_settings(ctx, settings);
        return st ? st : make_plan(ctx, w, p, b, plan, out);
    }
    if (!st && an_plan_nbytes(*plan) > budget) {
        say(out, w->name, "over its budget", "%zu bytes, not %llu", an_plan_nbytes(*plan), (unsigned long long)budget);
        return AN_ERR_INTERNAL;
    }
    out->within += !st;
    return st ? st : an_ctx_set_settings(ctx, settings);
}

static bool check_way(an_ctx *ctx, const way *w, const random_program *given, const build *oracle, evaluation *ev, random_verdict *out)
{
    random_program copy = *given;
    const random_program *p = &copy;
    const bool symbolic = w->kind == SYMBOLIC;
    if (symbolic) copy.symbol = choose_symbol(given);
    if (symbolic && !copy.symbol) return true;
    build b = {0};
    unsigned char *first[RANDOM_CALLS] = {0};
    an_plan *plan = NULL;
    const double start = seconds_now();
    bool ok = (w->kind == WITHIN_BUDGET ? make_plan_within_budget : make_plan)(ctx, w, p, &b, &plan, out) == AN_OK;
    out->seconds = fmax(out->seconds, seconds_now() - start);
    if (!ok && symbolic && !plan && strstr(out->kind, "a call is refused")) { /* a call that names sizes does not know the symbol */
        an_graph_destroy(b.g);
        *out->kind = *out->text = '\0';
        return true;
    }
    out->symbolic += symbolic;
    if (ok && w->kind == FROM_DISK) out->kept += plan->is_schedule_kept;
    if (ok && an_plan_run(plan)) ok = say(out, w->name, "no run", "%s", an_ctx_error(ctx));
    for (int i = 0; i < p->n && ok; i++) {
        const bool untouched = p->call[i].op == RANDOM_INPUT && !assigns_to(p, &b, i);
        if (!p->call[i].output && !untouched) continue;
        ok = look(&b, i, evaluation_of(ev, oracle->uop[i]), w->name, untouched ? "an input changed" : "difference", &first[i], out);
    }
    if (ok && !(symbolic && writes_in_place(p))) ok = run_again(&b, p, plan, first, w->name, out);
    for (int i = 0; i < p->n; i++) free(first[i]);
    an_plan_destroy(plan);
    an_graph_destroy(b.g);
    return ok;
}

/* --- from disk --------------------------------------------------------------------------------------------------- */

/* Two contexts, one after the other: what the first one compiled, the second one finds. */
static bool check_from_disk(an_ctx *unused, const way *w, const random_program *p, const build *oracle, evaluation *ev, random_verdict *out)
{
    bool ok = true;
    (void)unused;
    for (int i = 0; i < 2 && ok; i++) {
        an_ctx *ctx = NULL;
        if (an_ctx_create(NULL, &ctx) || an_ctx_set_settings(ctx, w->settings)) ok = say(out, w->name, "no context", "no memory");
        ok = ok && check_way(ctx, w, p, oracle, ev, out);
        an_ctx_destroy(ctx);
    }
    return ok;
}

/* --- replayed ---------------------------------------------------------------------------------------------------- */

typedef struct tensors {
    an_tensor *v[RANDOM_CALLS];
} tensors;

typedef struct captured {
    const random_program *program;
    tensors state; /* inputs that are no arguments */
    bool refused;  /* a call of it was */
} captured;

/* The program over its inputs. */
static an_status program(void *user, an_graph *g, const void *args, void *results)
{
    captured *c = user;
    const random_program *p = c->program;
    tensors made = *(const tensors *)args;
    for (int i = 0; i < p->n; i++) {
        if (c->state.v[i]) made.v[i] = c->state.v[i];
        if (p->call[i].op != RANDOM_INPUT) made.v[i] = random_apply(g, p, i, made.v);
        c->refused = !made.v[i];
        if (c->refused) return an_ctx_status(an_graph_ctx(g));
    }
    *(tensors *)results = made;
    return AN_OK;
}

/* Three calls of a jit on the same inputs, some of them captured, what it wrote into them taken back in between: the second into
 * results of its own, the third into those of the first. The first against the oracle, the others against the first, bit for bit. */
static bool check_replay(an_ctx *ctx, const way *w, const random_program *p, const build *oracle, evaluation *ev, random_verdict *out)
{
    enum { CALLS = 3 };
    random_program lazy = *p;
    lazy.lazy = true;
    const bool symbolic = w->kind == REPLAYED_OVER_A_SYMBOL;
    if (symbolic) lazy.symbol = choose_symbol(p);
    if (symbolic && !lazy.symbol) return true;
    an_graph *g = NULL;
    an_jit *jit = NULL;
    an_jit_slot in[RANDOM_CALLS], result[RANDOM_CALLS];
    size_t nin = 0, nresults = 0;
    tensors inputs_of = {{NULL}}, args = {{NULL}}, results[2] = {{{NULL}}};
    captured user = {.program = &lazy};
    uint64_t choice = p->seed ^ 0x5742u;
    unsigned char *inputs[RANDOM_CALLS] = {0}, *first[RANDOM_CALLS] = {0};
    bool ok = !an_graph_create(ctx, &g) && !an_graph_set_device(g, w->device);
    if (!ok) say(out, w->name, "no graph", "%s", an_ctx_error(ctx));
    for (int i = 0; i < p->n && ok; i++) {
        const an_jit_slot here = {"v", (size_t)i * sizeof(an_tensor *), 1, false};
        if (p->call[i].output) result[nresults++] = here;
        if (p->call[i].op != RANDOM_INPUT) continue;
        an_tensor *x = inputs_of.v[i] = random_apply(g, &lazy, i, inputs_of.v);
        const bool is_state = random_next(&choice) % 3 == 0;
        if (!is_state) in[nin++] = here;
        (is_state ? &user.state : &args)->v[i] = x;
        const size_t nbytes = an_tensor_nbytes(x);
        inputs[i] = malloc(nbytes + 1);
        ok = x && !an_tensor_read(x, inputs[i], nbytes);
        if (!ok) say(out, w->name, "a call is refused", "v%d: %s", i, an_ctx_error(ctx));
    }
    const an_jit_desc desc = {.name = "the program", .fn = program, .user = &user, .args = {sizeof args, in, nin, NULL, 0},
                              .results = {sizeof(tensors), result, nresults, NULL, 0}};
    if (ok && an_jit_create(g, &desc, &jit)) ok = say(out, w->name, "no jit", "%s", an_ctx_error(ctx));
    for (int c = 0; c < CALLS && ok; c++) {
        for (int i = 0; i < p->n && ok && c > 0; i++)
            if (inputs[i] && an_tensor_write(inputs_of.v[i], inputs[i], an_tensor_nbytes(inputs_of.v[i])))
                ok = say(out, w->name, "an input cannot be written", "v%d: %s", i, an_ctx_error(ctx));
        if (ok && an_jit_call(jit, &args, &results[c % 2])) ok = say(out, w->name, "no call", "call %d: %s", c, an_ctx_error(ctx));
        for (int i = 0; i < p->n && ok; i++) {
            if (!p->call[i].output) continue;
            an_tensor *x = results[c % 2].v[i];
            const size_t nbytes = an_tensor_nbytes(x);
            unsigned char *bytes = malloc(nbytes + 1);
            const eval_value *want = evaluation_of(ev, oracle->uop[i]);
            if (an_tensor_read(x, bytes, nbytes))
                ok = say(out, w->name, "no values", "v%d: %s", i, an_ctx_error(ctx));
            else if (c == 0)
                ok = compare(an_tensor_dtype(x), bytes, want, w->name, "difference", i, out);
            else if (memcmp(bytes, first[i], nbytes) != 0)
                ok = say(out, w->name, "a replay differs", "v%d in call %d is not what it was in the first", i, c);
            if (c == 0)
                first[i] = bytes;
            else
                free(bytes);
        }
    }
    for (int i = 0; i < p->n; i++) {
        free(inputs[i]);
        free(first[i]);
    }
    an_jit_destroy(jit);
    an_graph_destroy(g);
    if (!ok && symbolic && user.refused) { /* as above */
        *out->kind = *out->text = '\0';
        return true;
    }
    out->symbolic += symbolic;
    return ok;
}

void random_check(random_lab *lab, const random_program *p, bool thorough, random_verdict *out)
{
    *out = (random_verdict){0};
    if (lab->uses++ % LAB_USES == 0 || (lab->oracle && an_ctx_status(lab->oracle))) {
        close_all(lab);
        lab->uses = 1;
        bool ok = !an_ctx_create(NULL, &lab->oracle);
        for (int i = 0; i < WAYS && ok; i++) {
            an_settings settings = ways[i].settings;
            settings.no_cache = true; /* thousands of programs that come once are not for the disk */
            if (ways[i].kind != FROM_DISK) ok = !an_ctx_create(NULL, &lab->ctx[i]) && !an_ctx_set_settings(lab->ctx[i], settings);
        }
        if (!ok) {
            say(out, "lab", "no context", "no memory");
            return;
        }
    }
    build oracle = {0};
    evaluation ev = {.errors = true};
    random_program lazy = *p;
    lazy.lazy = true;
    bool ok = build_up(lab->oracle, "interp", "oracle", &lazy, &oracle, out);
    ev.g = oracle.g;
    for (int i = 0; i < p->n && ok; i++)
        if (!evaluation_of(&ev, oracle.uop[i])) ok = say(out, "oracle", "no value", "v%d: %s", i, an_ctx_error(lab->oracle));
    for (int i = 0; i < WAYS && ok; i++) {
        if (!has_device(ways[i].device)) continue;
        const kind k = ways[i].kind;
        if (!thorough && i != 0 && i != 3 && (p->seed + (uint64_t)i) % (k == FROM_DISK ? 16 : 3) != 0) continue;
        ok = (k == REPLAYED || k == REPLAYED_OVER_A_SYMBOL ? check_replay : k == FROM_DISK ? check_from_disk : check_way)(lab->ctx[i], &ways[i], p, &oracle, &ev, out);
        if (lab->ctx[i]) an_ctx_clear_error(lab->ctx[i]);
    }
    evaluation_fini(&ev);
    an_graph_destroy(oracle.g);
    if (lab->oracle) an_ctx_clear_error(lab->oracle);
}
