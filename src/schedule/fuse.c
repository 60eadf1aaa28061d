/* fuse.c - which nodes get a buffer of their own: the cost model of docs/ARCHITECTURE.md, "fuse".
 *
 * From users to sources. When a node's turn comes all its users are decided, so its contexts are known: the kernels
 * and index tuples at which it would be evaluated if inlined. It is stored when that costs more, by the model, than
 * evaluating it once, writing it, and reading it back. Nodes evaluated once at one place are inlined without asking, so the
 * search is linear in the graph.
 *
 * What lies below a node is not decided yet when its cost is asked for, so the pass runs twice: the second round takes
 * for stored what the first one stored. Where a kernel then has more buffers than the device binds, more rounds follow, in which
 * such kernels store whatever would bring them over it. */
#include "schedule/sched.h"

enum { CONTEXTS_MAX = 8, TIGHT_ROUNDS_MAX = 6, BUFFERS_MAX = AN_KERNEL_PARAM_MAX - 8 /* a step adds a few */ };

static const char *keep_text(an_sched *s, const an_str *text)
{
    char *copy = an_graph_alloc(s->g, text->len + 1);
    if (!copy) return "";
    memcpy(copy, an_str_cstr(text), text->len);
    return copy;
}

uint32_t an_sched_kernel_new(an_sched *s, an_uop node, const char *reason)
{
    const uint32_t k = (uint32_t)s->kernels.len;
    const an_kern fresh = {.node = node, .reason = reason};
    if (!an_vec_push(s->ctx, &s->kernels, fresh)) return UINT32_MAX;
    const an_shape shape = an_store_shape(s, node);
    an_uop idx[AN_RANK_MAX];
    for (uint32_t i = 0; i < shape.rank; i++) {
        idx[i] = an_sched_range(s, shape.dims[i], AN_UOP_NONE, k);
        if (an_uop_is_none(idx[i])) return UINT32_MAX;
        if (an_uop_is_const(s->g, idx[i])) continue;
        if (!an_vec_push(s->ctx, &s->kernels.data[k].loops, idx[i])) return UINT32_MAX;
    }
    s->kernels.data[k].tuple = an_tuple_make(s, idx, shape.rank, an_const_int(s->g, AN_BOOL, 1));
    return an_uop_is_none(s->kernels.data[k].tuple) ? UINT32_MAX : k;
}

static void kernel_drop_last(an_sched *s)
{
    an_kern_fini(s, &s->kernels.data[--s->kernels.len]);
}

/* Kernel k reads the buffer of n. Until kernels are built their reads are tensor nodes. */
static bool note_read(an_sched *s, uint32_t k, an_uop n)
{
    an_uop_vec *reads = &s->kernels.data[k].reads;
    return an_vec_has(reads, n) || an_vec_push(s->ctx, reads, n);
}

/* What a node may come to in a kernel: a buffer for certain, perhaps one (its turn is still to come), or none. */
typedef enum share { NO_BUFFER, SURE_BUFFER, PERHAPS_BUFFER } share;

static share share_of(const an_sched *s, an_uop n, an_uop *base)
{
    while (an_sched_transparent(an_uop_op(s->g, n))) n = an_uop_src(s->g, n, 0);
    const an_op op = an_uop_op(s->g, n);
    *base = n;
    if (op == AN_OP_BUFFER || op == AN_OP_ASSIGN || op == AN_OP_CONTIGUOUS) return SURE_BUFFER;
    return op == AN_OP_CONST || op == AN_OP_VAR || op == AN_OP_IOTA ? NO_BUFFER : PERHAPS_BUFFER;
}

/* The turn of n has come. */
static void settle(an_sched *s, an_uop n)
{
    const an_info *info = &s->info[n.id];
    an_uop base = n;
    if (share_of(s, n, &base) != PERHAPS_BUFFER) return;
    for (size_t i = 0; i < info->contexts.len; i++) {
        bool earlier = false;
        for (size_t k = 0; k < i && !earlier; k++) earlier = info->contexts.data[k].kernel == info->contexts.data[i].kernel;
        if (!earlier) s->kernels.data[info->contexts.data[i].kernel].npending--;
    }
}

static bool add_context(an_sched *s, an_uop n, uint32_t kernel, an_uop tuple)
{
    an_info *info = &s->info[n.id];
    bool known = false;
    if (an_uop_is_none(tuple)) return false;
    for (size_t i = 0; i < info->contexts.len; i++) {
        known = known || info->contexts.data[i].kernel == kernel;
        if (info->contexts.data[i].kernel == kernel && an_uop_eq(info->contexts.data[i].tuple, tuple)) return true;
    }
    if (!known) {
        an_uop base = n;
        const share part = share_of(s, n, &base);
        if (part == SURE_BUFFER && !note_read(s, kernel, base)) return false;
        if (part == PERHAPS_BUFFER) s->kernels.data[kernel].npending++;
    }
    const an_context c = {kernel, tuple};
    return an_vec_push(s->ctx, &info->contexts, c);
}

/* Sources of n get their contexts from those n is evaluated at. */
static bool push_down(an_sched *s, an_uop n, const an_context *contexts, size_t ncontexts)
{
    const an_op op = an_uop_op(s->g, n);
    const uint32_t first = op == AN_OP_ASSIGN ? 1 : 0;
    const uint32_t end = an_sched_transparent(op) || op == AN_OP_IOTA ? 1 : op == AN_OP_ASSIGN ? 2 : an_uop_nsrc(s->g, n);
    if (op == AN_OP_BUFFER || op == AN_OP_IOTA || op == AN_OP_VAR) return true; /* their sources are dims */
    for (size_t c = 0; c < ncontexts; c++)
        for (uint32_t i = first; i < end; i++) {
            const an_uop tuple = an_tuple_source(s, n, contexts[c].tuple, i, NULL);
            if (!add_context(s, an_uop_src(s->g, n, i), contexts[c].kernel, tuple)) return false;
        }
    return true;
}

/* n gets kernel k, which exists, and the buffer it writes. */
static an_status store(an_sched *s, an_uop n, uint32_t k, const char *reason)
{
    const bool is_empty = an_numel(s, an_store_shape(s, n)) == 0;
    an_uop ptr = n; /* ASSIGN: its target's storage, through the node itself */
    if (an_uop_op(s->g, n) == AN_OP_ASSIGN) {
        if (is_empty) ptr = an_sched_target(s, n); /* where nothing is written it is what was there before */
    } else {
        const an_shape shape = an_uop_shape(s->g, n);
        ptr = an_buffer_node(s->g, an_uop_dtype(s->g, n), shape.dims, shape.rank);
    }
    if (an_uop_is_none(ptr) || !an_idmap_set(&s->buffer_of, s->ctx, n.id, ptr.id)) return AN_ERR_NOMEM;
    s->kernels.data[k].reason = reason;
    s->info[n.id].kernel = k + 1;
    for (size_t i = 0; i < s->info[n.id].contexts.len; i++)
        if (!note_read(s, s->info[n.id].contexts.data[i].kernel, n)) return AN_ERR_NOMEM;
    const an_context c = {k, s->kernels.data[k].tuple};
    if (is_empty) {
        s->kernels.data[k].dead = true; /* nothing to compute */
        return AN_OK;
    }
    return push_down(s, n, &c, 1) ? AN_OK : AN_ERR_NOMEM;
}

static an_status inline_it(an_sched *s, an_uop n)
{
    const an_info *info = &s->info[n.id];
    for (size_t i = 0; i < info->contexts.len; i++) s->kernels.data[info->contexts.data[i].kernel].nnodes++;
    return push_down(s, n, info->contexts.data, info->contexts.len) ? AN_OK : AN_ERR_NOMEM;
}

/* A reshape that only adds or drops axes of 1. */
static bool is_unit_reshape(const an_sched *s, an_uop n)
{
    if (an_uop_op(s->g, n) != AN_OP_RESHAPE) return false;
    const an_shape out = an_uop_shape(s->g, n), in = an_uop_shape(s->g, an_uop_src(s->g, n, 0));
    uint32_t o = 0, i = 0;
    for (;; o++, i++) {
        while (o < out.rank && an_uop_is_int(s->g, out.dims[o], 1)) o++;
        while (i < in.rank && an_uop_is_int(s->g, in.dims[i], 1)) i++;
        if (o == out.rank || i == in.rank) return o == out.rank && i == in.rank;
        if (!an_uop_eq(out.dims[o], in.dims[i])) return false;
    }
}

/* A value that is computed, and can be given a buffer: an elementwise node or a reduction; and what is moved of one that nothing else
 * uses: a permutation, since a buffer in the order its users see is read in order, or a part, since the rest is not asked for. */
static bool may_be_stored(const an_sched *s, an_uop n)
{
    bool moved = false;
    for (;; n = an_uop_src(s->g, n, 0)) {
        const an_op op = an_uop_op(s->g, n);
        if (moved && s->info[n.id].nusers != 1) return false;
        if (an_op_has(op, AN_TRAIT_ELEM) || op == AN_OP_REDUCE_AXIS) return true;
        if (op != AN_OP_PERMUTE && op != AN_OP_SHRINK && !(moved && is_unit_reshape(s, n))) return false;
        moved = true;
    }
}

/* The kernel had too many buffers in a round before. */
static bool is_tight(const an_sched *s, const an_kern *k)
{
    return s->all_tight || an_idmap_get(&s->tight, k->node.id);
}

/* Whether inlining n may bring its kernel over the buffers that the device binds. What is read, and what is to be decided,
 * together with the output, never come to more: storing n adds one, and there is room for that. */
static bool would_overflow(const an_sched *s, const an_kern *user, an_uop n)
{
    size_t more = 0;
    if (!is_tight(s, user)) return false;
    const uint32_t nsrc = an_op_has(an_uop_op(s->g, n), AN_TRAIT_ELEM) ? an_uop_nsrc(s->g, n) : 1;
    for (uint32_t i = 0; i < nsrc; i++) {
        an_uop base;
        const share part = share_of(s, an_uop_src(s->g, n, i), &base);
        more += part == PERHAPS_BUFFER || (part == SURE_BUFFER && !an_vec_has(&user->reads, base));
    }
    return more > 1 && user->reads.len + user->npending + more + 1 > s->cost->max_buffers;
}

static an_status decide(an_sched *s, an_uop n)
{
    const an_info *info = &s->info[n.id];
    const an_op op = an_uop_op(s->g, n);
    if (!may_be_stored(s, n)) return inline_it(s, n);
    if (an_uop_widens_half(s->g, n)) return inline_it(s, n); /* what may get a buffer is the half: fewer bytes, and read in as few operations */

    const double numel = an_numel(s, an_uop_shape(s->g, n));
    double evals = 0;
    bool full = false, crowded = false;
    for (size_t i = 0; i < info->contexts.len; i++) {
        evals += an_sched_evals(s, info->contexts.data[i].kernel, info->contexts.data[i].tuple);
        const an_kern *user = &s->kernels.data[info->contexts.data[i].kernel];
        full = full || user->nnodes >= s->cost->max_nodes || user->reads.len + user->npending >= BUFFERS_MAX;
        crowded = crowded || would_overflow(s, user, n);
    }
    const bool unfused = s->cost->no_fuse && (op == AN_OP_REDUCE_AXIS || an_op_weight(op) > 0) && numel > 1;
    const bool nested = op == AN_OP_REDUCE_AXIS && !info->is_term && an_sched_in_reduce(s, info->contexts.data[0].tuple);
    if (!full && !crowded && !unfused && info->contexts.len == 1 && evals <= numel && !nested) return inline_it(s, n);

    an_str text;
    an_str_init(&text, s->ctx);
    const uint32_t k = an_sched_kernel_new(s, n, "");
    if (k == UINT32_MAX) return AN_ERR_NOMEM;
    bool keep = true;
    if (full) {
        an_str_printf(&text, "%s is stored: its kernel has %u nodes, or may come to %d buffers", an_op_info_of(op)->text,
                      s->cost->max_nodes, BUFFERS_MAX);
    } else if (crowded) {
        an_str_printf(&text, "%s is stored: the device binds %u buffers in a kernel", an_op_info_of(op)->text, s->cost->max_buffers);
    } else if (unfused) {
        an_str_put(&text, "fusion is off");
    } else if (info->contexts.len > CONTEXTS_MAX) {
        an_str_printf(&text, "%s is stored: %zu places use it", an_op_info_of(op)->text, info->contexts.len);
    } else {
        const an_context once = {k, s->kernels.data[k].tuple};
        const double nbytes = numel * (double)an_dtype_nbytes(an_uop_dtype(s->g, n));
        const double stored = an_sched_cost(s, n, &once, 1, 1e18) + s->cost->launch_ns +
                              2 * nbytes / s->cost->bytes_per_ns + evals / s->cost->ops_per_ns;
        const double inlined = an_sched_cost(s, n, info->contexts.data, info->contexts.len, stored);
        keep = inlined > stored;
        an_str_printf(&text,
                      "%s of %.0f elements is %s: inlined into %zu place%s it is evaluated %.0f times, which costs %s%.1f us; "
                      "stored it costs %.1f us",
                      an_op_info_of(op)->text, numel, keep ? "stored" : "inlined", info->contexts.len,
                      info->contexts.len == 1 ? "" : "s", evals, keep ? "more than " : "", (keep ? stored : inlined) / 1000,
                      stored / 1000);
        an_trace_note(s->trace, "%s", an_str_cstr(&text));
    }
    an_status st = AN_OK;
    if (keep) {
        st = store(s, n, k, keep_text(s, &text));
    } else {
        kernel_drop_last(s);
        st = inline_it(s, n);
    }
    an_str_fini(&text);
    return st;
}

static an_status fuse_round(an_sched *s, const an_uop *roots, size_t nroots)
{
    for (size_t i = s->order.len; i-- > 0;) {
        const an_uop n = s->order.data[i];
        const an_op op = an_uop_op(s->g, n);
        bool root = false;
        for (size_t r = 0; r < nroots && !root; r++) root = an_uop_eq(roots[r], n);
        an_status st = AN_OK;
        if (op == AN_OP_BUFFER) continue;
        settle(s, n);
        if (op == AN_OP_ASSIGN || root || (op == AN_OP_CONTIGUOUS && s->info[n.id].contexts.len)) {
            const uint32_t k = an_sched_kernel_new(s, n, "");
            if (k == UINT32_MAX) return AN_ERR_NOMEM;
            st = store(s, n, k, op == AN_OP_ASSIGN ? "updates its buffer" : root ? "asked for" : "contiguous");
        } else if (s->info[n.id].contexts.len) {
            st = decide(s, n);
        }
        if (st) return st;
    }
    return AN_OK;
}

/* Forgets the decisions of a round, but for which nodes were stored. */
static void start_over(an_sched *s)
{
    for (size_t i = 0; i < s->order.len; i++) {
        an_info *info = &s->info[s->order.data[i].id];
        info->was_stored = info->kernel != 0;
        info->kernel = 0;
        info->contexts.len = 0;
    }
    while (s->kernels.len) kernel_drop_last(s);
    an_pairmap_clear(&s->evals);
    an_idmap_fini(&s->buffer_of, s->ctx);
}

/* Kernels with too many buffers, noted by the node they are for; how many there are. An ASSIGN may read what it writes. */
static size_t note_tight(an_sched *s)
{
    size_t n = 0;
    for (size_t k = 0; k < s->kernels.len; k++) {
        const an_kern *kern = &s->kernels.data[k];
        if (kern->dead || kern->reads.len + 1 <= s->cost->max_buffers) continue;
        n++;
        if (!an_idmap_set(&s->tight, s->ctx, kern->node.id, 1)) s->all_tight = true;
    }
    return n;
}

static bool is_sum(const an_sched *s, an_uop n)
{
    return an_uop_op(s->g, n) == AN_OP_REDUCE_AXIS && an_reduce_op(an_uop_arg(s->g, n)) == AN_OP_ADD;
}

/* Notes what is summed by n and is itself a sum, moved perhaps, that nothing else uses. Where n sums more elements than it gives,
 * each of its own is better computed at loops of the output. */
static void note_term(an_sched *s, an_uop n)
{
    if (!is_sum(s, n)) return;
    an_uop x = an_uop_src(s->g, n, 0);
    const double gives = an_numel(s, an_uop_shape(s->g, n));
    if (an_numel(s, an_uop_shape(s->g, x)) > gives * gives) return;
    while (an_op_has(an_uop_op(s->g, x), AN_TRAIT_MOVE) && s->info[x.id].nusers == 1) x = an_uop_src(s->g, x, 0);
    s->info[x.id].is_term = is_sum(s, x) && s->info[x.id].nusers == 1 && an_uop_dtype(s->g, x) == an_uop_dtype(s->g, n);
}

an_status an_sched_fuse(an_sched *s, const an_uop *roots, size_t nroots)
{
    for (size_t i = 0; i < s->order.len; i++)
        for (uint32_t k = 0; k < an_uop_nsrc(s->g, s->order.data[i]); k++)
            s->info[an_uop_src(s->g, s->order.data[i], k).id].nusers++;
    for (size_t i = 0; i < s->order.len; i++) note_term(s, s->order.data[i]);
    an_trace *trace = s->trace;
    s->trace = NULL; /* the notes are those of the round that counts */
    an_status st = fuse_round(s, roots, nroots);
    s->trace = trace;
    if (st) return st;
    start_over(s);
    st = fuse_round(s, roots, nroots);
    for (int round = 1; !st; round++) {
        const size_t n = note_tight(s);
        if (n == 0 || s->all_tight) break;
        if (round > TIGHT_ROUNDS_MAX) s->all_tight = true;
        an_trace_note(trace, "%zu kernels have more buffers than the device binds (%u): once more", n, s->cost->max_buffers);
        start_over(s);
        st = fuse_round(s, roots, nroots);
    }
    return st;
}
