/* driver.c - rule sets applied bottom-up to a fixpoint, and substitution.
 *
 * Each node ends as its final form: no rule matches it, and its sources are final. done maps a node to it. A frame of the
 * stack is a node on its way there:
 *
 *   SOURCES  its sources get their final forms, one after another; then it is rebuilt over them and matched
 *   RESULT   a rule turned it into another node; the final form of that is its own too
 *
 * A node on its way that is needed for its own final form is a circle of rules, and found at once; rules that build ever
 * new nodes run into the budget. */
#include "rewrite/rules.h"

typedef enum stage { SOURCES, RESULT } stage;
typedef struct frame {
    an_uop node;  /* as found */
    an_uop built; /* over final sources; stage RESULT */
    an_uop wanted;
    uint32_t next;
    stage stage;
    const an_rule_info *rule; /* that gave wanted */
} frame;

#define ON_ITS_WAY UINT32_MAX
enum { BUDGET = 1000000, BUDGET_PER_NODE = 256, RECENT = 16 };

typedef struct driver {
    an_graph *g;
    an_ctx *ctx;
    an_rewriter rw;
    an_idmap done; /* node id -> id of its final form, or ON_ITS_WAY */
    AN_VEC(frame) stack;
    AN_VEC(an_uop) srcs; /* of the node being rebuilt */
    uint64_t fired, budget;
    const an_rule_info *recent[RECENT];
} driver;

/* ---- errors ------------------------------------------------------------------------------------- */

static void add_rule(an_str *s, const an_rule_info **seen, size_t *n, const an_rule_info *rule)
{
    enum { NAMED = 8 };
    if (!rule) return;
    for (size_t i = 0; i < *n; i++)
        if (seen[i] == rule) return;
    if (*n >= NAMED) return;
    seen[(*n)++] = rule;
    an_str_printf(s, "%s%s (%s:%u)", *n > 1 ? ", " : "", rule->name, rule->file, rule->line);
}

/* u is needed for its own final form. */
static an_status fail_circle(driver *d, an_uop u)
{
    const an_rule_info *seen[8];
    size_t n = 0;
    an_str s, e;
    an_str_init(&s, d->ctx);
    an_str_init(&e, d->ctx);
    bool inside = false;
    for (size_t i = 0; i < d->stack.len; i++) {
        const frame *f = &d->stack.data[i];
        inside = inside || an_uop_eq(f->node, u) || an_uop_eq(f->built, u);
        if (inside) add_rule(&s, seen, &n, f->rule);
    }
    an_uop_print(&e, d->g, u, 4);
    const an_status st = an_fail(d->ctx, AN_ERR_INTERNAL, "rewriting %s turns in a circle through the rules %s",
                                 an_str_cstr(&e), an_str_cstr(&s));
    an_str_fini(&s);
    an_str_fini(&e);
    return st;
}

static an_status fail_budget(driver *d)
{
    const an_rule_info *seen[8];
    size_t n = 0;
    an_str s;
    an_str_init(&s, d->ctx);
    for (size_t i = 0; i < RECENT; i++) add_rule(&s, seen, &n, d->recent[i]);
    const an_status st = an_fail(d->ctx, AN_ERR_INTERNAL, "rewriting does not end: %llu rules fired, of late %s",
                                 (unsigned long long)d->fired, an_str_cstr(&s));
    an_str_fini(&s);
    return st;
}

static an_status out_of_memory(driver *d)
{
    const an_status st = an_ctx_status(d->ctx);
    return st ? st : AN_ERR_NOMEM;
}

/* ---- the walk ------------------------------------------------------------------------------------ */

/* AN_UOP_NONE where there is none yet. */
static an_uop final_of(const driver *d, an_uop u)
{
    const uint32_t id = an_idmap_get(&d->done, u.id);
    return id == ON_ITS_WAY ? AN_UOP_NONE : (an_uop){id};
}

static an_status push(driver *d, an_uop u)
{
    const frame f = {.node = u, .built = u};
    if (an_idmap_get(&d->done, u.id) == ON_ITS_WAY) return fail_circle(d, u);
    /* What a gate implies holds for values, which only count where it holds. A load is done everywhere, so its own gate and
     * index stay; and a range is a loop, whatever is known inside it: its bound stays. */
    if (d->rw.nested && (an_uop_op(d->g, u) == AN_OP_LOAD || an_uop_op(d->g, u) == AN_OP_RANGE))
        return an_idmap_set(&d->done, d->ctx, u.id, u.id) ? AN_OK : out_of_memory(d);
    if (!an_vec_push(d->ctx, &d->stack, f) || !an_idmap_set(&d->done, d->ctx, u.id, ON_ITS_WAY)) return out_of_memory(d);
    return AN_OK;
}

/* The frame on top is over: its node, and what it was rebuilt to, have that final form. */
static an_status finish(driver *d, an_uop final)
{
    const frame *f = &d->stack.data[--d->stack.len];
    const bool ok = an_idmap_set(&d->done, d->ctx, f->node.id, final.id) &&
                    (an_uop_eq(f->built, f->node) || an_idmap_set(&d->done, d->ctx, f->built.id, final.id));
    return ok ? AN_OK : out_of_memory(d);
}

/* node over the final forms of its sources, which are all there. */
static an_uop rebuild(driver *d, an_uop node)
{
    const uint32_t n = an_uop_nsrc(d->g, node);
    bool changed = false;
    d->srcs.len = 0;
    if (!an_vec_reserve(d->ctx, &d->srcs, n)) return AN_UOP_NONE;
    const an_uop *src = an_uop_srcs(d->g, node);
    for (uint32_t i = 0; i < n; i++) {
        d->srcs.data[i] = final_of(d, src[i]);
        changed = changed || !an_uop_eq(d->srcs.data[i], src[i]);
    }
    if (!changed) return node;
    const uint32_t rule = an_graph_set_rule(d->g, an_node_of(d->g, node)->rule);
    const an_uop built = an_uop_with_srcs(d->g, node, d->srcs.data);
    an_graph_set_rule(d->g, rule);
    return built;
}

static an_uop match(driver *d, an_uop u)
{
    for (size_t i = 0; i < d->rw.nsets; i++) {
        const an_uop r = d->rw.sets[i]->match(&d->rw, u);
        if (an_uop_is_none(r)) continue;
        d->recent[d->fired++ % RECENT] = d->rw.fired;
        an_trace_fire(d->rw.trace, d->rw.fired, u, r);
        return r;
    }
    return AN_UOP_NONE;
}

/* The sources of the frame on top are final. */
static an_status settle(driver *d)
{
    frame *f = &d->stack.data[d->stack.len - 1];
    const an_phase phase = an_graph_set_phase(d->g, (an_phase)an_node_of(d->g, f->node)->phase);
    an_status st = AN_OK;
    an_uop r = AN_UOP_NONE;
    const an_uop built = rebuild(d, f->node);
    if (an_uop_is_none(built)) {
        st = out_of_memory(d);
        goto done;
    }
    if (d->rw.nsets == 0) { /* substituting: what comes out is not looked into again */
        d->stack.len--;
        if (!an_idmap_set(&d->done, d->ctx, f->node.id, built.id)) st = out_of_memory(d);
        goto done;
    }
    if (!an_uop_eq(built, f->node)) {
        const uint32_t known = an_idmap_get(&d->done, built.id);
        if (known == ON_ITS_WAY) {
            st = fail_circle(d, built);
            goto done;
        }
        if (known) {
            st = finish(d, (an_uop){known});
            goto done;
        }
        f->built = built;
        if (!an_idmap_set(&d->done, d->ctx, built.id, ON_ITS_WAY)) {
            st = out_of_memory(d);
            goto done;
        }
    }
    r = match(d, built);
    if (an_uop_is_none(r)) {
        st = finish(d, built);
        goto done;
    }
    if (d->fired > d->budget) {
        st = fail_budget(d);
        goto done;
    }
    f->stage = RESULT;
    f->wanted = r;
    f->rule = d->rw.fired;
    if (an_uop_is_none(final_of(d, r))) st = push(d, r);
done:
    an_graph_set_phase(d->g, phase);
    return st;
}

static an_status step(driver *d)
{
    frame *f = &d->stack.data[d->stack.len - 1];
    if (f->stage == RESULT) return finish(d, final_of(d, f->wanted));
    const uint32_t n = an_uop_nsrc(d->g, f->node);
    const an_uop *src = an_uop_srcs(d->g, f->node);
    while (f->next < n && !an_uop_is_none(final_of(d, src[f->next]))) f->next++;
    if (f->next < n) return push(d, src[f->next]);
    return settle(d);
}

static size_t count_nodes(an_graph *g, const an_uop *roots, size_t nroots)
{
    an_uop_vec order = {0};
    size_t n = 0;
    if (an_toposort(g, roots, (uint32_t)nroots, &order) == AN_OK) n = order.len;
    an_vec_fini(an_graph_ctx(g), &order);
    return n;
}

static an_status run(driver *d, an_uop *roots, size_t nroots)
{
    an_status st = AN_OK;
    for (size_t i = 0; i < nroots && !st; i++) {
        if (an_uop_is_none(roots[i]) || !an_uop_is_none(final_of(d, roots[i]))) continue;
        st = push(d, roots[i]);
        while (!st && d->stack.len) st = step(d);
    }
    for (size_t i = 0; i < nroots && !st; i++)
        if (!an_uop_is_none(roots[i])) roots[i] = final_of(d, roots[i]);
    return st;
}

static void driver_init(driver *d, an_graph *g)
{
    *d = (driver){.g = g, .ctx = an_graph_ctx(g), .budget = BUDGET + (uint64_t)BUDGET_PER_NODE * an_graph_len(g)};
}

static void driver_fini(driver *d)
{
    an_rewriter_fini(&d->rw);
    an_idmap_fini(&d->done, d->ctx);
    an_vec_fini(d->ctx, &d->stack);
    an_vec_fini(d->ctx, &d->srcs);
}

an_status an_rewrite(an_graph *g, const an_ruleset *const *sets, size_t nsets, an_uop *roots, size_t nroots,
                     an_trace *trace, void *user, const char *pass_name)
{
    driver d;
    driver_init(&d, g);
    an_rewriter_init(&d.rw, g, trace, user);
    d.rw.sets = sets;
    d.rw.nsets = nsets;
    const an_status before = an_ctx_status(d.ctx);
    size_t nodes_in = 0;
    if (trace) {
        an_trace_pass_begin(trace, pass_name, g);
        nodes_in = count_nodes(g, roots, nroots);
    }
    an_status st = run(&d, roots, nroots);
    if (trace) {
        an_trace_pass_nodes(trace, nodes_in, count_nodes(g, roots, nroots));
        an_trace_pass_end(trace);
    }
    driver_fini(&d);
    /* A helper that ran out of memory looks like one that did not match. */
    if (!st && !before) st = an_ctx_status(d.ctx);
    return st;
}

an_status an_rewrite_with(an_rewriter *rw, an_uop *root)
{
    if (rw->nsets == 0 || an_uop_is_none(*root)) return AN_OK;
    driver d;
    driver_init(&d, rw->graph);
    d.rw = *rw;
    const an_status st = run(&d, root, 1);
    *rw = d.rw;
    d.rw = (an_rewriter){0};
    driver_fini(&d);
    return st;
}

/* ---- substitution -------------------------------------------------------------------------------- */

an_status an_substitute_many(an_graph *g, an_uop *roots, size_t nroots, const an_uop *from, const an_uop *to, size_t n)
{
    driver d;
    driver_init(&d, g);
    an_status st = AN_OK;
    for (size_t i = n; i-- > 0 && !st;) /* the first of equal ones counts */
        if (!an_idmap_set(&d.done, d.ctx, from[i].id, to[i].id)) st = out_of_memory(&d);
    if (!st) st = run(&d, roots, nroots);
    driver_fini(&d);
    return st;
}

an_uop an_substitute(an_graph *g, an_uop root, const an_uop *from, const an_uop *to, size_t n)
{
    return an_substitute_many(g, &root, 1, from, to, n) ? AN_UOP_NONE : root;
}
