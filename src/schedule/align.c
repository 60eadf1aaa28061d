/* align.c - products whose operands lie at odd places, on devices that load vectors of four and tiles of a round number of steps.
 *
 *   for i, j: sum over k < 1001 of A[i * 1001 + k] * B[k * 1001 + j]
 *
 * would be read element by element, behind gates where the last steps are. So each operand is copied once, in a kernel of its own, to
 * rows that begin at multiples of four, with zeros where it ends:
 *
 *   for i < 1024, k < 1024: P[i * 1024 + k] = A[i * 1001 + k], or 0;   Q likewise of B
 *   for i, j < 1004: sum over k < 1024 of P[i * 1024 + k] * Q[k * 1024 + j], stored where j < 1001
 *
 * Both factors of what is added are zeros, so no value changes, whatever else is infinite: a sum begins with 0 and is never -0. A copy of
 * the same elements serves every product that wants it. Sizes are constants; only where the cost model gains. */
#include "schedule/sched.h"

enum {
    LANES = 4,    /* of a vector load, which begin at a multiple of it */
    STEPS = 16,   /* of a sum, in a tile of workgroup memory */
    LARGE = 512,  /* sizes from here on are rounded up to LARGE / 8, which leaves parts (parts.c) a choice of divisors */
    OPERANDS = 2
};
/* The part of its time that a product loses to loads of one element behind gates: 0.27 to 0.38 was measured. */
static const double LOST = 0.25;

typedef an_aligned operand;
typedef an_aligned_axis axis;

typedef struct product {
    an_uop reduce, k;
    int64_t nk, steps; /* steps: of k, when padded */
    double results;
    operand of[OPERANDS];
} product;

static int64_t up_to(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static int64_t padded(int64_t n)
{
    return up_to(n, n < LARGE ? STEPS : LARGE / 8);
}

static bool const_size(const an_sched *s, an_uop range, int64_t *n)
{
    return an_uop_int(s->g, an_uop_src(s->g, range, 0), n) && *n > 0;
}

/* Puts an axis where its step belongs. */
static void insert(operand *o, axis a)
{
    uint32_t at = o->naxes++;
    for (; at > 0 && o->axes[at - 1].step < a.step; at--) o->axes[at] = o->axes[at - 1];
    o->axes[at] = a;
}

/* The index with every axis at its beginning. */
static bool offset_of(an_sched *s, operand *o)
{
    an_uop index = an_uop_src(s->g, o->load, 1), from[AN_RANK_MAX], to[AN_RANK_MAX];
    for (uint32_t i = 0; i < o->naxes; i++) {
        from[i] = o->axes[i].range;
        to[i] = an_index(s->g, 0);
    }
    index = an_substitute(s->g, index, from, to, o->naxes);
    if (!an_uop_is_none(index)) index = an_simplify(s->g, index);
    return !an_uop_is_none(index) && an_uop_int(s->g, index, &o->offset) && o->offset >= 0;
}

/* Is x what a buffer holds along k and loops of the kernel, each element in one place? Casts are passed over. */
static bool operand_of(an_sched *s, const an_kern *kern, an_uop x, an_uop k, operand *o)
{
    an_graph *g = s->g;
    an_uop_vec below = {0};
    if (an_uop_op(g, x) == AN_OP_CAST) x = an_uop_src(g, x, 0);
    if (an_uop_op(g, x) != AN_OP_LOAD || an_uop_nsrc(g, x) > 2) return false;
    *o = (operand){.load = x, .ptr = an_uop_src(g, x, 0)};
    const an_dtype dtype = an_uop_dtype(g, x);
    const size_t nbytes = an_dtype_nbytes(dtype);
    bool ok = an_dtype_kind_of(dtype) == AN_KIND_FLOAT && (nbytes == 2 || nbytes == 4) && an_ranges_below(s, x, &below) && below.len <= AN_RANK_MAX &&
              an_vec_has(&below, k);
    for (size_t i = 0; i < below.len && ok; i++) {
        axis a = {.range = below.data[i]};
        ok = (an_uop_eq(a.range, k) || an_vec_has(&kern->loops, a.range)) && const_size(s, a.range, &a.n) &&
             an_index_step(g, an_uop_src(g, x, 1), a.range, &a.step) && a.step > 0;
        if (ok) insert(o, a);
    }
    an_vec_fini(s->ctx, &below);
    for (uint32_t i = 1; i < o->naxes && ok; i++) ok = o->axes[i - 1].step / o->axes[i].step >= o->axes[i].n;
    return ok && o->axes[o->naxes - 1].step == 1 && offset_of(s, o);
}

static const axis *along_of(const operand *o)
{
    return &o->axes[o->naxes - 1];
}

/* May vectors of four along memory begin at an odd place? */
static bool is_odd(const product *p, const operand *o)
{
    bool odd = o->offset % LANES != 0 || (!an_uop_eq(along_of(o)->range, p->k) && along_of(o)->n % LANES != 0);
    for (uint32_t i = 0; i + 1 < o->naxes; i++) odd = odd || o->axes[i].step % LANES != 0;
    return odd;
}

/* What a copy has room for: whole vectors along memory, zeros along k; of a matrix along both, so that it serves other products too. */
static void lay_out(const product *p, operand *o)
{
    for (uint32_t i = 0; i < o->naxes; i++) {
        axis *a = &o->axes[i];
        a->size = i + 1 == o->naxes || o->naxes == 2 || an_uop_eq(a->range, p->k) ? padded(a->n) : a->n;
    }
}

/* Of how many steps the sum is to be: round numbers, and so many that its parts keep the device busy. */
static int64_t steps_of(const an_sched *s, const product *p)
{
    int64_t best = up_to(p->nk, STEPS);
    double most = 0;
    for (int64_t unit = STEPS; up_to(p->nk, unit) <= padded(p->nk); unit *= 2) {
        const int64_t n = up_to(p->nk, unit);
        const double busy = an_parts_busy(s, n, p->results) * (double)p->nk / (double)n;
        if (busy <= most) continue;
        most = busy;
        best = n;
    }
    return best;
}

/* Is the REDUCE the sum over one range of products of two operands? */
static bool product_of(an_sched *s, const an_kern *kern, an_uop reduce, product *p)
{
    an_graph *g = s->g;
    const an_uop value = an_uop_src(g, reduce, 0);
    *p = (product){.reduce = reduce, .k = an_uop_src(g, reduce, 1), .results = 1};
    if (an_reduce_op(an_uop_arg(g, reduce)) != AN_OP_ADD || an_uop_nsrc(g, reduce) != 2 || an_uop_op(g, value) != AN_OP_MUL || !const_size(s, p->k, &p->nk))
        return false;
    for (uint32_t i = 0; i < OPERANDS; i++)
        if (!operand_of(s, kern, an_uop_src(g, value, i), p->k, &p->of[i])) return false;
    for (size_t i = 0; i < kern->loops.len; i++) p->results *= an_range_size(s, kern->loops.data[i]);
    p->steps = p->nk % STEPS ? steps_of(s, p) : p->nk;
    return !an_uop_eq(p->of[0].load, p->of[1].load);
}

static bool varies_with(const operand *o, an_uop range)
{
    for (uint32_t i = 0; i < o->naxes; i++)
        if (an_uop_eq(o->axes[i].range, range)) return true;
    return false;
}

static const operand *find_copy(const an_sched *s, const operand *o)
{
    for (size_t i = 0; i < s->aligned.len; i++) {
        const operand *m = &s->aligned.data[i];
        bool same = an_uop_eq(m->ptr, o->ptr) && m->offset == o->offset && m->naxes == o->naxes;
        for (uint32_t a = 0; a < o->naxes && same; a++)
            same = m->axes[a].n == o->axes[a].n && m->axes[a].step == o->axes[a].step && m->axes[a].size == o->axes[a].size;
        if (same) return m;
    }
    return NULL;
}

/* Modelled ns of copying it. */
static double cost_of_copy(const an_sched *s, const operand *o)
{
    double from = 1, to = 1;
    if (find_copy(s, o)) return 0;
    for (uint32_t i = 0; i < o->naxes; i++) {
        from *= (double)o->axes[i].n;
        to *= (double)o->axes[i].size;
    }
    return s->cost->launch_ns + (from + to) * (double)an_dtype_nbytes(an_uop_dtype(s->g, o->load)) / s->cost->bytes_per_ns;
}

/* Does every store walk the loop with stride 1? */
static bool is_stored_along(an_sched *s, const an_kern *kern, an_uop loop)
{
    int64_t step = 0;
    for (size_t i = 0; i < kern->stores.len; i++)
        if (!an_index_step(s->g, an_uop_src(s->g, kern->stores.data[i], 1), loop, &step) || step != 1) return false;
    return true;
}

/* The loop that is to have whole vectors, as memory runs along it in the copy of an operand, or in what is stored; none if there is none to pad. */
static const axis *loop_to_pad(an_sched *s, const an_kern *kern, const product *p, const operand *o)
{
    for (uint32_t i = o->naxes; i-- > 0;) {
        const axis *a = &o->axes[i];
        if (an_uop_eq(a->range, p->k) || a->n % LANES == 0 || a->size < up_to(a->n, LANES)) continue;
        if (i + 1 == o->naxes || is_stored_along(s, kern, a->range)) return a;
    }
    return NULL;
}

/* Are copies worth it? wants says which. */
static bool plan(an_sched *s, const an_kern *kern, product *p, bool wants[OPERANDS])
{
    double cost = 0;
    bool any = false;
    for (uint32_t i = 0; i < OPERANDS; i++) {
        operand *o = &p->of[i];
        lay_out(p, o);
        wants[i] = p->steps != p->nk || is_odd(p, o);
        any = any || wants[i];
        if (wants[i]) cost += cost_of_copy(s, o);
        const axis *loop = wants[i] ? loop_to_pad(s, kern, p, o) : NULL;
        if (loop && varies_with(&p->of[1 - i], loop->range)) return false; /* which has no room */
    }
    if (!any || kern->reads.len + kern->writes.len + OPERANDS > s->cost->max_buffers) return false;
    return cost < LOST * 2 * p->results * (double)p->nk / s->cost->ops_per_ns;
}

static const char *reason_of(an_sched *s, const operand *o)
{
    an_str text;
    an_str_init(&text, s->ctx);
    an_str_put(&text, "an operand of a product, at multiples of four, zeros at its ends: ");
    for (uint32_t i = 0; i < o->naxes; i++) an_str_printf(&text, "%s%lld", i ? " x " : "", (long long)o->axes[i].n);
    an_str_put(&text, " elements");
    char *copy = text.failed ? NULL : an_graph_alloc(s->g, text.len + 1);
    if (copy) memcpy(copy, an_str_cstr(&text), text.len + 1);
    an_str_fini(&text);
    return copy ? copy : "an operand of a product, at multiples of four";
}

/* The element of the copy that is at these indices, one an axis. */
static an_uop index_of(an_graph *g, const operand *o, const an_uop *at)
{
    an_uop flat = an_index(g, 0);
    for (uint32_t i = 0; i < o->naxes; i++) flat = an_idx_add(g, an_idx_mul(g, flat, an_index(g, o->axes[i].size)), at[i]);
    return flat;
}

/* Is it there before any kernel has run? */
static bool is_given(const an_sched *s, an_uop ptr)
{
    for (size_t k = 0; k < s->kernels.len; k++)
        if (!s->kernels.data[k].dead && an_vec_has(&s->kernels.data[k].writes, ptr)) return false;
    return true;
}

/* May both copies be made by one kernel? What it waited for would be waited for by every user of the other. */
static bool are_alike(const an_sched *s, const operand *a, const operand *b)
{
    bool alike = a->naxes == b->naxes && is_given(s, a->ptr) && is_given(s, b->ptr);
    for (uint32_t i = 0; i < a->naxes && alike; i++) alike = a->axes[i].size == b->axes[i].size;
    return alike;
}

/* In kernel c, or where that is UINT32_MAX in one of its own, which *made tells. */
static an_status make_copy(an_sched *s, operand *o, uint32_t c, uint32_t *made)
{
    an_graph *g = s->g;
    an_uop dims[AN_RANK_MAX], at[AN_RANK_MAX], from = an_index(g, o->offset), gate = AN_UOP_NONE;
    const operand *known = find_copy(s, o);
    *made = UINT32_MAX;
    if (known) {
        o->copy = known->copy;
        return AN_OK;
    }
    for (uint32_t i = 0; i < o->naxes; i++) dims[i] = an_index(g, o->axes[i].size);
    o->copy = an_buffer_node(g, an_uop_dtype(g, o->load), dims, o->naxes);
    if (an_uop_is_none(o->copy)) return AN_ERR_NOMEM;
    if (c == UINT32_MAX) c = *made = an_sched_kernel_new(s, o->copy, reason_of(s, o));
    if (c == UINT32_MAX) return AN_ERR_NOMEM;
    an_kern *kern = &s->kernels.data[c];
    for (uint32_t i = 0; i < o->naxes; i++) {
        const axis *a = &o->axes[i];
        at[i] = an_uop_src(g, kern->tuple, i);
        from = an_idx_add(g, from, an_idx_mul(g, at[i], an_index(g, a->step)));
        if (a->size == a->n) continue;
        const an_uop inside = an_binary(g, AN_OP_CMPLT, at[i], an_index(g, a->n));
        if (an_uop_is_none(inside)) return AN_ERR_NOMEM;
        gate = an_uop_is_none(gate) ? inside : an_binary(g, AN_OP_AND, gate, inside);
        if (an_uop_is_none(gate)) return AN_ERR_NOMEM;
    }
    const an_uop st = an_store(g, o->copy, index_of(g, o, at), an_load(g, o->ptr, from, gate), AN_UOP_NONE);
    if (an_uop_is_none(st) || !an_vec_push(s->ctx, &kern->stores, st) || !an_kern_refresh(s, kern)) return AN_ERR_NOMEM;
    return an_vec_push(s->ctx, &s->aligned, *o) ? AN_OK : AN_ERR_NOMEM;
}

/* The REDUCE over p->steps steps, from copies where there are any. */
static an_uop reduce_of_copies(an_sched *s, const product *p)
{
    an_graph *g = s->g;
    an_uop from[OPERANDS + 1], to[OPERANDS + 1], k = p->k;
    uint32_t n = 0;
    if (p->steps != p->nk) k = an_sched_range(s, an_index(g, p->steps), p->reduce, 0);
    if (an_uop_is_none(k)) return k;
    for (uint32_t i = 0; i < OPERANDS; i++) {
        const operand *o = &p->of[i];
        an_uop at[AN_RANK_MAX];
        if (an_uop_is_none(o->copy)) continue;
        for (uint32_t a = 0; a < o->naxes; a++) at[a] = an_uop_eq(o->axes[a].range, p->k) ? k : o->axes[a].range;
        from[n] = o->load;
        to[n] = an_load(g, o->copy, index_of(g, o, at), AN_UOP_NONE);
        if (an_uop_is_none(to[n++])) return AN_UOP_NONE;
    }
    const an_uop src[2] = {an_substitute(g, an_uop_src(g, p->reduce, 0), from, to, n), k};
    return an_uop_is_none(src[0]) ? src[0] : an_uop_new(g, AN_OP_REDUCE, an_uop_dtype(g, p->reduce), src, 2, an_uop_arg(g, p->reduce));
}

/* The store with the loop as `to`, as far as it lies `inside`; old, which reads copies that have room, becomes new. */
static an_uop store_inside(an_sched *s, an_uop store, an_uop loop, an_uop to, an_uop inside, an_uop old, an_uop new)
{
    an_graph *g = s->g;
    an_uop src[4] = {AN_UOP_NONE, AN_UOP_NONE, AN_UOP_NONE, inside};
    const uint32_t n = an_uop_nsrc(g, store);
    for (uint32_t i = 1; i < n; i++) {
        src[i] = an_at_element_with(s, an_uop_src(g, store, i), loop, to, inside, &old, &new, 1);
        if (an_uop_is_none(src[i])) return AN_UOP_NONE;
    }
    if (n > 3) src[3] = an_binary(g, AN_OP_AND, src[3], inside);
    return an_uop_is_none(src[3]) ? src[3] : an_store(g, an_uop_src(g, store, 0), src[1], src[2], src[3]);
}

/* Kernel k with whole vectors along a loop; *reduce, by which it has the copies, becomes another. */
static an_status pad_loop(an_sched *s, uint32_t k, an_uop loop, int64_t n, an_uop *reduce)
{
    an_graph *g = s->g;
    const an_uop to = an_sched_range(s, an_index(g, up_to(n, LANES)), AN_UOP_NONE, k);
    const an_uop inside = an_uop_is_none(to) ? to : an_binary(g, AN_OP_CMPLT, to, an_index(g, n));
    const an_uop now = an_uop_is_none(to) ? to : an_substitute(g, *reduce, &loop, &to, 1);
    an_kern *kern = &s->kernels.data[k];
    if (an_uop_is_none(inside) || an_uop_is_none(now)) return AN_ERR_NOMEM;
    for (size_t i = 0; i < kern->stores.len; i++) {
        kern->stores.data[i] = store_inside(s, kern->stores.data[i], loop, to, inside, *reduce, now);
        if (an_uop_is_none(kern->stores.data[i])) return AN_ERR_NOMEM;
    }
    for (size_t i = 0; i < kern->loops.len; i++)
        if (an_uop_eq(kern->loops.data[i], loop)) kern->loops.data[i] = to;
    *reduce = now;
    return AN_OK;
}

static an_status align(an_sched *s, uint32_t k, product *p, const bool wants[OPERANDS])
{
    an_status st = AN_OK;
    const bool together = wants[0] && wants[1] && are_alike(s, &p->of[0], &p->of[1]);
    uint32_t first = UINT32_MAX, second = UINT32_MAX;
    if (wants[0]) st = make_copy(s, &p->of[0], UINT32_MAX, &first);
    if (wants[1] && !st) st = make_copy(s, &p->of[1], together ? first : UINT32_MAX, &second);
    an_uop reduce = st ? AN_UOP_NONE : reduce_of_copies(s, p);
    if (an_uop_is_none(reduce)) return AN_ERR_NOMEM;
    an_kern *kern = &s->kernels.data[k];
    st = an_substitute_many(s->g, kern->stores.data, kern->stores.len, &p->reduce, &reduce, 1);
    for (uint32_t i = 0; i < OPERANDS && !st; i++) {
        const axis *loop = wants[i] ? loop_to_pad(s, &s->kernels.data[k], p, &p->of[i]) : NULL;
        if (loop) st = pad_loop(s, k, loop->range, loop->n, &reduce);
    }
    return st ? st : an_kern_refresh(s, &s->kernels.data[k]) ? AN_OK : AN_ERR_NOMEM;
}

/* The only reduction of a kernel; none if there are more, or memory is out. */
static an_status lone_reduce(an_sched *s, const an_kern *kern, an_uop *out)
{
    an_uop_vec order = {0};
    uint32_t n = 0;
    const an_status st = an_toposort(s->g, kern->stores.data, (uint32_t)kern->stores.len, &order);
    *out = AN_UOP_NONE;
    for (size_t i = 0; i < order.len; i++) {
        if (an_uop_op(s->g, order.data[i]) != AN_OP_REDUCE) continue;
        *out = n++ ? AN_UOP_NONE : order.data[i];
    }
    an_vec_fini(s->ctx, &order);
    return st;
}

static an_status align_kernel(an_sched *s, uint32_t k)
{
    product p;
    bool wants[OPERANDS];
    an_uop reduce = AN_UOP_NONE;
    const an_kern *kern = &s->kernels.data[k];
    an_status st = lone_reduce(s, kern, &reduce);
    if (st || an_uop_is_none(reduce) || !product_of(s, kern, reduce, &p) || !plan(s, kern, &p, wants)) return st;
    st = an_sched_bands_note(s);
    if (st || an_idmap_get(&s->banded, k)) return st;
    const an_phase before = an_graph_set_phase(s->g, (an_phase)an_node_of(s->g, s->kernels.data[k].node)->phase);
    st = align(s, k, &p, wants);
    an_graph_set_phase(s->g, before);
    return st;
}

an_status an_sched_align(an_sched *s)
{
    const size_t n = s->kernels.len;
    an_status st = AN_OK;
    for (uint32_t k = 0; k < n && !st && !s->cost->no_fuse && s->cost->threads > 0; k++)
        if (!s->kernels.data[k].dead && s->kernels.data[k].has_reduce) st = align_kernel(s, k);
    return st;
}
