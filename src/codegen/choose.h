/* choose.h - what the choices of opts for a GPU share: the kernel as it is now, and the opts that have made it so. For gpu_choose.c and
 * choose_rows.c. */
#ifndef AN_CODEGEN_CHOOSE_H
#define AN_CODEGEN_CHOOSE_H

#include "codegen/gpu.h"

enum { AN_CHOOSE_LOOPS_MAX = 12, AN_CHOOSE_JOINED_MAX = 16 };

typedef struct an_chooser {
    an_graph *g;
    an_ctx *ctx;
    an_uop *sink;
    const an_codegen_opts *opts;
    const struct shape *only; /* of the tiles; NULL: whichever is best */
    const struct matrix_shape *only_matrix;
    bool no_matrix;
    an_trace *trace;
    an_opt_vec *list;
    an_dag d;
    uint32_t joined[AN_CHOOSE_JOINED_MAX], njoined; /* ids of ranges that several were joined to, memory along them */
} an_chooser;

an_status an_choose_refresh(an_chooser *c);
size_t an_choose_find(const an_chooser *c, uint32_t id);
an_range_kind an_choose_kind_at(const an_chooser *c, size_t r);
int64_t an_choose_bound_at(const an_chooser *c, size_t r);
uint32_t an_choose_id_at(const an_chooser *c, size_t r);
/* Applies an opt; *inner: the id of the part split off. done false: refused, nothing changed. */
an_status an_choose_apply(an_chooser *c, an_opt_kind kind, uint32_t id, int64_t amount, uint32_t *inner, bool *done);
an_status an_choose_mark(an_chooser *c, uint32_t id, an_opt_kind kind, uint32_t to);
/* Does a load that varies with k not vary with r? */
bool an_choose_is_shared(const an_chooser *c, size_t k, size_t r);
/* How much the index of an access grows with range r. */
an_status an_choose_coef_of(const an_chooser *c, an_uop access, size_t r, int64_t *out);
/* How memory is walked by the loads inside reduction u, over range k: along k (1), along a LOOP range (r), neither (0). Where they
 * differ, those that read the most decide. */
an_status an_choose_walk_of(const an_chooser *c, an_uop u, size_t k, bool *along_k, size_t *along);

/* choose_rows.c: a workgroup for each of the values that reductions give. */
an_status an_choose_rows(an_chooser *c, bool *done);

#endif
