/* random_call.c - the calls of random programs: made, and printed. */
#include "random_program.h"

#include <anneal/grad.h>

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* A number of an input. Most are multiples of 1/4 with few digits, so that their sums are exact and ties are common. */
static an_scalar element(an_dtype d, uint64_t *state, uint64_t style, int64_t below)
{
    const uint64_t r = random_next(state);
    an_scalar x = {0};
    if (an_dtype_kind_of(d) == AN_KIND_FLOAT) {
        static const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -0.0, 1e-40, 3e38, 65504, 1e-7};
        x.f = style % 4 < 2 ? ((double)(r % 33) - 16) / 4 : ((double)(r >> 11) / 9007199254740992.0 - 0.5) * 4;
        if (style % 16 == 7 && r >> 60 == 0) x.f = odd[r >> 20 & 7u];
    } else if (d == AN_BOOL) {
        x.i = (int64_t)(r & 1u);
    } else if (below > 0) {
        x.i = (int64_t)(r % (uint64_t)(below + (style % 8 == 0 ? 2 : 0))) - (style % 8 == 0);
    } else if (style % 8 == 1) {
        static const int64_t odd[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, -1, 0, 255, 128};
        x.i = r >> 62 ? odd[r & 7u] : (int64_t)(r >> (r & 31u));
    } else {
        x.i = (int64_t)(r % 13) - 4;
    }
    return an_scalar_round(d, x);
}

/* The same over a symbol where a dim has that size. */
static an_tensor *symbolic_input(an_graph *g, const random_call *c, int64_t symbol, const void *bytes)
{
    const an_uop s = an_symbol(g, "s", 1, 2 * symbol + 1);
    an_uop dims[RANDOM_INTS];
    for (uint32_t i = 0; i < c->n; i++) dims[i] = c->p[i] == symbol ? s : an_dim(g, c->p[i]);
    if (an_graph_bind(g, "s", symbol)) return NULL;
    return an_tensor_from_host_uop(g, c->dtype, dims, c->n, bytes);
}

static an_tensor *random_input(an_graph *g, const random_call *c, int64_t symbol)
{
    size_t numel = 1;
    for (uint32_t i = 0; i < c->n; i++) numel *= (size_t)c->p[i];
    const size_t size = an_dtype_nbytes(c->dtype);
    unsigned char *bytes = malloc(numel * size + 1);
    uint64_t state = c->seed;
    const uint64_t style = random_next(&state);
    for (size_t i = 0; bytes && i < numel; i++)
        an_scalar_store(c->dtype, element(c->dtype, &state, style, c->below), bytes + i * size);
    an_tensor *x = !bytes ? NULL
                   : symbol ? symbolic_input(g, c, symbol, bytes)
                            : an_tensor_from_host(g, c->dtype, c->p, c->n, bytes);
    free(bytes);
    return x;
}

static an_tensor *random_pad(an_tensor *x, const int64_t *p, uint32_t n, double value)
{
    return an_pad(x, p, p + n / 2, n / 2, value);
}

static an_tensor *random_assign(an_tensor *target, an_tensor *value)
{
    return an_assign(target, value) ? NULL : target;
}

/* A slice of target along axis p[0], backwards if p[4], gets that of value, another of target's shape or target itself. */
static an_tensor *random_assign_part(an_tensor *target, an_tensor *value, const int64_t *p)
{
    an_tensor *to = an_slice(target, (int)p[0], p[1], p[2], p[3]), *from = an_slice(value, (int)p[0], p[1], p[2], p[3]);
    if (p[4]) to = an_flip(to, AN_DIMS(p[0]));
    return to && from && !an_assign(to, from) ? target : NULL;
}

static an_tensor *random_realize(an_tensor *x, bool lazy)
{
    return lazy || !an_realize(&x, 1) ? x : NULL;
}

static an_tensor *random_grad(an_tensor *y, an_tensor *x)
{
    an_tensor *grad = NULL;
    return an_backward_from(y, NULL, &x, 1, &grad) ? NULL : grad;
}

an_tensor *random_apply(an_graph *g, const random_program *program, int i, an_tensor *const *v)
{
    const int64_t symbol = program->symbol;
    const random_call *in = &program->call[i];
    an_tensor *x[3] = {NULL, NULL, NULL};
    for (int k = 0; k < 3; k++)
        if (in->src[k] >= 0 && !(x[k] = v[in->src[k]])) return NULL;
    an_tensor *a = x[0], *b = x[1], *c = x[2];
    const int64_t *p = in->p;
    const uint32_t n = in->n;
    const double f = in->f;
    const an_dtype d = in->dtype;
    switch (in->op) {
#define RANDOM_OP(id, form, weight, text, call)                                                                        \
    case RANDOM_##id: return call;
#include "random_ops.def"
#undef RANDOM_OP
    case RANDOM_OP_COUNT: break;
    }
    return NULL;
}

/* --- printing --- */

static const char *const op_text[] = {
#define RANDOM_OP(id, form, weight, text, call) text,
#include "random_ops.def"
#undef RANDOM_OP
};

typedef struct writer {
    char *text;
    size_t size, len;
} writer;

static void put(writer *w, const char *fmt, ...) AN_PRINTF(2, 3);
static void put(writer *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(w->text + w->len, w->size - w->len, fmt, args);
    va_end(args);
    w->len += n < 0 ? 0 : (size_t)n;
    if (w->len >= w->size) w->len = w->size - 1;
}

static void put_call(writer *w, const random_call *c)
{
    for (const char *s = op_text[c->op]; *s; s++) {
        if (*s != '$') {
            put(w, "%c", *s);
            continue;
        }
        s++;
        if (*s >= 'a' && *s <= 'c') {
            put(w, "v%d", c->src[*s - 'a']);
        } else if (*s == 'f') {
            put(w, "%.9g", c->f);
        } else if (*s == 'd') {
            put(w, "%s", an_dtype_name(c->dtype));
        } else if (*s == 'p') {
            put(w, "AN_DIMS(");
            for (uint32_t i = 0; i < c->n; i++) put(w, "%s%" PRId64, i ? ", " : "", c->p[i]);
            put(w, ")");
        } else {
            put(w, "%" PRId64, c->p[*s - '0']);
        }
    }
}

void random_print(const random_program *p, char *text, size_t size)
{
    writer w = {text, size, 0};
    text[0] = 0;
    for (int i = 0; i < p->n; i++) {
        const random_call *c = &p->call[i];
        put(&w, "    v%d = ", i);
        put_call(&w, c);
        put(&w, ";");
        if (c->op == RANDOM_INPUT && c->below) put(&w, "  0 .. %" PRId64, c->below - 1);
        put(&w, "%s\n", c->output ? "  <- asked for" : "");
    }
}
