/* upatc.h - the parts of the rule compiler: text -> up_file (parse.c), checks (check.c), C (emit.c).
 *
 * It runs on the build machine and depends on nothing of the library but the tables ops.def and dtypes.def. The tests
 * link parse.c too, for their interpreting matcher, and the fuzzer for its input. Everything hangs off an up_file, and is
 * freed with it; nothing is printed: messages collect in up_file.messages. */
#ifndef UPATC_H
#define UPATC_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define UP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define UP_PRINTF(fmt, args)
#endif

/* The tables, as upatc sees them. Number 0 is none, as in an_op and an_dtype. */
typedef enum up_op {
    UP_OP_NONE,
#define AN_OP(id, text, arity, result, traits) UP_OP_##id,
#include "ir/ops.def"
#undef AN_OP
    UP_OP_COUNT
} up_op;

typedef enum up_result { UP_RESULT_NONE, UP_RESULT_SAME, UP_RESULT_LAST, UP_RESULT_BOOL, UP_RESULT_ARG } up_result;

enum {
    UP_ELEM = 1 << 0,
    UP_COMM = 1 << 1,
    UP_ASSOC = 1 << 2,
    UP_IDEM = 1 << 3,
    UP_MOVE = 1 << 4,
    UP_IDENT = 1 << 5,
    UP_KERNEL = 1 << 6,
    UP_UNARY = 1 << 7,
    UP_BINARY = 1 << 8,
    UP_TERNARY = 1 << 9,
    UP_CMP = 1 << 10
};

typedef struct up_op_info {
    const char *id, *text; /* "ADD", "add" */
    int arity;             /* -1: any */
    up_result result;
    unsigned traits;
} up_op_info;
extern const up_op_info up_ops[UP_OP_COUNT];

enum { UP_VARS_MAX = 64, UP_SRCS_MAX = 64, UP_ARGS_MAX = 16 };
#define UP_ANY_DTYPE UINT32_MAX
#define UP_ANY_OP UINT64_MAX

/* Where something stands in the file: line and column from 1, and how far it goes on that line. */
typedef struct up_pos {
    unsigned line, col, len;
} up_pos;

/* Integer and bool expressions: conditions, and braces in results. */
typedef enum up_expr_kind { UP_NUM, UP_NAME, UP_CALL, UP_NOT, UP_AND, UP_OR, UP_COMPARE, UP_ARITH } up_expr_kind;
typedef struct up_expr {
    up_expr_kind kind;
    up_pos pos;
    const char *name; /* NAME, CALL; the operator of COMPARE and ARITH */
    int64_t num;
    struct up_expr **arg;
    size_t narg;
} up_expr;

/* Patterns and results. */
typedef enum up_kind {
    UP_VAR,    /* a name, or "_": any node of these dtypes */
    UP_LIT,    /* a constant of this value */
    UP_OP,     /* one of ops, over src and rest */
    UP_INT,    /* in results: expr, as a constant */
    UP_HELPER, /* in results: a C function over src */
    UP_NOTHING /* in gradients: no expression */
} up_kind;
typedef struct up_term {
    up_kind kind;
    up_pos pos;
    const char *name; /* VAR; OP: the name bound to the whole, or NULL; HELPER */
    uint32_t dtypes;  /* one bit each */
    bool is_const;
    double lit;
    bool lit_is_bool, lit_is_int;
    uint64_t ops;
    const char *op_text; /* as written: an op, or a class */
    struct up_term **src;
    size_t nsrc;
    struct up_term *rest; /* what the remaining sources must be: a VAR; NULL where there are none */
    int dtype;            /* results: the dtype given, or 0 */
    const char *like;     /* results: the name whose dtype, arg and tag are taken, or NULL */
    bool all;             /* HELPER of a gradient rule: fills every cotangent */
    struct up_expr *expr;
} up_term;

typedef struct up_var {
    const char *name;
    up_term *first; /* where it is bound; NULL for g, the cotangent, and d, the tangent */
    up_pos pos;
    bool is_node_of_op;
    unsigned uses;
} up_var;

typedef struct up_rule {
    const char *name;
    up_pos pos;
    const char *text; /* the whole rule on one line, without comments */
    bool is_grad;     /* one expression a source: reverse mode, or with is_jvp forward mode */
    bool is_jvp;
    up_term *pattern;
    up_expr *cond; /* or NULL */
    up_term **result;
    size_t nresult;
    up_var *vars;
    size_t nvars;
} up_rule;

typedef struct up_file {
    const char *path;
    const char *text;
    size_t len;
    const char **includes;
    size_t nincludes;
    up_rule **rules;
    size_t nrules;
    bool is_grad, is_jvp;
    char *messages; /* "file:line:col: error: ...", the line, a caret; NULL for none */
    size_t messages_len, messages_cap;
    unsigned nerrors;
    struct up_block *blocks;
} up_file;

/* --- memory and messages (file.c) --------------------------------------------------------------- */
/* text need not end in a 0 and is borrowed. */
void up_file_init(up_file *f, const char *path, const char *text, size_t len);
void up_file_fini(up_file *f);
/* Cleared; freed with the file. Never NULL: a build tool that runs out of memory ends. */
void *up_alloc(up_file *f, size_t nbytes);
char *up_strndup(up_file *f, const char *s, size_t n);
/* Arrays of pointers grow by one. */
void up_push(up_file *f, void *array, size_t *len, const void *item);
void up_error(up_file *f, up_pos at, const char *fmt, ...) UP_PRINTF(3, 4);

int up_op_parse(const char *text);              /* 0 if there is none */
bool up_class_parse(const char *text, uint64_t *ops);
bool up_dtypes_parse(const char *text, uint32_t *dtypes); /* "f32", "int", "number", ... */
const char *up_dtype_id(int dtype);             /* "F32" */
int up_dtype_of_mask(uint32_t dtypes);          /* the one dtype in it, or 0 */
bool up_ops_have(uint64_t ops, unsigned traits); /* every one of them */

/* What the arguments of a function of conditions are, "ni": a node, an integer; NULL for one upatc does not know. */
const char *up_function_args(const char *name);

/* --- passes: false when there were errors ------------------------------------------------------- */
bool up_parse(up_file *f);
bool up_check(up_file *f);

/* C from a checked file. symbol: what the rule set is called; number: its number, or -1 for that of rulesets.def. */
typedef struct up_emit_options {
    const char *symbol, *set;
    long number;
} up_emit_options;

/* A text that grows. */
typedef struct up_out {
    char *data;
    size_t len, cap;
} up_out;
void up_out_vprintf(up_out *o, const char *fmt, va_list args) UP_PRINTF(2, 0);
void up_out_printf(up_out *o, const char *fmt, ...) UP_PRINTF(2, 3);
void up_out_fini(up_out *o);

void up_emit(up_file *f, const up_emit_options *o, up_out *out);

#endif
