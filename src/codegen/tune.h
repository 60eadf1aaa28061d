/* tune.h - what the heuristics share: a kernel under way, looked at anew after each opt. For src/codegen only. */
#ifndef AN_CODEGEN_TUNE_H
#define AN_CODEGEN_TUNE_H

#include "codegen/opt.h"
#include "codegen/pass.h"

enum {
    AN_TUNE_NODES_MAX = 1200, /* of a kernel after its copies are made: what compiling may cost */
    AN_TUNE_LANES_MIN = 4
};

typedef struct an_tuner {
    an_graph *g;
    an_ctx *ctx;
    an_uop *sink;
    an_trace *trace;
    uint32_t vector_nbytes, scratch_nbytes, l1_nbytes, l2_nbytes;
    int threads;
    double gpu_threads; /* a GPU's, which lanes must leave something to do; 0: no GPU */
    an_opt_vec *list; /* what was applied */
    an_dag d;
} an_tuner;

an_status an_tune_refresh(an_tuner *t);
/* Applies an opt and looks at the kernel anew. *done: it was not refused. */
an_status an_tune_apply(an_tuner *t, an_opt_kind kind, uint32_t range, int64_t amount, bool *done);

static inline an_range_kind an_tune_kind(const an_tuner *t, size_t r)
{
    return an_range_kind_of(an_uop_arg(t->g, t->d.ranges.data[r]));
}
static inline uint32_t an_tune_id(const an_tuner *t, size_t r)
{
    return an_range_id(an_uop_arg(t->g, t->d.ranges.data[r]));
}
static inline int64_t an_tune_bound(const an_tuner *t, size_t r)
{
    return r == AN_RANGES_MAX ? 1 : an_range_bound(t->g, t->d.ranges.data[r]);
}

/* The reduction that costs most: by the product of all bounds around it. None where there is none. */
an_uop an_tune_dominant(const an_tuner *t);
/* Is the node at position i a load that varies with what a REDUCE binds? */
bool an_tune_is_load_inside(const an_tuner *t, size_t i, an_uop reduce);
/* Nodes of the kernel once every node is copied for the UPCAST and UNROLL ranges it depends on, and for two more ranges
 * by these factors. */
double an_tune_nodes(const an_tuner *t, size_t a, double fa, size_t b, double fb);

/* The range of this id, or AN_RANGES_MAX. */
size_t an_tune_range_at(const an_tuner *t, uint32_t id);
/* Range id in blocks: *inner is the id of the part inside. Not done: neither a CUT nor a PADTO applies. */
an_status an_tune_block(an_tuner *t, uint32_t id, int64_t amount, uint32_t *inner, bool *done);

/* Opts on trial: begin points the tuner at a copy of the kernel; end takes the copy if all went well (done), and else leaves kernel and
 * list as they were. begin's trial must stay where it is until end. end returns st, or what looking at the kernel anew gives. */
typedef struct an_tune_trial {
    an_uop *sink, now;
    size_t nlist;
} an_tune_trial;
void an_tune_begin(an_tuner *t, an_tune_trial *trial);
an_status an_tune_end(an_tuner *t, const an_tune_trial *trial, an_status st, bool done);

/* Opts in turn, while none is refused and nothing fails. */
typedef struct an_tune_chain {
    an_tuner *t;
    an_status st;
    bool ok;
} an_tune_chain;
void an_tune_then(an_tune_chain *c, an_opt_kind kind, uint32_t range, int64_t amount);
void an_tune_then_block(an_tune_chain *c, uint32_t range, int64_t amount, uint32_t *inner);

/* turn.c: blocks for a kernel that transposes. *done: it does, and has them. */
an_status an_tune_turn(an_tuner *t, bool *done);
/* stream.c: rows side by side for a sum down the columns of a large matrix. *done: it is one, and has them. */
an_status an_tune_stream(an_tuner *t, bool *done);
/* product.c: tiles and scratch for a reduction that is a product of two operands. *done: it is one, and has them. */
an_status an_tune_product(an_tuner *t, bool *done);

#endif
