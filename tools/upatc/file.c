/* file.c - the memory, the messages and the tables of one run of upatc. */
#include "upatc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ANY = -1,
    ELEM = UP_ELEM,
    COMM = UP_COMM,
    ASSOC = UP_ASSOC,
    IDEM = UP_IDEM,
    MOVE = UP_MOVE,
    IDENT = UP_IDENT,
    KERNEL = UP_KERNEL,
    UNARY = UP_UNARY,
    BINARY = UP_BINARY,
    TERNARY = UP_TERNARY,
    CMP = UP_CMP
};

const up_op_info up_ops[UP_OP_COUNT] = {
    [UP_OP_NONE] = {"NONE", "none", 0, UP_RESULT_NONE, 0},
#define AN_OP(id, text, arity, result, traits) [UP_OP_##id] = {#id, text, arity, UP_RESULT_##result, traits},
#include "ir/ops.def"
#undef AN_OP
};
_Static_assert(UP_OP_COUNT <= 64, "sets of ops are 64-bit masks, here and in generated code");

typedef enum kind { KIND_BOOL, KIND_INT, KIND_UINT, KIND_FLOAT, KIND_INDEX } kind;
static const struct {
    const char *id, *text;
    kind kind;
} dtypes[] = {
    {"NONE", "none", KIND_BOOL}, /* AN_DTYPE_NONE */
#define AN_DTYPE(id, text, kind, bits, numpy) {#id, text, KIND_##kind},
#include <anneal/dtypes.def>
#undef AN_DTYPE
};
enum { NDTYPES = sizeof dtypes / sizeof *dtypes };
_Static_assert(NDTYPES <= 32, "sets of dtypes are 32-bit masks, here and in generated code");

static const struct {
    const char *text;
    unsigned kinds;
} kind_words[] = {
    {"bool", 1u << KIND_BOOL},
    {"int", 1u << KIND_INT},
    {"uint", 1u << KIND_UINT},
    {"float", 1u << KIND_FLOAT},
    {"index", 1u << KIND_INDEX},
    {"anyint", 1u << KIND_INT | 1u << KIND_UINT | 1u << KIND_INDEX},
    {"number", 1u << KIND_INT | 1u << KIND_UINT | 1u << KIND_INDEX | 1u << KIND_FLOAT},
};

static const struct {
    const char *text;
    unsigned traits;
} classes[] = {
    {"alu", ELEM},   {"unary", UNARY}, {"binary", BINARY}, {"ternary", TERNARY}, {"cmp", CMP},
    {"comm", COMM},  {"assoc", ASSOC}, {"idem", IDEM},     {"move", MOVE},
};

int up_op_parse(const char *text)
{
    for (int op = 1; op < UP_OP_COUNT; op++)
        if (strcmp(up_ops[op].text, text) == 0) return op;
    return 0;
}

bool up_class_parse(const char *text, uint64_t *ops)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(classes[i].text, text) != 0) continue;
        *ops = 0;
        for (int op = 1; op < UP_OP_COUNT; op++)
            if (up_ops[op].traits & classes[i].traits) *ops |= (uint64_t)1 << op;
        return true;
    }
    return false;
}

bool up_dtypes_parse(const char *text, uint32_t *out)
{
    for (size_t i = 0; i < sizeof kind_words / sizeof *kind_words; i++) {
        if (strcmp(kind_words[i].text, text) != 0) continue;
        *out = 0;
        for (unsigned d = 1; d < NDTYPES; d++)
            if (kind_words[i].kinds >> dtypes[d].kind & 1u) *out |= 1u << d;
        return true;
    }
    for (unsigned d = 1; d < NDTYPES; d++)
        if (strcmp(dtypes[d].text, text) == 0) {
            *out = 1u << d;
            return true;
        }
    return false;
}

const char *up_dtype_id(int dtype)
{
    return dtypes[dtype].id;
}

int up_dtype_of_mask(uint32_t mask)
{
    for (int d = 1; d < NDTYPES; d++)
        if (mask == 1u << d) return d;
    return 0;
}

bool up_ops_have(uint64_t ops, unsigned traits)
{
    for (int op = 1; op < UP_OP_COUNT; op++)
        if (ops >> op & 1u && !(up_ops[op].traits & traits)) return false;
    return ops != 0;
}

/* --- memory -------------------------------------------------------------------------------------- */

typedef struct up_block {
    struct up_block *next;
} up_block;

static void *must(void *p)
{
    if (p) return p;
    fputs("upatc: out of memory\n", stderr);
    exit(2);
}

void up_file_init(up_file *f, const char *path, const char *text, size_t len)
{
    *f = (up_file){.path = path, .text = text, .len = len};
}

void up_file_fini(up_file *f)
{
    while (f->blocks) {
        up_block *b = f->blocks;
        f->blocks = b->next;
        free(b);
    }
    free(f->messages);
    *f = (up_file){0};
}

void *up_alloc(up_file *f, size_t nbytes)
{
    const size_t head = (sizeof(up_block) + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
    up_block *b = must(calloc(1, head + nbytes));
    b->next = f->blocks;
    f->blocks = b;
    return (char *)b + head;
}

char *up_strndup(up_file *f, const char *s, size_t n)
{
    char *copy = up_alloc(f, n + 1);
    if (n) memcpy(copy, s, n);
    return copy;
}

void up_push(up_file *f, void *array, size_t *len, const void *item)
{
    void **data = NULL;
    memcpy(&data, array, sizeof data);
    if ((*len & (*len - 1)) == 0) { /* 0, 1, 2, 4, ...: full */
        void **grown = up_alloc(f, (*len ? 2 * *len : 1) * sizeof *grown);
        if (*len) memcpy(grown, data, *len * sizeof *grown);
        data = grown;
        memcpy(array, &data, sizeof data);
    }
    memcpy(&data[(*len)++], &item, sizeof item);
}

/* --- text and messages --------------------------------------------------------------------------- */

void up_out_vprintf(up_out *o, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) return;
    if (o->len + (size_t)n + 1 > o->cap) {
        o->cap = 2 * (o->len + (size_t)n + 1);
        o->data = must(realloc(o->data, o->cap));
    }
    vsnprintf(o->data + o->len, (size_t)n + 1, fmt, args);
    o->len += (size_t)n;
}

void up_out_printf(up_out *o, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    up_out_vprintf(o, fmt, args);
    va_end(args);
}

void up_out_fini(up_out *o)
{
    free(o->data);
    *o = (up_out){0};
}

UP_PRINTF(3, 0)
static void message(up_file *f, up_pos at, const char *fmt, va_list args)
{
    up_out o = {f->messages, f->messages_len, f->messages_cap};
    const char *line = f->text, *end = f->text + f->len;
    for (unsigned n = 1; n < at.line && line < end; line++)
        if (*line == '\n') n++;
    size_t len = 0;
    while (line + len < end && line[len] != '\n') len++;
    up_out_printf(&o, "%s:%u:%u: error: ", f->path, at.line, at.col);
    up_out_vprintf(&o, fmt, args);
    up_out_printf(&o, "\n%.*s\n", (int)len, line);
    for (unsigned i = 1; i < at.col; i++) up_out_printf(&o, i <= len && line[i - 1] == '\t' ? "\t" : " ");
    up_out_printf(&o, "^");
    for (unsigned i = 1; i < at.len; i++) up_out_printf(&o, "~");
    up_out_printf(&o, "\n");
    f->messages = o.data;
    f->messages_len = o.len;
    f->messages_cap = o.cap;
}

void up_error(up_file *f, up_pos at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    message(f, at, fmt, args);
    va_end(args);
    f->nerrors++;
}
