/* build.c - each kernel's stores as expressions over ranges: its node and all that is inlined into it, by (node, tuple). */
#include "schedule/sched.h"

typedef struct frame {
    an_uop n, tuple;
    uint32_t next; /* source to look at next */
} frame;

typedef struct builder {
    an_sched *s;
    AN_VEC(frame) stack;
    an_pairmap made; /* (node, tuple) -> value */
} builder;

static an_uop load_of(an_sched *s, an_uop ptr, an_uop n, an_uop tuple)
{
    const an_uop valid = an_tuple_valid(s, tuple);
    const an_uop flat = an_stored_flat(s, n, tuple);
    const an_uop gate = an_uop_is_int(s->g, valid, 1) ? AN_UOP_NONE : valid;
    if (an_uop_is_none(valid)) return AN_UOP_NONE;
    return an_load(s->g, ptr, flat, gate);
}

/* The value of n at tuple, if no source has to be built first; else none, and *need says which (a source's number). */
static an_uop leaf_value(an_sched *s, an_uop n, an_uop tuple, bool top, bool *is_leaf)
{
    const an_op op = an_uop_op(s->g, n);
    *is_leaf = true;
    if (op == AN_OP_CONST || op == AN_OP_VAR) return n;
    if (op == AN_OP_BUFFER) return load_of(s, n, n, tuple);
    if (op == AN_OP_IOTA) return an_cast_to(s->g, an_uop_dtype(s->g, n), an_uop_src(s->g, tuple, 0));
    if (!top && s->info[n.id].kernel) {
        const an_uop ptr = {an_idmap_get(&s->buffer_of, n.id)};
        return load_of(s, ptr, n, tuple);
    }
    *is_leaf = false;
    return AN_UOP_NONE;
}

static bool is_float(const an_graph *g, an_uop x)
{
    return an_dtype_kind_of(an_uop_dtype(g, x)) == AN_KIND_FLOAT;
}

/* where(cond, x, 0); of a float as another one, it is the float that is padded: 0 is 0 in each. */
static an_uop padded(an_graph *g, an_uop cond, an_uop x)
{
    const bool cast = an_uop_op(g, x) == AN_OP_CAST && is_float(g, x) && is_float(g, an_uop_src(g, x, 0));
    const an_uop inner = cast ? an_uop_src(g, x, 0) : x;
    const an_uop value = an_select(g, cond, inner, an_const_like(g, inner, 0));
    return cast && !an_uop_is_none(value) ? an_cast_to(g, an_uop_dtype(g, x), value) : value;
}

/* n at tuple from the values of its sources. */
static an_uop combine(builder *b, an_uop n, an_uop tuple)
{
    an_sched *s = b->s;
    an_graph *g = s->g;
    const an_op op = an_uop_op(g, n);
    an_uop src[3] = {{0}, {0}, {0}}, local = AN_UOP_NONE;
    const uint32_t nsrc = an_op_has(op, AN_TRAIT_ELEM) ? an_uop_nsrc(g, n) : 1;
    for (uint32_t i = 0; i < nsrc; i++) {
        const uint32_t which = op == AN_OP_ASSIGN ? 1 : i;
        const an_uop t = an_tuple_source(s, n, tuple, which, &local);
        src[i] = (an_uop){an_pairmap_get(&b->made, an_uop_src(g, n, which).id, t.id)};
        if (an_uop_is_none(src[i])) return AN_UOP_NONE;
    }
    if (an_op_has(op, AN_TRAIT_ELEM)) {
        const an_node node = *an_node_of(g, n);
        return an_uop_new(g, op, (an_dtype)node.dtype, src, nsrc, node.arg);
    }
    if (op == AN_OP_PAD && !an_uop_is_int(g, local, 1)) return padded(g, local, src[0]);
    if (op == AN_OP_REDUCE_AXIS) {
        an_uop args[AN_RANK_MAX + 1] = {src[0]};
        uint32_t nargs = 1;
        const an_uop ranges = an_sched_reduce_ranges(s, n);
        if (an_uop_is_none(ranges)) return AN_UOP_NONE;
        for (uint32_t k = 0; k < an_uop_nsrc(g, ranges); k++) {
            const an_uop r = an_uop_src(g, ranges, k);
            if (an_uop_op(g, r) == AN_OP_RANGE) args[nargs++] = r;
        }
        if (nargs == 1) return src[0];
        return an_uop_new(g, AN_OP_REDUCE, an_uop_dtype(g, n), args, nargs, an_reduce_op(an_uop_arg(g, n)));
    }
    return src[0];
}

static an_uop build_value(builder *b, an_uop root, an_uop root_tuple)
{
    an_sched *s = b->s;
    const frame first = {root, root_tuple, 0};
    an_pairmap_clear(&b->made);
    b->stack.len = 0;
    if (!an_vec_push(s->ctx, &b->stack, first)) return AN_UOP_NONE;
    an_uop value = AN_UOP_NONE;
    while (b->stack.len) {
        frame *top = &b->stack.data[b->stack.len - 1];
        const an_uop n = top->n, tuple = top->tuple;
        if (an_pairmap_get(&b->made, n.id, tuple.id)) {
            b->stack.len--;
            continue;
        }
        bool is_leaf = false;
        value = leaf_value(s, n, tuple, b->stack.len == 1, &is_leaf);
        if (!is_leaf) {
            const an_op op = an_uop_op(s->g, n);
            const uint32_t end = an_op_has(op, AN_TRAIT_ELEM) ? an_uop_nsrc(s->g, n) : 1;
            if (top->next < end) {
                const uint32_t i = op == AN_OP_ASSIGN ? 1 : top->next;
                top->next++;
                const frame child = {an_uop_src(s->g, n, i), an_tuple_source(s, n, tuple, i, NULL), 0};
                if (an_uop_is_none(child.tuple) || !an_vec_push(s->ctx, &b->stack, child)) return AN_UOP_NONE;
                continue;
            }
            value = combine(b, n, tuple);
        }
        if (an_uop_is_none(value) || !an_pairmap_set(&b->made, s->ctx, n.id, tuple.id, value.id)) return AN_UOP_NONE;
        b->stack.len--;
    }
    return value;
}

an_uop an_ptr_base(const an_graph *g, an_uop ptr)
{
    while (an_uop_op(g, ptr) == AN_OP_ASSIGN) ptr = an_uop_src(g, ptr, 0);
    return ptr;
}

bool an_kern_refresh(an_sched *s, an_kern *k)
{
    an_uop_vec order = {0};
    bool ok = an_toposort(s->g, k->stores.data, (uint32_t)k->stores.len, &order) == AN_OK;
    k->reads.len = k->writes.len = 0;
    k->has_reduce = false;
    for (size_t i = 0; ok && i < order.len; i++) {
        const an_op op = an_uop_op(s->g, order.data[i]);
        if (op == AN_OP_REDUCE) k->has_reduce = true;
        if (op == AN_OP_LOAD && !an_vec_has(&k->reads, an_uop_src(s->g, order.data[i], 0)))
            ok = an_vec_push(s->ctx, &k->reads, an_uop_src(s->g, order.data[i], 0));
    }
    for (size_t i = 0; ok && i < k->stores.len; i++)
        ok = an_vec_push(s->ctx, &k->writes, an_uop_src(s->g, k->stores.data[i], 0));
    an_vec_fini(s->ctx, &order);
    k->reduce_ops = k->has_reduce ? an_stores_ops(s, &k->stores, true) : 0;
    return ok;
}

/* Does the kernel, while it stores through ptr at index, read what the target held before at another index (or through a
 * gate)? Then the store would spoil reads still to come. */
static bool reads_target_elsewhere(an_sched *s, const an_kern *k, an_uop ptr, an_uop index, bool *ok)
{
    an_uop_vec order = {0};
    bool found = false;
    *ok = an_toposort(s->g, k->stores.data, (uint32_t)k->stores.len, &order) == AN_OK;
    for (size_t i = 0; *ok && i < order.len && !found; i++) {
        if (an_uop_op(s->g, order.data[i]) != AN_OP_LOAD) continue;
        const an_uop p = an_uop_src(s->g, order.data[i], 0);
        found = an_uop_eq(an_ptr_base(s->g, p), an_ptr_base(s->g, ptr)) &&
                !an_uop_eq(an_uop_src(s->g, order.data[i], 1), index);
    }
    an_vec_fini(s->ctx, &order);
    return found;
}

/* Puts a temporary between the value of kernel k and the buffer it assigns to: k stores the temporary, a new kernel copies. */
static an_status store_through_copy(an_sched *s, uint32_t k)
{
    const an_uop node = s->kernels.data[k].node;
    const an_shape shape = an_store_shape(s, node);
    const an_uop value = an_uop_src(s->g, s->kernels.data[k].stores.data[0], 2);
    const an_uop temp = an_buffer_node(s->g, an_uop_dtype(s->g, node), shape.dims, shape.rank);
    const an_uop here = an_tuple_flat(s, s->kernels.data[k].tuple, shape);
    an_uop to = AN_UOP_NONE, gate = AN_UOP_NONE;
    s->kernels.data[k].stores.data[0] = an_store(s->g, temp, here, value, AN_UOP_NONE);
    const uint32_t copy = an_sched_kernel_new(s, node, "its value reads the buffer elsewhere, so it is copied in afterwards");
    if (copy == UINT32_MAX) return AN_ERR_NOMEM;
    an_kern *c = &s->kernels.data[copy];
    const an_uop at = an_tuple_flat(s, c->tuple, shape);
    if (!an_store_place(s, node, c->tuple, &to, &gate)) return AN_ERR_NOMEM;
    const an_uop st = an_store(s->g, node, to, an_load(s->g, temp, at, AN_UOP_NONE), gate);
    if (an_uop_is_none(st) || !an_vec_push(s->ctx, &c->stores, st) || !an_kern_refresh(s, c)) return AN_ERR_NOMEM;
    return an_kern_refresh(s, &s->kernels.data[k]) ? AN_OK : AN_ERR_NOMEM;
}

an_status an_sched_build(an_sched *s)
{
    builder b = {.s = s};
    an_status status = AN_OK;
    const size_t n = s->kernels.len;
    for (uint32_t k = 0; k < n && !status; k++) {
        if (s->kernels.data[k].dead) continue;
        const an_uop node = s->kernels.data[k].node, tuple = s->kernels.data[k].tuple;
        const an_uop ptr = {an_idmap_get(&s->buffer_of, node.id)};
        an_uop index = AN_UOP_NONE, gate = AN_UOP_NONE;
        const an_phase before = an_graph_set_phase(s->g, (an_phase)an_node_of(s->g, node)->phase);
        const an_uop value = build_value(&b, node, tuple);
        const bool placed = an_store_place(s, node, tuple, &index, &gate);
        const an_uop st = an_store(s->g, ptr, index, value, gate);
        an_graph_set_phase(s->g, before);
        an_kern *kern = &s->kernels.data[k];
        status = AN_ERR_NOMEM;
        if (!placed || an_uop_is_none(st) || !an_vec_push(s->ctx, &kern->stores, st) || !an_kern_refresh(s, kern)) break;
        status = AN_OK;
        if (an_uop_op(s->g, ptr) != AN_OP_ASSIGN) continue;
        bool ok = true;
        if (reads_target_elsewhere(s, kern, ptr, index, &ok)) status = store_through_copy(s, k);
        if (!ok) status = AN_ERR_NOMEM;
    }
    an_vec_fini(s->ctx, &b.stack);
    an_pairmap_fini(&b.made, s->ctx);
    return status;
}
