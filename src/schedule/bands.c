/* bands.c - what is large and made of little, a band of rows at a time.
 *
 * The scores of attention, queries by keys, are made of queries and keys, and what is left of them in the end is as small again. The
 * kernels between, one after the other over all rows, keep all of it; one band of rows after the other, each through all kernels, they
 * keep a band:
 *
 *   scores[q, k] -> softmax[q, k] -> out[q, d]        for each band of q:  scores -> softmax -> out
 *
 * A group is a large buffer and what follows from it: the kernels that touch it, each by one range over its rows, and other large
 * buffers that they touch by the same rows. What is large is held a band at a time; the rest stays whole, and sums over the rows add
 * up from band to band. Where the way from one kernel of the group to another leaves the group (from the forward pass to the
 * backward), the group is cut in levels, each a round over the bands of its own, and a later level makes again what it reads
 * of what an earlier one held.
 *
 * The kernels of a band are launched one after the other with the band's number as a symbol: for all bands they are the same, but for
 * the last where the rows do not divide, and for the first of a sum. Nothing else needs to know of bands. */
#include "schedule/sched.h"

enum {
    RATIO = 4,        /* a seed is that many times what it is made of, and what is held that part of a seed at least */
    LARGE_BANDS = 4,  /* a seed has at least as many bands' bytes */
    ROWS_MIN = 16     /* of a band, where products share an operand between rows */
};

/* Cuts: of batches, outer ones first, and the last one, by which a group is found. */
enum { LAST = AN_CUTS_MAX - 1 };

typedef struct member {
    uint32_t kernel, at; /* at: in the launch order */
    an_uop range, batch[LAST];
    uint32_t level;
    bool sums; /* the range is a reduction's */
} member;

typedef struct held {
    an_uop buffer;
    int64_t step, batch_step[LAST];
    uint32_t writer; /* at */
} held;

/* When a kernel runs in a round over bands. */
typedef enum when { ALWAYS, FIRST, LATER, REST, END } when; /* REST: the last band, of fewer rows; END: after all of them */

/* The launch order while groups are found: a round, entries of one number side by side, stands for all of its bands. */
typedef struct entry {
    uint32_t kernel, round; /* round 0: none */
    when when;
    bool is_once; /* for all batches */
} entry;
typedef struct round {
    uint32_t whole, nbatches; /* bands of full size, for each batch */
} round;
typedef AN_VEC(entry) entry_vec;

/* A launch of the new order: of a kernel as it was, or over the bands of a level. */
typedef struct item {
    entry was;
    uint32_t kernel, level; /* level 0: as it was; else 1 + the level */
    bool is_again;          /* made again: only what is held is stored */
    bool is_dead;
    an_uop range, batch[LAST];
    bool sums;
} item;

typedef struct level {
    AN_VEC(an_rows) rows;
} level;

typedef struct group {
    an_sched *s;
    an_graph *g;
    an_ctx *ctx;
    const entry_vec *order;
    AN_VEC(round) rounds; /* of groups before */
    int64_t n, size;                            /* rows, and those of a band */
    int64_t batch_n[LAST], batch_size[LAST];
    uint32_t nbatch; /* cuts by batches */
    size_t seed_nbytes, most_nbytes; /* the largest that is held */
    an_idmap excluded;
    AN_VEC(member) members;
    an_idmap member_at; /* at -> 1 + index */
    AN_VEC(held) held;
    AN_VEC(item) items;
    uint32_t nlevels;
    AN_VEC(level) levels;
    bool is_trial, found; /* a trial makes no kernels: a group that is found is noted */
    bool is_out; /* of memory */
} group;

static void group_clear(group *p)
{
    for (size_t i = 0; i < p->levels.len; i++) an_vec_fini(p->ctx, &p->levels.data[i].rows);
    p->levels.len = p->members.len = p->held.len = p->items.len = 0;
    an_idmap_fini(&p->member_at, p->ctx);
}

static void group_fini(group *p)
{
    group_clear(p);
    an_vec_fini(p->ctx, &p->levels);
    an_vec_fini(p->ctx, &p->members);
    an_vec_fini(p->ctx, &p->held);
    an_vec_fini(p->ctx, &p->items);
    an_vec_fini(p->ctx, &p->rounds);
    an_idmap_fini(&p->excluded, p->ctx);
}

/* --- what kernels touch ---------------------------------------------------------------------------------------------- */

static const an_kern *kern_at(const group *p, size_t at)
{
    return &p->s->kernels.data[p->order->data[at].kernel];
}

static bool has_base(const an_graph *g, const an_uop_vec *ptrs, an_uop base)
{
    for (size_t i = 0; i < ptrs->len; i++)
        if (an_uop_eq(an_ptr_base(g, ptrs->data[i]), base)) return true;
    return false;
}

static bool touches(const group *p, size_t at, an_uop base)
{
    return has_base(p->g, &kern_at(p, at)->reads, base) || has_base(p->g, &kern_at(p, at)->writes, base);
}

/* Made by the scheduler, and not asked for. */
static bool is_temp(const an_sched *s, an_uop base)
{
    return base.id >= s->ninfo && !an_vec_has(&s->outputs, base);
}

/* The one launch that writes base; SIZE_MAX: none, or several, or it reads it, too. */
static size_t writer_of(const group *p, an_uop base)
{
    size_t found = SIZE_MAX;
    for (size_t at = 0; at < p->order->len; at++) {
        if (!has_base(p->g, &kern_at(p, at)->writes, base)) continue;
        if (found != SIZE_MAX || has_base(p->g, &kern_at(p, at)->reads, base)) return SIZE_MAX;
        found = at;
    }
    return found;
}

static size_t nbytes_in(const an_sched *s, an_uop base)
{
    size_t n = 0;
    if (!an_shape_static(s->g, an_uop_shape(s->g, base), NULL)) return 0;
    return an_buffer_nbytes(s->g, base, &n) ? n : 0;
}

static size_t nbytes_of(group *p, an_uop base)
{
    return nbytes_in(p->s, base);
}

/* Made of indices alone. */
static bool is_leaf(const group *p, an_uop base)
{
    const size_t w = is_temp(p->s, base) ? writer_of(p, base) : SIZE_MAX;
    return w != SIZE_MAX && kern_at(p, w)->reads.len == 0;
}

/* Do all accesses of a kernel to base go by n rows? *range, where it is none, is found; *step, where it is 0, too. */
static bool goes_by_rows(group *p, size_t at, an_uop base, int64_t n, an_uop *range, int64_t *step)
{
    an_graph *g = p->g;
    an_uop_vec order = {0}, ranges = {0};
    const an_kern *k = kern_at(p, at);
    bool ok = an_toposort(g, k->stores.data, (uint32_t)k->stores.len, &order) == AN_OK, found = false;
    p->is_out = p->is_out || !ok;
    for (size_t i = 0; ok && i < order.len; i++) {
        const an_uop u = order.data[i];
        const an_op op = an_uop_op(g, u);
        if ((op != AN_OP_LOAD && op != AN_OP_STORE) || !an_uop_eq(an_ptr_base(g, an_uop_src(g, u, 0)), base)) continue;
        const an_uop index = an_uop_src(g, u, 1);
        found = true;
        ranges.len = 0;
        if (an_uop_is_none(*range)) ok = an_ranges_below(p->s, index, &ranges);
        for (size_t r = 0; ok && r < ranges.len && an_uop_is_none(*range); r++)
            if (an_uop_is_int(g, an_uop_src(g, ranges.data[r], 0), n) && an_index_has_rows(p->s, index, ranges.data[r], n, *step))
                *range = ranges.data[r];
        ok = ok && !an_uop_is_none(*range) && an_uop_is_int(g, an_uop_src(g, *range, 0), n);
        if (ok && *step == 0) ok = an_index_step(p->s->g, index, *range, step);
        ok = ok && an_index_has_rows(p->s, index, *range, n, *step);
    }
    an_vec_fini(p->ctx, &order);
    an_vec_fini(p->ctx, &ranges);
    return ok && found;
}

/* --- growing --------------------------------------------------------------------------------------------------------- */

static held *held_of(group *p, an_uop base)
{
    for (size_t i = 0; i < p->held.len; i++)
        if (an_uop_eq(p->held.data[i].buffer, base)) return &p->held.data[i];
    return NULL;
}

static bool sums_are_plain(group *p, size_t at, an_uop range)
{
    const an_kern *k = kern_at(p, at);
    for (size_t i = 0; i < k->stores.len; i++)
        if (an_uop_nsrc(p->g, k->stores.data[i]) > 3 || an_uop_is_none(an_store_sum(p->s, k->stores.data[i], range))) return false;
    return true;
}

/* What else of size a member touches by its rows is held, too. */
static bool hold_more(group *p, size_t at, an_uop range)
{
    const an_kern *k = kern_at(p, at);
    const an_uop_vec *lists[2] = {&k->writes, &k->reads};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->len; i++) {
            const an_uop base = an_ptr_base(p->g, lists[l]->data[i]);
            const size_t nbytes = nbytes_of(p, base);
            int64_t step = 0;
            if (!is_temp(p->s, base) || nbytes < p->seed_nbytes / RATIO || an_idmap_get(&p->excluded, base.id) || held_of(p, base)) continue;
            const size_t w = writer_of(p, base);
            if (w == SIZE_MAX || !goes_by_rows(p, at, base, p->n, &range, &step)) continue;
            const held h = {base, step, {0}, (uint32_t)w};
            if (!an_vec_push(p->ctx, &p->held, h)) return false;
            if (nbytes > p->most_nbytes) p->most_nbytes = nbytes;
        }
    return true;
}

/* Every launch that touches held buffer i becomes a member. False where one cannot. */
static bool take_in(group *p, size_t i)
{
    for (size_t at = 0; at < p->order->len; at++) {
        const held h = p->held.data[i];
        int64_t step = h.step;
        an_uop range = AN_UOP_NONE;
        if (!touches(p, at, h.buffer)) continue;
        if (p->order->data[at].round) return false;
        const uint32_t known = an_idmap_get(&p->member_at, (uint32_t)at);
        if (known) range = p->members.data[known - 1].range;
        if (!goes_by_rows(p, at, h.buffer, p->n, &range, &step)) return false;
        if (known) continue;
        const member m = {p->order->data[at].kernel, (uint32_t)at, range, {{0}}, 0, an_range_kind_of(an_uop_arg(p->g, range)) == AN_RANGE_REDUCE};
        if (m.sums ? !sums_are_plain(p, at, range) : !an_vec_has(&kern_at(p, at)->loops, range)) return false;
        if (!an_vec_push(p->ctx, &p->members, m) || !an_idmap_set(&p->member_at, p->ctx, (uint32_t)at, (uint32_t)p->members.len) ||
            !hold_more(p, at, range)) {
            p->is_out = true;
            return false;
        }
    }
    return true;
}

/* The whole group, from the seed. A buffer that cannot be held, but for the seed, stays whole. */
static bool grow(group *p, const held *seed)
{
    for (;;) {
        size_t i = 0;
        group_clear(p);
        p->most_nbytes = p->seed_nbytes;
        p->is_out = p->is_out || !an_vec_push(p->ctx, &p->held, *seed);
        while (!p->is_out && i < p->held.len && take_in(p, i)) i++;
        if (p->is_out || i == 0) return false;
        if (i == p->held.len) return true;
        p->is_out = !an_idmap_set(&p->excluded, p->ctx, p->held.data[i].buffer.id, 1);
    }
}

/* --- batches and sizes ------------------------------------------------------------------------------------------------ */

static member *member_of(group *p, size_t at)
{
    const uint32_t i = an_idmap_get(&p->member_at, (uint32_t)at);
    return i ? &p->members.data[i - 1] : NULL;
}

/* Does every load of a launch go by range? Then its rows share no operand. */
static bool is_batch(group *p, size_t at, an_uop range)
{
    an_uop_vec order = {0};
    const an_kern *k = kern_at(p, at);
    bool all = an_toposort(p->g, k->stores.data, (uint32_t)k->stores.len, &order) == AN_OK;
    for (size_t i = 0; all && i < order.len; i++) {
        an_uop_vec below = {0};
        if (an_uop_op(p->g, order.data[i]) != AN_OP_LOAD || is_leaf(p, an_ptr_base(p->g, an_uop_src(p->g, order.data[i], 0)))) continue;
        all = an_ranges_below(p->s, an_uop_src(p->g, order.data[i], 1), &below) && an_vec_has(&below, range);
        an_vec_fini(p->ctx, &below);
    }
    an_vec_fini(p->ctx, &order);
    return all;
}

/* Cut i of the held buffer: do all members that touch it go by the batch, and is it outside the cuts after it? */
static bool batch_fits(group *p, size_t h, uint32_t i)
{
    held *buffer = &p->held.data[h];
    const int64_t n = p->batch_n[i];
    for (size_t m = 0; m < p->members.len && buffer->batch_step[i] == 0; m++) {
        member *by = &p->members.data[m];
        if (!an_uop_is_none(by->batch[i]) && touches(p, by->at, buffer->buffer) &&
            !goes_by_rows(p, by->at, buffer->buffer, n, &by->batch[i], &buffer->batch_step[i]))
            return false;
    }
    if (buffer->batch_step[i] == 0) return false;
    for (size_t m = 0; m < p->members.len; m++) {
        member *by = &p->members.data[m];
        if (!touches(p, by->at, buffer->buffer)) continue;
        if (!goes_by_rows(p, by->at, buffer->buffer, n, &by->batch[i], &buffer->batch_step[i]) || !an_vec_has(&kern_at(p, by->at)->loops, by->batch[i]))
            return false;
    }
    if (i > 0 && buffer->batch_step[i - 1] % (n * buffer->batch_step[i])) return false;
    return buffer->batch_step[i] % (p->n * buffer->step) == 0;
}

/* Loops of the seed's writer by which all of the group can be cut, besides the one it was found by. */
static void find_batches(group *p, const held *seed, an_uop range)
{
    const an_uop_vec *loops = &kern_at(p, seed->writer)->loops;
    p->nbatch = 0;
    for (size_t l = 0; l < loops->len && p->nbatch < LAST; l++) {
        const uint32_t i = p->nbatch;
        const an_uop loop = loops->data[l];
        for (size_t m = 0; m < p->members.len; m++) p->members.data[m].batch[i] = AN_UOP_NONE;
        for (size_t h = 0; h < p->held.len; h++) p->held.data[h].batch_step[i] = 0;
        if (an_uop_eq(loop, range) || !an_uop_int(p->g, an_uop_src(p->g, loop, 0), &p->batch_n[i]) || !is_batch(p, seed->writer, loop)) continue;
        member_of(p, seed->writer)->batch[i] = loop;
        bool fits = true;
        for (size_t h = 0; h < p->held.len && fits; h++) fits = batch_fits(p, h, i);
        p->nbatch += fits;
    }
}

/* The largest divisor of n that is no more than most, and 1 at least. */
static int64_t divisor(int64_t n, double most)
{
    int64_t d = most < 1 ? 1 : most > (double)n ? n : (int64_t)most;
    while (n % d) d--;
    return d;
}

/* How much of each cut is in a band: near to what the device likes, batches first. False: there is no gain. */
static bool find_sizes(group *p, int64_t least)
{
    double nbytes = (double)p->most_nbytes;
    const double want = p->s->cost->band_nbytes;
    for (uint32_t i = 0; i < p->nbatch; i++) {
        const int64_t n = p->batch_n[i];
        p->batch_size[i] = divisor(n, (double)n * want / nbytes);
        nbytes *= (double)p->batch_size[i] / (double)n;
    }
    int64_t size = (int64_t)((double)p->n * want / nbytes);
    if (size < least) size = least;
    if (size >= ROWS_MIN) size -= size % ROWS_MIN;
    if (size > p->n) size = p->n;
    const int64_t even = divisor(p->n, (double)size);
    p->size = even * 2 > size ? even : size;
    nbytes *= (double)p->size / (double)p->n;
    return nbytes * 2 <= (double)p->most_nbytes;
}

/* --- levels ---------------------------------------------------------------------------------------------------------- */

typedef enum bond { NONE, BY_ROWS, WHOLE } bond;

/* How launch b depends on launch a, before it: through rows of the same band alone (both are members), or through more. */
static bond bond_of(group *p, size_t a, size_t b)
{
    const an_kern *ka = kern_at(p, a), *kb = kern_at(p, b);
    const member *ma = member_of(p, a), *mb = member_of(p, b);
    const an_uop_vec *lists[2] = {&ka->writes, &ka->reads};
    bond found = NONE;
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->len; i++) {
            const an_uop base = an_ptr_base(p->g, lists[l]->data[i]);
            if (!has_base(p->g, &kb->writes, base) && (l == 1 || !has_base(p->g, &kb->reads, base))) continue;
            if (found == NONE) found = BY_ROWS;
            if (ma && mb && held_of(p, base)) continue;
            int64_t step = 0;
            an_uop ra = ma ? ma->range : AN_UOP_NONE, rb = mb ? mb->range : AN_UOP_NONE;
            if (!ma || !mb || (ma->sums && l == 0) || !goes_by_rows(p, a, base, p->n, &ra, &step) || !goes_by_rows(p, b, base, p->n, &rb, &step)) return WHOLE;
        }
    return found;
}

/* A launch comes a level after those it depends on otherwise than by rows, directly or through others. */
static bool find_levels(group *p)
{
    const size_t n = p->order->len;
    uint32_t *levels = an_mem_zalloc(p->ctx, n * sizeof *levels);
    if (!levels) return false;
    p->nlevels = 1;
    for (size_t b = 0; b < n; b++) {
        for (size_t a = 0; a < b; a++) {
            const bool in = member_of(p, a) != NULL;
            if (!in && levels[a] <= levels[b]) continue;
            const bond how = bond_of(p, a, b);
            if (how == NONE) continue;
            const uint32_t least = levels[a] + (in && how == WHOLE);
            if (least > levels[b]) levels[b] = least;
        }
        member *m = member_of(p, b);
        if (m) m->level = levels[b];
        if (m && levels[b] + 1 > p->nlevels) p->nlevels = levels[b] + 1;
    }
    an_mem_free(p->ctx, levels, n * sizeof *levels);
    return true;
}

/* --- making again ---------------------------------------------------------------------------------------------------- */

static const an_rows *rows_at(const level *l, an_uop base)
{
    for (size_t i = 0; i < l->rows.len; i++)
        if (an_uop_eq(l->rows.data[i].whole, base)) return &l->rows.data[i];
    return NULL;
}

/* A buffer for one band of base, at this level. h: where it is held; else it goes by the last cut alone. */
static bool add_rows(group *p, level *l, an_uop base, const held *h, int64_t step)
{
    int64_t n = 0;
    an_rows r = {.whole = base};
    if (rows_at(l, base)) return true;
    if (!an_uop_int(p->g, an_shape_numel(p->g, an_uop_shape(p->g, base)), &n)) return false;
    n = n / p->n * p->size;
    for (uint32_t i = 0; i < p->nbatch && h; i++) {
        r.step[i] = h->batch_step[i];
        n = n / p->batch_n[i] * p->batch_size[i];
    }
    r.step[p->nbatch] = step;
    const an_uop numel = an_index(p->g, n);
    r.band = an_buffer_node(p->g, an_uop_dtype(p->g, base), &numel, 1);
    return !an_uop_is_none(r.band) && an_vec_push(p->ctx, &l->rows, r);
}

/* What launch `at` reads is still the same for every launch of the group to come. */
static bool may_be_again(group *p, size_t at)
{
    const an_kern *k = kern_at(p, at);
    for (size_t i = 0; i < k->reads.len; i++) {
        const an_uop base = an_ptr_base(p->g, k->reads.data[i]);
        for (size_t b = at + 1; b < p->order->len; b++)
            if (has_base(p->g, &kern_at(p, b)->writes, base)) return false;
    }
    return true;
}

/* Notes in again[] the launches that make what a member (or such a launch), `at`, reads and this level does not hold. *ok: they can. */
static bool need(group *p, uint32_t lev, size_t at, an_uop range, unsigned char *again, bool *ok)
{
    level *l = &p->levels.data[lev];
    const an_kern *k = kern_at(p, at);
    for (size_t i = 0; i < k->reads.len && *ok; i++) {
        const an_uop base = an_ptr_base(p->g, k->reads.data[i]);
        const held *h = held_of(p, base);
        int64_t step = h ? h->step : 0;
        size_t w = h ? h->writer : SIZE_MAX;
        if (!h) {
            an_uop own = AN_UOP_NONE, mine = range;
            if (!is_leaf(p, base) || (double)nbytes_of(p, base) < p->s->cost->band_nbytes) continue;
            if (!goes_by_rows(p, at, base, p->n, &mine, &step)) continue;
            w = writer_of(p, base);
            if (!goes_by_rows(p, w, base, p->n, &own, &step) || !an_vec_has(&kern_at(p, w)->loops, own)) continue;
        }
        if (!add_rows(p, l, base, h, step)) return false;
        const member *m = member_of(p, w);
        if (m && m->level == lev) continue;
        *ok = (!m || (m->level < lev && !m->sums)) && may_be_again(p, w);
        again[w] = 1;
    }
    return true;
}

/* The launches of a level that are made again for it, in again[]. */
static bool find_again(group *p, uint32_t lev, unsigned char *again, bool *ok)
{
    memset(again, 0, p->order->len);
    for (size_t at = p->order->len; at-- > 0 && *ok;) {
        const member *m = member_of(p, at);
        const bool own = m && m->level == lev;
        if (!own && !again[at]) continue;
        for (size_t i = 0; own && i < kern_at(p, at)->writes.len; i++) {
            const held *h = held_of(p, an_ptr_base(p->g, kern_at(p, at)->writes.data[i]));
            if (h && !add_rows(p, &p->levels.data[lev], h->buffer, h, h->step)) return false;
        }
        if (!need(p, lev, at, m ? m->range : AN_UOP_NONE, again, ok)) return false;
    }
    return true;
}

/* --- the new order --------------------------------------------------------------------------------------------------- */

static bool add_item(group *p, size_t at, uint32_t lev, bool is_again)
{
    const member *m = member_of(p, at);
    item it = {.was = p->order->data[at], .kernel = p->order->data[at].kernel, .level = lev, .is_again = is_again};
    if (lev && m) {
        it.range = m->range;
        it.sums = m->sums;
        memcpy(it.batch, m->batch, sizeof it.batch);
    }
    if (lev && !m) { /* a leaf: by the rows of what it writes */
        const an_rows *r = rows_at(&p->levels.data[lev - 1], an_ptr_base(p->g, kern_at(p, at)->writes.data[0]));
        int64_t step = r ? r->step[p->nbatch] : 0;
        if (!r || !goes_by_rows(p, at, r->whole, p->n, &it.range, &step)) return false;
    }
    return an_vec_push(p->ctx, &p->items, it);
}

/* Items in an order that means the same as before: what a level makes again comes before its first member. */
static bool list_items(group *p, bool *ok)
{
    const size_t n = p->order->len;
    bool done = true;
    unsigned char *again = an_mem_alloc(p->ctx, n * p->nlevels);
    unsigned char *begun = an_mem_zalloc(p->ctx, p->nlevels);
    done = again && begun;
    for (uint32_t l = 0; done && l < p->nlevels; l++) {
        const level none = {{0}};
        done = an_vec_push(p->ctx, &p->levels, none) && find_again(p, l, again + l * n, ok);
    }
    for (size_t at = 0; done && *ok && at < n; at++) {
        const member *m = member_of(p, at);
        const uint32_t l = m ? m->level : 0;
        for (size_t w = 0; m && !begun[l] && done && w < n; w++)
            if (again[l * n + w]) done = add_item(p, w, l + 1, true);
        if (m) begun[l] = 1;
        done = done && add_item(p, at, m ? l + 1 : 0, false);
    }
    an_mem_free(p->ctx, again, n * p->nlevels);
    an_mem_free(p->ctx, begun, p->nlevels);
    return done;
}

static const an_kern *kern_of(const group *p, const item *it)
{
    return &p->s->kernels.data[it->kernel];
}

/* Does the item touch base itself, not a band of it? */
static bool sees_whole(const group *p, const item *it, an_uop base)
{
    return !it->level || !rows_at(&p->levels.data[it->level - 1], base);
}

static bool item_reads(const group *p, const item *it, an_uop base, uint32_t lev)
{
    return !it->is_dead && (lev ? it->level == lev : sees_whole(p, it, base)) && has_base(p->g, &kern_of(p, it)->reads, base);
}

/* Items whose results nothing reads any more, as they are made again, go. */
static void drop_unread(group *p)
{
    for (size_t i = p->items.len; i-- > 0;) {
        item *it = &p->items.data[i];
        const an_kern *k = kern_of(p, it);
        bool used = false;
        for (size_t w = 0; w < k->writes.len && !used; w++) {
            const an_uop base = an_ptr_base(p->g, k->writes.data[w]);
            const bool whole = sees_whole(p, it, base);
            if (whole && it->is_again) continue;
            used = whole && !is_temp(p->s, base);
            for (size_t r = i + 1; r < p->items.len && !used; r++) used = item_reads(p, &p->items.data[r], base, whole ? 0 : it->level);
        }
        it->is_dead = !used;
    }
}

/* Must item b come after item a, before it? What levels hold is their own. */
static bool follows(const group *p, const item *a, const item *b)
{
    const an_kern *ka = kern_of(p, a), *kb = kern_of(p, b);
    const an_uop_vec *lists[2] = {&ka->writes, &ka->reads};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->len; i++) {
            const an_uop base = an_ptr_base(p->g, lists[l]->data[i]);
            if (!sees_whole(p, a, base) || !sees_whole(p, b, base) || (l == 0 && a->is_again)) continue;
            if (has_base(p->g, &kb->writes, base) ? !b->is_again : false) return true;
            if (l == 0 && has_base(p->g, &kb->reads, base)) return true;
        }
    return false;
}

/* The unit of an item: its level, its round, or itself. */
static size_t unit_of(const group *p, size_t i)
{
    const item *it = &p->items.data[i];
    return it->level ? it->level - 1 : it->was.round ? p->nlevels + it->was.round - 1 : p->nlevels + p->rounds.len + i;
}

typedef AN_VEC(size_t) unit_vec;

/* Units in an order in which each comes after what it needs, the earlier ones first. False where there is none: then the group is not
 * to be had. */
static bool order_units(group *p, unit_vec *out, bool *ok)
{
    const size_t n = p->items.len, nunits = p->nlevels + p->rounds.len + n;
    uint32_t *waits = an_mem_zalloc(p->ctx, nunits * sizeof *waits);
    size_t *first = an_mem_alloc(p->ctx, nunits * sizeof *first);
    unsigned char *edges = an_mem_zalloc(p->ctx, n * n);
    bool done = waits && first && edges;
    size_t left = 0;
    for (size_t u = 0; done && u < nunits; u++) first[u] = SIZE_MAX;
    for (size_t i = 0; done && i < n; i++) {
        const size_t u = unit_of(p, i);
        if (p->items.data[i].is_dead) continue;
        if (first[u] == SIZE_MAX) {
            first[u] = i;
            left++;
        }
        for (size_t k = 0; k < i; k++) {
            if (p->items.data[k].is_dead || unit_of(p, k) == u || !follows(p, &p->items.data[k], &p->items.data[i])) continue;
            edges[k * n + i] = 1;
            waits[u]++;
        }
    }
    while (done && left && *ok) {
        size_t best = SIZE_MAX;
        for (size_t u = 0; u < nunits; u++)
            if (first[u] != SIZE_MAX && !waits[u] && (best == SIZE_MAX || first[u] < first[best])) best = u;
        *ok = best != SIZE_MAX;
        if (!*ok) break;
        done = an_vec_push(p->ctx, out, best);
        first[best] = SIZE_MAX;
        left--;
        for (size_t k = 0; k < n; k++)
            for (size_t i = 0; unit_of(p, k) == best && i < n; i++) waits[unit_of(p, i)] -= edges[k * n + i];
    }
    an_mem_free(p->ctx, waits, nunits * sizeof *waits);
    an_mem_free(p->ctx, first, nunits * sizeof *first);
    an_mem_free(p->ctx, edges, n * n);
    return done;
}

/* --- kernels --------------------------------------------------------------------------------------------------------- */

static const char *text_of(group *p, const char *reason)
{
    an_str text;
    int64_t nbands = (p->n + p->size - 1) / p->size;
    for (uint32_t i = 0; i < p->nbatch; i++) nbands *= p->batch_n[i] / p->batch_size[i];
    an_str_init(&text, p->ctx);
    an_str_printf(&text, "%s; in %lld bands of ", reason, (long long)nbands);
    for (uint32_t i = 0; i < p->nbatch; i++) an_str_printf(&text, "%lld/%lld x ", (long long)p->batch_size[i], (long long)p->batch_n[i]);
    an_str_printf(&text, "%lld/%lld rows", (long long)p->size, (long long)p->n);
    char *copy = an_graph_alloc(p->g, text.len + 1);
    if (copy) memcpy(copy, an_str_cstr(&text), text.len);
    an_str_fini(&text);
    return copy ? copy : reason;
}

/* Where the sums of an item go: none, where the store alone is the sum and goes to memory of the scheduler's, else a buffer. */
static bool place_sums(group *p, const item *it, an_uop_vec *out, bool *has_end)
{
    an_graph *g = p->g;
    for (size_t i = 0; i < kern_of(p, it)->stores.len; i++) {
        const an_kern *k = kern_of(p, it);
        const an_uop store = k->stores.data[i], sum = an_store_sum(p->s, store, it->range), ptr = an_uop_src(g, store, 0);
        const an_dtype t = an_uop_dtype(g, sum), wide = t == AN_F16 || t == AN_BF16 ? AN_F32 : t;
        an_uop into = AN_UOP_NONE;
        if (!an_uop_eq(sum, an_uop_src(g, store, 2)) || an_uop_op(g, ptr) != AN_OP_BUFFER || wide != t) {
            an_uop_vec loops = {0};
            an_uop numel = an_index(g, 1);
            bool ok = an_loops_below(p->s, k, sum, &loops);
            for (size_t l = 0; l < loops.len; l++) numel = an_idx_mul(g, numel, an_uop_src(g, loops.data[l], 0));
            an_vec_fini(p->ctx, &loops);
            into = ok ? an_buffer_node(g, wide, &numel, 1) : AN_UOP_NONE;
            if (an_uop_is_none(into)) return false;
            *has_end = true;
        }
        if (!an_vec_push(p->ctx, out, into)) return false;
    }
    return true;
}

static bool put(group *p, entry_vec *out, entry e)
{
    return an_vec_push(p->ctx, out, e);
}

/* Bands of full size of each batch, and batches. */
static round round_of(const group *p)
{
    round r = {(uint32_t)(p->n / p->size), 1};
    for (uint32_t i = 0; i < p->nbatch; i++) r.nbatches *= (uint32_t)(p->batch_n[i] / p->batch_size[i]);
    return r;
}

/* The cuts of an item: where band AN_BAND begins, batches innermost; is_rest: among the bands of what is left after the full ones. */
static void set_cuts(group *p, const item *it, bool is_rest, an_band *band)
{
    an_graph *g = p->g;
    const round r = round_of(p);
    const uint32_t nbands = (is_rest ? 1 : r.whole) * r.nbatches;
    const an_uop number = nbands > 1 ? an_uop_var(g, AN_BAND, 0, nbands - 1) : an_index(g, 0);
    an_uop batch = an_binary(g, AN_OP_FLOORMOD, number, an_index(g, r.nbatches)), row = an_binary(g, AN_OP_FLOORDIV, number, an_index(g, r.nbatches));
    band->ncuts = p->nbatch + 1;
    for (uint32_t i = p->nbatch; i-- > 0;) {
        const an_uop n = an_index(g, p->batch_n[i] / p->batch_size[i]);
        const an_uop base = an_simplify(g, an_idx_mul(g, an_binary(g, AN_OP_FLOORMOD, batch, n), an_index(g, p->batch_size[i])));
        band->cuts[i] = (an_cut){it->batch[i], p->batch_n[i], p->batch_size[i], base};
        batch = an_binary(g, AN_OP_FLOORDIV, batch, n);
    }
    const int64_t whole = (int64_t)r.whole * p->size;
    const an_uop base = is_rest ? an_index(g, whole) : an_simplify(g, an_idx_mul(g, row, an_index(g, p->size)));
    band->cuts[p->nbatch] = (an_cut){it->range, p->n, is_rest ? p->n - whole : p->size, base};
}

/* The kernels of an item: for the bands of full size (of a sum, for the first, and for those after it), for what is left, and for the end
 * of a sum. */
static an_status put_kernels(group *p, const item *it, uint32_t number, entry_vec *out)
{
    an_uop_vec sums = {0};
    bool has_end = false;
    const round r = round_of(p);
    const level *l = &p->levels.data[it->level - 1];
    const char *reason = text_of(p, kern_of(p, it)->reason);
    an_band band = {.is_first = true, .only_held = it->is_again, .held = l->rows.data, .nheld = l->rows.len, .reason = reason};
    entry e = {.round = number, .when = it->sums ? FIRST : ALWAYS, .is_once = true};
    an_status st = AN_ERR_NOMEM;
    for (uint32_t i = 0; i < p->nbatch; i++) e.is_once = e.is_once && an_uop_is_none(it->batch[i]);
    if (it->sums && !place_sums(p, it, &sums, &has_end)) goto done;
    if (it->sums) band.sums = sums.data;
    set_cuts(p, it, false, &band);
    st = an_band_kernel(p->s, it->kernel, &band, &e.kernel);
    if (!st && !put(p, out, e)) st = AN_ERR_NOMEM;
    band.is_first = false;
    if (!st && it->sums && r.whole > 1) {
        e.when = LATER;
        st = an_band_kernel(p->s, it->kernel, &band, &e.kernel);
        if (!st && !put(p, out, e)) st = AN_ERR_NOMEM;
    }
    if (!st && p->n % p->size) {
        e.when = REST;
        set_cuts(p, it, true, &band);
        st = an_band_kernel(p->s, it->kernel, &band, &e.kernel);
        if (!st && !put(p, out, e)) st = AN_ERR_NOMEM;
    }
    if (!st && has_end) {
        e.when = END;
        st = an_band_end(p->s, it->kernel, it->range, sums.data, reason, &e.kernel);
        if (!st && !put(p, out, e)) st = AN_ERR_NOMEM;
    }
done:
    an_vec_fini(p->ctx, &sums);
    return st;
}

/* The new order: unit after unit. Levels become rounds. */
static an_status put_units(group *p, const unit_vec *units, entry_vec *out)
{
    const uint32_t before = (uint32_t)p->rounds.len;
    an_status st = AN_OK;
    for (size_t u = 0; u < units->len && !st; u++)
        for (size_t i = 0; i < p->items.len && !st; i++) {
            const item *it = &p->items.data[i];
            if (it->is_dead || unit_of(p, i) != units->data[u]) continue;
            if (it->level)
                st = put_kernels(p, it, before + it->level, out);
            else if (!put(p, out, it->was))
                st = AN_ERR_NOMEM;
        }
    return st;
}

/* Rounds become their launches: band after band, each through all of its kernels. */
static an_status lay_out(group *p, const entry_vec *order, an_entry_vec *out)
{
    for (size_t i = 0; i < order->len;) {
        const uint32_t number = order->data[i].round;
        const round r = number ? p->rounds.data[number - 1] : (round){1, 1};
        size_t end = i + 1;
        while (number && end < order->len && order->data[end].round == number) end++;
        for (uint32_t b = 0; b < r.whole + 2; b++)
            for (uint32_t batch = 0; batch < r.nbatches; batch++)
                for (size_t k = i; k < end; k++) {
                    const entry *e = &order->data[k];
                    const when w = e->when;
                    const bool now = w == REST ? b == r.whole : w == END ? b == r.whole + 1 && batch == 0 :
                                     b < r.whole && (w == ALWAYS || (w == FIRST) == (b == 0));
                    const an_entry launch = {e->kernel, b < r.whole ? b * r.nbatches + batch : w == REST ? batch : 0};
                    if (now && (batch == 0 || !e->is_once) && !an_vec_push(p->ctx, out, launch)) return AN_ERR_NOMEM;
                }
        i = end;
    }
    return AN_OK;
}

/* --- the pass -------------------------------------------------------------------------------------------------------- */

/* Notes the kernels of the group. */
static void note_banded(group *p)
{
    p->found = true;
    for (size_t i = 0; i < p->items.len && !p->is_out; i++)
        if (p->items.data[i].level) p->is_out = !an_idmap_set(&p->s->banded, p->ctx, p->items.data[i].kernel, 1);
}

/* The group of a seed by one loop of its writer. *out is the new order, empty where there is no such group. */
static an_status try_range(group *p, const held *seed, an_uop range, entry_vec *out)
{
    unit_vec units = {0};
    an_status st = AN_OK;
    bool ok = true;
    const int64_t least = is_batch(p, seed->writer, range) ? 1 : ROWS_MIN;
    out->len = 0;
    an_idmap_fini(&p->excluded, p->ctx);
    if (!grow(p, seed)) goto done;
    find_batches(p, seed, range);
    if (!find_sizes(p, least)) goto done;
    if (!find_levels(p) || !list_items(p, &ok)) p->is_out = true;
    if (p->is_out || !ok) goto done;
    drop_unread(p);
    if (!order_units(p, &units, &ok)) p->is_out = true;
    if (!p->is_out && ok && p->is_trial) note_banded(p);
    if (p->is_out || !ok || p->is_trial) goto done;
    st = put_units(p, &units, out);
    for (uint32_t l = 0; l < p->nlevels && !st; l++)
        if (!an_vec_push(p->ctx, &p->rounds, round_of(p))) st = AN_ERR_NOMEM;
done:
    if (p->is_out) st = AN_ERR_NOMEM;
    if (st) out->len = 0;
    an_vec_fini(p->ctx, &units);
    return st;
}

/* Large, and made of little: bytes of what its writer reads, but for what is made of indices. */
static bool is_seed(group *p, an_uop base, size_t at)
{
    const an_kern *k = kern_at(p, at);
    double from = 0;
    if (!is_temp(p->s, base) || writer_of(p, base) != at) return false;
    p->seed_nbytes = nbytes_of(p, base);
    if ((double)p->seed_nbytes < LARGE_BANDS * p->s->cost->band_nbytes) return false;
    for (size_t i = 0; i < k->reads.len; i++) {
        const an_uop read = an_ptr_base(p->g, k->reads.data[i]);
        if (!is_leaf(p, read)) from += (double)nbytes_of(p, read);
    }
    return k->reads.len > 0 && (double)p->seed_nbytes >= RATIO * from;
}

/* Tries the loops of the seed's writer, outer ones first: by one whose bands fit, else by the one whose bands are least. */
static an_status try_seed(group *p, an_uop base, size_t at, entry_vec *out)
{
    const an_uop_vec *loops = &kern_at(p, at)->loops;
    an_uop_vec left = {0};
    an_status st = AN_OK;
    for (size_t i = 0; i < loops->len; i++)
        if (!an_vec_push(p->ctx, &left, loops->data[i])) st = AN_ERR_NOMEM;
    p->found = false;
    while (left.len && !out->len && !p->found && !st) {
        size_t best = 0;
        double least = 0;
        for (size_t i = 0; i < left.len; i++) {
            int64_t n = 0;
            if (!an_uop_int(p->g, an_uop_src(p->g, left.data[i], 0), &n)) continue;
            double nbytes = (double)p->seed_nbytes / (double)n * (is_batch(p, at, left.data[i]) ? 1 : ROWS_MIN);
            if (nbytes < p->s->cost->band_nbytes) nbytes = p->s->cost->band_nbytes; /* all that fit are equal */
            if (least > 0 && nbytes >= least) continue;
            best = i;
            least = nbytes;
        }
        const an_uop range = left.data[best];
        for (size_t i = best + 1; i < left.len; i++) left.data[i - 1] = left.data[i];
        left.len--;
        held seed = {base, 0, {0}, (uint32_t)at};
        if (least == 0 || !an_uop_int(p->g, an_uop_src(p->g, range, 0), &p->n)) break;
        an_uop own = range;
        if (goes_by_rows(p, at, base, p->n, &own, &seed.step)) st = try_range(p, &seed, range, out);
    }
    an_vec_fini(p->ctx, &left);
    return st;
}

/* Over the launches in `order`: groups become rounds in *out, or, where out is NULL, are noted. */
static an_status find_groups(an_sched *s, const uint32_t *order, size_t n, an_entry_vec *out)
{
    entry_vec now = {0}, next = {0};
    an_uop_vec tried = {0};
    group p = {.s = s, .g = s->g, .ctx = s->ctx, .order = &now, .is_trial = !out};
    an_status st = AN_OK;
    for (size_t i = 0; i < n && !st; i++)
        if (!put(&p, &now, (entry){.kernel = order[i]})) st = AN_ERR_NOMEM;
    for (size_t at = 0; at < now.len && !st && s->cost->band_nbytes > 0 && !s->cost->no_fuse; at++) {
        for (size_t w = 0; w < kern_at(&p, at)->writes.len && !now.data[at].round && !st; w++) {
            const an_uop base = an_ptr_base(s->g, kern_at(&p, at)->writes.data[w]);
            if (an_vec_has(&tried, base) || !is_seed(&p, base, at)) continue;
            if (!an_vec_push(s->ctx, &tried, base)) st = AN_ERR_NOMEM;
            if (!st) st = try_seed(&p, base, at, &next);
            if (st || !next.len) continue;
            an_trace_note(s->trace, "%zu launches by rows of %lld, in %u rounds", p.members.len, (long long)p.n, p.nlevels);
            const entry_vec old = now;
            now = next;
            next = old;
            next.len = 0;
            at = SIZE_MAX; /* from the start: launches have moved */
            break;
        }
    }
    if (!st && out) st = lay_out(&p, &now, out);
    group_fini(&p);
    an_vec_fini(s->ctx, &now);
    an_vec_fini(s->ctx, &next);
    an_vec_fini(s->ctx, &tried);
    return st;
}

an_status an_sched_bands(an_sched *s, const uint32_t *order, size_t n, an_entry_vec *out)
{
    return find_groups(s, order, n, out);
}

an_status an_sched_bands_note(an_sched *s)
{
    uint32_t *order = NULL;
    size_t n = 0;
    const size_t count = s->kernels.len;
    if (s->bands_noted) return AN_OK;
    s->bands_noted = true;
    an_status st = an_sched_order_try(s, &order, &n);
    if (!st) st = find_groups(s, order, n, NULL);
    an_mem_free(s->ctx, order, count * sizeof *order);
    return st;
}
