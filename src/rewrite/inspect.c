/* inspect.c - the parts of <anneal/inspect.h> about rules, ops and printing. */
#include <anneal/inspect.h>

#include "rewrite/rewrite.h"

typedef struct set_view {
    const char *name;
    const an_ruleset *set; /* or NULL */
    const an_grad_ruleset *grad;
} set_view;

static const set_view sets[] = {
#define AN_RULESET(name) {#name, &an_rules_##name, NULL},
#define AN_GRAD_RULESET(name) {#name, NULL, &an_rules_##name},
#include "rewrite/rulesets.def"
#undef AN_RULESET
#undef AN_GRAD_RULESET
};
enum { NSETS = sizeof sets / sizeof *sets };

static uint32_t set_len(const set_view *s)
{
    return s->set ? s->set->nrules : s->grad->nrules;
}

static const an_rule_info *rule_at(size_t i, const set_view **set)
{
    for (size_t s = 0; s < NSETS; s++) {
        const uint32_t n = set_len(&sets[s]);
        if (i < n) {
            if (set) *set = &sets[s];
            return sets[s].set ? &sets[s].set->rules[i] : &sets[s].grad->rules[i];
        }
        i -= n;
    }
    return NULL;
}

size_t an_rule_count(void)
{
    size_t n = 0;
    for (size_t s = 0; s < NSETS; s++) n += set_len(&sets[s]);
    return n;
}

an_rule_view an_rule_get(size_t i)
{
    const set_view *set = NULL;
    const an_rule_info *r = rule_at(i, &set);
    if (!r) return (an_rule_view){.set = "", .name = "", .file = "", .text = ""};
    return (an_rule_view){.set = set->name,
                          .name = r->name,
                          .file = r->file,
                          .line = r->line,
                          .text = r->text,
                          .is_grad = set->grad && !set->grad->is_forward,
                          .is_jvp = set->grad && set->grad->is_forward};
}

bool an_rule_mentions(size_t i, const char *op)
{
    const an_rule_info *r = rule_at(i, NULL);
    const an_op want = an_op_parse(op);
    for (uint32_t k = 0; r && want != AN_OP_NONE && k < r->nops; k++)
        if (r->ops[k] == want) return true;
    return false;
}

const an_rule_info *an_rule_find(uint32_t id, const char **set)
{
    const uint32_t number = id / AN_RULES_PER_SET, i = id % AN_RULES_PER_SET;
    if (number == 0 || number > NSETS) return NULL;
    const set_view *s = &sets[number - 1];
    if (i >= set_len(s)) return NULL;
    if (set) *set = s->name;
    return s->set ? &s->set->rules[i] : &s->grad->rules[i];
}

size_t an_op_count(void)
{
    return AN_OP_COUNT - 1;
}

an_op_view an_op_get(size_t i)
{
    const an_op op = i + 1 < AN_OP_COUNT ? (an_op)(i + 1) : AN_OP_NONE;
    const an_op_info *info = an_op_info_of(op);
    return (an_op_view){.text = info->text,
                        .arity = info->arity,
                        .is_elementwise = (info->traits & AN_TRAIT_ELEM) != 0,
                        .is_commutative = (info->traits & AN_TRAIT_COMM) != 0,
                        .is_movement = (info->traits & AN_TRAIT_MOVE) != 0,
                        .is_kernel_only = (info->traits & AN_TRAIT_KERNEL) != 0};
}

an_status an_expr_print(const an_graph *g, an_uop u, uint32_t depth, an_put put, void *user)
{
    an_str s;
    an_str_init(&s, an_graph_ctx(g));
    an_uop_print(&s, g, u, depth);
    const an_status st = s.failed ? AN_ERR_NOMEM : AN_OK;
    if (!st) put(user, an_str_cstr(&s));
    an_str_fini(&s);
    return st;
}

an_status an_expr_rewrite(an_graph *g, const char *set, an_uop *root, an_trace *trace)
{
    for (size_t s = 0; s < NSETS; s++)
        if (sets[s].set && strcmp(sets[s].name, set) == 0)
            return an_rewrite(g, &sets[s].set, 1, root, 1, trace, NULL, set);
    return an_fail(an_graph_ctx(g), AN_ERR_ARG, "there is no set of rules called '%s'; 'symbolic' is one", set);
}
