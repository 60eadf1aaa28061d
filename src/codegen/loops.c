/* loops.c - the loop tree.
 *
 * The loops of a store are the ranges it depends on, ascending by id; stores share the loops of a common prefix. A
 * reduction runs inside the innermost loop that its value depends on (its home), before the loops next to it:
 *
 *   i              m = max over k depends on i: home i         for i
 *   i, j           store depends on i, j                           for k: m
 *                                                                  for j: store
 *
 * A range is one loop in the linear list, so one that belongs in two places (a reduction shared by two stores, by the main
 * part and the tail of a split) is renamed in all but the first. Reductions at one home over equal bounds run in one loop
 * when none depends on the other. */
#include "codegen/loops.h"

void an_loops_fini(an_loops *l, an_ctx *ctx)
{
    an_vec_fini(ctx, &l->list);
    an_idmap_fini(&l->at, ctx);
}

uint32_t an_loops_up(const an_loops *l, uint32_t a, uint32_t depth)
{
    while (l->list.data[a].depth > depth) a = l->list.data[a].parent;
    return a;
}

static bool add_loop(an_loops *l, an_ctx *ctx, an_uop range, uint32_t parent, uint32_t *out)
{
    const an_loop loop = {range, parent, l->list.len ? l->list.data[parent].depth + 1 : 0};
    *out = (uint32_t)l->list.len;
    return an_vec_push(ctx, &l->list, loop) && (*out == 0 || an_idmap_set(&l->at, ctx, range.id, *out));
}

static an_status clear(an_loops *l, an_ctx *ctx)
{
    uint32_t root = 0;
    an_loops_fini(l, ctx);
    *l = (an_loops){0};
    return add_loop(l, ctx, AN_UOP_NONE, 0, &root) ? AN_OK : AN_ERR_NOMEM;
}

static uint32_t max_id(const an_dag *d)
{
    const size_t n = d->ranges.len;
    return n ? an_range_id(an_uop_arg(d->g, d->ranges.data[n - 1])) : 0;
}

static an_uop copy_range(an_graph *g, an_uop range, uint32_t id)
{
    return an_range(g, an_uop_src(g, range, 0), id, an_range_kind_of(an_uop_arg(g, range)));
}

/* A range that runs elsewhere too, and its copy for the stores below a loop. */
typedef struct range_copy {
    an_uop range, copy;
    uint32_t parent;
} range_copy;

/* The loops of all stores. A store whose range already runs elsewhere gets a copy of it, the same as others in its place, and of the ranges
 * inside that one, which would be outside by their ids: then *changed, and the tree is to be built again. */
static an_status place_stores(an_graph *g, an_uop *sink, an_loops *loops, bool *changed)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_dag d = {0};
    an_uop_vec stores = {0};
    AN_VEC(range_copy) copies = {0};
    an_status st = an_dag_init(&d, g, sink, 1);
    if (!st) st = clear(loops, ctx);
    if (st) goto done;
    uint32_t next_id = max_id(&d) + 1;
    *changed = false;
    st = AN_ERR_NOMEM;
    for (uint32_t s = 0; s < an_uop_nsrc(g, *sink); s++) {
        an_uop store = an_uop_src(g, *sink, s);
        const an_rangeset *deps = an_dag_deps(&d, store);
        uint32_t at = 0;
        bool renamed = false;
        for (size_t r = 0; r < d.ranges.len; r++) {
            if (!an_rangeset_has(deps, r)) continue;
            an_uop range = d.ranges.data[r];
            const uint32_t found = an_idmap_get(&loops->at, range.id);
            if (found && !renamed && loops->list.data[found].parent == at) {
                at = found;
                continue;
            }
            if (found || renamed) {
                size_t c = 0;
                while (c < copies.len && !(an_uop_eq(copies.data[c].range, range) && copies.data[c].parent == at)) c++;
                if (c == copies.len) {
                    const range_copy fresh = {range, copy_range(g, range, next_id++), at};
                    if (!an_vec_push(ctx, &copies, fresh)) goto done;
                }
                const an_uop copy = copies.data[c].copy;
                const an_range_sub sub = {range, copy, {copy}, 1};
                st = an_replace_ranges(g, &store, 1, &sub, 1);
                if (st) goto done;
                st = AN_ERR_NOMEM;
                range = copy;
                *changed = renamed = true;
                const uint32_t there = an_idmap_get(&loops->at, range.id);
                if (there) {
                    at = there;
                    continue;
                }
            }
            if (!add_loop(loops, ctx, range, at, &at)) goto done;
        }
        if (!an_vec_push(ctx, &stores, store)) goto done;
    }
    if (*changed) {
        *sink = an_sink(g, stores.data, (uint32_t)stores.len);
        if (an_uop_is_none(*sink)) goto done;
    }
    st = AN_OK;
done:
    an_dag_fini(&d);
    an_vec_fini(ctx, &stores);
    an_vec_fini(ctx, &copies);
    return st;
}

/* The innermost loop of a set of ranges that all have one; false if one has none yet. */
static bool home_of(const an_dag *d, const an_loops *l, const an_rangeset *deps, uint32_t *home)
{
    *home = 0;
    for (size_t r = 0; r < d->ranges.len; r++) {
        if (!an_rangeset_has(deps, r)) continue;
        const uint32_t at = an_idmap_get(&l->at, d->ranges.data[r].id);
        if (!at) return false;
        if (l->list.data[at].depth > l->list.data[*home].depth) *home = at;
    }
    return true;
}

/* Reductions that run together: at one home, over the same bounds, none below another. */
typedef struct group {
    uint32_t home, level, nranges;
    an_uop ranges[2 * AN_RANK_MAX + 4];
} group;
typedef AN_VEC(group) group_vec;

typedef struct rename {
    an_uop reduce;
    size_t group;
} rename;
typedef AN_VEC(rename) rename_vec;

/* The ranges of a REDUCE, outer first. */
static uint32_t reduce_ranges(const an_graph *g, an_uop u, an_uop *out)
{
    const uint32_t n = an_uop_nsrc(g, u) - 1;
    for (uint32_t i = 0; i < n; i++) {
        const an_uop r = an_uop_src(g, u, i + 1);
        uint32_t at = i;
        for (; at > 0 && an_range_id(an_uop_arg(g, out[at - 1])) > an_range_id(an_uop_arg(g, r)); at--)
            out[at] = out[at - 1];
        out[at] = r;
    }
    return n;
}

static bool fits(const an_graph *g, const group *a, const group *b)
{
    if (a->home != b->home || a->level != b->level || a->nranges != b->nranges) return false;
    for (uint32_t i = 0; i < a->nranges; i++)
        if (!an_uop_eq(an_uop_src(g, a->ranges[i], 0), an_uop_src(g, b->ranges[i], 0)) ||
            an_range_kind_of(an_uop_arg(g, a->ranges[i])) != an_range_kind_of(an_uop_arg(g, b->ranges[i])))
            return false;
    return true;
}

static bool same_ranges(const group *a, const group *b)
{
    for (uint32_t i = 0; i < a->nranges; i++)
        if (!an_uop_eq(a->ranges[i], b->ranges[i])) return false;
    return true;
}

/* Finds the loops of a REDUCE at home, or makes them; asks for a rename where its ranges are not those. */
static an_status place_reduce(const an_dag *d, an_loops *loops, an_uop u, uint32_t home, uint32_t level,
                              uint32_t *next_id, group_vec *groups, rename_vec *renames)
{
    an_graph *g = d->g;
    an_ctx *ctx = an_graph_ctx(g);
    group want = {.home = home, .level = level};
    want.nranges = reduce_ranges(g, u, want.ranges);
    for (size_t i = 0; i < groups->len; i++) {
        if (!fits(g, &groups->data[i], &want)) continue;
        const rename r = {u, i};
        if (same_ranges(&groups->data[i], &want)) return AN_OK;
        return an_vec_push(ctx, renames, r) ? AN_OK : AN_ERR_NOMEM;
    }
    bool taken = false;
    for (uint32_t i = 0; i < want.nranges; i++) taken = taken || an_idmap_get(&loops->at, want.ranges[i].id);
    for (uint32_t i = 0; taken && i < want.nranges; i++) want.ranges[i] = copy_range(g, want.ranges[i], (*next_id)++);
    const rename r = {u, groups->len};
    if (taken && !an_vec_push(ctx, renames, r)) return AN_ERR_NOMEM;
    for (uint32_t i = 0, at = home; i < want.nranges; i++)
        if (an_uop_is_none(want.ranges[i]) || !add_loop(loops, ctx, want.ranges[i], at, &at)) return AN_ERR_NOMEM;
    return an_vec_push(ctx, groups, want) ? AN_OK : AN_ERR_NOMEM;
}

/* The sink with the listed REDUCEs over the ranges of their groups. */
static an_status apply_renames(const an_dag *d, an_uop *sink, const group_vec *groups, const rename_vec *renames,
                               uint32_t *next_id)
{
    an_graph *g = d->g;
    an_ctx *ctx = an_graph_ctx(g);
    an_nodemap map = {0};
    an_uop_vec scratch = {0};
    an_status st = AN_ERR_NOMEM;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const group *to = NULL;
        for (size_t r = 0; r < renames->len && !to && an_uop_op(g, u) == AN_OP_REDUCE; r++)
            if (an_uop_eq(renames->data[r].reduce, u)) to = &groups->data[renames->data[r].group];
        an_uop v = AN_UOP_NONE;
        if (to) {
            an_uop old[2 * AN_RANK_MAX + 4];
            an_range_sub subs[2 * AN_RANK_MAX + 4], apart[2 * AN_RANK_MAX + 4];
            reduce_ranges(g, u, old);
            uint32_t napart = 0;
            for (uint32_t k = 0; k < to->nranges; k++) {
                const an_uop range = to->ranges[k], fresh = copy_range(g, range, (*next_id)++);
                bool mine = false;
                if (an_uop_is_none(fresh)) goto done;
                for (uint32_t j = 0; j < to->nranges; j++) mine = mine || an_uop_eq(old[j], range);
                subs[k] = (an_range_sub){old[k], range, {range}, 1};
                if (!mine) apart[napart++] = (an_range_sub){range, fresh, {fresh}, 1};
            }
            v = an_nodemap_get(&map, an_uop_src(g, u, 0));
            /* A reduction inside this one that is over the new ranges gets others, or the new ones would be caught in it. */
            st = an_replace_ranges(g, &v, 1, apart, napart);
            if (st) goto done;
            /* A reduction inside this one may be over the same ranges (an index that it computes): those are its own, and
             * must not follow, or the two would share them for ever. */
            st = an_replace_free_ranges(g, &v, 1, subs, to->nranges);
            if (st) goto done;
            st = AN_ERR_NOMEM;
            v = an_cg_reduce(g, an_reduce_op(an_uop_arg(g, u)), v, to->ranges, to->nranges);
        } else {
            v = an_nodemap_rebuild(&map, g, u, &scratch);
        }
        if (an_uop_is_none(v) || !an_nodemap_set(&map, ctx, u, v)) goto done;
    }
    *sink = an_nodemap_get(&map, *sink);
    st = AN_OK;
done:
    an_nodemap_fini(&map, ctx);
    an_vec_fini(ctx, &scratch);
    return st;
}

/* level[position]: the most REDUCEs on a way down, where what is read of scratch is above what was stored there. To be called until it
 * changes nothing: a store may come after the loads. */
static bool find_levels(const an_dag *d, uint32_t *level)
{
    const an_graph *g = d->g;
    bool changed = false;
    for (size_t i = 0; i < d->order.len; i++) {
        const an_uop u = d->order.data[i];
        const an_op op = an_uop_op(g, u);
        uint32_t most = 0;
        for (uint32_t s = 0; s < an_uop_nsrc(g, u); s++) {
            const uint32_t below = level[an_dag_pos(d, an_uop_src(g, u, s))];
            if (below > most) most = below;
        }
        if (op == AN_OP_REDUCE) most++;
        const size_t ptr = op == AN_OP_STORE ? an_dag_pos(d, an_uop_src(g, u, 0)) : 0;
        if (op == AN_OP_STORE && an_uop_op(g, an_uop_src(g, u, 0)) == AN_OP_LOCAL && most > level[ptr]) {
            level[ptr] = most;
            changed = true;
        }
        if (most <= level[i]) continue;
        level[i] = most;
        changed = true;
    }
    return changed;
}

/* Puts the loops of reductions into the tree of the stores' loops, outer reductions first. Stops at the first depth of
 * nesting where ranges had to be renamed: then *changed, and everything is to be placed again. */
static an_status place_reduces(an_graph *g, an_uop *sink, an_loops *loops, bool *changed)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_dag d = {0};
    group_vec groups = {0};
    rename_vec renames = {0};
    uint32_t *level = NULL;
    bool *placed = NULL;
    size_t waiting = 0, placed_now = 1;
    an_status st = an_dag_init(&d, g, sink, 1);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    level = an_mem_zalloc(ctx, d.order.len * sizeof *level);
    placed = an_mem_zalloc(ctx, d.order.len * sizeof *placed);
    if (!level || !placed) goto done;
    while (find_levels(&d, level)) {}
    for (size_t i = 0; i < d.order.len; i++) waiting += an_uop_op(g, d.order.data[i]) == AN_OP_REDUCE;
    uint32_t next_id = max_id(&d) + 1;
    while (waiting && !renames.len) {
        /* All that is ready now, before anything gets placed under it. */
        size_t i = 0;
        const size_t nloops = loops->list.len;
        for (placed_now = 0; i < d.order.len; i++) {
            uint32_t home = 0;
            if (placed[i] || an_uop_op(g, d.order.data[i]) != AN_OP_REDUCE) continue;
            if (!home_of(&d, loops, &d.deps[i], &home) || home >= nloops) continue;
            st = place_reduce(&d, loops, d.order.data[i], home, level[i], &next_id, &groups, &renames);
            if (st) goto done;
            placed[i] = true;
            placed_now++;
        }
        waiting -= placed_now;
        if (!placed_now) {
            st = an_fail(ctx, AN_ERR_INTERNAL, "codegen: a reduction depends on a range that no loop around it has");
            goto done;
        }
    }
    *changed = renames.len > 0;
    st = *changed ? apply_renames(&d, sink, &groups, &renames, &next_id) : AN_OK;
done:
    an_mem_free(ctx, level, d.order.len * sizeof *level);
    an_mem_free(ctx, placed, d.order.len * sizeof *placed);
    an_vec_fini(ctx, &groups);
    an_vec_fini(ctx, &renames);
    an_dag_fini(&d);
    return st;
}

/* Ids by place in the tree, so that equal kernels are equal lists. */
static an_status renumber(an_graph *g, an_uop *sink, an_loops *loops)
{
    an_ctx *ctx = an_graph_ctx(g);
    AN_VEC(an_range_sub) subs = {0};
    an_status st = AN_ERR_NOMEM;
    for (size_t i = 1; i < loops->list.len; i++) {
        const an_uop from = loops->list.data[i].range, to = copy_range(g, from, (uint32_t)i - 1);
        const an_range_sub sub = {from, to, {to}, 1};
        if (an_uop_is_none(to) || !an_vec_push(ctx, &subs, sub)) goto done;
    }
    an_idmap_fini(&loops->at, ctx);
    for (size_t i = 1; i < loops->list.len; i++) {
        loops->list.data[i].range = subs.data[i - 1].to;
        if (!an_idmap_set(&loops->at, ctx, loops->list.data[i].range.id, (uint32_t)i)) goto done;
    }
    st = an_replace_ranges(g, sink, 1, subs.data, subs.len);
done:
    an_vec_fini(ctx, &subs);
    return st;
}

an_status an_loops_place(an_graph *g, an_uop *sink, an_loops *loops)
{
    an_uop now = *sink;
    bool changed = true;
    while (changed) {
        an_status st = place_stores(g, &now, loops, &changed);
        if (st) return st;
        if (changed) continue;
        st = place_reduces(g, &now, loops, &changed);
        if (st) return st;
    }
    const an_status st = renumber(g, &now, loops);
    if (!st) *sink = now;
    return st;
}
