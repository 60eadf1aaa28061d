/* test_tensor_golden.c - every function of the tensor API against values that NumPy computed (tests/golden/tensor, whose
 * make.py says how), on the graph as it was built, by the oracle in support/eval_graph.c, and on each device. */
#define _POSIX_C_SOURCE 200809L /* getline */
#include "an_test.h"
#include "eval_graph.h"

#include "tensor/tensor.h"
#include <anneal/device.h>

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CASES "tests/golden/tensor/cases.def"
#define VALUES "tests/golden/tensor/values.txt"

/* --- the calls --------------------------------------------------------------------------------------------------- */

#define L(...) ((const int64_t[]){__VA_ARGS__})

static an_tensor *part_of_split(an_tensor *x, const int64_t *sizes, uint32_t n, int axis, uint32_t which)
{
    an_tensor *parts[8] = {NULL};
    return an_split(x, sizes, n, axis, parts) ? NULL : parts[which];
}

static an_tensor *part_of_chunk(an_tensor *x, uint32_t n, int axis, uint32_t which)
{
    an_tensor *parts[8] = {NULL};
    return an_chunk(x, n, axis, parts) ? NULL : parts[which];
}

#define X (in[0])
#define Y (in[1])
#define Z (in[2])
#define CASE(name, ...)                                                                                                \
    static an_tensor *call_##name(an_graph *G, an_tensor *const *in)                                                   \
    {                                                                                                                  \
        (void)G;                                                                                                       \
        (void)in;                                                                                                      \
        return __VA_ARGS__;                                                                                            \
    }
#include "../golden/tensor/cases.def"
#undef CASE
#undef X
#undef Y
#undef Z

static const struct {
    const char *name;
    an_tensor *(*call)(an_graph *g, an_tensor *const *in);
} calls[] = {
#define CASE(name, ...) {#name, call_##name},
#include "../golden/tensor/cases.def"
#undef CASE
};
enum { NCALLS = sizeof calls / sizeof calls[0], NIN = 3 };

/* --- the values -------------------------------------------------------------------------------------------------- */

typedef struct array {
    an_dtype dtype;
    uint32_t rank;
    int64_t dims[AN_RANK_MAX];
    size_t n;
    unsigned char *data; /* stored elements */
} array;

typedef struct golden {
    char name[64];
    double rtol, atol; /* absolute numbers */
    array in[NIN], out;
    uint32_t nin;
} golden;

static void array_free(array *a)
{
    free(a->data);
    *a = (array){0};
}

static void golden_free(golden *k)
{
    for (int i = 0; i < NIN; i++) array_free(&k->in[i]);
    array_free(&k->out);
    *k = (golden){0};
}

/* "f32 2 3 : v v v ..." */
static bool array_read(char *text, array *a)
{
    char *rest = NULL;
    a->dtype = an_dtype_parse(strtok_r(text, " ", &rest));
    a->n = 1;
    if (a->dtype == AN_DTYPE_NONE) return false;
    for (char *word; (word = strtok_r(NULL, " \n", &rest)) && *word != ':';) {
        if (a->rank == AN_RANK_MAX) return false;
        a->dims[a->rank] = strtoll(word, NULL, 10);
        a->n *= (size_t)a->dims[a->rank++];
    }
    const size_t size = an_dtype_nbytes(a->dtype);
    a->data = calloc(a->n + 1, size);
    for (size_t i = 0; a->data && i < a->n; i++) {
        const char *word = strtok_r(NULL, " \n", &rest);
        an_scalar v = {0};
        if (!word) return false;
        if (an_dtype_kind_of(a->dtype) == AN_KIND_FLOAT)
            v.f = a->dtype == AN_F32 ? (double)strtof(word, NULL) : strtod(word, NULL);
        else if (a->dtype == AN_U64)
            v.u = strtoull(word, NULL, 10);
        else
            v.i = strtoll(word, NULL, 10);
        an_scalar_store(a->dtype, v, a->data + i * size);
    }
    return a->data && !strtok_r(NULL, " \n", &rest);
}

/* The next case of the file: it ends with its "out" line. False at the end of the file; *bad for what is malformed. */
static bool golden_read(FILE *f, char **line, size_t *cap, golden *k, bool *bad)
{
    *k = (golden){0};
    while (getline(line, cap, f) >= 0) {
        char *text = *line;
        if (*text == '#') continue;
        if (strncmp(text, "case ", 5) == 0) {
            *bad = *bad || sscanf(text, "case %63s %lf %lf", k->name, &k->rtol, &k->atol) != 3;
            k->rtol = ldexp(k->rtol, -23);
            k->atol = ldexp(k->atol, -23);
        } else if (strncmp(text, "in ", 3) == 0 && k->nin < NIN) {
            *bad = *bad || !array_read(text + 3, &k->in[k->nin++]);
        } else if (strncmp(text, "out ", 4) == 0) {
            *bad = *bad || !array_read(text + 4, &k->out);
            return true;
        } else {
            *bad = true;
        }
    }
    return false;
}

/* --- comparing --------------------------------------------------------------------------------------------------- */

static bool agree(const golden *k, an_scalar got, an_scalar want)
{
    if (an_dtype_kind_of(k->out.dtype) != AN_KIND_FLOAT) return got.i == want.i;
    if (isnan(want.f) || isnan(got.f)) return isnan(want.f) && isnan(got.f);
    if (k->rtol == 0 && k->atol == 0) return got.u == want.u; /* the sign of zero, too */
    if (isinf(want.f) || isinf(got.f)) return got.f == want.f;
    return fabs(got.f - want.f) <= k->rtol * fabs(want.f) + k->atol;
}

static void print_scalar(char *text, size_t size, an_dtype d, an_scalar v)
{
    if (an_dtype_kind_of(d) == AN_KIND_FLOAT)
        snprintf(text, size, "%.9g", v.f);
    else
        snprintf(text, size, "%lld", (long long)v.i);
}

/* Says what is wrong with y and its values, or nothing. */
static void compare(const golden *k, const an_tensor *y, const unsigned char *values, char *why, size_t size)
{
    char shape[2][128] = {"", ""};
    for (uint32_t i = 0; i < 12; i++) {
        char dim[24];
        if (i < k->out.rank) {
            snprintf(dim, sizeof dim, " %lld", (long long)k->out.dims[i]);
            strcat(shape[0], dim);
        }
        if (i < an_tensor_rank(y)) {
            snprintf(dim, sizeof dim, " %lld", (long long)an_tensor_dim(y, (int)i));
            strcat(shape[1], dim);
        }
    }
    if (strcmp(shape[0], shape[1]) != 0 || an_tensor_dtype(y) != k->out.dtype) {
        snprintf(why, size, "is %s (%s), not %s (%s)", an_dtype_name(an_tensor_dtype(y)), shape[1],
                 an_dtype_name(k->out.dtype), shape[0]);
        return;
    }
    const size_t nbytes = an_dtype_nbytes(k->out.dtype);
    for (size_t i = 0; i < k->out.n; i++) {
        const an_scalar got = an_scalar_load(k->out.dtype, values + i * nbytes);
        const an_scalar want = an_scalar_load(k->out.dtype, k->out.data + i * nbytes);
        if (agree(k, got, want)) continue;
        char a[40], b[40];
        print_scalar(a, sizeof a, k->out.dtype, got);
        print_scalar(b, sizeof b, k->out.dtype, want);
        snprintf(why, size, "element %zu of %zu is %s, not %s", i, k->out.n, a, b);
        return;
    }
}

/* --- running ----------------------------------------------------------------------------------------------------- */

/* One case on a device, or by the oracle where device is NULL. why stays empty when all is right. */
static void run(an_ctx *ctx, const golden *k, const char *device, char *why, size_t size)
{
    an_graph *g = NULL;
    an_tensor *in[NIN] = {NULL}, *y = NULL;
    unsigned char *values = malloc(k->out.n * an_dtype_nbytes(k->out.dtype) + 1);
    size_t at = 0;
    while (at < NCALLS && strcmp(calls[at].name, k->name) != 0) at++;
    an_status st = at == NCALLS ? AN_ERR_ARG : an_graph_create(ctx, &g);
    if (!st) st = an_graph_set_device(g, device ? device : "interp");
    for (uint32_t i = 0; i < k->nin && !st; i++) {
        in[i] = an_tensor_from_host(g, k->in[i].dtype, k->in[i].dims, k->in[i].rank, k->in[i].data);
        if (!in[i]) st = an_ctx_status(ctx);
    }
    if (!st) {
        y = calls[at].call(g, in);
        if (!y) st = AN_ERR_ARG;
    }
    const size_t nbytes = k->out.n * an_dtype_nbytes(k->out.dtype);
    if (!st && an_tensor_nbytes(y) == nbytes)
        st = device ? an_tensor_read(y, values, nbytes) : an_test_eval(g, an_tensor_uop(y), values, nbytes);
    if (at == NCALLS)
        snprintf(why, size, "is not in " CASES);
    else if (st)
        snprintf(why, size, "fails: %s", an_ctx_error(ctx));
    else
        compare(k, y, values, why, size);
    an_ctx_clear_error(ctx);
    an_graph_destroy(g);
    free(values);
}

static void run_all(an_test *t, const char *device)
{
    FILE *f = fopen(VALUES, "r");
    char *line = NULL, why[512];
    size_t cap = 0, ran = 0, wrong = 0;
    bool bad = false;
    golden k;
    const char *only = getenv("ONLY"); /* for debugging: one case */
    CHECK(t, f);
    while (golden_read(f, &line, &cap, &k, &bad) && !bad) {
        why[0] = '\0';
        if (!only || strcmp(only, k.name) == 0) run(t->ctx, &k, device, why, sizeof why);
        if (why[0]) fprintf(stderr, "%s: %s: %s\n", device ? device : "oracle", k.name, why);
        wrong += why[0] != '\0';
        ran++;
        golden_free(&k);
    }
    golden_free(&k);
    free(line);
    fclose(f);
    CHECK(t, !bad);
    CHECK_EQ(t, ran, NCALLS);
    CHECK_EQ(t, wrong, 0);
}

static void the_graph_as_built_gives_numpys_values(an_test *t)
{
    run_all(t, NULL);
}

static void every_device_gives_numpys_values(an_test *t)
{
    size_t n = 0;
    const an_backend *const *backends = an_test_backends(&n);
    CHECK(t, n > 0);
    for (size_t i = 0; i < n; i++) run_all(t, backends[i]->name);
}

/* --- out of memory ----------------------------------------------------------------------------------------------- */

/* Builds case k on a graph whose arena has room for so many bytes, and no more memory is to be had. True when that was
 * enough; else the call must have said so. */
static bool enough_room(an_test *t, const golden *k, size_t room)
{
    enum { BLOCK = 16384, HEAD = 32 }; /* of the graph's arena: src/ir/graph.c */
    an_graph *g = NULL;
    an_tensor *in[NIN] = {NULL};
    size_t at = 0;
    while (at < NCALLS && strcmp(calls[at].name, k->name) != 0) at++;
    CHECK(t, at < NCALLS);
    CHECK_OK(t, an_graph_create(t->ctx, &g));
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    for (uint32_t i = 0; i < k->nin; i++)
        CHECK(t, in[i] = an_tensor_from_host(g, k->in[i].dtype, k->in[i].dims, k->in[i].rank, k->in[i].data));
    CHECK(t, an_graph_alloc(g, 2 * BLOCK));
    CHECK(t, an_graph_alloc(g, BLOCK - HEAD - room));
    t->memory.failed = 0;
    t->memory.fail_at = t->memory.calls + 1;
    t->memory.fail_onward = true;
    const an_tensor *y = calls[at].call(g, in);
    const bool failed = t->memory.failed > 0;
    t->memory.fail_at = 0;
    t->memory.fail_onward = false;
    if (failed && (y || an_ctx_status(t->ctx) != AN_ERR_NOMEM))
        an_test_fail(__FILE__, __LINE__, "%s with room for %zu bytes gives %s and '%s'", k->name, room, y ? "a tensor" : "NULL",
                     an_ctx_error(t->ctx));
    if (!failed && !y) an_test_fail(__FILE__, __LINE__, "%s fails: %s", k->name, an_ctx_error(t->ctx));
    an_ctx_clear_error(t->ctx);
    an_graph_destroy(g);
    return !failed;
}

/* Wherever in a call memory runs out: NULL, and never a tensor that means something else. */
static void every_call_survives_running_out_of_memory(an_test *t)
{
    FILE *f = fopen(VALUES, "r");
    char *line = NULL;
    size_t cap = 0, ran = 0;
    bool bad = false;
    golden k;
    CHECK(t, f);
    while (golden_read(f, &line, &cap, &k, &bad) && !bad) {
        /* Handles and shapes take 32 bytes or more; past 2000 in coarser steps. */
        for (size_t room = 0; room < 16000 && !enough_room(t, &k, room); room += room < 2000 ? 32 : room / 256 * 32) ran++;
        golden_free(&k);
    }
    golden_free(&k);
    free(line);
    fclose(f);
    CHECK(t, !bad && ran > NCALLS);
}

/* --- coverage ---------------------------------------------------------------------------------------------------- */

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t cap = 0;
    if (!f) return NULL;
    if (getdelim(&text, &cap, '\0', f) < 0) text = NULL;
    fclose(f);
    return text;
}

/* Is name called in text? */
static bool mentions(const char *text, const char *name, size_t n)
{
    for (const char *p = text; (p = strstr(p, "an_")); p++)
        if (strncmp(p, name, n) == 0 && p[n] == '(' && (p == text || (!isalnum((unsigned char)p[-1]) && p[-1] != '_'))) return true;
    return false;
}

/* A function that no test calls is one that may not work. */
static void every_function_of_the_header_is_called(an_test *t)
{
    static const char *const callers[] = {CASES, "tests/unit/test_tensor_lazy.c", "tests/unit/test_tensor_errors.c",
                                          "tests/unit/test_tensor_random.c", "tests/unit/test_symbols.c", "tests/support/random_call.c"};
    enum { CALLERS = sizeof callers / sizeof *callers };
    char *header = slurp("include/anneal/tensor.h"), *text[CALLERS] = {NULL};
    CHECK(t, header);
    for (int i = 0; i < CALLERS; i++) {
        text[i] = slurp(callers[i]);
        CHECK(t, text[i]);
    }
    int functions = 0, missing = 0;
    for (const char *p = header; (p = strstr(p, "\nAN_API ")); p++) {
        const char *end = strchr(p, '('), *name = end;
        while (name > p && (isalnum((unsigned char)name[-1]) || name[-1] == '_')) name--;
        bool found = false;
        for (int i = 0; i < CALLERS; i++) found = found || mentions(text[i], name, (size_t)(end - name));
        if (!found) fprintf(stderr, "no test calls %.*s\n", (int)(end - name), name);
        missing += !found;
        functions++;
    }
    for (int i = 0; i < CALLERS; i++) free(text[i]);
    free(header);
    CHECK(t, functions > 150);
    CHECK_EQ(t, missing, 0);
}

AN_TEST_MAIN(AN_CASE(the_graph_as_built_gives_numpys_values), AN_CASE(every_device_gives_numpys_values),
             AN_CASE(every_call_survives_running_out_of_memory), AN_CASE(every_function_of_the_header_is_called))
