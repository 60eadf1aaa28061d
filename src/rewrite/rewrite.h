/* rewrite.h - rule sets and the driver that applies them.
 *
 * Rules are written in .upat files (docs/UPAT.md) and compiled to C by upatc: a switch over the op of the node, one static
 * function a rule, no allocation and no string in the matching path. The driver (driver.c) goes bottom-up, to a fixpoint,
 * with an explicit stack. */
#ifndef AN_REWRITE_REWRITE_H
#define AN_REWRITE_REWRITE_H

#include "ir/uop.h"
#include "rewrite/bounds.h"
#include "rewrite/trace.h"

typedef struct an_rewriter an_rewriter;

/* One rule. text is the whole rule on one line; ops are the ops it names, pattern first, each once. Of apply and grad one
 * is set: this rule alone, AN_UOP_NONE or false where it does not match. */
typedef struct an_rule_info {
    const char *name, *file;
    uint32_t line;
    const char *text;
    const uint8_t *ops;
    uint32_t nops;
    an_uop (*apply)(an_rewriter *rw, an_uop n);
    bool (*grad)(an_rewriter *rw, an_uop n, const an_uop *in, an_uop *out);
} an_rule_info;

/* The rules of one file. The id of rules[i] is first_id + i. match: the first rule that matches n, applied; AN_UOP_NONE
 * where none does. */
typedef struct an_ruleset {
    const char *name;
    const an_rule_info *rules;
    uint32_t nrules;
    uint32_t first_id;
    an_uop (*match)(an_rewriter *rw, an_uop n);
} an_ruleset;

/* Rules with an expression for each source. match fills out[0..nsrc-1]; false where no rule matches.
 *   reverse  in[0] is the cotangent of n, out[i] that of source i; AN_UOP_NONE where it gets none
 *   forward  in[i] is the tangent of source i, or AN_UOP_NONE for zero; out[i] is what it adds to the tangent of n, AN_UOP_NONE
 *            for nothing */
typedef struct an_grad_ruleset {
    const char *name;
    const an_rule_info *rules;
    uint32_t nrules;
    uint32_t first_id;
    bool is_forward;
    bool (*match)(an_rewriter *rw, an_uop n, const an_uop *in, an_uop *out);
} an_grad_ruleset;

/* an_rules_symbolic and so on, and the first id of each. */
#define AN_RULESET(name) extern const an_ruleset an_rules_##name;
#define AN_GRAD_RULESET(name) extern const an_grad_ruleset an_rules_##name;
#include "rewrite/rulesets.def"
#undef AN_RULESET
#undef AN_GRAD_RULESET

enum { AN_RULES_PER_SET = 4096 };
enum an_ruleset_number {
    AN_RULESET_NUMBER_NONE, /* so that no rule has id 0 */
#define AN_RULESET(name) AN_RULESET_NUMBER_##name,
#define AN_GRAD_RULESET(name) AN_RULESET_NUMBER_##name,
#include "rewrite/rulesets.def"
#undef AN_RULESET
#undef AN_GRAD_RULESET
    AN_RULESET_NUMBER_COUNT
};

/* The rule that made a node (an_node.rule), or NULL: 0, or a rule of a set outside rulesets.def. set may be NULL. */
const an_rule_info *an_rule_find(uint32_t id, const char **set);

/* --- the rewriter: what rules, conditions and helpers see ---------------------------------------- */
struct an_rewriter {
    an_graph *graph;
    an_trace *trace; /* may be NULL */
    void *user;      /* whatever the pass gave an_rewrite: for its helpers */
    an_bounds_memo bounds;
    const an_ruleset *const *sets; /* those being applied; none in a gradient sweep */
    size_t nsets;
    const an_rule_info *fired; /* by the last match that succeeded */
    bool nested;               /* run by a helper of another rewrite */
};

/* For passes that call match themselves (gradients do). fini also with a zeroed struct. */
void an_rewriter_init(an_rewriter *rw, an_graph *g, an_trace *trace, void *user);
void an_rewriter_fini(an_rewriter *rw);

/* --- driving ------------------------------------------------------------------------------------- */
/* Rewrites everything below the roots by the first rule that matches in the first set that has one, sources before users,
 * until none matches; the roots are replaced in place. A NULL root stays. user is rw->user for helpers. The pass is
 * recorded in trace (NULL: not) under pass_name.
 * Errors: AN_ERR_NOMEM; AN_ERR_INTERNAL naming the rules when they turn in a circle or never end; the roots then are as
 * before. */
an_status an_rewrite(an_graph *g, const an_ruleset *const *sets, size_t nsets, an_uop *roots, size_t nroots,
                     an_trace *trace, void *user, const char *pass_name);

/* One root with a rewriter of the caller's: its sets, and what it knows of bounds. For helpers of rules; no pass is recorded. */
an_status an_rewrite_with(an_rewriter *rw, an_uop *root);

/* root with from[i] replaced by to[i] (not looked into again). AN_UOP_NONE when memory is out. */
an_uop an_substitute(an_graph *g, an_uop root, const an_uop *from, const an_uop *to, size_t n);
/* The same for many roots, in place. Errors: AN_ERR_NOMEM. */
an_status an_substitute_many(an_graph *g, an_uop *roots, size_t nroots, const an_uop *from, const an_uop *to, size_t n);

/* The symbolic rules on one expression: what index code calls to keep itself small. AN_UOP_NONE on failure. */
an_uop an_simplify(an_graph *g, an_uop u);

/* expr, equal to it wherever gate (bool: an `and` of comparisons) holds, simplified under the bounds the gate implies. Where
 * the gate cannot hold, expr itself. AN_UOP_NONE on failure. */
an_uop an_simplify_valid(an_graph *g, an_uop gate, an_uop expr);

/* --- called by generated code -------------------------------------------------------------------- */
/* Ends a rule: notes that it fired, gives result the shape of n where it is a scalar (a literal has no shape of its own).
 * saved is what an_graph_set_rule returned when the rule began building. Returns AN_UOP_NONE if result is none or n. */
an_uop an_rule_done(an_rewriter *rw, const an_rule_info *rule, uint32_t saved, an_uop n, an_uop result);

#endif
