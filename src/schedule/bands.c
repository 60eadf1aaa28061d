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

typedef struct member {
    uint32_t kernel, at; /* at: in the launch order */
    an_uop range;
    uint32_t level;
    bool sums; /* the range is a reduction's */
} member;

typedef struct held {
    an_uop buffer;
    int64_t step;
    uint32_t writer; /* at */
} held;

/* When a kernel runs in a round over bands. */
typedef enum when { ALWAYS, FIRST, LATER, REST, END } when; /* REST: the last band, of fewer rows; END: after all of them */

/* The launch order while groups are found: a round, entries of one number side by side, stands for all of its bands. */
typedef struct entry {
    uint32_t kernel, round; /* round 0: none */
    when when;
} entry;
typedef AN_VEC(entry) entry_vec;

/* A launch of the new order: of a kernel as it was, or over the bands of a level. */
typedef struct item {
    entry was;
    uint32_t kernel, level; /* level 0: as it was; else 1 + the level */
    bool is_again;          /* made again: only what is held is stored */
    bool is_dead;
    an_uop range;
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
    AN_VEC(uint32_t) rounds; /* whole bands of each, those of groups before */
    int64_t n; /* rows */
    size_t seed_nbytes, most_nbytes; /* the largest that is held */
    an_idmap excluded;
    AN_VEC(member) members;
    an_idmap member_at; /* at -> 1 + index */
    AN_VEC(held) held;
    AN_VEC(item) items;
    uint32_t nlevels;
    AN_VEC(level) levels;
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

static size_t nbytes_of(group *p, an_uop base)
{
    size_t n = 0;
    if (!an_shape_static(p->g, an_uop_shape(p->g, base), NULL)) return 0;
    return an_buffer_nbytes(p->g, base, &n) ? n : 0;
}

/* Made of indices alone. */
static bool is_leaf(const group *p, an_uop base)
{
    const size_t w = is_temp(p->s, base) ? writer_of(p, base) : SIZE_MAX;
    return w != SIZE_MAX && kern_at(p, w)->reads.len == 0;
}

/* Do all accesses of a kernel to base go by rows? *range, where it is none, is found: one over n rows; *step, where it is 0, too. */
static bool goes_by_rows(group *p, size_t at, an_uop base, an_uop *range, int64_t *step)
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
            if (an_uop_is_int(g, an_uop_src(g, ranges.data[r], 0), p->n) && an_index_has_rows(p->s, index, ranges.data[r], p->n, *step))
                *range = ranges.data[r];
        ok = ok && !an_uop_is_none(*range) && an_uop_is_int(g, an_uop_src(g, *range, 0), p->n);
        if (ok && *step == 0) ok = an_index_step(p->s->g, index, *range, step);
        ok = ok && an_index_has_rows(p->s, index, *range, p->n, *step);
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
            if (w == SIZE_MAX || !goes_by_rows(p, at, base, &range, &step)) continue;
            const held h = {base, step, (uint32_t)w};
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
        if (!goes_by_rows(p, at, h.buffer, &range, &step)) return false;
        if (known) continue;
        const member m = {p->order->data[at].kernel, (uint32_t)at, range, 0, an_range_kind_of(an_uop_arg(p->g, range)) == AN_RANGE_REDUCE};
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

/* --- levels ---------------------------------------------------------------------------------------------------------- */

static member *member_of(group *p, size_t at)
{
    const uint32_t i = an_idmap_get(&p->member_at, (uint32_t)at);
    return i ? &p->members.data[i - 1] : NULL;
}

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
            if (!ma || !mb || (ma->sums && l == 0) || !goes_by_rows(p, a, base, &ra, &step) || !goes_by_rows(p, b, base, &rb, &step)) return WHOLE;
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

/* A buffer for one band of base, at this level. */
static bool add_rows(group *p, level *l, an_uop base, int64_t step, int64_t size)
{
    int64_t n = 0;
    if (rows_at(l, base)) return true;
    if (!an_uop_int(p->g, an_shape_numel(p->g, an_uop_shape(p->g, base)), &n)) return false;
    const an_uop numel = an_index(p->g, n / p->n * size);
    const an_rows r = {base, an_buffer_node(p->g, an_uop_dtype(p->g, base), &numel, 1), step};
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
static bool need(group *p, uint32_t lev, size_t at, an_uop range, int64_t size, unsigned char *again, bool *ok)
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
            if (!goes_by_rows(p, at, base, &mine, &step)) continue;
            w = writer_of(p, base);
            if (!goes_by_rows(p, w, base, &own, &step) || !an_vec_has(&kern_at(p, w)->loops, own)) continue;
        }
        if (!add_rows(p, l, base, step, size)) return false;
        const member *m = member_of(p, w);
        if (m && m->level == lev) continue;
        *ok = (!m || (m->level < lev && !m->sums)) && may_be_again(p, w);
        again[w] = 1;
    }
    return true;
}

/* The launches of a level that are made again for it, in again[]. */
static bool find_again(group *p, uint32_t lev, int64_t size, unsigned char *again, bool *ok)
{
    memset(again, 0, p->order->len);
    for (size_t at = p->order->len; at-- > 0 && *ok;) {
        const member *m = member_of(p, at);
        const bool own = m && m->level == lev;
        if (!own && !again[at]) continue;
        for (size_t i = 0; own && i < kern_at(p, at)->writes.len; i++) {
            const held *h = held_of(p, an_ptr_base(p->g, kern_at(p, at)->writes.data[i]));
            if (h && !add_rows(p, &p->levels.data[lev], h->buffer, h->step, size)) return false;
        }
        if (!need(p, lev, at, m ? m->range : AN_UOP_NONE, size, again, ok)) return false;
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
    }
    for (size_t i = 0; lev && !m && i < 1; i++) { /* a leaf: by the rows of what it writes */
        const an_rows *r = rows_at(&p->levels.data[lev - 1], an_ptr_base(p->g, kern_at(p, at)->writes.data[0]));
        int64_t step = r ? r->step : 0;
        if (!r || !goes_by_rows(p, at, r->whole, &it.range, &step)) return false;
    }
    return an_vec_push(p->ctx, &p->items, it);
}

/* Items in an order that means the same as before: what a level makes again comes before its first member. */
static bool list_items(group *p, int64_t size, bool *ok)
{
    const size_t n = p->order->len;
    bool done = true;
    unsigned char *again = an_mem_alloc(p->ctx, n * p->nlevels);
    unsigned char *begun = an_mem_zalloc(p->ctx, p->nlevels);
    done = again && begun;
    for (uint32_t l = 0; done && l < p->nlevels; l++) {
        const level none = {{0}};
        done = an_vec_push(p->ctx, &p->levels, none) && find_again(p, l, size, again + l * n, ok);
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

static const char *text_of(group *p, const char *reason, int64_t nbands, int64_t size)
{
    an_str text;
    an_str_init(&text, p->ctx);
    an_str_printf(&text, "%s; in %lld bands of %lld of %lld rows", reason, (long long)nbands, (long long)size, (long long)p->n);
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

static bool put(group *p, entry_vec *out, uint32_t kernel, uint32_t round, when w)
{
    const entry e = {kernel, round, w};
    return an_vec_push(p->ctx, out, e);
}

/* The kernels of an item: for the bands of size rows (of a sum, for the first, and for those after it), for what is left, and for the end
 * of a sum. */
static an_status put_kernels(group *p, const item *it, int64_t size, uint32_t round, entry_vec *out)
{
    an_graph *g = p->g;
    an_uop_vec sums = {0};
    bool has_end = false;
    uint32_t made = 0;
    const int64_t whole = p->n / size, rest = p->n % size;
    const level *l = &p->levels.data[it->level - 1];
    const char *reason = text_of(p, kern_of(p, it)->reason, whole + (rest > 0), size);
    const an_uop number = whole > 1 ? an_uop_var(g, AN_BAND, 0, whole - 1) : an_index(g, 0);
    an_band band = {.range = it->range, .n = p->n, .size = size, .base = an_idx_mul(g, number, an_index(g, size)), .is_first = true, .only_held = it->is_again,
                    .held = l->rows.data, .nheld = l->rows.len, .reason = reason};
    an_status st = AN_ERR_NOMEM;
    if (it->sums && !place_sums(p, it, &sums, &has_end)) goto done;
    if (it->sums) band.sums = sums.data;
    st = an_band_kernel(p->s, it->kernel, &band, &made);
    if (!st && !put(p, out, made, round, it->sums ? FIRST : ALWAYS)) st = AN_ERR_NOMEM;
    band.is_first = false;
    if (!st && it->sums && whole > 1) {
        st = an_band_kernel(p->s, it->kernel, &band, &made);
        if (!st && !put(p, out, made, round, LATER)) st = AN_ERR_NOMEM;
    }
    band.size = rest;
    band.base = an_index(g, whole * size);
    if (!st && rest) {
        st = an_band_kernel(p->s, it->kernel, &band, &made);
        if (!st && !put(p, out, made, round, REST)) st = AN_ERR_NOMEM;
    }
    if (!st && has_end) {
        st = an_band_end(p->s, it->kernel, it->range, sums.data, reason, &made);
        if (!st && !put(p, out, made, round, END)) st = AN_ERR_NOMEM;
    }
done:
    an_vec_fini(p->ctx, &sums);
    return st;
}

/* The new order: unit after unit. Levels become rounds. */
static an_status put_units(group *p, const unit_vec *units, int64_t size, entry_vec *out)
{
    const uint32_t before = (uint32_t)p->rounds.len;
    an_status st = AN_OK;
    for (size_t u = 0; u < units->len && !st; u++)
        for (size_t i = 0; i < p->items.len && !st; i++) {
            const item *it = &p->items.data[i];
            if (it->is_dead || unit_of(p, i) != units->data[u]) continue;
            if (it->level)
                st = put_kernels(p, it, size, before + it->level, out);
            else if (!put(p, out, it->was.kernel, it->was.round, it->was.when))
                st = AN_ERR_NOMEM;
        }
    return st;
}

/* Rounds become their launches: band after band, each through all of its kernels. */
static an_status lay_out(group *p, const entry_vec *order, an_entry_vec *out)
{
    for (size_t i = 0; i < order->len;) {
        const uint32_t round = order->data[i].round;
        size_t end = i + 1;
        while (round && end < order->len && order->data[end].round == round) end++;
        const uint32_t whole = round ? p->rounds.data[round - 1] : 1;
        for (uint32_t b = 0; b < whole + 2; b++)
            for (size_t k = i; k < end; k++) {
                const when w = order->data[k].when;
                const bool now = w == REST ? b == whole : w == END ? b == whole + 1 : b < whole && (w == ALWAYS || (w == FIRST) == (b == 0));
                const an_entry e = {order->data[k].kernel, b < whole ? b : 0};
                if (now && !an_vec_push(p->ctx, out, e)) return AN_ERR_NOMEM;
            }
        i = end;
    }
    return AN_OK;
}

/* --- the pass -------------------------------------------------------------------------------------------------------- */

/* Rows of a band: near to what the device likes, and if it can be, a divisor of all. 0: there is no gain. */
static int64_t band_size(const group *p, int64_t least)
{
    const double row = (double)p->most_nbytes / (double)p->n;
    int64_t size = (int64_t)(p->s->cost->band_nbytes / row);
    if (size < least) size = least;
    if (size >= ROWS_MIN) size -= size % ROWS_MIN;
    if (size * 2 > p->n) return 0;
    for (int64_t d = size; d * 2 > size; d--)
        if (p->n % d == 0) return d;
    return size;
}

/* Does every load of the writer go by range? Then rows share no operand. */
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
    const int64_t size = band_size(p, least);
    if (size == 0) goto done;
    if (!find_levels(p) || !list_items(p, size, &ok)) p->is_out = true;
    if (p->is_out || !ok) goto done;
    drop_unread(p);
    if (!order_units(p, &units, &ok)) p->is_out = true;
    if (p->is_out || !ok) goto done;
    st = put_units(p, &units, size, out);
    for (uint32_t l = 0; l < p->nlevels && !st; l++)
        if (!an_vec_push(p->ctx, &p->rounds, (uint32_t)(p->n / size))) st = AN_ERR_NOMEM;
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
    while (left.len && !out->len && !st) {
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
        memmove(left.data + best, left.data + best + 1, (left.len - best - 1) * sizeof range);
        left.len--;
        held seed = {base, 0, (uint32_t)at};
        if (least == 0 || !an_uop_int(p->g, an_uop_src(p->g, range, 0), &p->n)) break;
        an_uop own = range;
        if (goes_by_rows(p, at, base, &own, &seed.step)) st = try_range(p, &seed, range, out);
    }
    an_vec_fini(p->ctx, &left);
    return st;
}

an_status an_sched_bands(an_sched *s, const uint32_t *order, size_t n, an_entry_vec *out)
{
    entry_vec now = {0}, next = {0};
    an_uop_vec tried = {0};
    group p = {.s = s, .g = s->g, .ctx = s->ctx, .order = &now};
    an_status st = AN_OK;
    for (size_t i = 0; i < n && !st; i++)
        if (!put(&p, &now, order[i], 0, ALWAYS)) st = AN_ERR_NOMEM;
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
    if (!st) st = lay_out(&p, &now, out);
    group_fini(&p);
    an_vec_fini(s->ctx, &now);
    an_vec_fini(s->ctx, &next);
    an_vec_fini(s->ctx, &tried);
    return st;
}
