/* rangeify.c - movement as index arithmetic.
 *
 * From the tuple at which a node is evaluated follows the tuple at which each source is. For reshape the axes are cut into
 * groups of equal size on both sides, so that what is not merged or split passes through untouched:
 *     (64, 784) -> (64, 28, 28): axis 0 passes; 784 = 28 * 28 gives index i1 * 28 + i2. */
#include "schedule/sched.h"

an_uop an_tuple_make(an_sched *s, const an_uop *idx, uint32_t rank, an_uop valid)
{
    an_uop src[AN_RANK_MAX + 1];
    if (rank) memcpy(src, idx, rank * sizeof *idx);
    src[rank] = valid;
    return an_sink(s->g, src, rank + 1);
}

an_uop an_tuple_valid(const an_sched *s, an_uop tuple)
{
    return an_uop_src(s->g, tuple, an_uop_nsrc(s->g, tuple) - 1);
}

bool an_sched_transparent(an_op op)
{
    return an_op_has(op, AN_TRAIT_MOVE) || op == AN_OP_DETACH || op == AN_OP_LEAF;
}

an_uop an_sched_range(an_sched *s, an_uop bound, an_uop owner, uint32_t kernel)
{
    /* In its last form, or simplifying an index would make another range of it. */
    if (!an_uop_is_none(bound) && !an_uop_is_const(s->g, bound)) bound = an_simplify(s->g, bound);
    if (an_uop_is_none(bound)) return bound;
    if (an_uop_is_int(s->g, bound, 1)) return an_index(s->g, 0);
    const uint32_t id = (uint32_t)s->range_owner.len;
    const an_range_kind kind = an_uop_is_none(owner) ? AN_RANGE_LOOP : AN_RANGE_REDUCE;
    const uint32_t of = an_uop_is_none(owner) ? kernel + 1 : 0;
    if (!an_vec_push(s->ctx, &s->range_owner, owner) || !an_vec_push(s->ctx, &s->range_kernel, of)) return AN_UOP_NONE;
    return an_range(s->g, bound, id, kind);
}

an_uop an_sched_reduce_ranges(an_sched *s, an_uop n)
{
    an_info *info = &s->info[n.id];
    if (!an_uop_is_none(info->ranges)) return info->ranges;
    const an_shape shape = an_uop_shape(s->g, an_uop_src(s->g, n, 0));
    const uint32_t mask = an_reduce_mask(an_uop_arg(s->g, n));
    an_uop r[AN_RANK_MAX];
    for (uint32_t i = 0; i < shape.rank; i++)
        r[i] = mask >> i & 1u ? an_sched_range(s, shape.dims[i], n, 0) : an_index(s->g, 0);
    info->ranges = an_sink(s->g, r, shape.rank);
    return info->ranges;
}

/* The indices under valid: an element that does not exist may be looked for anywhere. */
static an_uop simplify_under_valid(an_sched *s, an_uop tuple)
{
    const uint32_t rank = an_uop_nsrc(s->g, tuple) - 1;
    an_uop src[AN_RANK_MAX + 1];
    for (uint32_t i = 0; i < rank; i++) src[i] = an_uop_src(s->g, tuple, i);
    const an_uop valid = an_tuple_valid(s, tuple), all = an_simplify_valid(s->g, valid, an_sink(s->g, src, rank));
    if (an_uop_is_none(all)) return all;
    for (uint32_t i = 0; i < rank; i++) src[i] = an_uop_src(s->g, all, i);
    return an_tuple_make(s, src, rank, valid);
}

/* The tuple, smaller by the symbolic rules. */
static an_uop simplify(an_sched *s, an_uop tuple)
{
    if (an_uop_is_none(tuple)) return tuple;
    const uint32_t known = an_idmap_get(&s->simplified, tuple.id);
    if (known) return (an_uop){known};
    an_uop out = an_simplify(s->g, tuple);
    if (!an_uop_is_none(out) && !an_uop_is_const(s->g, an_tuple_valid(s, out))) out = simplify_under_valid(s, out);
    if (an_uop_is_none(out) || !an_idmap_set(&s->simplified, s->ctx, tuple.id, out.id)) return AN_UOP_NONE;
    return out;
}

static an_uop and_valid(an_graph *g, an_uop a, an_uop b)
{
    if (an_uop_is_none(a) || an_uop_is_none(b)) return AN_UOP_NONE;
    if (an_uop_is_int(g, a, 1)) return b;
    if (an_uop_is_int(g, b, 1) || an_uop_eq(a, b)) return a;
    return an_binary(g, AN_OP_AND, a, b);
}

/* Moves o and i to the end of the shortest runs of dims, one of each shape, with equal products; to both ends if none are. */
static void equal_products(an_graph *g, an_shape out, an_shape in, uint32_t *o, uint32_t *i)
{
    an_uop products[AN_RANK_MAX];
    an_uop p = an_index(g, 1);
    for (uint32_t k = *i; k < in.rank; k++) products[k] = p = an_dim_mul(g, p, in.dims[k]);
    p = an_index(g, 1);
    for (uint32_t n = *o; n < out.rank; n++) {
        p = an_dim_mul(g, p, out.dims[n]);
        for (uint32_t k = *i; k < in.rank; k++) {
            if (!an_uop_eq(p, products[k]) || an_uop_is_int(g, p, 0)) continue; /* through a 0 anything is equal */
            *o = n + 1;
            *i = k + 1;
            return;
        }
    }
    *o = out.rank;
    *i = in.rank;
}

/* Index tuple idx over shape out becomes src_idx over shape in; *mixed if any axis was merged or split. */
static void reshape_index(an_graph *g, an_shape out, const an_uop *idx, an_shape in, an_uop *src_idx, bool *mixed)
{
    uint32_t o = 0, i = 0;
    *mixed = false;
    for (uint32_t k = 0; k < in.rank; k++) src_idx[k] = an_index(g, 0);
    while (o < out.rank || i < in.rank) {
        while (o < out.rank && an_uop_is_int(g, out.dims[o], 1)) o++;
        while (i < in.rank && an_uop_is_int(g, in.dims[i], 1)) i++;
        if (o == out.rank || i == in.rank) break; /* only ones are left (or a zero-size shape) */
        if (an_uop_eq(out.dims[o], in.dims[i])) {
            src_idx[i++] = idx[o++];
            continue;
        }
        const uint32_t o0 = o, i0 = i;
        equal_products(g, out, in, &o, &i);
        an_uop flat = an_index(g, 0);
        for (uint32_t k = o0; k < o; k++) flat = an_idx_add(g, an_idx_mul(g, flat, out.dims[k]), idx[k]);
        for (uint32_t k = i; k-- > i0;) {
            if (k == i0) {
                src_idx[k] = flat;
            } else {
                src_idx[k] = an_binary(g, AN_OP_FLOORMOD, flat, in.dims[k]);
                flat = an_binary(g, AN_OP_FLOORDIV, flat, in.dims[k]);
            }
        }
        *mixed = true;
    }
}

an_uop an_tuple_source(an_sched *s, an_uop n, an_uop tuple, uint32_t i, an_uop *local)
{
    an_graph *g = s->g;
    const an_op op = an_uop_op(g, n);
    const an_uop x = an_uop_src(g, n, i);
    const an_shape in = an_uop_shape(g, x), out = an_store_shape(s, n);
    an_uop idx[AN_RANK_MAX + 1], src[AN_RANK_MAX], valid = an_tuple_valid(s, tuple);
    bool mixed = false;
    for (uint32_t k = 0; k < out.rank; k++) idx[k] = an_uop_src(g, tuple, k);
    if (local) *local = an_const_int(g, AN_BOOL, 1);
    switch (op) {
    case AN_OP_RESHAPE:
        reshape_index(g, out, idx, in, src, &mixed);
        break;
    case AN_OP_EXPAND:
        for (uint32_t k = 0; k < in.rank; k++)
            src[k] = an_uop_is_int(g, in.dims[k], 1) && !an_uop_eq(in.dims[k], out.dims[k]) ? an_index(g, 0) : idx[k];
        break;
    case AN_OP_PERMUTE:
        for (uint32_t k = 0; k < in.rank; k++) src[an_permute_axis(an_uop_arg(g, n), k)] = idx[k];
        break;
    case AN_OP_FLIP:
        for (uint32_t k = 0; k < in.rank; k++) {
            src[k] = idx[k];
            if (!(an_uop_arg(g, n) >> k & 1u)) continue;
            src[k] = an_idx_sub(g, an_idx_sub(g, in.dims[k], an_index(g, 1)), idx[k]);
            mixed = true;
        }
        break;
    case AN_OP_SHRINK:
        for (uint32_t k = 0; k < in.rank; k++) {
            const an_uop begin = an_uop_src(g, n, 1 + 2 * k);
            src[k] = an_idx_add(g, idx[k], begin);
            mixed = mixed || !an_uop_is_int(g, begin, 0);
        }
        break;
    case AN_OP_PAD: {
        an_uop pad_valid = an_const_int(g, AN_BOOL, 1);
        for (uint32_t k = 0; k < in.rank; k++) {
            const an_uop before = an_uop_src(g, n, 1 + 2 * k), after = an_uop_src(g, n, 2 + 2 * k);
            src[k] = an_idx_sub(g, idx[k], before);
            if (!an_uop_is_int(g, before, 0)) { /* idx >= before, as not idx < before */
                const an_uop low = an_binary(g, AN_OP_CMPLT, idx[k], before);
                pad_valid = and_valid(g, pad_valid, an_not(g, low));
                mixed = true;
            }
            if (!an_uop_is_int(g, after, 0)) {
                const an_uop end = an_idx_add(g, before, in.dims[k]);
                pad_valid = and_valid(g, pad_valid, an_binary(g, AN_OP_CMPLT, idx[k], end));
                mixed = true;
            }
        }
        if (local) *local = mixed ? an_simplify(g, pad_valid) : pad_valid;
        valid = and_valid(g, valid, pad_valid);
        break;
    }
    case AN_OP_REDUCE_AXIS: {
        const an_uop ranges = an_sched_reduce_ranges(s, n);
        if (an_uop_is_none(ranges)) return AN_UOP_NONE;
        const uint32_t mask = an_reduce_mask(an_uop_arg(g, n));
        for (uint32_t k = 0; k < in.rank; k++) src[k] = mask >> k & 1u ? an_uop_src(g, ranges, k) : idx[k];
        break;
    }
    default: /* elementwise: the same element; a scalar operand has none to choose */
        for (uint32_t k = 0; k < in.rank; k++) src[k] = idx[k];
        break;
    }
    const an_uop made = an_tuple_make(s, src, in.rank, valid);
    return mixed ? simplify(s, made) : made;
}

an_uop an_tuple_flat(an_sched *s, an_uop tuple, an_shape shape)
{
    an_uop flat = an_index(s->g, 0);
    for (uint32_t k = 0; k < shape.rank; k++)
        flat = an_idx_add(s->g, an_idx_mul(s->g, flat, shape.dims[k]), an_uop_src(s->g, tuple, k));
    return flat;
}

an_shape an_store_shape(const an_sched *s, an_uop n)
{
    const bool part = an_uop_op(s->g, n) == AN_OP_ASSIGN && an_uop_nsrc(s->g, n) > 2;
    return an_uop_shape(s->g, part ? an_uop_src(s->g, n, 2) : n);
}

bool an_store_place(an_sched *s, an_uop n, an_uop tuple, an_uop *index, an_uop *gate)
{
    if (an_uop_op(s->g, n) == AN_OP_ASSIGN && an_uop_nsrc(s->g, n) > 2) {
        const an_uop place = an_uop_src(s->g, n, 0);
        for (an_uop u = an_uop_src(s->g, n, 2); !an_uop_eq(u, place); u = an_uop_src(s->g, u, 0)) {
            tuple = an_tuple_source(s, u, tuple, 0, NULL);
            if (an_uop_is_none(tuple)) return false;
        }
    }
    const an_uop valid = an_tuple_valid(s, tuple);
    *index = an_stored_flat(s, n, tuple);
    *gate = an_uop_is_int(s->g, valid, 1) ? AN_UOP_NONE : valid;
    return !an_uop_is_none(*index);
}

bool an_ranges_below(an_sched *s, an_uop u, an_uop_vec *out)
{
    an_uop_vec stack = {0};
    an_idmap seen = {0};
    bool ok = an_vec_push(s->ctx, &stack, u);
    while (ok && stack.len) {
        const an_uop top = stack.data[--stack.len];
        if (an_idmap_get(&seen, top.id)) continue;
        ok = an_idmap_set(&seen, s->ctx, top.id, 1);
        if (an_uop_op(s->g, top) == AN_OP_RANGE) {
            if (!an_vec_has(out, top)) ok = ok && an_vec_push(s->ctx, out, top);
            continue;
        }
        for (uint32_t i = 0; ok && i < an_uop_nsrc(s->g, top); i++)
            ok = an_vec_push(s->ctx, &stack, an_uop_src(s->g, top, i));
    }
    an_idmap_fini(&seen, s->ctx);
    an_vec_fini(s->ctx, &stack);
    return ok;
}

const uint32_t *an_tuple_ranges(an_sched *s, an_uop tuple, uint32_t *n)
{
    uint32_t at = an_idmap_get(&s->ranges_at, tuple.id);
    *n = 0;
    if (!at) {
        an_uop_vec set = {0};
        const size_t start = s->ranges.len;
        bool ok = an_ranges_below(s, tuple, &set) && an_vec_reserve(s->ctx, &s->ranges, set.len + 1) &&
                  an_idmap_set(&s->ranges_at, s->ctx, tuple.id, (uint32_t)start + 1);
        if (ok) {
            s->ranges.data[s->ranges.len++] = (uint32_t)set.len;
            for (size_t i = 0; i < set.len; i++) s->ranges.data[s->ranges.len++] = set.data[i].id;
            at = (uint32_t)start + 1;
        }
        an_vec_fini(s->ctx, &set);
        if (!ok) return NULL;
    }
    *n = s->ranges.data[at - 1];
    return s->ranges.data + at;
}
