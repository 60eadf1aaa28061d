/* emit.h - what the files of this folder share while they write one shader.
 *
 * Every lane of every node is a scalar of the shader: `let v12 = ...` for node 12 of the list, `v12_3` for its lane 3.
 * In registers: bool; i32 for signed integers of up to 32 bits and for index; u32 for unsigned ones; vec2<u32> (low, high)
 * for 64-bit ones; f32 for f32 and every narrower float, a narrow one always holding a value its dtype can hold.
 *
 * What WGSL leaves open (infinities, NaN, division by zero, wide shifts, rounding) goes through functions of our own, named
 * an_*; prelude.c has their text and adds those a shader uses. */
#ifndef AN_BACKEND_WGSL_EMIT_H
#define AN_BACKEND_WGSL_EMIT_H

#include "backend/webgpu/wgsl/wgsl.h"
#include "base/idmap.h"
#include "ir/uop.h"
#include "rewrite/bounds.h"

/* How values of a dtype are held. */
typedef enum wgsl_class { WGSL_BOOL, WGSL_I32, WGSL_U32, WGSL_I64, WGSL_U64, WGSL_F32, WGSL_NCLASSES } wgsl_class;

/* How a buffer is declared. */
typedef enum wgsl_access {
    WGSL_PLAIN,  /* array of the dtype's own 4- or 8-byte type */
    WGSL_VEC4,   /* array<vec4<..>>: every vector access is four aligned elements */
    WGSL_HALF,   /* array<f16> */
    WGSL_HALF4,  /* array<vec4<f16>>: every access is four aligned elements */
    WGSL_PACKED, /* array<u32>, several elements a word; stores are of whole words */
    WGSL_ATOMIC  /* array<atomic<u32>>: several elements a word, which other threads may be writing */
} wgsl_access;

typedef struct wgsl_param {
    wgsl_access access;
    bool used, read, written;
    an_dtype dtype;
    uint32_t nvec, nscalar, nfour; /* accesses of each sort, while choosing; of fours, too */
    bool sub_word;          /* a store of less than a word */
} wgsl_param;

/* An open loop of the list. */
typedef struct wgsl_loop {
    an_uop range;
    uint32_t nclose; /* braces to close at its end */
    size_t first_set; /* accs set inside it begin here in sets */
} wgsl_loop;

/* An ACC_SET; is_dealt: in a GROUP loop inside of where its acc begins, so that each thread has a part of what it comes to. */
typedef struct wgsl_set {
    an_uop node;
    bool is_dealt;
} wgsl_set;

/* A workgroup buffer, by its number. */
typedef struct wgsl_local {
    an_uop node;
    an_dtype dtype;
    int64_t nelem;
    bool vec4, half; /* half: array<f16>, for fragments */
} wgsl_local;

/* Whose a value is: the thread's own, else how a subgroup holds it (matrix.c). */
typedef enum wgsl_holding { WGSL_OWN, WGSL_LEFT, WGSL_RIGHT, WGSL_PRODUCT, WGSL_SUM, WGSL_TAKEN } wgsl_holding;

/* STAGE loops that are written out: their bodies, by place, once for each copy. */
enum { WGSL_STAGES_MAX = 8 };
typedef struct wgsl_stage {
    uint32_t first, end; /* from the RANGE up to its END */
    uint32_t copies;
} wgsl_stage;

/* A GROUP loop that is written out, once for each iteration of a thread. Another of as many iterations may compute what it has
 * computed: `same`, by place, 1 + the place of the node that has the value. */
enum { WGSL_DEALT_MAX = 16 };
typedef struct wgsl_dealt {
    uint32_t first, end; /* from the RANGE up to its END */
    uint32_t copies;
    size_t nloops; /* open around it */
} wgsl_dealt;

typedef struct wgsl_emit {
    an_ctx *ctx;
    const an_kernel *kernel;
    an_graph *g;
    const an_wgsl_caps *caps;
    an_wgsl *out;
    an_str body;
    uint32_t depth;      /* of indentation */
    an_idmap at;         /* node -> 1 + place in the list */
    uint32_t *shift;     /* by place: an index is a multiple of 2 to this */
    an_bounds_memo bounds;
    wgsl_param params[AN_KERNEL_PARAM_MAX];
    AN_VEC(wgsl_loop) loops;
    AN_VEC(wgsl_local) locals;
    AN_VEC(wgsl_set) sets; /* every ACC_SET so far */
    uint32_t joined;     /* classes of registers with workgroup memory for joins: bits */
    an_str shared;       /* declarations of workgroup memory that joins take */
    uint32_t nthreads;   /* of a workgroup */
    uint32_t lanes;      /* of these, those that share one LOCAL iteration: GROUP loops are dealt to them */
    wgsl_stage stages[WGSL_STAGES_MAX];
    uint32_t nstages, copy;
    bool keeps; /* loads are to be kept: those behind a gate as they are read, since a choice would wait for them */
    wgsl_dealt dealt[WGSL_DEALT_MAX];
    uint32_t ndealt;
    uint32_t *same;
    wgsl_holding *held;    /* by place */
    bool *raw;             /* by place: an f16, loaded or rounded, that goes on to workgroup memory as it is */
    bool *is_kept;        /* by place: an f32 sum or product that another one is made of */
    uint32_t matrix_sums;  /* that go through workgroup memory at a time; 0: not known yet */
    bool staging;        /* between the first STAGE loop of a row and the barrier after the last */
    bool by_group;       /* a GLOBAL iteration is a workgroup, else a thread */
    bool has_global;
    uint32_t nglobal_open;  /* GLOBAL loops now open */
    uint32_t ntemps;
    bool uses_inf, uses_zero;
    an_status st;        /* the first failure */
} wgsl_emit;

/* names.c: operands as text */
enum { WGSL_OPERAND_MAX = 96 };
wgsl_class wgsl_class_of(an_dtype dtype);
const char *wgsl_type_name(an_dtype dtype);
bool wgsl_is_narrow(an_dtype dtype); /* a float narrower than f32 */
void wgsl_name(const wgsl_emit *e, an_uop u, uint32_t lane, char *text); /* of what is no alias and no constant */
void wgsl_operand(wgsl_emit *e, an_uop u, uint32_t lane, char *text); /* WGSL_OPERAND_MAX chars */
void wgsl_literal(wgsl_emit *e, an_dtype dtype, an_scalar v, char *text);
/* A line of the body, indented. */
void wgsl_line(wgsl_emit *e, const char *fmt, ...) AN_PRINTF(2, 3);
/* Defines lane `lane` of u by an expression. */
void wgsl_define(wgsl_emit *e, an_uop u, uint32_t lane, const char *expr);
uint32_t wgsl_place(const wgsl_emit *e, an_uop u);
an_status wgsl_unsupported(wgsl_emit *e, an_uop u, const char *why);

/* arith.c */
an_status wgsl_emit_elementwise(wgsl_emit *e, an_uop u);
an_status wgsl_emit_hreduce(wgsl_emit *e, an_uop u);
/* op on two operands of dtype, as an expression; false if there is none. */
bool wgsl_binary(wgsl_emit *e, an_op op, an_dtype dtype, const char *x, const char *y, char *expr, size_t size);

/* memory.c */
an_status wgsl_scan_memory(wgsl_emit *e); /* how each buffer is to be declared */
an_status wgsl_emit_load(wgsl_emit *e, an_uop u);
bool wgsl_is_branchless(wgsl_emit *e, an_uop u);
void wgsl_gated(wgsl_emit *e, an_uop u, uint32_t l, const char *x, char *out, size_t size);
an_status wgsl_emit_store(wgsl_emit *e, an_uop u);
void wgsl_declare_memory(wgsl_emit *e, an_str *out);

uint32_t wgsl_locals_nbytes(const wgsl_emit *e); /* of the kernel's own workgroup memory */
void wgsl_find_kept(wgsl_emit *e); /* arith.c: fills is_kept */
const char *wgsl_value_type(const wgsl_emit *e, an_uop u); /* of a lane: wgsl_type_name, or f16 for what is raw */

/* matrix.c */
an_status wgsl_scan_matrix(wgsl_emit *e); /* after wgsl_plan_flow */
bool wgsl_is_matrix(const wgsl_emit *e, an_uop u);
an_status wgsl_emit_matrix(wgsl_emit *e, an_uop u);

/* flow.c */
an_status wgsl_plan_flow(wgsl_emit *e); /* the workgroup, and how many there are */
an_status wgsl_emit_range(wgsl_emit *e, an_uop u);
an_status wgsl_emit_end(wgsl_emit *e, an_uop u);
/* The row of STAGE loops at place i, if it can be written out: all loads, then a barrier, then all stores, so that memory is
 * waited for once. *next: the place after it, or i. */
an_status wgsl_emit_stages(wgsl_emit *e, size_t i, size_t *next);
/* The loop at place i, up to the end of the row of STAGE loops that it begins with: what the next iteration needs is loaded before
 * this one computes. *next: as above. */
an_status wgsl_emit_ahead(wgsl_emit *e, size_t i, size_t *next);
/* The GROUP loop at place i, if it can be written out: what its iterations compute is kept for later loops. *next: as above. */
an_status wgsl_emit_dealt(wgsl_emit *e, size_t i, size_t *next);
/* wgsl.c */
an_status wgsl_emit_one(wgsl_emit *e, an_uop u);

/* A function of the shader; its text calls only those before it. */
typedef struct wgsl_function {
    const char *name, *text;
} wgsl_function;
/* math.c; the last one of each has no name. */
extern const wgsl_function wgsl_math[], wgsl_fma_by_hand[], wgsl_fma_built_in[], wgsl_division_built_in[], wgsl_f16_built_in[];

/* prelude.c: appends the functions that body calls, with those they call. */
void wgsl_prelude(wgsl_emit *e, const char *body, an_str *out);

#endif
