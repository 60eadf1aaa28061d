/* view.c - walks a graph for readers outside the library (<anneal/view.h>). */
#include <anneal/view.h>

#include "rewrite/rewrite.h"

/* The name of the rule with this id, whatever its set. */
static const char *rule_name(uint32_t id)
{
    if (id == 0) return "";
#define AN_RULESET(set)                                                                                                \
    if (id >= an_rules_##set.first_id && id - an_rules_##set.first_id < an_rules_##set.nrules)                         \
        return an_rules_##set.rules[id - an_rules_##set.first_id].name;
#define AN_GRAD_RULESET(set) AN_RULESET(set)
#include "rewrite/rulesets.def"
#undef AN_RULESET
#undef AN_GRAD_RULESET
    return "";
}

an_status an_graph_walk(an_graph *g, const an_uop *roots, uint32_t n,
                        void (*visit)(void *user, const an_node_view *node), void *user)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec order = {0};
    AN_VEC(uint32_t) srcs = {0};
    an_str arg, shape;
    size_t nbytes = 0;
    uint32_t *number = NULL;
    an_str_init(&arg, ctx);
    an_str_init(&shape, ctx);
    an_status st = an_toposort(g, roots, n, &order);
    if (st) goto done;
    number = an_graph_table(g, sizeof *number, &nbytes);
    st = AN_ERR_NOMEM;
    if (!number) goto done;
    for (size_t i = 0; i < order.len; i++) {
        const an_uop u = order.data[i];
        const uint32_t nsrcs = an_uop_nsrc(g, u);
        number[u.id] = (uint32_t)i;
        an_str_clear(&arg);
        an_str_clear(&shape);
        an_uop_print_arg(&arg, g, u);
        an_shape_print(&shape, g, an_uop_shape(g, u));
        srcs.len = 0;
        if (!an_vec_reserve(ctx, &srcs, nsrcs) || arg.failed || shape.failed) goto done;
        for (uint32_t s = 0; s < nsrcs; s++) srcs.data[srcs.len++] = number[an_uop_src(g, u, s).id];
        const char *text = an_str_cstr(&arg);
        visit(user, &(an_node_view){.number = (uint32_t)i,
                                    .uop = u,
                                    .op = an_op_info_of(an_uop_op(g, u))->text,
                                    .arg = text[0] == ' ' ? text + 1 : text,
                                    .shape = an_str_cstr(&shape),
                                    .rule = rule_name(an_node_of(g, u)->rule),
                                    .dtype = an_uop_dtype(g, u),
                                    .phase = (an_phase)an_node_of(g, u)->phase,
                                    .nsrcs = nsrcs,
                                    .srcs = srcs.data});
    }
    st = AN_OK;
done:
    an_mem_free(ctx, number, nbytes);
    an_vec_fini(ctx, &srcs);
    an_vec_fini(ctx, &order);
    an_str_fini(&arg);
    an_str_fini(&shape);
    return st;
}

an_status an_graph_key(an_graph *g, const an_uop *roots, uint32_t n, uint64_t *lo, uint64_t *hi)
{
    an_key key = {0};
    const an_status st = an_uop_key(g, roots, n, &key);
    if (st) return st;
    *lo = key.lo;
    *hi = key.hi;
    return AN_OK;
}
