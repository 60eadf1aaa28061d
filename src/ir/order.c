/* order.c - topological order, the order of operands, structural keys, copies between graphs. */
#include "ir/graph.h"

#include "base/idmap.h"

an_status an_toposort(an_graph *g, const an_uop *roots, uint32_t n, an_uop_vec *out)
{
    enum { NEW, OPEN, DONE };
    typedef struct frame {
        an_uop u;
        uint32_t next;
    } frame;
    AN_VEC(frame) stack = {0};
    size_t nbytes = 0;
    an_status st = AN_ERR_NOMEM;
    unsigned char *state = an_graph_table(g, 1, &nbytes);
    if (!state) goto done;
    for (uint32_t r = 0; r < n; r++) {
        if (an_uop_is_none(roots[r]) || state[roots[r].id] != NEW) continue;
        const frame first = {roots[r], 0};
        if (!an_vec_push(g->ctx, &stack, first)) goto done;
        while (stack.len) {
            frame *top = &stack.data[stack.len - 1];
            state[top->u.id] = OPEN;
            if (top->next < an_uop_nsrc(g, top->u)) {
                const frame child = {an_uop_src(g, top->u, top->next++), 0};
                if (state[child.u.id] == NEW && !an_vec_push(g->ctx, &stack, child)) goto done;
                continue;
            }
            state[top->u.id] = DONE;
            if (!an_vec_push(g->ctx, out, top->u)) goto done;
            stack.len--;
        }
    }
    st = AN_OK;
done:
    an_vec_fini(g->ctx, &stack);
    an_mem_free(g->ctx, state, nbytes);
    return st;
}

bool an_vec_has(const an_uop_vec *v, an_uop u)
{
    for (size_t i = 0; i < v->len; i++)
        if (an_uop_eq(v->data[i], u)) return true;
    return false;
}

static int cmp_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int an_uop_cmp(const an_graph *g, an_uop a, an_uop b)
{
    if (a.id == b.id) return 0;
    const an_node *x = an_graph_node(g, a.id), *y = an_graph_node(g, b.id);
    const int cx = x->op == AN_OP_CONST, cy = y->op == AN_OP_CONST;
    int c = (cx > cy) - (cx < cy);
    if (!c) c = (x->op > y->op) - (x->op < y->op);
    if (!c && x->op != AN_OP_VAR) c = cmp_u64(x->arg, y->arg);
    if (!c && x->op == AN_OP_VAR) c = strcmp(an_uop_name(g, a), an_uop_name(g, b));
    if (!c) c = cmp_u64(x->hash, y->hash);
    if (!c) c = cmp_u64(a.id, b.id); /* equal hashes of unequal nodes: 1 in 2^64 */
    return c;
}

an_status an_uop_key(an_graph *g, const an_uop *roots, uint32_t n, an_key *out)
{
    an_uop_vec order = {0};
    size_t nbytes = 0;
    an_key *keys = NULL;
    an_status st = an_toposort(g, roots, n, &order);
    if (st) goto done;
    keys = an_graph_table(g, sizeof *keys, &nbytes);
    st = AN_ERR_NOMEM;
    if (!keys) goto done;
    uint64_t met = 0;
    for (size_t i = 0; i < order.len; i++) {
        const an_node *node = an_graph_node(g, order.data[i].id);
        const char *op = an_op_info_of((an_op)node->op)->text;
        an_key k = an_key_of(op, strlen(op));
        k = an_key_mix(k, (uint64_t)node->dtype | (uint64_t)node->lanes << 8 | (uint64_t)node->tag << 16);
        if (an_op_has((an_op)node->op, AN_TRAIT_IDENT)) {
            k = an_key_mix(k, ++met);
        } else if (node->op == AN_OP_VAR) {
            const char *name = g->names.data[node->arg];
            k = an_key_mix(k, an_hash_bytes(0, name, strlen(name)));
        } else {
            k = an_key_mix(k, node->arg);
        }
        for (uint32_t s = 0; s < node->nsrc; s++) {
            const an_key src = keys[g->srcs.data[node->src + s].id];
            k = an_key_mix(an_key_mix(k, src.lo), src.hi);
        }
        keys[order.data[i].id] = k;
    }
    an_key all = an_key_mix(an_key_of("roots", 5), n);
    for (uint32_t r = 0; r < n; r++) all = an_key_mix(an_key_mix(all, keys[roots[r].id].lo), keys[roots[r].id].hi);
    *out = all;
    st = AN_OK;
done:
    an_mem_free(g->ctx, keys, nbytes);
    an_vec_fini(g->ctx, &order);
    return st;
}

an_uop an_uop_import(an_graph *dst, const an_graph *src, an_uop root, an_uop (*map)(void *user, an_uop u),
                     void *user)
{
    typedef struct frame {
        an_uop u;
        uint32_t next;
    } frame;
    AN_VEC(frame) stack = {0};
    AN_VEC(an_uop) args = {0}; /* the sources of the node being copied */
    an_uop *copy = NULL;
    an_uop result = AN_UOP_NONE;
    size_t nbytes = 0;
    if (an_uop_is_none(root)) return root;
    if (!an_size_mul(src->len, sizeof *copy, &nbytes)) return AN_UOP_NONE;
    copy = an_mem_zalloc(dst->ctx, nbytes);
    const frame first = {root, 0};
    if (!copy || !an_vec_push(dst->ctx, &stack, first)) goto done;
    while (stack.len) {
        frame *top = &stack.data[stack.len - 1];
        const an_uop u = top->u;
        if (top->next == 0 && map && an_uop_is_none(copy[u.id])) copy[u.id] = map(user, u);
        if (!an_uop_is_none(copy[u.id])) {
            stack.len--;
            continue;
        }
        const an_node node = *an_graph_node(src, u.id);
        if (top->next < node.nsrc) {
            const frame child = {src->srcs.data[node.src + top->next++], 0};
            if (an_uop_is_none(copy[child.u.id]) && !an_vec_push(dst->ctx, &stack, child)) goto done;
            continue;
        }
        args.len = 0;
        if (!an_vec_reserve(dst->ctx, &args, node.nsrc)) goto done;
        for (uint32_t i = 0; i < node.nsrc; i++) args.data[args.len++] = copy[src->srcs.data[node.src + i].id];
        if (node.op == AN_OP_VAR) {
            int64_t min = 0, max = 0;
            an_uop_int(dst, args.data[0], &min);
            an_uop_int(dst, args.data[1], &max);
            copy[u.id] = an_uop_var(dst, src->names.data[node.arg], min, max);
        } else {
            const uint64_t arg =
                an_op_has((an_op)node.op, AN_TRAIT_IDENT) ? ++dst->unique : node.arg;
            const an_phase phase = an_graph_set_phase(dst, (an_phase)node.phase);
            const uint32_t rule = an_graph_set_rule(dst, node.rule);
            copy[u.id] = an_uop_new_full(dst, (an_op)node.op, (an_dtype)node.dtype, node.lanes, args.data,
                                         node.nsrc, arg, node.tag);
            an_graph_set_phase(dst, phase);
            an_graph_set_rule(dst, rule);
        }
        if (an_uop_is_none(copy[u.id])) goto done;
        stack.len--;
    }
    result = copy[root.id];
done:
    an_mem_free(dst->ctx, copy, nbytes);
    an_vec_fini(dst->ctx, &stack);
    an_vec_fini(dst->ctx, &args);
    return result;
}

bool an_index_step(an_graph *g, an_uop index, an_uop range, int64_t *step)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_uop_vec order = {0};
    an_idmap at = {0}; /* node -> 1 + position in steps */
    typedef struct step_entry {
        int64_t v;
        bool known;
    } step_entry;
    AN_VEC(step_entry) steps = {0};
    bool ok = an_toposort(g, &index, 1, &order) == AN_OK;
    for (size_t i = 0; ok && i < order.len; i++) {
        const an_uop u = order.data[i];
        const an_op op = an_uop_op(g, u);
        step_entry e = {an_uop_eq(u, range) ? 1 : 0, true}, src[3] = {{0, true}, {0, true}, {0, true}};
        const uint32_t n = an_uop_nsrc(g, u);
        bool varies = false;
        for (uint32_t k = 0; k < n && op != AN_OP_RANGE; k++) {
            const step_entry x = steps.data[an_idmap_get(&at, an_uop_src(g, u, k).id) - 1];
            if (k < 3) src[k] = x;
            varies = varies || !x.known || x.v != 0;
        }
        int64_t c = 0;
        if (varies && op == AN_OP_ADD) {
            e.known = src[0].known && src[1].known && !__builtin_add_overflow(src[0].v, src[1].v, &e.v);
        } else if (varies && op == AN_OP_MUL && src[0].known && an_uop_int(g, an_uop_src(g, u, 1), &c)) {
            e.known = !__builtin_mul_overflow(src[0].v, c, &e.v);
        } else if (varies) {
            e.known = false;
        }
        ok = an_vec_push(ctx, &steps, e) && an_idmap_set(&at, ctx, u.id, (uint32_t)steps.len);
    }
    const bool known = ok && steps.data[steps.len - 1].known;
    if (known) *step = steps.data[steps.len - 1].v;
    an_vec_fini(ctx, &order);
    an_vec_fini(ctx, &steps);
    an_idmap_fini(&at, ctx);
    return known;
}
