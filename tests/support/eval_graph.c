/* eval_graph.c - see eval_graph.h. Each node in topological order gets an array of an_scalar; movement ops go through one
 * index walk that maps each output position to an input position. */
#include "eval_graph.h"

#include "ir/eval.h"
#include "runtime/runtime.h"

#include <stdlib.h>

static eval_value *value_of(evaluation *s, an_uop u)
{
    return &s->values[u.id];
}

static eval_value *source(evaluation *s, an_uop u, uint32_t i)
{
    return value_of(s, an_uop_src(s->g, u, i));
}

/* A dim or bound: an integer scalar that has been evaluated. */
static int64_t integer(evaluation *s, an_uop u, uint32_t i)
{
    return source(s, u, i)->data[0].i;
}

static an_scalar at(const eval_value *v, size_t i)
{
    return v->data[v->n == 1 && v->rank == 0 ? 0 : i];
}

static bool read_buffer(evaluation *s, an_uop u, eval_value *v)
{
    const an_dtype d = an_uop_dtype(s->g, u);
    const size_t size = an_dtype_nbytes(d);
    unsigned char *bytes = malloc(v->n * size + 1);
    const bool ok = bytes && !an_runtime_read(s->g, u, bytes, v->n * size);
    for (size_t i = 0; ok && i < v->n; i++) v->data[i] = an_scalar_load(d, bytes + i * size);
    free(bytes);
    return ok;
}

int64_t eval_moved(evaluation *s, an_uop u, const int64_t *idx)
{
    const eval_value *x = source(s, u, 0);
    const uint32_t rank = value_of(s, u)->rank;
    const an_op op = an_uop_op(s->g, u);
    const uint64_t arg = an_uop_arg(s->g, u);
    int64_t in[AN_RANK_MAX] = {0}, pos = 0;
    for (uint32_t i = 0; i < rank; i++) {
        switch (op) {
        case AN_OP_EXPAND:
            in[i] = x->dims[i] == 1 ? 0 : idx[i];
            break;
        case AN_OP_PERMUTE:
            in[an_permute_axis(arg, i)] = idx[i];
            break;
        case AN_OP_FLIP:
            in[i] = arg >> i & 1u ? x->dims[i] - 1 - idx[i] : idx[i];
            break;
        case AN_OP_PAD:
            in[i] = idx[i] - integer(s, u, 1 + 2 * i);
            if (in[i] < 0 || in[i] >= x->dims[i]) return -1;
            break;
        default: /* SHRINK */
            in[i] = idx[i] + integer(s, u, 1 + 2 * i);
            break;
        }
    }
    for (uint32_t i = 0; i < x->rank; i++) pos = pos * x->dims[i] + in[i];
    return pos;
}

void eval_step(int64_t *idx, const int64_t *dims, uint32_t rank)
{
    for (uint32_t i = rank; i-- > 0;) {
        if (++idx[i] < dims[i]) return;
        idx[i] = 0;
    }
}

static void move(evaluation *s, an_uop u, eval_value *v)
{
    const eval_value *x = source(s, u, 0);
    int64_t idx[AN_RANK_MAX] = {0};
    for (size_t i = 0; i < v->n; i++, eval_step(idx, v->dims, v->rank)) {
        const int64_t pos = eval_moved(s, u, idx);
        v->data[i] = pos < 0 ? (an_scalar){0} : x->data[pos];
    }
}

static void reduce(evaluation *s, an_uop u, eval_value *v)
{
    const eval_value *x = source(s, u, 0);
    const uint64_t arg = an_uop_arg(s->g, u);
    const an_dtype d = an_uop_dtype(s->g, u);
    const an_op op = an_reduce_op(arg);
    int64_t idx[AN_RANK_MAX] = {0};
    for (size_t i = 0; i < v->n; i++) v->data[i] = an_reduce_identity(op, d);
    for (size_t i = 0; i < x->n; i++, eval_step(idx, x->dims, x->rank)) {
        int64_t pos = 0;
        for (uint32_t k = 0; k < x->rank; k++) pos = pos * v->dims[k] + (an_reduce_mask(arg) >> k & 1u ? 0 : idx[k]);
        const an_scalar pair[2] = {v->data[pos], x->data[i]};
        v->data[pos] = an_eval(op, d, pair);
    }
}

static void elementwise(evaluation *s, an_uop u, eval_value *v)
{
    const an_op op = an_uop_op(s->g, u);
    const uint32_t n = an_uop_nsrc(s->g, u);
    const an_dtype from = an_uop_dtype(s->g, an_uop_src(s->g, u, n - 1)), to = an_uop_dtype(s->g, u);
    for (size_t i = 0; i < v->n; i++) {
        an_scalar x[3] = {{0}, {0}, {0}};
        for (uint32_t k = 0; k < n; k++) x[k] = at(source(s, u, k), i);
        v->data[i] = op == AN_OP_CAST      ? an_scalar_cast(from, to, x[0])
                     : op == AN_OP_BITCAST ? an_eval_bitcast(from, to, x[0])
                                           : an_eval(op, from, x);
    }
}

int64_t eval_written(evaluation *s, an_uop u, size_t i)
{
    const an_uop place = an_uop_src(s->g, u, 0);
    int64_t pos = (int64_t)i;
    if (an_uop_nsrc(s->g, u) == 2) return pos;
    for (an_uop m = an_uop_src(s->g, u, 2); pos >= 0 && !an_uop_eq(m, place); m = an_uop_src(s->g, m, 0)) {
        const eval_value *shown = value_of(s, m);
        int64_t idx[AN_RANK_MAX] = {0};
        if (an_uop_op(s->g, m) == AN_OP_RESHAPE || an_uop_op(s->g, m) == AN_OP_LEAF) continue;
        for (uint32_t k = shown->rank; k-- > 0; pos /= shown->dims[k]) idx[k] = pos % shown->dims[k];
        pos = eval_moved(s, m, idx);
    }
    return pos;
}

/* The place with value written where the view shows it. */
static an_status write_view(evaluation *s, an_uop u, eval_value *v)
{
    for (size_t i = 0; i < v->n; i++) v->data[i] = at(source(s, u, 0), i);
    for (size_t i = 0; i < source(s, u, 2)->n; i++) {
        const int64_t pos = eval_written(s, u, i);
        if (pos >= 0) v->data[pos] = at(source(s, u, 1), i);
    }
    return AN_OK;
}

static an_status eval_node(evaluation *s, an_uop u)
{
    eval_value *v = value_of(s, u);
    const an_shape shape = an_uop_shape(s->g, u);
    const an_op op = an_uop_op(s->g, u);
    v->rank = shape.rank;
    v->n = 1;
    for (uint32_t i = 0; i < shape.rank; i++) {
        /* A dim need not be below its node; it is a constant. */
        if (!an_uop_int(s->g, shape.dims[i], &v->dims[i]))
            return an_fail(an_graph_ctx(s->g), AN_ERR_UNSUPPORTED, "eval_graph: a symbolic shape");
        v->n *= (size_t)v->dims[i];
    }
    v->data = calloc(v->n + 1, sizeof *v->data);
    if (!v->data) return AN_ERR_NOMEM;
    switch (op) {
    case AN_OP_CONST:
        v->data[0] = an_uop_const_value(s->g, u);
        return AN_OK;
    case AN_OP_IOTA:
        for (size_t i = 0; i < v->n; i++)
            v->data[i] = an_scalar_cast(AN_I64, an_uop_dtype(s->g, u), (an_scalar){.i = (int64_t)i});
        return AN_OK;
    case AN_OP_BUFFER:
        return read_buffer(s, u, v) ? AN_OK : an_ctx_status(an_graph_ctx(s->g));
    case AN_OP_RESHAPE:
    case AN_OP_LEAF:
    case AN_OP_DETACH:
    case AN_OP_CONTIGUOUS:
        memcpy(v->data, source(s, u, 0)->data, v->n * sizeof *v->data);
        return AN_OK;
    case AN_OP_ASSIGN:
        if (an_uop_nsrc(s->g, u) > 2) return write_view(s, u, v);
        for (size_t i = 0; i < v->n; i++) v->data[i] = at(source(s, u, 1), i);
        return AN_OK;
    case AN_OP_EXPAND:
    case AN_OP_PERMUTE:
    case AN_OP_PAD:
    case AN_OP_SHRINK:
    case AN_OP_FLIP:
        move(s, u, v);
        return AN_OK;
    case AN_OP_REDUCE_AXIS:
        reduce(s, u, v);
        return AN_OK;
    default:
        break;
    }
    if (!an_op_has(op, AN_TRAIT_ELEM))
        return an_fail(an_graph_ctx(s->g), AN_ERR_UNSUPPORTED, "eval_graph: %s is no tensor-level op",
                       an_op_info_of(op)->text);
    elementwise(s, u, v);
    return AN_OK;
}

const eval_value *evaluation_of(evaluation *e, an_uop u)
{
    an_uop_vec order = {0};
    const uint32_t len = an_graph_len(e->g);
    if (e->len < len) { /* the graph has grown */
        eval_value *more = realloc(e->values, len * sizeof *more);
        if (!more) return NULL;
        memset(more + e->len, 0, (len - e->len) * sizeof *more);
        e->values = more;
        e->len = len;
    }
    an_status st = value_of(e, u)->known ? AN_OK : an_toposort(e->g, &u, 1, &order);
    for (size_t i = 0; i < order.len && !st; i++) {
        eval_value *v = value_of(e, order.data[i]);
        if (v->known) continue;
        st = eval_node(e, order.data[i]);
        if (!st && e->errors) st = eval_error(e, order.data[i], v);
        v->known = !st;
    }
    an_vec_fini(an_graph_ctx(e->g), &order);
    return st ? NULL : value_of(e, u);
}

void evaluation_fini(evaluation *e)
{
    for (uint32_t i = 0; i < e->len; i++) {
        free(e->values[i].data);
        free(e->values[i].error);
        free(e->values[i].slack);
    }
    free(e->values);
    *e = (evaluation){0};
}

an_status an_test_eval(an_graph *g, an_uop root, void *dst, size_t nbytes)
{
    evaluation e = {.g = g};
    const eval_value *v = evaluation_of(&e, root);
    an_status st = AN_OK;
    if (v) {
        const an_dtype d = an_uop_dtype(g, root);
        const size_t size = an_dtype_nbytes(d);
        if (v->n * size != nbytes)
            st = an_fail(an_graph_ctx(g), AN_ERR_ARG, "eval_graph: %zu bytes, not %zu", v->n * size, nbytes);
        for (size_t i = 0; i < v->n && !st; i++) an_scalar_store(d, v->data[i], (unsigned char *)dst + i * size);
    } else {
        st = an_ctx_status(an_graph_ctx(g));
        if (!st) st = AN_ERR_NOMEM;
    }
    evaluation_fini(&e);
    return st;
}
