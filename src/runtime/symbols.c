/* symbols.c - the values of symbolic dims: bound to a graph or to a plan, checked before a run, and what buffers of symbolic
 * shapes hold at them.
 *
 * What shape checks left open when tensors were built is a condition of the plan: with values at hand it is decided, so that no
 * kernel reads or writes outside a buffer. */
#include "runtime/plan.h"

#include "ir/eval.h"
#include "rewrite/rewrite.h"
#include <anneal/tensor.h>

#include <inttypes.h>

/* --- expressions over symbols ---------------------------------------------------------------------------------------- */

typedef bool (*symbol_lookup)(void *user, const char *name, int64_t *value);

/* The value of an index expression over VARs. *unbound, which may be NULL, is the name of one without a value: then *out stays. */
static an_status eval_index(an_graph *g, an_uop u, symbol_lookup lookup, void *user, int64_t *out, const char **unbound)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec order = {0};
    an_idmap at = {0};
    AN_VEC(an_scalar) values = {0};
    if (an_uop_int(g, u, out)) return AN_OK;
    an_status st = an_toposort(g, &u, 1, &order);
    bool known = true;
    for (size_t i = 0; i < order.len && !st && known; i++) {
        const an_uop x = order.data[i];
        const an_op op = an_uop_op(g, x);
        an_scalar v = {0}, s[3] = {{0}, {0}, {0}};
        if (op == AN_OP_CONST) {
            v = an_uop_const_value(g, x);
        } else if (op == AN_OP_VAR) {
            known = lookup(user, an_uop_name(g, x), &v.i);
            if (!known && unbound) *unbound = an_uop_name(g, x);
        } else if (an_op_has(op, AN_TRAIT_ELEM) && op != AN_OP_CAST && op != AN_OP_BITCAST) {
            const uint32_t n = an_uop_nsrc(g, x);
            for (uint32_t k = 0; k < n; k++) s[k] = values.data[an_idmap_get(&at, an_uop_src(g, x, k).id) - 1];
            v = an_eval(op, an_uop_dtype(g, an_uop_src(g, x, n - 1)), s);
        } else {
            st = an_fail(ctx, AN_ERR_INTERNAL, "a dim made of %s", an_op_info_of(op)->text);
        }
        if (!st && (!an_vec_push(ctx, &values, v) || !an_idmap_set(&at, ctx, x.id, (uint32_t)values.len))) st = AN_ERR_NOMEM;
    }
    if (!st && known) *out = values.data[values.len - 1].i;
    an_vec_fini(ctx, &order);
    an_vec_fini(ctx, &values);
    an_idmap_fini(&at, ctx);
    return st;
}

/* Bytes of a shape. *unbound as above. A dim below 0 counts as 0: a condition says what is wrong with it. */
static an_status shape_nbytes(an_graph *g, an_uop u, symbol_lookup lookup, void *user, size_t *nbytes, const char **unbound)
{
    const an_shape s = an_uop_shape(g, u);
    size_t n = an_dtype_nbytes(an_uop_dtype(g, u));
    *unbound = NULL;
    for (uint32_t i = 0; i < s.rank; i++) {
        int64_t d = 0;
        const an_status st = eval_index(g, s.dims[i], lookup, user, &d, unbound);
        if (st || *unbound) return st;
        if (!an_size_mul(n, d > 0 ? (size_t)d : 0, &n))
            return an_fail(an_graph_ctx(g), AN_ERR_LIMIT, "a shape takes more bytes than can be addressed");
    }
    *nbytes = n;
    return AN_OK;
}

/* --- of a graph ------------------------------------------------------------------------------------------------------ */

static bool graph_lookup(void *user, const char *name, int64_t *value)
{
    const an_runtime *rt = user;
    for (size_t i = 0; rt && i < rt->bindings.len; i++)
        if (strcmp(rt->bindings.data[i].name, name) == 0) {
            *value = rt->bindings.data[i].value;
            return true;
        }
    return false;
}

static an_status check_bounds(an_ctx *ctx, const char *name, int64_t value, int64_t min, int64_t max)
{
    if (value >= min && value <= max) return AN_OK;
    return an_fail(ctx, AN_ERR_ARG, "%s = %" PRId64 " is outside its bounds %" PRId64 "..%" PRId64, name, value, min, max);
}

an_status an_graph_bind(an_graph *g, const char *name, int64_t value)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_runtime *rt = an_runtime_of(g);
    const an_uop u = an_graph_var(g, name);
    int64_t min = 0, max = 0;
    if (!rt) return an_ctx_status(ctx);
    if (an_uop_is_none(u)) return an_fail(ctx, AN_ERR_ARG, "the graph has no symbolic dimension '%s'", name);
    (void)an_uop_int(g, an_uop_src(g, u, 0), &min);
    (void)an_uop_int(g, an_uop_src(g, u, 1), &max);
    const an_status st = check_bounds(ctx, name, value, min, max);
    if (st) return st;
    rt->bound_at++;
    for (size_t i = 0; i < rt->bindings.len; i++)
        if (strcmp(rt->bindings.data[i].name, name) == 0) {
            rt->bindings.data[i].value = value;
            return AN_OK;
        }
    const an_binding b = {an_uop_name(g, u), value};
    return an_vec_push(ctx, &rt->bindings, b) ? AN_OK : AN_ERR_NOMEM;
}

static an_status no_value(an_ctx *ctx, const char *name)
{
    return an_fail(ctx, AN_ERR_ARG, "the symbolic dimension '%s' has no value; bind it with an_graph_bind, or with an_plan_bind for a plan",
                   name);
}

an_status an_runtime_check_bound(an_graph *g, const an_uop *uops, size_t n)
{
    an_uop_vec order = {0};
    if (!an_graph_has_vars(g)) return AN_OK;
    an_status st = an_toposort(g, uops, (uint32_t)n, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        int64_t v = 0;
        if (an_uop_op(g, order.data[i]) == AN_OP_VAR && !graph_lookup(an_graph_runtime(g), an_uop_name(g, order.data[i]), &v))
            st = no_value(an_graph_ctx(g), an_uop_name(g, order.data[i]));
    }
    an_vec_fini(an_graph_ctx(g), &order);
    return st;
}

bool an_runtime_nbytes(an_graph *g, an_uop u, size_t *nbytes)
{
    an_runtime *rt = an_graph_runtime(g);
    const an_storage *s = rt && !an_uop_is_none(u) ? an_storage_of(rt, u) : NULL;
    const char *unbound = NULL;
    if (s && s->nbytes_now != AN_NBYTES_ANY) {
        *nbytes = s->nbytes_now;
        return true;
    }
    return !shape_nbytes(g, u, graph_lookup, rt, nbytes, &unbound) && !unbound;
}

an_uop an_runtime_alloc(an_graph *g, an_dtype dtype, const an_uop *dims, uint32_t rank)
{
    an_runtime *rt = an_runtime_of(g);
    if (!rt) return AN_UOP_NONE;
    const an_uop b = an_buffer_node(g, dtype, dims, rank);
    return an_uop_is_none(b) || an_storage_bind(g, rt, b) ? AN_UOP_NONE : b;
}

an_status an_runtime_check_write(an_graph *g, an_uop buffer, size_t nbytes)
{
    const an_runtime *rt = an_graph_runtime(g);
    const an_storage *s = an_storage_of(an_graph_runtime(g), buffer);
    const char *unbound = NULL;
    size_t want = 0;
    const an_status st = shape_nbytes(g, buffer, graph_lookup, an_graph_runtime(g), &want, &unbound);
    if (st) return st;
    if (!rt || (unbound ? nbytes <= s->nbytes && nbytes % an_dtype_nbytes(an_uop_dtype(g, buffer)) == 0 : nbytes == want)) return AN_OK;
    if (unbound)
        return an_fail(an_graph_ctx(g), AN_ERR_ARG, "write: %zu bytes were given; a buffer of this symbolic shape has room for %zu, of whole elements",
                       nbytes, s->nbytes);
    return an_fail(an_graph_ctx(g), AN_ERR_ARG, "write: %zu bytes were given, and the tensor has %zu at the bound values of its symbols", nbytes,
                   want);
}

/* --- of a plan ------------------------------------------------------------------------------------------------------- */

static an_symbol_value *find_symbol(an_plan *p, const char *name)
{
    for (size_t i = 0; i < p->symbols.len; i++)
        if (strcmp(p->symbols.data[i].name, name) == 0) return &p->symbols.data[i];
    return NULL;
}

static bool plan_lookup(void *user, const char *name, int64_t *value)
{
    an_plan *p = user;
    const an_symbol_value *s = find_symbol(p, name);
    if (s && s->is_bound) {
        *value = s->value;
        return true;
    }
    return graph_lookup(p->rt, name, value);
}

an_status an_plan_symbol(an_plan *p, const char *name, int64_t *value)
{
    return plan_lookup(p, name, value) ? AN_OK : no_value(an_graph_ctx(p->user), name);
}

an_status an_plan_bind(an_plan *p, const char *name, int64_t value)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    an_symbol_value *s = find_symbol(p, name);
    if (!s) return an_fail(ctx, AN_ERR_ARG, "the plan has no symbolic dimension '%s'", name);
    const an_status st = check_bounds(ctx, name, value, s->min, s->max);
    if (st) return st;
    p->symbols_checked = p->symbols_checked && s->is_bound && s->value == value;
    s->value = value;
    s->is_bound = true;
    return AN_OK;
}

size_t an_plan_symbol_count(const an_plan *p)
{
    return p->symbols.len;
}

an_symbol_info an_plan_symbol_get(const an_plan *p, size_t i)
{
    if (i >= p->symbols.len) return (an_symbol_info){0};
    return (an_symbol_info){p->symbols.data[i].name, p->symbols.data[i].min, p->symbols.data[i].max};
}

static bool add_condition(an_plan *p, an_uop node, uint32_t axis, const char *what, an_uop expr, bool zero)
{
    int64_t lo = 0, hi = 0;
    const size_t failures = an_mem_failures(an_graph_ctx(p->user));
    if (an_uop_is_none(expr)) return false;
    an_bounds(p->graph, expr, &lo, &hi);
    if (an_mem_failures(an_graph_ctx(p->user)) != failures) return false;
    if (lo >= 0 && (!zero || hi == 0)) return true;
    const an_condition c = {node, expr, what, axis, zero};
    return an_vec_push(an_graph_ctx(p->user), &p->conditions, c);
}

static bool conditions_of(an_plan *p, an_uop n)
{
    an_graph *g = p->graph;
    const an_op op = an_uop_op(g, n);
    bool ok = true;
    if (op == AN_OP_EXPAND || op == AN_OP_IOTA || op == AN_OP_BUFFER) {
        const an_shape s = an_uop_shape(g, n);
        for (uint32_t i = 0; ok && i < s.rank; i++) ok = an_uop_is_const(g, s.dims[i]) || add_condition(p, n, i, "a size of 0 or more", s.dims[i], false);
        return ok;
    }
    if (op != AN_OP_RESHAPE && op != AN_OP_SHRINK && op != AN_OP_PAD) return true;
    const an_shape in = an_uop_shape(g, an_uop_src(g, n, 0)), out = an_uop_shape(g, n);
    if (an_shape_static(g, in, NULL) && an_shape_static(g, out, NULL) && op == AN_OP_RESHAPE) return true;
    if (op == AN_OP_RESHAPE)
        return add_condition(p, n, 0, "as many elements", an_dim_sub(g, an_shape_numel(g, out), an_shape_numel(g, in)), true);
    for (uint32_t i = 0; ok && i < in.rank; i++) {
        const an_uop a = an_uop_src(g, n, 1 + 2 * i), b = an_uop_src(g, n, 2 + 2 * i);
        if (an_uop_is_const(g, a) && an_uop_is_const(g, b) && an_uop_is_const(g, in.dims[i])) continue;
        ok = add_condition(p, n, i, op == AN_OP_PAD ? "none before" : "from 0 or more", a, false);
        if (op == AN_OP_PAD)
            ok = ok && add_condition(p, n, i, "none behind", b, false);
        else
            ok = ok && add_condition(p, n, i, "an end at or behind its begin", an_dim_sub(g, b, a), false) &&
                 add_condition(p, n, i, "an end within the axis", an_dim_sub(g, in.dims[i], b), false);
    }
    return ok;
}

an_status an_plan_note_symbols(an_plan *p, const an_uop *roots, size_t nroots)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    an_uop_vec order = {0};
    if (!an_graph_has_vars(p->graph)) return AN_OK;
    an_status st = an_toposort(p->graph, roots, (uint32_t)nroots, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        const an_uop u = order.data[i];
        if (an_uop_op(p->graph, u) == AN_OP_VAR && !find_symbol(p, an_uop_name(p->graph, u))) {
            an_symbol_value s = {.name = an_uop_name(p->graph, u)};
            (void)an_uop_int(p->graph, an_uop_src(p->graph, u, 0), &s.min);
            (void)an_uop_int(p->graph, an_uop_src(p->graph, u, 1), &s.max);
            if (!an_vec_push(ctx, &p->symbols, s)) st = AN_ERR_NOMEM;
        }
        if (!st && !conditions_of(p, u)) st = an_ctx_status(ctx) ? an_ctx_status(ctx) : AN_ERR_NOMEM;
    }
    an_vec_fini(ctx, &order);
    return st;
}

/* Does the first launch that touches the buffer read it? */
static bool reads_first(const an_plan *p, an_uop mine)
{
    for (size_t c = 0; c < p->schedule.calls.len; c++)
        for (uint32_t b = 0; b < p->schedule.calls.data[c].nbuffers; b++)
            if (an_uop_eq(p->schedule.calls.data[c].buffers[b], mine)) return p->schedule.calls.data[c].is_read[b];
    return false;
}

an_status an_plan_note_sizes(an_plan *p)
{
    for (size_t i = 0; p->symbols.len && i < p->bound.len; i++) {
        const an_uop mine = p->bound.data[i].mine;
        if (an_shape_static(p->graph, an_uop_shape(p->graph, mine), NULL)) continue;
        const an_sized s = {i, 0, i < p->nreads && reads_first(p, mine)};
        if (!an_vec_push(an_graph_ctx(p->user), &p->sized, s)) return AN_ERR_NOMEM;
    }
    return AN_OK;
}

/* "n = 4, m = 2". */
static void put_values(an_str *out, an_plan *p)
{
    for (size_t i = 0; i < p->symbols.len; i++) {
        int64_t v = 0;
        if (plan_lookup(p, p->symbols.data[i].name, &v)) an_str_printf(out, "%s%s = %" PRId64, i ? ", " : "", p->symbols.data[i].name, v);
    }
}

static an_status broken(an_plan *p, const an_condition *c)
{
    an_ctx *ctx = an_graph_ctx(p->user);
    an_graph *g = p->graph;
    an_str text;
    an_str_init(&text, ctx);
    an_str_printf(&text, "with ");
    put_values(&text, p);
    const an_op op = an_uop_op(g, c->node);
    an_str_printf(&text, " the %s of shape ", an_op_info_of(op)->text);
    if (an_op_has(op, AN_TRAIT_MOVE)) {
        an_shape_print(&text, g, an_uop_shape(g, an_uop_src(g, c->node, 0)));
        an_str_put(&text, " to ");
    }
    an_shape_print(&text, g, an_uop_shape(g, c->node));
    if (op == AN_OP_SHRINK || op == AN_OP_PAD) {
        an_str_printf(&text, " (axis %u: ", c->axis);
        an_dim_print(&text, g, an_uop_src(g, c->node, 1 + 2 * c->axis));
        an_str_put(&text, op == AN_OP_PAD ? " and " : " to ");
        an_dim_print(&text, g, an_uop_src(g, c->node, 2 + 2 * c->axis));
        an_str_putc(&text, ')');
    }
    an_str_printf(&text, op == AN_OP_PAD ? " would pad by less than 0" : " would not have %s", c->what);
    an_fail(ctx, AN_ERR_SHAPE, "%s", an_str_cstr(&text));
    an_str_fini(&text);
    return an_ctx_status(ctx);
}

static an_status check_values(an_plan *p)
{
    const char *unbound = NULL;
    for (size_t i = 0; i < p->symbols.len; i++) {
        int64_t v = 0;
        const an_status st = an_plan_symbol(p, p->symbols.data[i].name, &v);
        if (st) return st;
    }
    for (size_t i = 0; i < p->conditions.len; i++) {
        const an_condition *c = &p->conditions.data[i];
        int64_t v = 0;
        const an_status st = eval_index(p->graph, c->expr, plan_lookup, p, &v, NULL);
        if (st) return st;
        if (c->zero ? v != 0 : v < 0) return broken(p, c);
    }
    for (size_t i = 0; i < p->sized.len; i++) {
        an_sized *s = &p->sized.data[i];
        const an_status st = shape_nbytes(p->graph, p->bound.data[s->bound].mine, plan_lookup, p, &s->nbytes, &unbound);
        if (st) return st;
    }
    return AN_OK;
}

an_status an_plan_begin(an_plan *p)
{
    if (!p->symbols.len) return AN_OK;
    if (!p->symbols_checked || p->bound_at != p->rt->bound_at) {
        const an_status st = check_values(p);
        if (st) return st;
        p->symbols_checked = true;
        p->bound_at = p->rt->bound_at;
    }
    for (size_t i = 0; i < p->sized.len; i++) {
        const an_sized *s = &p->sized.data[i];
        const an_storage *have = &p->rt->storages.data[p->bound.data[s->bound].storage];
        if (!s->is_read || have->nbytes_now == AN_NBYTES_ANY || have->nbytes_now == s->nbytes) continue;
        an_str text;
        an_str_init(&text, an_graph_ctx(p->user));
        an_shape_print(&text, p->graph, an_uop_shape(p->graph, p->bound.data[s->bound].mine));
        an_str_printf(&text, " was last written with %zu bytes, but has %zu with ", have->nbytes_now, s->nbytes);
        put_values(&text, p);
        const an_status st = an_fail(an_graph_ctx(p->user), AN_ERR_ARG, "a buffer of shape %s; write it again first", an_str_cstr(&text));
        an_str_fini(&text);
        return st;
    }
    return AN_OK;
}

void an_plan_end(an_plan *p)
{
    for (size_t i = 0; i < p->sized.len; i++) {
        const an_bound *b = &p->bound.data[p->sized.data[i].bound];
        if (b->is_written) p->rt->storages.data[b->storage].nbytes_now = p->sized.data[i].nbytes;
    }
}
