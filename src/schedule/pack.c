/* pack.c - products whose operands do not stay in the caches: panels.
 *
 *   sum over k of A[i, k] * B[k, j]
 *
 * walks B again for every few rows i, in steps of a row each, which is memory's worst case. Here the columns j become
 * panels of `panel` columns, jo outermost and marked to be split among threads, so that a panel serves all rows while it is
 * in the cache:
 *
 *   for jo: for i: for ji: sum over k of A[i, k] * P[(jo * K + k) * panel + ji]
 *
 * and P, a new temporary, is B in the order in which it is read, filled by a kernel of its own. Columns that fill no panel
 * are a second store over the same loops; P is padded. An A that is walked in steps of rows over k is
 * copied in the same way, some rows side by side. Operands of which a good part fits the scratch of a kernel are left to codegen, which
 * copies them there tile by tile. Every sum keeps its terms and their order, so values stay the same to the bit. Only where the cost model gains. */
#include "schedule/sched.h"

enum {
    TILE_ROWS = 8,    /* rows that pass a panel at a time, and are copied side by side */
    SCRATCH_ROWS = 96 /* that codegen copies to scratch together */
};

/* What a product is made of. Sizes are constants. */
typedef struct product {
    an_uop reduce, k, j; /* k: the range summed over; j: the loop that stores walk with stride 1 */
    int64_t nk, nj;
    double nothers;      /* the product of the other loops: how often each element of a column operand is used */
} product;

static bool const_size(const an_sched *s, an_uop range, int64_t *n)
{
    return an_uop_int(s->g, an_uop_src(s->g, range, 0), n) && *n > 0;
}

/* The loop that every store walks with stride 1, or none. Every store must depend on every loop: they share one nest. */
static an_uop innermost(an_sched *s, const an_kern *kern)
{
    an_uop found = AN_UOP_NONE;
    for (size_t l = kern->loops.len; l-- > 0 && an_uop_is_none(found);) {
        bool all = true;
        for (size_t i = 0; i < kern->stores.len && all; i++) {
            const an_uop st = kern->stores.data[i];
            int64_t step = 0;
            an_uop_vec below = {0};
            all = an_uop_nsrc(s->g, st) == 3 && an_ranges_below(s, an_uop_src(s->g, st, 1), &below) &&
                  an_index_step(s->g, an_uop_src(s->g, st, 1), kern->loops.data[l], &step) && step == 1;
            for (size_t k = 0; k < kern->loops.len && all; k++) all = an_vec_has(&below, kern->loops.data[k]);
            an_vec_fini(s->ctx, &below);
        }
        if (all) found = kern->loops.data[l];
    }
    return found;
}

/* Is the REDUCE a sum over one range, of values that vary with j and loops only? */
static bool product_of(an_sched *s, const an_kern *kern, an_uop reduce, an_uop j, product *p)
{
    an_uop_vec below = {0};
    *p = (product){.reduce = reduce, .k = an_uop_src(s->g, reduce, 1), .j = j, .nothers = 1};
    bool ok = an_reduce_op(an_uop_arg(s->g, reduce)) == AN_OP_ADD && an_uop_nsrc(s->g, reduce) == 2 &&
              const_size(s, p->k, &p->nk) && const_size(s, j, &p->nj) && an_ranges_below(s, an_uop_src(s->g, reduce, 0), &below) &&
              an_vec_has(&below, j);
    for (size_t i = 0; i < below.len && ok; i++) {
        int64_t n = 0;
        const an_uop r = below.data[i];
        ok = const_size(s, r, &n) && (an_uop_eq(r, p->k) || an_vec_has(&kern->loops, r));
        if (!an_uop_eq(r, p->k) && !an_uop_eq(r, j)) p->nothers *= (double)n;
    }
    an_vec_fini(s->ctx, &below);
    return ok;
}

/* The one loop besides k that a load varies with; none if there are more or fewer. */
static an_uop walks(an_sched *s, const product *p, an_uop load)
{
    an_uop_vec below = {0};
    an_uop other = AN_UOP_NONE;
    if (an_ranges_below(s, load, &below) && below.len == 2 && an_vec_has(&below, p->k))
        other = below.data[an_uop_eq(below.data[0], p->k) ? 1 : 0];
    an_vec_fini(s->ctx, &below);
    return other;
}

/* Is copying an operand once cheaper than reading it `reuse` times from where it lies? Each tile of rows reads it from beyond
 * the cache. Where it is walked in long steps that costs twice as much, but a transposing copy does too, or more. */
static bool worth_packing(const an_sched *s, double nbytes, double reuse, bool transposed)
{
    const double copy = s->cost->launch_ns + (transposed ? 12 : 2) * nbytes / s->cost->bytes_per_ns;
    const double gain = nbytes * (reuse / (double)TILE_ROWS) / (3 * s->cost->bytes_per_ns);
    return nbytes > s->cost->cache_nbytes / 2 && copy < gain;
}

/* text as a string of the graph's, or none. */
static const char *keep(an_sched *s, an_str *text, const char *none)
{
    char *copy = text->failed ? NULL : an_graph_alloc(s->g, text->len + 1);
    if (copy) memcpy(copy, an_str_cstr(text), text->len + 1);
    an_str_fini(text);
    return copy ? copy : none;
}

static const char *copy_reason(an_sched *s, const product *p, int64_t n, double reuse)
{
    an_str text;
    an_str_init(&text, s->ctx);
    an_str_printf(&text, "an operand of a product, in the order it is read in: %lld x %lld elements, each used %.0f times",
                  (long long)p->nk, (long long)n, reuse);
    return keep(s, &text, "an operand of a product, in the order it is read in");
}

static const char *panel_reason(an_sched *s, const an_kern *kern, int64_t count, int64_t width, double rows)
{
    an_str text;
    an_str_init(&text, s->ctx);
    an_str_printf(&text, "%s; columns in %lld panels of %lld, for %.0f rows each", kern->reason, (long long)count,
                  (long long)width, rows);
    return keep(s, &text, kern->reason);
}

/* A kernel that copies what load reads at (range, k) to temp[range / width, k, range % width]; range of n elements. */
static an_status make_copy(an_sched *s, const product *p, an_uop load, an_uop range, int64_t n, int64_t width, double reuse,
                           an_uop *temp)
{
    an_graph *g = s->g;
    const an_uop dims[3] = {an_index(g, (n + width - 1) / width), an_index(g, p->nk), an_index(g, width)};
    *temp = an_buffer_node(g, an_uop_dtype(g, load), dims, 3);
    if (an_uop_is_none(*temp)) return AN_ERR_NOMEM;
    const uint32_t c = an_sched_kernel_new(s, *temp, copy_reason(s, p, n, reuse));
    if (c == UINT32_MAX) return AN_ERR_NOMEM;
    an_kern *kern = &s->kernels.data[c];
    const an_uop tuple = kern->tuple;
    const an_uop at = an_idx_add(g, an_idx_mul(g, an_uop_src(g, tuple, 0), an_index(g, width)), an_uop_src(g, tuple, 2));
    const an_uop from[2] = {range, p->k}, to[2] = {at, an_uop_src(g, tuple, 1)};
    an_uop value = an_substitute(g, load, from, to, 2);
    if (an_uop_is_none(value)) return AN_ERR_NOMEM;
    if (n % width) { /* past the end of the operand: zeros, which nothing reads */
        const an_uop inside = an_binary(g, AN_OP_CMPLT, at, an_index(g, n));
        an_uop gate = inside;
        if (an_uop_nsrc(g, value) > 2) gate = an_binary(g, AN_OP_AND, an_uop_src(g, value, 2), inside);
        value = an_uop_is_none(gate) ? gate : an_load(g, an_uop_src(g, value, 0), an_uop_src(g, value, 1), gate);
    }
    const an_uop st = an_store(g, *temp, an_tuple_flat(s, tuple, an_uop_shape(g, *temp)), value, AN_UOP_NONE);
    if (an_uop_is_none(st) || !an_vec_push(s->ctx, &kern->stores, st) || !an_kern_refresh(s, kern)) return AN_ERR_NOMEM;
    return AN_OK;
}

/* Index into a copy of element (range, k). Columns are at panel `outer`, column `inner`; rows at any expression. */
static an_uop packed_index(an_graph *g, const product *p, an_uop outer, an_uop inner, int64_t width)
{
    const an_uop row = an_idx_add(g, an_idx_mul(g, outer, an_index(g, p->nk)), p->k);
    return an_idx_add(g, an_idx_mul(g, row, an_index(g, width)), inner);
}

static an_uop packed_row(an_graph *g, const product *p, an_uop range)
{
    const an_uop width = an_index(g, TILE_ROWS);
    return packed_index(g, p, an_binary(g, AN_OP_FLOORDIV, range, width), an_binary(g, AN_OP_FLOORMOD, range, width), TILE_ROWS);
}

/* Loads of the product that are to be read from copies. */
typedef struct packing {
    an_uop_vec from, temps; /* loads and their copies */
    an_uop_vec ranges;      /* the loop each varies with */
} packing;

static an_status find_operands(an_sched *s, const product *p, int64_t panel, packing *out)
{
    an_uop_vec order = {0};
    const an_uop value = an_uop_src(s->g, p->reduce, 0);
    an_status st = an_toposort(s->g, &value, 1, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        const an_uop load = order.data[i];
        if (an_uop_op(s->g, load) != AN_OP_LOAD) continue;
        const an_uop range = walks(s, p, load);
        int64_t n = 0, along_k = 0, along = 0;
        if (an_uop_is_none(range) || !const_size(s, range, &n)) continue;
        const bool column = an_uop_eq(range, p->j);
        const double reuse = column ? p->nothers : p->nothers / (double)n * (double)p->nj;
        const double nbytes = (double)p->nk * (double)n * (double)an_dtype_nbytes(an_uop_dtype(s->g, load));
        const bool straight = an_index_step(s->g, an_uop_src(s->g, load, 1), p->k, &along_k) && along_k == 1;
        const bool plain = an_index_step(s->g, an_uop_src(s->g, load, 1), range, &along) && along == 1;
        if (!column && straight) continue; /* rows are read as they lie */
        if (column && n < panel) continue;
        if (!worth_packing(s, nbytes, reuse, !plain)) continue;
        const double own_nbytes = 4 * (double)p->nk * (double)(column ? panel : SCRATCH_ROWS);
        if (own_nbytes <= 0.75 * (double)s->cost->scratch_nbytes) continue;
        an_uop temp = AN_UOP_NONE;
        st = make_copy(s, p, load, range, n, column ? panel : TILE_ROWS, reuse, &temp);
        if (!st && (!an_vec_push(s->ctx, &out->from, load) || !an_vec_push(s->ctx, &out->temps, temp) ||
                    !an_vec_push(s->ctx, &out->ranges, range)))
            st = AN_ERR_NOMEM;
    }
    an_vec_fini(s->ctx, &order);
    return st;
}

/* Appends to stores those of kernel k for the columns outer * panel + inner. */
static an_status at_columns(an_sched *s, const product *p, const packing *pk, const an_kern *kern, int64_t panel, an_uop outer,
                            an_uop inner, an_uop_vec *stores)
{
    an_graph *g = s->g;
    an_uop_vec to = {0}, part = {0};
    const an_uop j = an_idx_add(g, an_idx_mul(g, outer, an_index(g, panel)), inner);
    an_status st = AN_OK;
    for (size_t i = 0; i < pk->from.len && !st; i++) {
        const bool column = an_uop_eq(pk->ranges.data[i], p->j);
        const an_uop index = column ? packed_index(g, p, outer, inner, panel) : packed_row(g, p, pk->ranges.data[i]);
        const an_uop load = an_load(g, pk->temps.data[i], index, AN_UOP_NONE);
        if (an_uop_is_none(load) || !an_vec_push(s->ctx, &to, load)) st = AN_ERR_NOMEM;
    }
    for (size_t i = 0; i < kern->stores.len && !st; i++)
        if (!an_vec_push(s->ctx, &part, kern->stores.data[i])) st = AN_ERR_NOMEM;
    if (!st) st = an_substitute_many(g, part.data, part.len, pk->from.data, to.data, to.len);
    if (!st) st = an_substitute_many(g, part.data, part.len, &p->j, &j, 1);
    for (size_t i = 0; i < part.len && !st; i++)
        if (!an_vec_push(s->ctx, stores, part.data[i])) st = AN_ERR_NOMEM;
    an_vec_fini(s->ctx, &to);
    an_vec_fini(s->ctx, &part);
    return st;
}

/* Kernel k over panels: loops jo, the others, ji; columns that fill none in a second store over the others and jt. */
static an_status panels(an_sched *s, uint32_t k, const product *p, const packing *pk, int64_t panel)
{
    an_graph *g = s->g;
    const int64_t whole = p->nj / panel, rest = p->nj % panel;
    an_uop_vec stores = {0}, loops = {0};
    an_uop outer = an_sched_range(s, an_index(g, whole), AN_UOP_NONE, k);
    if (an_uop_op(g, outer) == AN_OP_RANGE)
        outer = an_range(g, an_uop_src(g, outer, 0), an_range_id(an_uop_arg(g, outer)), AN_RANGE_THREAD);
    const an_uop inner = an_sched_range(s, an_index(g, panel), AN_UOP_NONE, k);
    const an_uop tail = rest ? an_sched_range(s, an_index(g, rest), AN_UOP_NONE, k) : AN_UOP_NONE;
    an_kern *kern = &s->kernels.data[k];
    an_status st = AN_ERR_NOMEM;
    if (an_uop_is_none(outer) || an_uop_is_none(inner) || (rest && an_uop_is_none(tail))) goto done;
    st = at_columns(s, p, pk, kern, panel, outer, inner, &stores);
    if (!st && rest) st = at_columns(s, p, pk, kern, panel, an_index(g, whole), tail, &stores);
    if (st) goto done;
    st = AN_ERR_NOMEM;
    if (an_uop_op(g, outer) == AN_OP_RANGE && !an_vec_push(s->ctx, &loops, outer)) goto done;
    for (size_t i = 0; i < kern->loops.len; i++)
        if (!an_uop_eq(kern->loops.data[i], p->j) && !an_vec_push(s->ctx, &loops, kern->loops.data[i])) goto done;
    if (!an_vec_push(s->ctx, &loops, inner)) goto done;
    if (rest && an_uop_op(g, tail) == AN_OP_RANGE && !an_vec_push(s->ctx, &loops, tail)) goto done;
    an_vec_fini(s->ctx, &kern->loops);
    an_vec_fini(s->ctx, &kern->stores);
    kern->loops.data = loops.data, kern->loops.len = loops.len, kern->loops.cap = loops.cap;
    kern->stores.data = stores.data, kern->stores.len = stores.len, kern->stores.cap = stores.cap;
    kern->reason = panel_reason(s, kern, whole, panel, p->nothers);
    return an_kern_refresh(s, kern) ? AN_OK : AN_ERR_NOMEM;
done:
    an_vec_fini(s->ctx, &stores);
    an_vec_fini(s->ctx, &loops);
    return st;
}

/* Kernel k with rows from their copies, over the loops it has. */
static an_status rows_only(an_sched *s, uint32_t k, const product *p, const packing *pk)
{
    an_kern *kern = &s->kernels.data[k];
    an_uop_vec to = {0};
    an_status st = AN_OK;
    for (size_t i = 0; i < pk->from.len && !st; i++) {
        const an_uop load = an_load(s->g, pk->temps.data[i], packed_row(s->g, p, pk->ranges.data[i]), AN_UOP_NONE);
        if (an_uop_is_none(load) || !an_vec_push(s->ctx, &to, load)) st = AN_ERR_NOMEM;
    }
    if (!st) st = an_substitute_many(s->g, kern->stores.data, kern->stores.len, pk->from.data, to.data, to.len);
    an_vec_fini(s->ctx, &to);
    if (!st && !an_kern_refresh(s, kern)) st = AN_ERR_NOMEM;
    return st;
}

/* Columns of a panel: as many vectors as the register tile has. */
static int64_t panel_width(const an_sched *s, const an_kern *kern, an_uop reduce)
{
    size_t widest = 4;
    const uint32_t vectors = s->cost->vector_nbytes >= 64 ? 4 : 2;
    for (size_t i = 0; i < kern->stores.len; i++) {
        const size_t n = an_dtype_nbytes(an_uop_dtype(s->g, an_uop_src(s->g, kern->stores.data[i], 2)));
        if (n > widest) widest = n;
    }
    if (an_dtype_nbytes(an_uop_dtype(s->g, reduce)) > widest) widest = an_dtype_nbytes(an_uop_dtype(s->g, reduce));
    return (int64_t)(vectors * s->cost->vector_nbytes / widest);
}

static an_status pack_kernel(an_sched *s, uint32_t k)
{
    an_uop_vec order = {0};
    packing pk = {0};
    product p = {0}, other;
    uint32_t nreduces = 0;
    const an_kern *kern = &s->kernels.data[k];
    const an_uop j = innermost(s, kern);
    if (an_uop_is_none(j)) return AN_OK;
    an_status st = an_toposort(s->g, kern->stores.data, (uint32_t)kern->stores.len, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        if (an_uop_op(s->g, order.data[i]) != AN_OP_REDUCE) continue;
        nreduces++;
        if (product_of(s, kern, order.data[i], j, &other)) p = other;
    }
    if (!st && nreduces == 1 && !an_uop_is_none(p.reduce)) {
        const int64_t panel = panel_width(s, kern, p.reduce);
        if (p.nj >= panel) {
            const an_phase before = an_graph_set_phase(s->g, (an_phase)an_node_of(s->g, kern->node)->phase);
            st = find_operands(s, &p, panel, &pk);
            bool columns = false;
            for (size_t i = 0; i < pk.ranges.len; i++) columns = columns || an_uop_eq(pk.ranges.data[i], p.j);
            if (!st && pk.from.len) st = columns ? panels(s, k, &p, &pk, panel) : rows_only(s, k, &p, &pk);
            an_graph_set_phase(s->g, before);
        }
    }
    an_vec_fini(s->ctx, &order);
    an_vec_fini(s->ctx, &pk.from);
    an_vec_fini(s->ctx, &pk.temps);
    an_vec_fini(s->ctx, &pk.ranges);
    return st;
}

an_status an_sched_pack(an_sched *s)
{
    const size_t n = s->kernels.len;
    an_status st = AN_OK;
    if (s->cost->no_fuse || s->cost->vector_nbytes == 0) return AN_OK;
    for (uint32_t k = 0; k < n && !st; k++)
        if (!s->kernels.data[k].dead && s->kernels.data[k].has_reduce) st = pack_kernel(s, k);
    return st;
}
