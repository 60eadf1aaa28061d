/* opt.h - transforms of a kernel's ranges. Each keeps the meaning of the kernel (floats may be summed in another order) and
 * refuses, with a sentence, where it does not apply. For src/codegen, and for what searches or is given lists of them.
 *
 * A list is applied in order to a kernel as an_codegen_shape leaves it. Ranges are named by id; ids depend on the kernel alone:
 *   the outer part of UPCAST, UNROLL, VECTOR, CUT, PADTO, CARRY and the main part of SPLIT keep the id of the range (where nothing is
 *   left of it, it is gone); the inner part, or the tail, gets an id between it and the next range.
 *
 *   UPCAST:2048:4   four copies along range 2048
 *
 * an_opt_choose makes the list of the heuristics, an_opt_legal lists what would apply next, an_codegen_opts.list is a list
 * given by hand: there an opt that does not apply is an error. */
#ifndef AN_CODEGEN_OPT_H
#define AN_CODEGEN_OPT_H

#include "codegen/codegen.h"
#include "codegen/dag.h"

/* opts.def says what each one does. */
typedef enum an_opt_kind {
#define AN_OPT(id, name, amount, what) AN_OPT_##id,
#include "codegen/opts.def"
#undef AN_OPT
    AN_OPT_COUNT
} an_opt_kind;

/* range: the id of a RANGE. */
typedef struct an_opt {
    an_opt_kind kind;
    uint32_t range;
    int64_t amount;
} an_opt;

typedef AN_VEC(an_opt) an_opt_vec;

const char *an_opt_name(an_opt_kind kind);
const char *an_opt_help(an_opt_kind kind); /* a sentence for lists of opts */

/* The id of the range that opt would make: the inner part, the tail, the moved one. */
uint32_t an_opt_new_id(const an_dag *d, an_opt opt);

/* Applies opt to the sink, or sets *why to the reason not to and leaves the sink. *why is NULL where it applied.
 * Errors: AN_ERR_NOMEM, AN_ERR_LIMIT. */
an_status an_opt_apply(an_graph *g, an_uop *sink, an_opt opt, const char **why);

/* Every REDUCE that binds the range becomes one for each of subs, joined; where it is a LOOP range, every store that varies
 * with it one for each. For range r of d, which is of the sink.
 * Errors: AN_ERR_NOMEM. */
an_status an_opt_in_parts(an_dag *d, an_uop *sink, size_t r, const an_range_sub *subs, size_t nsubs);

/* PACK (pack.c), for range r of d, which is of the sink: as an_opt_apply. */
an_status an_opt_pack(an_dag *d, an_uop *sink, size_t r, int64_t nbytes_max, const char **why);
/* KEEP (keep.c), in the same way; and the functions that it is about. */
bool an_opt_is_dear(an_op op);
an_status an_opt_keep(an_dag *d, an_uop *sink, size_t r, int64_t nbytes_max, const char **why);

/* What the two share. The loops outside range r that every store with what is at position i is in: false where they differ, one is
 * no loop or there are more than AN_OPT_LOOPS_MAX. seen has room for d->order.len. */
enum { AN_OPT_LOOPS_MAX = 12 };
bool an_opt_outer_loops(const an_dag *d, an_uop sink, size_t i, size_t r, bool *seen, an_uop *out, uint32_t *n);
/* Bytes of all scratch there is, and the number of the next one. */
void an_opt_scratch_now(const an_dag *d, int64_t *nbytes, uint32_t *number);

/* CARRY (carry.c), for range r of d, which is of the sink, and divisible by amount: as an_opt_apply. */
an_status an_opt_carry(an_dag *d, an_uop *sink, size_t r, uint32_t inner_id, int64_t amount, const char **why);

/* For blocks of range r that begin before `first`, in a kernel that reads what it writes, each element its own: elements below first
 * keep their values. can: every store that varies with r has a load of its own element. Errors: AN_ERR_NOMEM. */
bool an_opt_can_overlap(const an_dag *d, an_uop sink, size_t r);
an_status an_opt_overlap(an_dag *d, an_uop *sink, size_t r, an_uop first);

/* Applies a list; the sink stays where one fails. Errors: AN_ERR_ARG with a sentence that names the opt that does not apply
 * and why; those of an_opt_apply. */
an_status an_opt_apply_list(an_graph *g, an_uop *sink, const an_opt *list, size_t n);

/* Appends the opts that apply to the sink as it is, one by one, with the amounts that are worth a try. */
an_status an_opt_legal(an_graph *g, an_uop sink, const an_codegen_opts *opts, an_opt_vec *out);

/* What the heuristics choose: appended to list, and applied to the sink. trace may be NULL. */
an_status an_opt_choose(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace, an_opt_vec *list);

/* Other lists that are worth a try on a GPU, by number from 0 on; *more false: there is none of that number. Empty where it does not
 * apply. */
an_status an_opt_choose_other(an_graph *g, an_uop sink, const an_codegen_opts *opts, uint32_t number, an_opt_vec *list, bool *more);

/* The same, but lanes over outputs only. */
an_status an_opt_choose_lanes(an_graph *g, an_uop *sink, const an_codegen_opts *opts, an_trace *trace, an_opt_vec *list);

/* "UPCAST:2048:4 VECTOR:3072:8", and back. Errors of parsing: AN_ERR_ARG with a sentence; at most AN_OPTS_MAX. */
enum { AN_OPTS_MAX = 64 };
an_status an_opt_print(an_str *out, const an_opt *list, size_t n);
an_status an_opt_parse(an_ctx *ctx, const char *text, an_opt_vec *out);

#endif
