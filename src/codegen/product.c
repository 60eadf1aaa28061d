/* product.c - opts for products: a reduction over loads that vary with output range i only and with j only,
 *
 *   out[i, j] = sum over k of A[i, k] * B[k, j]      whatever the layouts, with batches, windows and epilogues
 *
 * where the stores walk j with stride 1. It becomes, for tiles of mr rows and nv vectors of columns,
 *
 *   for loops that B varies with, j in tiles of nr = nv * lanes     outermost: split among threads
 *     copy what B has for this tile to scratch, in the order of k    PACK, where it is read often enough
 *     for i in tiles of mr: mr x nv accumulators, one loop over k
 *
 * Sizes that are no multiple end in a tile that begins early (PADTO). Which tile: by the cycles of a step of k, and by what
 * is computed twice at the edges. Where that is refused, as in a kernel that writes over what it reads, tiles divide the sizes. */
#include "codegen/tune.h"

enum {
    WORK_MIN = 1 << 15,   /* multiply-adds that are worth the trouble */
    PARTS_A_THREAD = 2,   /* iterations of the outermost loop, for threads */
    CHUNK_MIN = 48,       /* rows of such a part */
    REUSE_MIN = 4,        /* tiles of rows by which a copy of columns pays, when they can be read as they lie */
    WIDE = 64,            /* columns that are copied together: whole rows of some cache lines */
    LINE_NBYTES = 64,
    PLACES_MIN = 8,       /* of the nearest cache for a line: its associativity, or less */
    ASKS_MAX = 8,         /* cache lines to ask for at a time */
    STEP_MAX = 32,        /* elements summed between two such times */
    STEPS_MIN = 160,      /* of a reduction, by which rows in long steps are copied, too; of a pass */
    STRIDED_MIN = 120,    /* of a pass, where rows are walked in long steps: what else is done with those is worse */
    CHUNK_TILES_MIN = 8,  /* of rows: columns are copied anew for each chunk */
    FILL_COPIES = 8
};

/* Of chunks of rows in passes: how long the threads wait for the busiest, and how many rows are computed twice. 1: nothing is wasted. */
static const double WAIT_MAX = 1.13, TWICE_MAX = 1.03;

typedef struct product {
    an_uop reduce;
    size_t i, j;
    bool direct;         /* every load that varies with j walks it with stride 1 */
    int64_t n;           /* such reductions, which run in one loop: their tiles share the registers */
    int64_t terms;       /* loads that vary with j: of a sum of products each has vectors in registers */
    bool exact;          /* tiles have to divide the ranges */
    bool strided;        /* some load that varies with i walks nothing summed over with stride 1 */
    int64_t held;        /* rows side by side whose lines the nearest cache holds, if they are some power of two apart */
    an_rangeset columns; /* what those loads vary with */
    int64_t lanes;       /* of a vector of the widest element */
    double k, rows;      /* elements summed; iterations of loops that the columns do not vary with */
    size_t nbytes;       /* of the widest element that varies with j */
} product;

/* Do all stores that vary with range r walk it with stride 1? */
static bool stores_walk(const an_tuner *t, size_t r, const int64_t *coef)
{
    bool any = false;
    for (size_t i = 0; i < t->d.order.len; i++) {
        const an_uop u = t->d.order.data[i];
        if (an_uop_op(t->g, u) != AN_OP_STORE || !an_rangeset_has(&t->d.deps[i], r)) continue;
        if (coef[an_dag_pos(&t->d, an_uop_src(t->g, u, 1))] != 1) return false;
        any = true;
    }
    return any;
}

/* How indices are walked, by position. */
typedef struct walks {
    size_t n;
    int64_t *column; /* how much each grows with j */
    int64_t *row;    /* and with i */
    int64_t *scratch;
    bool *steps;     /* does it grow by one with a range that the reduction binds? */
} walks;

static void walks_fini(const an_tuner *t, walks *w)
{
    an_mem_free(t->ctx, w->column, w->n * sizeof *w->column);
    an_mem_free(t->ctx, w->row, w->n * sizeof *w->row);
    an_mem_free(t->ctx, w->scratch, w->n * sizeof *w->scratch);
    an_mem_free(t->ctx, w->steps, w->n * sizeof *w->steps);
}

static bool is_bound_by(const an_tuner *t, size_t r, an_uop reduce)
{
    for (uint32_t s = 1; s < an_uop_nsrc(t->g, reduce); s++)
        if (an_uop_eq(an_uop_src(t->g, reduce, s), t->d.ranges.data[r])) return true;
    return false;
}

static an_status walks_init(const an_tuner *t, an_uop reduce, walks *w)
{
    *w = (walks){.n = t->d.order.len};
    w->column = an_mem_alloc(t->ctx, w->n * sizeof *w->column);
    w->row = an_mem_alloc(t->ctx, w->n * sizeof *w->row);
    w->scratch = an_mem_alloc(t->ctx, w->n * sizeof *w->scratch);
    w->steps = an_mem_zalloc(t->ctx, w->n * sizeof *w->steps);
    if (!w->column || !w->row || !w->scratch || !w->steps) return AN_ERR_NOMEM;
    for (size_t r = 0; r < t->d.ranges.len; r++) {
        if (!is_bound_by(t, r, reduce)) continue;
        an_dag_coefs(&t->d, r, w->scratch);
        for (size_t i = 0; i < w->n; i++) w->steps[i] = w->steps[i] || w->scratch[i] == 1;
    }
    return AN_OK;
}

/* How many lines does a cache of so many bytes hold at once that are as many elements apart as a load grows with a range? */
static int64_t rows_held(int64_t coef, int64_t nbytes, int64_t cache_nbytes)
{
    int64_t period = 1; /* addresses as far apart share their places */
    while (period * 2 * PLACES_MIN <= cache_nbytes) period *= 2;
    if (coef == AN_COEF_NONE) return INT64_MAX;
    int64_t a = coef % period * nbytes, shared = period;
    if (a < 0) a = -a;
    while (a) {
        const int64_t rest = shared % a;
        shared = a;
        a = rest;
    }
    return shared < LINE_NBYTES ? INT64_MAX : cache_nbytes / shared;
}

/* Fills in the operands for output ranges i and j; false if they are not those of a product. */
static bool operands(const an_tuner *t, product *p, const walks *w)
{
    const size_t value = an_dag_pos(&t->d, an_uop_src(t->g, p->reduce, 0));
    bool rows = false;
    size_t widest = an_dtype_nbytes(an_uop_dtype(t->g, p->reduce));
    p->direct = true;
    p->terms = 0;
    p->strided = false;
    p->held = INT64_MAX;
    p->columns = (an_rangeset){0};
    p->nbytes = 0; /* what is copied may be converted first */
    for (size_t n = 0; n <= value; n++) {
        const an_uop u = t->d.order.data[n];
        const bool with_i = an_rangeset_has(&t->d.deps[n], p->i), with_j = an_rangeset_has(&t->d.deps[n], p->j);
        if (!an_tune_is_load_inside(t, n, p->reduce)) continue;
        if (with_i && with_j) return false;
        const size_t at = an_dag_pos(&t->d, an_uop_src(t->g, u, 1)), nbytes = an_dtype_nbytes(an_uop_dtype(t->g, an_uop_src(t->g, u, 0)));
        if (with_i) {
            rows = true;
            p->strided = p->strided || !w->steps[at];
            const int64_t held = rows_held(w->row[at], (int64_t)nbytes, (int64_t)t->l1_nbytes);
            if (held < p->held) p->held = held;
        }
        if (!with_j) continue;
        p->terms++;
        if (nbytes > widest) widest = nbytes;
        if (nbytes > p->nbytes) p->nbytes = nbytes;
        an_rangeset_join(&p->columns, &t->d.deps[n]);
        p->direct = p->direct && w->column[at] == 1;
    }
    p->lanes = (int64_t)(t->vector_nbytes / widest);
    const bool columns = p->nbytes > 0;
    p->nbytes = widest;
    return rows && columns && p->lanes >= AN_TUNE_LANES_MIN;
}

/* How many reductions of the kernel are over as many elements and vary with both output ranges? */
static int64_t together(const an_tuner *t, const product *p)
{
    int64_t n = 0;
    for (size_t k = 0; k < t->d.order.len; k++) {
        const an_uop u = t->d.order.data[k];
        if (an_uop_op(t->g, u) != AN_OP_REDUCE || an_uop_nsrc(t->g, u) != an_uop_nsrc(t->g, p->reduce)) continue;
        bool same = an_rangeset_has(&t->d.deps[k], p->i) && an_rangeset_has(&t->d.deps[k], p->j);
        for (uint32_t s = 1; s < an_uop_nsrc(t->g, u); s++)
            same = same && an_uop_eq(an_uop_src(t->g, an_uop_src(t->g, u, s), 0), an_uop_src(t->g, an_uop_src(t->g, p->reduce, s), 0));
        n += same;
    }
    return n;
}

/* The pair of output ranges, j the innermost that can be, i the longest. */
static an_status find(an_tuner *t, product *best, bool *found)
{
    *found = false;
    best->reduce = an_tune_dominant(t);
    if (an_uop_is_none(best->reduce)) return AN_OK;
    const an_rangeset *deps = an_dag_deps(&t->d, an_uop_src(t->g, best->reduce, 0));
    walks w;
    an_status st = walks_init(t, best->reduce, &w);
    for (size_t j = t->d.ranges.len; j-- > 0 && !*found && !st;) {
        if (an_tune_kind(t, j) != AN_RANGE_LOOP || !an_rangeset_has(deps, j) || an_tune_bound(t, j) < AN_TUNE_LANES_MIN) continue;
        an_dag_coefs(&t->d, j, w.column);
        if (!stores_walk(t, j, w.column)) continue;
        for (size_t i = 0; i < t->d.ranges.len; i++) {
            product p = {.reduce = best->reduce, .i = i, .j = j};
            if (i == j || an_tune_kind(t, i) != AN_RANGE_LOOP || !an_rangeset_has(deps, i) || an_tune_bound(t, i) < 2) continue;
            an_dag_coefs(&t->d, i, w.row);
            if (!operands(t, &p, &w) || an_tune_bound(t, j) < p.lanes) continue;
            if (*found && an_tune_bound(t, i) <= an_tune_bound(t, best->i)) continue;
            *best = p;
            *found = true;
        }
    }
    walks_fini(t, &w);
    if (*found) best->n = together(t, best);
    double work = 1;
    best->k = 1;
    best->rows = 1;
    for (size_t r = 0; r < t->d.ranges.len && *found; r++) {
        const int64_t n = an_range_bound(t->g, t->d.ranges.data[r]);
        const bool inside = an_rangeset_has(deps, r);
        if (!inside) continue;
        if (n < 1) *found = false; /* symbolic */
        work *= (double)n;
        if (is_bound_by(t, r, best->reduce))
            best->k *= (double)n;
        else if (!an_rangeset_has(&best->columns, r))
            best->rows *= (double)n;
    }
    *found = *found && work >= WORK_MIN;
    return st;
}

/* --- the tile ---------------------------------------------------------------------------------- */

typedef struct tile {
    int64_t mr, nv;
} tile;

static double edge(int64_t n, int64_t block)
{
    return (double)((n + block - 1) / block * block) / (double)n;
}

/* Cycles for an element and a step of k: two multiply-adds and two loads a cycle, four cycles of latency. */
static double cost_of(const product *p, int64_t m, int64_t n, tile c)
{
    const double accs = (double)(c.mr * c.nv * p->n), loads = (double)((c.mr + c.nv) * p->n);
    double cycles = 4;
    if (accs / 2 > cycles) cycles = accs / 2;
    if (loads / 2 > cycles) cycles = loads / 2;
    return (cycles + 1) / accs * edge(m, c.mr) * edge(n, c.nv * p->lanes);
}

/* turned: rows are copied, and turned on the way, for which there have to be a power of two of them. */
static tile choose_tile(const an_tuner *t, const product *p, bool turned)
{
    const int64_t m = an_tune_bound(t, p->i), n = an_tune_bound(t, p->j);
    const int64_t registers = t->vector_nbytes >= 64 ? 32 : 16;
    tile best = {1, 1};
    double least = 1e30;
    for (int64_t mr = 1; mr <= 14 && mr <= m; mr++)
        for (int64_t nv = 1; nv <= 4 && nv * p->lanes <= n; nv++) {
            const tile c = {mr, nv};
            if (turned ? mr < 4 || (mr & (mr - 1)) : mr > p->held) continue;
            if (p->exact && (m % mr || n % (nv * p->lanes))) continue;
            if ((mr * nv + nv * p->terms) * p->n + 1 > registers || an_tune_nodes(t, p->i, (double)mr, p->j, (double)nv) > AN_TUNE_NODES_MAX) continue;
            const double cost = cost_of(p, m, n, c);
            if (cost >= least * 0.999) continue;
            least = cost;
            best = c;
        }
    return best;
}

/* --- applying it ------------------------------------------------------------------------------- */

/* The first loop that the columns do not vary with, but for these: what they are copied before. AN_RANGES_MAX: none. */
static size_t first_shared(const an_tuner *t, const product *p, uint32_t skip, uint32_t tile_i)
{
    const an_rangeset *deps = an_dag_deps(&t->d, an_uop_src(t->g, p->reduce, 0));
    for (size_t r = 0; r < t->d.ranges.len; r++)
        if (an_tune_kind(t, r) == AN_RANGE_LOOP && an_rangeset_has(deps, r) && !an_rangeset_has(&p->columns, r) &&
            an_tune_id(t, r) != skip && an_tune_id(t, r) != tile_i)
            return r;
    return AN_RANGES_MAX;
}

/* The product after opts: the same ranges by id. */
static an_status look_again(an_tuner *t, product *p, uint32_t i, uint32_t j)
{
    walks w;
    p->reduce = an_tune_dominant(t);
    p->i = an_tune_range_at(t, i);
    p->j = an_tune_range_at(t, j);
    const an_status st = walks_init(t, p->reduce, &w);
    if (!st) {
        an_dag_coefs(&t->d, p->j, w.column);
        an_dag_coefs(&t->d, p->i, w.row);
        (void)operands(t, p, &w);
    }
    walks_fini(t, &w);
    return st;
}

/* --- the copies -------------------------------------------------------------------------------- */

/* A store to scratch. */
typedef struct fill {
    an_uop store;
    uint32_t lanes_id, along_id; /* ranges that the scratch, and the operand, are walked along with stride 1; 0: none */
    uint32_t others[4], nothers; /* the rest, outer first */
} fill;

/* Do all loads of a copy walk range r, of these steps, with stride 1? */
static bool loads_walk(const an_tuner *t, const an_uop_vec *value, size_t r, const int64_t *coef)
{
    bool any = false;
    for (size_t i = 0; i < value->len; i++) {
        const an_uop u = value->data[i];
        if (an_uop_op(t->g, u) != AN_OP_LOAD || !an_rangeset_has(an_dag_deps(&t->d, u), r)) continue;
        if (coef[an_dag_pos(&t->d, an_uop_src(t->g, u, 1))] != 1) return false;
        any = true;
    }
    return any;
}

static an_status look_at_fill(const an_tuner *t, an_uop store, fill *f)
{
    const size_t nbytes = t->d.order.len * sizeof(int64_t);
    const an_uop local = an_uop_src(t->g, store, 0), value = an_uop_src(t->g, store, 2);
    const an_rangeset *deps = an_dag_deps(&t->d, store), *outer = an_dag_deps(&t->d, local);
    an_uop_vec below = {0};
    an_status st = an_toposort(t->g, &value, 1, &below);
    int64_t *coef = an_mem_alloc(t->ctx, nbytes);
    if (!st && !coef) st = AN_ERR_NOMEM;
    *f = (fill){.store = store};
    for (size_t r = 0; r < t->d.ranges.len && !st; r++) {
        if (!an_rangeset_has(deps, r) || an_rangeset_has(outer, r) || an_tune_kind(t, r) != AN_RANGE_LOOP) continue;
        an_dag_coefs(&t->d, r, coef);
        if (coef[an_dag_pos(&t->d, an_uop_src(t->g, store, 1))] == 1)
            f->lanes_id = an_tune_id(t, r);
        else if (f->nothers < 4)
            f->others[f->nothers++] = an_tune_id(t, r);
        if (loads_walk(t, &below, r, coef)) f->along_id = an_tune_id(t, r);
    }
    an_mem_free(t->ctx, coef, nbytes);
    an_vec_fini(t->ctx, &below);
    return st;
}

/* Lanes along the scratch. Where the operand lies along another range, as many copies along that one: a block to be turned. */
static an_status tune_fill(an_tuner *t, const fill *f)
{
    bool done = false;
    uint32_t inner = 0;
    if (!f->lanes_id || !f->along_id) return AN_OK;
    const int64_t n = an_tune_bound(t, an_tune_range_at(t, f->lanes_id));
    if (n < AN_TUNE_LANES_MIN || n > AN_LANES_MAX || (f->along_id != f->lanes_id && (n & (n - 1)))) return AN_OK;
    an_status st = an_tune_apply(t, AN_OPT_VECTOR, f->lanes_id, n, &done);
    if (st || !done) return st;
    if (f->along_id != f->lanes_id) {
        const int64_t m = an_tune_bound(t, an_tune_range_at(t, f->along_id)), rows = m < n ? m : n;
        if (rows < AN_TUNE_LANES_MIN) return AN_OK;
        for (uint32_t k = 0; k < f->nothers && !st; k++) /* lines are read to their end */
            if (f->others[k] > f->along_id) st = an_tune_apply(t, AN_OPT_ORDER, f->others[k], f->along_id, &done);
        if (st) return st;
        st = an_tune_block(t, f->along_id, rows, &inner, &done);
        return st || !done ? st : an_tune_apply(t, AN_OPT_UPCAST, inner, rows, &done);
    }
    int64_t copies = 1;
    for (uint32_t k = f->nothers; k-- > 0 && copies < FILL_COPIES && !st;) {
        const int64_t m = an_tune_bound(t, an_tune_range_at(t, f->others[k]));
        int64_t by = FILL_COPIES / copies;
        while (by > 1 && m % by) by--;
        if (by < 2) break;
        copies *= by;
        st = an_tune_apply(t, AN_OPT_UPCAST, f->others[k], by, &done);
    }
    return st;
}

static an_status tune_fills(an_tuner *t)
{
    an_status st = AN_OK;
    for (bool again = true; again && !st;) {
        again = false;
        for (uint32_t s = 0; s < an_uop_nsrc(t->g, *t->sink) && !again && !st; s++) {
            const an_uop store = an_uop_src(t->g, *t->sink, s);
            fill f;
            if (an_uop_op(t->g, an_uop_src(t->g, store, 0)) != AN_OP_LOCAL) continue;
            const size_t before = t->list->len;
            st = look_at_fill(t, store, &f);
            if (!st) st = tune_fill(t, &f);
            again = t->list->len > before;
        }
    }
    return st;
}

/* Loops of a product on their way, by id; 0 where there is none. */
typedef struct loops {
    uint32_t chunk, i, tile_i, j, panel, tile_j; /* rows: in chunks of tiles; columns: in groups of panels of a tile */
} loops;

/* Loops of the columns go outside of the first one that they do not vary with, but for tiles and panels; *first is its id,
 * *shared: there is one. */
static an_status order(an_tuner *t, product *p, const loops *at, uint32_t *first, bool *shared)
{
    an_status st = look_again(t, p, at->tile_i, at->tile_j);
    const size_t f = first_shared(t, p, at->chunk, at->tile_i);
    bool again = f != AN_RANGES_MAX;
    *shared = again;
    if (again) *first = an_tune_id(t, f);
    while (again && !st && *shared) {
        again = false;
        for (size_t r = an_tune_range_at(t, *first) + 1; r < t->d.ranges.len && !again && !st; r++) {
            const uint32_t id = an_tune_id(t, r);
            if (an_tune_kind(t, r) != AN_RANGE_LOOP || !an_rangeset_has(&p->columns, r) || id == at->tile_j ||
                (id == at->panel && at->panel != at->j))
                continue;
            st = an_tune_apply(t, AN_OPT_ORDER, id, *first, shared);
            if (!st && *shared) st = look_again(t, p, at->tile_i, at->tile_j);
            again = *shared;
        }
    }
    return st;
}

/* The innermost loop outside of the rows that the columns vary with: rows are read again in each of its iterations. */
static uint32_t outer_column_loop(const an_tuner *t, const product *p, uint32_t first)
{
    uint32_t id = 0;
    for (size_t r = 0; r < t->d.ranges.len && an_tune_id(t, r) < first; r++)
        if (an_tune_kind(t, r) == AN_RANGE_LOOP && an_rangeset_has(&p->columns, r)) id = an_tune_id(t, r);
    return id;
}

/* Iterations of the outermost loop that are enough for the device's threads. */
static int64_t parts_wanted(const an_tuner *t)
{
    return t->threads == 1 ? 1 : PARTS_A_THREAD * (t->threads ? t->threads : 2);
}

/* Are there that many, if columns have this many groups? */
static bool enough_parts(const an_tuner *t, const product *p, int64_t groups)
{
    for (size_t r = 0; r < t->d.ranges.len && groups < parts_wanted(t); r++)
        if (r != p->j && an_tune_kind(t, r) == AN_RANGE_LOOP && an_rangeset_has(&p->columns, r)) groups = an_range_bound(t->g, t->d.ranges.data[r]);
    return groups >= parts_wanted(t);
}

typedef struct layout {
    tile c;
    int64_t panels; /* columns copied together, in tiles */
    int64_t chunk;  /* rows in a chunk; 0: all */
    int64_t share;  /* columns of a thread's part; 0: all */
    int64_t pass;   /* elements summed in a pass (CARRY); 0: all */
    int64_t step;   /* of them, after which there is room to fetch what is copied next; 0: once a tile is enough */
    bool pack, pack_rows;
} layout;

/* At least n parts, as many as divide m if there is such a number near. */
static int64_t dividing(int64_t m, int64_t n)
{
    for (int64_t c = n; c <= 2 * n; c++)
        if (m % c == 0) return c;
    return n;
}

/* All of the reduction at once: chunks of rows and groups of columns share the core's cache. */
static layout lay_out(const an_tuner *t, const product *p)
{
    layout l = {.c = choose_tile(t, p, false), .panels = 1};
    const int64_t nr = l.c.nv * p->lanes, m = an_tune_bound(t, p->i), n = an_tune_bound(t, p->j);
    const int64_t tiles = (m + l.c.mr - 1) / l.c.mr, ncolumns = (n + nr - 1) / nr;
    const double room = (double)t->scratch_nbytes, nbytes = p->k * (double)nr * (double)p->nbytes;
    const double group = (double)t->l2_nbytes * (p->strided ? 0.4 : 1.125); /* all rows pass by for each of those: it may be larger than the cache */
    l.pack = nbytes <= room && p->rows / (double)l.c.mr >= (p->direct ? REUSE_MIN : 2);
    while (l.pack && l.panels * 2 * nr <= WIDE && nbytes * (double)l.panels * 2 <= group && ncolumns >= 2 * l.panels) l.panels *= 2;
    /* Rows that are walked in long steps: chunks of them that fit. */
    const double row_nbytes = p->k * (double)l.c.mr * (double)p->nbytes, most_nbytes = 0.75 * (double)t->l2_nbytes;
    const double rest = (room < most_nbytes ? room : most_nbytes) - nbytes * (double)l.panels;
    l.pack_rows = l.pack && p->strided && p->k >= STEPS_MIN && ncolumns >= 4 && rest >= CHUNK_TILES_MIN * row_nbytes && (double)m == p->rows;
    int64_t nchunks = 1;
    if (l.pack_rows) {
        const int64_t most = (int64_t)(rest / row_nbytes);
        nchunks = (tiles + most - 1) / most;
    }
    const int64_t parts = parts_wanted(t), most = m / CHUNK_MIN;
    if (nchunks < parts && most > nchunks && (l.pack_rows || !enough_parts(t, p, (ncolumns + l.panels - 1) / l.panels)))
        nchunks = parts < most ? parts : most;
    if (nchunks > 1) nchunks = dividing(m, nchunks);
    if (nchunks > 1) l.chunk = (m + nchunks - 1) / nchunks;
    if (p->exact && l.chunk && (m % l.chunk || l.chunk % l.c.mr)) l.chunk = 0;
    if (nchunks == 1 && parts > 1) l.pack_rows = false; /* they would be copied outside of what threads share */
    return l;
}

/* The largest number up to most that divides n, or 0 where it would be below least. */
static int64_t divisor(int64_t n, int64_t most, int64_t least)
{
    int64_t d = most < n ? most : n;
    while (d >= least && n % d) d--;
    return d >= least ? d : 0;
}

static bool is_wasteful(const an_tuner *t, int64_t m, int64_t chunk, int64_t mr)
{
    return edge(m / chunk, t->threads ? t->threads : 2) > WAIT_MAX || edge(chunk, mr) > TWICE_MAX;
}

/* In passes, in which a tile of columns stays in the nearest cache and a chunk of rows, copied, in the one behind it: for products
 * whose operands leave those caches between two uses. Where rows are walked in long steps longer passes are better, though what leaves the
 * nearest cache comes again from the next. False where sizes do not divide: sums that are carried are added to once. */
static bool lay_out_in_passes(const an_tuner *t, const product *p, layout *l)
{
    const int64_t k = an_uop_nsrc(t->g, p->reduce) == 2 ? an_range_bound(t->g, an_uop_src(t->g, p->reduce, 1)) : 0;
    const int64_t m = an_tune_bound(t, p->i), n = an_tune_bound(t, p->j), parts = parts_wanted(t);
    *l = (layout){.c = choose_tile(t, p, true), .panels = 1, .pack = true, .pack_rows = true};
    const int64_t step_nbytes = l->c.nv * p->lanes * (int64_t)p->nbytes, row_nbytes = l->c.mr * (int64_t)p->nbytes;
    if (l->c.mr < 4 || (double)m != p->rows || k * step_nbytes <= 2 * (int64_t)t->l1_nbytes) return false;
    l->pass = divisor(k, (int64_t)t->l1_nbytes * (p->strided ? 8 : 4) / 5 / step_nbytes, p->strided ? STRIDED_MIN : STEPS_MIN);
    if (!l->pass || l->pass == k) return false;
    l->chunk = divisor(m, (int64_t)t->l2_nbytes / 2 / (row_nbytes * l->pass) * l->c.mr, CHUNK_MIN);
    const bool fits = k * WIDE * (int64_t)p->nbytes <= (int64_t)t->l2_nbytes / 2; /* a group of whole columns, beside the rows */
    if (!l->chunk || (!p->strided && l->chunk < m && fits)) return false;
    while (m / l->chunk < parts && l->chunk >= 2 * CHUNK_MIN && l->chunk % 2 == 0) l->chunk /= 2;
    if (m / l->chunk < parts / PARTS_A_THREAD) {
        l->share = divisor(n, n / parts, 2 * l->c.nv * p->lanes);
        l->chunk = 0;
        if (!l->share) return false;
    }
    while (l->chunk && is_wasteful(t, m, l->chunk, l->c.mr)) {
        l->chunk = divisor(m, l->chunk - 1, CHUNK_MIN);
        if (!l->chunk) return false;
    }
    if (l->chunk == m) l->chunk = 0;
    const int64_t tiles = (l->chunk ? l->chunk : m) / l->c.mr, lines = l->pass * ((step_nbytes + LINE_NBYTES - 1) / LINE_NBYTES);
    if (lines > tiles * ASKS_MAX) l->step = divisor(l->pass, STEP_MAX, STEP_MAX / 2);
    return true;
}

static an_status apply_layout(an_tuner *t, product *p, const layout *l, bool *done)
{
    an_tune_chain c = {t, AN_OK, true};
    uint32_t first = 0;
    bool shared = false;
    loops at = {.i = an_tune_id(t, p->i), .j = an_tune_id(t, p->j)};
    const bool first_is_i = first_shared(t, p, UINT32_MAX, UINT32_MAX) == p->i;
    at.chunk = UINT32_MAX;
    const uint32_t k = an_tune_id(t, an_dag_range_at(&t->d, an_uop_src(t->g, p->reduce, 1)));
    if (l->share) an_tune_then_block(&c, at.j, l->share, &at.j);
    if (l->pass) an_tune_then(&c, AN_OPT_CARRY, k, l->pass);
    if (l->pass) an_tune_then(&c, AN_OPT_ORDER, k, at.j);
    an_tune_then_block(&c, at.j, l->c.nv * p->lanes, &at.tile_j);
    if (l->chunk && first_is_i) {
        at.chunk = at.i;
        an_tune_then_block(&c, at.chunk, l->chunk, &at.i);
    }
    an_tune_then_block(&c, at.i, l->c.mr, &at.tile_i);
    at.panel = at.j;
    if (l->panels > 1) an_tune_then_block(&c, at.j, l->panels, &at.panel);
    if (!c.st && c.ok) c.st = order(t, p, &at, &first, &shared);
    const bool copies = shared && l->pack;
    uint32_t rows_again = shared && !c.st ? outer_column_loop(t, p, first) : 0;
    if (!rows_again && at.panel != at.j) rows_again = at.panel;
    if (!copies && !p->direct) c.ok = false;
    an_tune_then(&c, AN_OPT_VECTOR, at.tile_j, p->lanes);
    if (l->c.nv > 1) an_tune_then(&c, AN_OPT_UPCAST, at.tile_j, l->c.nv);
    if (l->c.mr > 1) an_tune_then(&c, AN_OPT_UPCAST, at.tile_i, l->c.mr);
    if (copies && l->pack_rows && rows_again && !c.st && c.ok) {
        bool packed = false; /* or they are read as they lie */
        c.st = an_tune_apply(t, AN_OPT_PACK, rows_again, (int64_t)t->scratch_nbytes, &packed);
    }
    if (copies && !c.st && c.ok) {
        c.st = an_tune_apply(t, AN_OPT_PACK, first, (int64_t)t->scratch_nbytes, &c.ok);
        if (p->direct) c.ok = true;
    }
    if (l->step && !c.st && c.ok)
        an_tune_then(&c, AN_OPT_CUT, an_tune_id(t, an_dag_range_at(&t->d, an_uop_src(t->g, an_tune_dominant(t), 1))), l->step);
    if (!c.st && c.ok) c.st = tune_fills(t);
    *done = c.ok;
    return c.st;
}

/* On trial: a refusal on the way leaves the kernel as it was. */
static an_status try_layout(an_tuner *t, product p, const layout *l, bool *done)
{
    an_tune_trial trial;
    an_tune_begin(t, &trial);
    const an_status st = apply_layout(t, &p, l, done);
    return an_tune_end(t, &trial, st, *done);
}

an_status an_tune_product(an_tuner *t, bool *done)
{
    product p = {0};
    *done = false;
    an_status st = an_tune_refresh(t);
    bool found = false;
    if (!st) st = find(t, &p, &found);
    if (st || !found) return st;
    layout l;
    if (lay_out_in_passes(t, &p, &l)) st = try_layout(t, p, &l, done);
    if (st || *done) return st;
    l = lay_out(t, &p);
    if (l.c.mr * l.c.nv < 2 || (!p.direct && !l.pack)) return AN_OK;
    st = try_layout(t, p, &l, done);
    if (st || *done) return st;
    p.exact = true;
    l = lay_out(t, &p);
    return l.c.mr * l.c.nv < 2 || (!p.direct && !l.pack) ? AN_OK : try_layout(t, p, &l, done);
}
