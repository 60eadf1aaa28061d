/* uop.h - the one IR. A UOp is (op, dtype, lanes, src[], arg, tag), immutable, hash-consed: equal
 * nodes share an id, so structural equality is id equality. Beside the node, not in its identity:
 * shape, phase and the rule that made it.
 *
 * AN_UOP_NONE (id 0) is the poisoned node: a constructor given one returns one, and returns one
 * when memory is out (the context has the sentence). So a chain of calls needs one check, at its
 * end. Constructors do not check shapes or dtypes: the tensor API does, with sentences; verify.c
 * does for passes. */
#ifndef AN_IR_UOP_H
#define AN_IR_UOP_H

#include "base/base.h"
#include <anneal/dtype.h>
#include <anneal/graph.h>

enum { AN_RANK_MAX = 12, AN_LANES_MAX = 64 };

typedef enum an_op {
    AN_OP_NONE,
#define AN_OP(id, text, arity, result, traits) AN_OP_##id,
#include "ir/ops.def"
#undef AN_OP
    AN_OP_COUNT
} an_op;

typedef enum an_result { AN_RESULT_NONE, AN_RESULT_SAME, AN_RESULT_LAST, AN_RESULT_BOOL, AN_RESULT_ARG } an_result;

enum {
    AN_TRAIT_ELEM = 1 << 0,
    AN_TRAIT_COMM = 1 << 1,
    AN_TRAIT_ASSOC = 1 << 2,
    AN_TRAIT_IDEM = 1 << 3,
    AN_TRAIT_MOVE = 1 << 4,
    AN_TRAIT_IDENT = 1 << 5,
    AN_TRAIT_KERNEL = 1 << 6,
    AN_TRAIT_UNARY = 1 << 7,
    AN_TRAIT_BINARY = 1 << 8,
    AN_TRAIT_TERNARY = 1 << 9,
    AN_TRAIT_CMP = 1 << 10
};

typedef struct an_op_info {
    const char *text;
    int arity; /* -1: any */
    an_result result;
    uint32_t traits;
} an_op_info;

const an_op_info *an_op_info_of(an_op op);
an_op an_op_parse(const char *text); /* AN_OP_NONE if there is none of that name */
static inline bool an_op_has(an_op op, uint32_t trait)
{
    return (an_op_info_of(op)->traits & trait) != 0;
}

/* What a RANGE is for. LOOP and REDUCE come from the scheduler, the rest from opts. */
typedef enum an_range_kind {
    AN_RANGE_LOOP,   /* over output elements */
    AN_RANGE_REDUCE, /* bound by a REDUCE */
    AN_RANGE_UPCAST, /* to be unrolled into copies (codegen/expand.c) */
    AN_RANGE_UNROLL, /* a reduce range to be unrolled */
    AN_RANGE_VECTOR, /* to become vector lanes */
    AN_RANGE_THREAD, /* outermost, split among threads */
    AN_RANGE_GLOBAL, /* outermost, spread over the workgroups of a GPU (backend/webgpu/wgsl/wgsl.h) */
    AN_RANGE_LOCAL,  /* over the threads of a workgroup */
    AN_RANGE_GROUP,  /* a loop dealt to the threads of a workgroup */
    AN_RANGE_STAGE   /* likewise, to fill workgroup memory */
} an_range_kind;

/* --- the node ---------------------------------------------------------------------------------- */
typedef struct an_node {
    uint8_t op;       /* an_op */
    uint8_t dtype;    /* an_dtype */
    uint8_t lanes;    /* 1, or the width of a vector inside a kernel */
    uint8_t phase;    /* an_phase; not in the identity */
    uint16_t nsrc;
    uint16_t tag;     /* free for passes; in the identity */
    uint32_t rule;    /* an_rule_id that made it, 0 for none; not in the identity */
    uint32_t src;     /* first source, in graph->srcs */
    uint32_t shape;   /* in graph->shapes */
    uint32_t is_read; /* of a BUFFER: it is a source of some node, or noted as read; not in the identity */
    uint64_t arg;
    uint64_t hash;    /* structural: from contents of sources, not ids */
} an_node;

/* The shape is at hand for every tensor-level node, rank 0 for scalars and everything in a kernel.
 * dims are INDEX scalars: CONST, or an expression over VARs. */
typedef struct an_shape {
    uint32_t rank;
    const an_uop *dims; /* stable as long as the graph */
} an_shape;

/* --- reading ----------------------------------------------------------------------------------- */
const an_node *an_node_of(const an_graph *g, an_uop u); /* valid until the next construction */
static inline bool an_uop_is_none(an_uop u)
{
    return u.id == 0;
}
static inline bool an_uop_eq(an_uop a, an_uop b)
{
    return a.id == b.id;
}
an_op an_uop_op(const an_graph *g, an_uop u);
an_dtype an_uop_dtype(const an_graph *g, an_uop u);
uint32_t an_uop_lanes(const an_graph *g, an_uop u);
uint32_t an_uop_nsrc(const an_graph *g, an_uop u);
an_uop an_uop_src(const an_graph *g, an_uop u, uint32_t i);
/* The sources, valid until the next construction in this graph: copy them before building. */
const an_uop *an_uop_srcs(const an_graph *g, an_uop u);
uint64_t an_uop_arg(const an_graph *g, an_uop u);
uint32_t an_uop_tag(const an_graph *g, an_uop u);
an_shape an_uop_shape(const an_graph *g, an_uop u);
uint32_t an_graph_len(const an_graph *g); /* ids 1..len-1 exist */

bool an_uop_is_const(const an_graph *g, an_uop u);
an_scalar an_uop_const_value(const an_graph *g, an_uop u);           /* u is a CONST */
bool an_uop_int(const an_graph *g, an_uop u, int64_t *out);          /* CONST of int, uint, index or bool */
bool an_uop_is_int(const an_graph *g, an_uop u, int64_t v);          /* that CONST, of value v */
bool an_uop_is_number(const an_graph *g, an_uop u, double v);        /* CONST of any dtype equal to v; -0.0 is not 0.0 */
bool an_uop_widens_half(const an_graph *g, an_uop u);                /* f32 of a float of two bytes */
const char *an_uop_name(const an_graph *g, an_uop u);                /* of a VAR */

/* --- building ---------------------------------------------------------------------------------- */
an_uop an_uop_new(an_graph *g, an_op op, an_dtype dtype, const an_uop *src, uint32_t nsrc, uint64_t arg);
an_uop an_uop_new_full(an_graph *g, an_op op, an_dtype dtype, uint32_t lanes, const an_uop *src,
                       uint32_t nsrc, uint64_t arg, uint32_t tag);
/* u with other sources: same op, arg, tag and lanes; dtype as before. */
an_uop an_uop_with_srcs(an_graph *g, an_uop u, const an_uop *src);

an_uop an_const(an_graph *g, an_dtype dtype, an_scalar v); /* rounded to dtype first */
an_uop an_const_int(an_graph *g, an_dtype dtype, int64_t v);   /* dtype may be a float: 2 -> 2.0 */
an_uop an_const_float(an_graph *g, an_dtype dtype, double v);
an_uop an_const_like(an_graph *g, an_uop u, double v);         /* of u's dtype and lanes (broadcast if > 1) */
an_uop an_index(an_graph *g, int64_t v);                       /* INDEX constant */
an_uop an_uop_var(an_graph *g, const char *name, int64_t min, int64_t max); /* INDEX variable, bounds included */
an_uop an_graph_var(const an_graph *g, const char *name);      /* the first VAR made of that name, or AN_UOP_NONE */
bool an_graph_has_vars(const an_graph *g);

an_uop an_unary(an_graph *g, an_op op, an_uop x);              /* dtype by ops.def */
an_uop an_binary(an_graph *g, an_op op, an_uop x, an_uop y);
an_uop an_select(an_graph *g, an_uop c, an_uop x, an_uop y);   /* WHERE */
an_uop an_cast_to(an_graph *g, an_dtype dtype, an_uop x);      /* x itself if it has that dtype */
an_uop an_uop_neg(an_graph *g, an_uop x);                          /* mul(x, -1) */
an_uop an_uop_sub(an_graph *g, an_uop x, an_uop y);                /* add(x, mul(y, -1)) */
an_uop an_not(an_graph *g, an_uop x);                          /* xor(x, true), bool */
an_uop an_uop_same(an_graph *g, an_uop x);                         /* x's values as another node: a reshape to its own shape */

/* Index arithmetic that folds constants and identities at once, so shapes stay small. */
an_uop an_idx_add(an_graph *g, an_uop a, an_uop b);
an_uop an_idx_sub(an_graph *g, an_uop a, an_uop b);
an_uop an_idx_mul(an_graph *g, an_uop a, an_uop b);

/* Arithmetic of dims (dim.c; an_dim_add, an_dim_sub and an_dim_mul are public): equal values are one node. True, and *out the
 * quotient, where b divides a whatever the symbols are. */
bool an_dim_divides(an_graph *g, an_uop a, an_uop b, an_uop *out);
void an_dim_print(an_str *out, const an_graph *g, an_uop u); /* "n*4 + 1" */

/* A BUFFER that no node has as a source, and that was not noted as read, is one that nothing can mean the contents of. */
bool an_buffer_is_read(const an_graph *g, an_uop buffer);
void an_buffer_note_read(an_graph *g, an_uop buffer);

/* Nodes with identity: a fresh one at each call. */
an_uop an_buffer_node(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank);
an_uop an_leaf(an_graph *g, an_uop x);
/* A write is an event: twice the same is two. view: movement of target that shows what is written, or AN_UOP_NONE: all. */
an_uop an_assign_node(an_graph *g, an_uop target, an_uop value, an_uop view);
an_uop an_acc(an_graph *g, an_uop init);

/* Tensor-level structure. Axis lists are packed in arg; helpers pack and unpack. */
an_uop an_reshape_node(an_graph *g, an_uop x, const an_uop *dims, uint32_t rank);
an_uop an_expand_node(an_graph *g, an_uop x, const an_uop *dims, uint32_t rank);
an_uop an_permute_node(an_graph *g, an_uop x, const uint32_t *axes, uint32_t rank); /* out axis i is in axis axes[i] */
an_uop an_pad_node(an_graph *g, an_uop x, const an_uop *before, const an_uop *after);
an_uop an_shrink_node(an_graph *g, an_uop x, const an_uop *begin, const an_uop *end);
an_uop an_flip_node(an_graph *g, an_uop x, uint32_t mask);
an_uop an_reduce_axis(an_graph *g, an_op op, an_uop x, uint32_t mask);
static inline uint32_t an_permute_axis(uint64_t arg, uint32_t i)
{
    return (uint32_t)(arg >> (4 * i)) & 15u;
}
static inline an_op an_reduce_op(uint64_t arg) /* of REDUCE_AXIS, REDUCE and HREDUCE */
{
    return (an_op)(arg & 255u);
}
static inline uint32_t an_reduce_mask(uint64_t arg) /* of REDUCE_AXIS */
{
    return (uint32_t)(arg >> 8);
}
/* The value a reduction starts from: 0 for ADD, 1 for MUL, -inf or the least for MAX, ... */
an_scalar an_reduce_identity(an_op op, an_dtype dtype);

/* Inside a kernel. */
an_uop an_range(an_graph *g, an_uop bound, uint32_t id, an_range_kind kind);
static inline uint32_t an_range_id(uint64_t arg)
{
    return (uint32_t)arg;
}
static inline an_range_kind an_range_kind_of(uint64_t arg)
{
    return (an_range_kind)(arg >> 32);
}
an_uop an_param(an_graph *g, an_dtype dtype, uint32_t slot);
/* The arg of a FRAGMENT: element [row, column] of rows x columns is at index + row * row_step + column * column_step. */
typedef struct an_fragment {
    uint32_t rows, columns;         /* below 256 */
    uint32_t row_step, column_step; /* below 2^20 */
} an_fragment;
static inline uint64_t an_fragment_arg(an_fragment f)
{
    return (uint64_t)f.row_step | (uint64_t)f.column_step << 20 | (uint64_t)f.rows << 40 | (uint64_t)f.columns << 48;
}
static inline an_fragment an_fragment_of(uint64_t arg)
{
    return (an_fragment){(uint32_t)(arg >> 40 & 255), (uint32_t)(arg >> 48 & 255), (uint32_t)(arg & 0xfffff), (uint32_t)(arg >> 20 & 0xfffff)};
}
/* Scratch of nelem elements, one for each iteration of the ranges; number tells those of a kernel apart. */
an_uop an_local(an_graph *g, an_dtype dtype, uint32_t nelem, uint32_t number, const an_uop *ranges, uint32_t n);
an_uop an_load(an_graph *g, an_uop ptr, an_uop index, an_uop gate /* or AN_UOP_NONE */);
an_uop an_store(an_graph *g, an_uop ptr, an_uop index, an_uop value, an_uop gate /* or AN_UOP_NONE */);
an_uop an_sink(an_graph *g, const an_uop *stores, uint32_t n);

/* --- shapes ------------------------------------------------------------------------------------ */
an_shape an_shape_intern(an_graph *g, const an_uop *dims, uint32_t rank); /* dims NULL on failure with rank > 0 */
bool an_shape_eq(an_shape a, an_shape b);
an_uop an_shape_numel(an_graph *g, an_shape s);               /* product, folded; 1 for rank 0 */
bool an_shape_static(const an_graph *g, an_shape s, int64_t *dims /* AN_RANK_MAX, or NULL */);
void an_shape_print(an_str *out, const an_graph *g, an_shape s); /* "(64, n, 10)"; "()" for rank 0 */

/* --- order, keys, printing ---------------------------------------------------------------------
 * Sources before users, each node once, the roots last; visit order is structural, so it is the same for every
 * build order. Iterative. The array is the caller's: an_vec_fini. */
typedef AN_VEC(an_uop) an_uop_vec;
an_status an_toposort(an_graph *g, const an_uop *roots, uint32_t n, an_uop_vec *out);
/* How much an index grows when range does by one, if that is one constant; else false, and when memory is out. */
bool an_index_step(an_graph *g, an_uop index, an_uop range, int64_t *step);
bool an_vec_has(const an_uop_vec *v, an_uop u);

/* A total order that does not depend on build order: constants last, then op row, arg and contents. <0, 0 (same
 * node), >0. The canonical order of commutative operands. */
int an_uop_cmp(const an_graph *g, an_uop a, an_uop b);

/* The structural key of everything below the roots; nodes with identity count by the order they are met. */
an_status an_uop_key(an_graph *g, const an_uop *roots, uint32_t n, an_key *out);

/* u as an expression, "(add (mul x 3) 1)", to a depth ("..." below it). */
void an_uop_print(an_str *out, const an_graph *g, an_uop u, uint32_t depth);
/* What arg says, for ops where it says something, with a space in front: " 0.5", " add 1". */
void an_uop_print_arg(an_str *out, const an_graph *g, an_uop u);
/* Everything below the roots, a line a node: "%4 = add f32 (64, 10) %2 %3". */
an_status an_graph_print(an_str *out, an_graph *g, const an_uop *roots, uint32_t n);

/* Copies everything below root from one graph to another. map (may be NULL) is asked first for each node: a node it
 * returns is used as it is, AN_UOP_NONE means copy. Nodes with identity keep theirs apart: one new one for each. */
an_uop an_uop_import(an_graph *dst, const an_graph *src, an_uop root,
                     an_uop (*map)(void *user, an_uop u), void *user);

/* State of the layer above (devices and buffers: src/runtime) that hangs off the graph; destroy runs from
 * an_graph_destroy. */
void *an_graph_runtime(const an_graph *g);
void an_graph_set_runtime(an_graph *g, void *data, void (*destroy)(an_graph *g, void *data));

/* The rule given to nodes made from now on; returns the one before. */
uint32_t an_graph_set_rule(an_graph *g, uint32_t rule);

/* A per-node table of T, indexed by id, zeroed, for nodes that exist now: calloc of an_graph_len. */
void *an_graph_table(an_graph *g, size_t size, size_t *nbytes);

#endif
