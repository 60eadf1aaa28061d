/* jit.c - functions captured and replayed (anneal/jit.h).
 *
 * Argument tensors are stand-ins while the function runs: BUFFER nodes whose storage has no memory. The plan is told at each
 * call which storages take their place (an_plan_rebind), so arguments and results are not copied. Its kernels are ordered for
 * storages that are all different; where arguments alias what is written, a copy in the stand-in's own memory is used. */
#include "runtime/plan.h"
#include "tensor/tensor.h"

#include <anneal/jit.h>

#include <stdio.h>

typedef struct slot { /* one tensor of a struct */
    const char *name;
    uint32_t i, count; /* the i-th of that name */
    size_t offset;
    bool donate;
    bool is_null;    /* an argument: NULL in every call */
    an_dtype dtype;
    an_shape shape;
    an_uop stand_in; /* an argument's */
    size_t bound;    /* in the plan; SIZE_MAX: not used */
    an_tensor *kept; /* a result that is a captured tensor */
    uint32_t storage; /* at this call, or (captured) at the capture */
    an_tensor *tensor; /* at this call */
    bool is_new;       /* a result made by this call */
} slot;
typedef AN_VEC(slot) slot_vec;

typedef struct written { /* a handle that the function assigned to, and what it and its place stood for before */
    an_tensor *tensor;
    an_uop before, place, latest;
} written;

struct an_jit {
    an_ctx *ctx;
    an_graph *graph; /* NULL when it is gone */
    const char *name;
    an_jit_fn fn;
    void *user;
    size_t args_nbytes, results_nbytes;
    AN_VEC(an_jit_value) values;
    unsigned char *args;    /* as captured: values, stand-ins, zeros */
    unsigned char *results; /* scratch */
    slot_vec in, out, captured;
    const void *captured_at;
    an_plan *plan;
    AN_VEC(written) journal;
    bool is_running;
};

/* --- making ------------------------------------------------------------------------------------------------------ */

static an_status add_slots(an_jit *j, const an_jit_struct *from, const char *what, slot_vec *out)
{
    for (size_t i = 0; i < from->nslots; i++) {
        const an_jit_slot *s = &from->slots[i];
        const size_t count = s->count ? s->count : 1;
        if (s->offset > from->nbytes || count > (from->nbytes - s->offset) / sizeof(an_tensor *))
            return an_fail(j->ctx, AN_ERR_ARG, "an_jit_create: %s: %s '%s' at %zu does not lie in a struct of %zu bytes", j->name, what,
                           s->name, s->offset, from->nbytes);
        for (uint32_t k = 0; k < count; k++) {
            const slot one = {.name = s->name, .i = k, .count = (uint32_t)count, .offset = s->offset + k * sizeof(an_tensor *),
                              .donate = s->donate, .bound = SIZE_MAX};
            if (!an_vec_push(j->ctx, out, one)) return AN_ERR_NOMEM;
        }
    }
    return AN_OK;
}

static void graph_is_gone(void *data)
{
    an_jit *j = data;
    an_jit_reset(j);
    j->graph = NULL;
}

an_status an_jit_create(an_graph *g, const an_jit_desc *desc, an_jit **out)
{
    an_ctx *ctx = an_graph_ctx(g);
    if (!desc || !desc->fn) return an_fail(ctx, AN_ERR_ARG, "an_jit_create: there is no function to capture");
    an_jit *j = an_mem_zalloc(ctx, sizeof *j);
    if (!j) return AN_ERR_NOMEM;
    j->ctx = ctx;
    j->name = desc->name ? desc->name : "the function";
    j->fn = desc->fn;
    j->user = desc->user;
    j->args_nbytes = desc->args.nbytes;
    j->results_nbytes = desc->results.nbytes;
    j->captured_at = desc->captured_at;
    an_status st = add_slots(j, &desc->args, "argument", &j->in);
    if (!st) st = add_slots(j, &desc->results, "result", &j->out);
    if (!st) st = add_slots(j, &desc->captured, "captured tensor", &j->captured);
    for (size_t i = 0; i < desc->args.nvalues && !st; i++) {
        const an_jit_value v = desc->args.values[i];
        if (v.offset > j->args_nbytes || v.nbytes > j->args_nbytes - v.offset)
            st = an_fail(ctx, AN_ERR_ARG, "an_jit_create: %s: value '%s' does not lie in a struct of %zu bytes", j->name, v.name,
                         j->args_nbytes);
        else if (!an_vec_push(ctx, &j->values, v))
            st = AN_ERR_NOMEM;
    }
    if (!st) j->args = an_mem_zalloc(ctx, j->args_nbytes);
    if (!st) j->results = an_mem_zalloc(ctx, j->results_nbytes);
    if (!st && (!j->args || !j->results)) st = AN_ERR_NOMEM;
    if (!st) st = an_runtime_at_end(g, graph_is_gone, j);
    if (!st) {
        j->graph = g;
        *out = j;
        return AN_OK;
    }
    an_jit_destroy(j);
    return st;
}

void an_jit_reset(an_jit *j)
{
    if (!j || j->is_running) return;
    an_plan_destroy(j->plan);
    j->plan = NULL;
}

void an_jit_destroy(an_jit *j)
{
    if (!j || j->is_running) return;
    an_jit_reset(j);
    if (j->graph) an_runtime_not_at_end(j->graph, j);
    an_mem_free(j->ctx, j->args, j->args_nbytes);
    an_mem_free(j->ctx, j->results, j->results_nbytes);
    an_vec_fini(j->ctx, &j->values);
    an_vec_fini(j->ctx, &j->in);
    an_vec_fini(j->ctx, &j->out);
    an_vec_fini(j->ctx, &j->captured);
    an_vec_fini(j->ctx, &j->journal);
    an_mem_free(j->ctx, j, sizeof *j);
}

an_plan *an_jit_plan(an_jit *j)
{
    return j ? j->plan : NULL;
}

/* --- slots of structs -------------------------------------------------------------------------------------------- */

static an_tensor *get(const void *from, const slot *s)
{
    an_tensor *t = NULL;
    memcpy(&t, (const char *)from + s->offset, sizeof(an_tensor *));
    return t;
}

static void put(void *to, const slot *s, an_tensor *t)
{
    memcpy((char *)to + s->offset, &t, sizeof(an_tensor *));
}

static an_text name_of(const slot *s)
{
    an_text text;
    snprintf(text.s, sizeof text.s, s->count > 1 ? "%s[%u]" : "%s", s->name, s->i);
    return text;
}

static an_status refuse(const an_jit *j, an_status st, const char *what, const slot *s, const char *why)
{
    return an_fail(j->ctx, st, "%s: %s '%s' %s", j->name, what, name_of(s).s, why);
}

/* The storage of a tensor given to the call, which is realized if it is not. */
static an_status storage_of(const an_jit *j, const char *what, slot *s, an_tensor *t)
{
    if (t->graph != j->graph)
        return refuse(j, AN_ERR_ARG, what, s, "belongs to another graph than the function was captured in, so it may be on another device");
    if (!an_runtime_is_bound(j->graph, an_tensor_node(t))) {
        const an_status st = an_realize(&t, 1);
        if (st) return st;
    }
    const an_storage *at = an_storage_of(an_runtime_of(j->graph), an_tensor_node(t));
    if (at->is_stand_in)
        return refuse(j, AN_ERR_ARG, what, s, "was donated, or is the stand-in of an argument: it has no value; use what the function gave instead");
    s->tensor = t;
    s->storage = (uint32_t)(at - an_runtime_of(j->graph)->storages.data);
    return AN_OK;
}

static an_status check_args(an_jit *j, const void *args)
{
    an_status st = AN_OK;
    if ((j->in.len || j->values.len) && !args) return an_fail(j->ctx, AN_ERR_ARG, "%s: it has arguments, and NULL was given", j->name);
    for (size_t i = 0; i < j->values.len && j->plan; i++) {
        const an_jit_value v = j->values.data[i];
        if (memcmp((const char *)args + v.offset, j->args + v.offset, v.nbytes) != 0)
            return an_fail(j->ctx, AN_ERR_ARG, "%s: the value '%s' is not what it was when the function was captured; make it a tensor, or "
                           "reset the jit", j->name, v.name);
    }
    for (size_t i = 0; i < j->in.len && !st; i++) {
        slot *s = &j->in.data[i];
        an_tensor *t = get(args, s);
        if (j->plan && s->is_null != !t)
            st = refuse(j, AN_ERR_ARG, "argument", s, t ? "was NULL when the function was captured" : "is NULL");
        if (!j->plan) s->is_null = !t;
        if (st || !t) continue;
        st = storage_of(j, "argument", s, t);
        if (st || !j->plan) continue;
        if (an_tensor_dtype(t) != s->dtype)
            st = an_fail(j->ctx, AN_ERR_DTYPE, "%s: argument '%s' has dtype %s; the function was captured for %s", j->name, name_of(s).s,
                         an_dtype_name(an_tensor_dtype(t)), an_dtype_name(s->dtype));
        else if (!an_shape_eq(an_tensor_shape(t), s->shape))
            st = an_fail(j->ctx, AN_ERR_SHAPE, "%s: argument '%s' has shape %s, not the one that the function was captured for; reset the jit, "
                         "or make one for each shape", j->name, name_of(s).s, an_text_shape(t).s);
    }
    return st;
}

/* Captured tensors that were listed are the same ones still. */
static an_status check_captured(an_jit *j)
{
    for (size_t i = 0; i < j->captured.len; i++) {
        slot *s = &j->captured.data[i];
        an_tensor *t = j->captured_at ? get(j->captured_at, s) : NULL;
        const uint32_t before = s->storage;
        if (!t) return refuse(j, AN_ERR_ARG, "captured tensor", s, "is NULL");
        if (t->graph != j->graph) return refuse(j, AN_ERR_ARG, "captured tensor", s, "belongs to another graph");
        if (!an_runtime_is_bound(j->graph, an_tensor_node(t))) {
            if (j->plan) return refuse(j, AN_ERR_ARG, "captured tensor", s, "was replaced, or assigned to, since the capture; realize it, or reset the jit");
            return refuse(j, AN_ERR_ARG, "captured tensor", s, "is lazy; realize it first");
        }
        const an_status st = storage_of(j, "captured tensor", s, t);
        if (st) return st;
        if (j->plan && s->storage != before) {
            s->storage = before;
            return refuse(j, AN_ERR_ARG, "captured tensor", s, "was replaced by another since the capture; reset the jit");
        }
    }
    return AN_OK;
}

/* --- capturing --------------------------------------------------------------------------------------------------- */

bool an_jit_note_assign(an_tensor *target, an_uop place, an_uop assign)
{
    an_jit *j = an_runtime_capture(target->graph);
    if (j && !an_vec_reserve(j->ctx, &j->journal, 1)) return false;
    const written w = {target, target->uop, place, an_runtime_note_assign(target->graph, place, assign)};
    if (j) j->journal.data[j->journal.len++] = w;
    return true;
}

/* In a capture of another: the function as it is, on the other's tensors. */
static an_status call_inline(an_jit *j, const void *args, void *results)
{
    if (j->is_running) return an_fail(j->ctx, AN_ERR_ARG, "%s: it calls itself in its own capture, which would not end", j->name);
    j->is_running = true;
    memset(j->args, 0, j->args_nbytes);
    memset(j->results, 0, j->results_nbytes);
    for (size_t i = 0; i < j->values.len; i++)
        memcpy(j->args + j->values.data[i].offset, (const char *)args + j->values.data[i].offset, j->values.data[i].nbytes);
    for (size_t i = 0; i < j->in.len; i++) put(j->args, &j->in.data[i], get(args, &j->in.data[i]));
    an_status st = j->fn(j->user, j->graph, j->args, j->results);
    for (size_t i = 0; i < j->out.len && !st; i++) {
        an_tensor *t = get(j->results, &j->out.data[i]);
        if (!t) st = refuse(j, AN_ERR_ARG, "result", &j->out.data[i], "was not given by the function");
    }
    for (size_t i = 0; i < j->out.len && !st; i++) put(results, &j->out.data[i], get(j->results, &j->out.data[i]));
    j->is_running = false;
    return st;
}

/* Stand-ins for the arguments, in a struct of their own. */
static an_status make_args(an_jit *j, const void *args)
{
    memset(j->args, 0, j->args_nbytes);
    memset(j->results, 0, j->results_nbytes);
    for (size_t i = 0; i < j->values.len; i++)
        memcpy(j->args + j->values.data[i].offset, (const char *)args + j->values.data[i].offset, j->values.data[i].nbytes);
    for (size_t i = 0; i < j->in.len; i++) {
        slot *s = &j->in.data[i];
        if (s->is_null) continue;
        s->dtype = an_tensor_dtype(s->tensor);
        s->shape = an_tensor_shape(s->tensor);
        s->stand_in = an_runtime_stand_in(j->graph, s->dtype, s->shape);
        an_tensor *t = an_uop_is_none(s->stand_in) ? NULL : an_tensor_wrap(j->graph, s->stand_in, NULL, 0);
        if (!t) return AN_ERR_NOMEM;
        put(j->args, s, t);
    }
    return AN_OK;
}

/* The roots: what the results are, then every write that the function asked for. */
static an_status find_roots(an_jit *j, uint32_t first, an_uop_vec *roots)
{
    an_graph *g = j->graph;
    an_runtime *rt = an_runtime_of(g);
    for (size_t i = 0; i < j->out.len; i++) {
        slot *s = &j->out.data[i];
        an_tensor *t = get(j->results, s);
        if (!t) return refuse(j, AN_ERR_ARG, "result", s, "was not given by the function");
        if (t->graph != g) return refuse(j, AN_ERR_ARG, "result", s, "belongs to another graph");
        an_uop u = an_tensor_node(t), base = u;
        s->dtype = an_tensor_dtype(t);
        s->shape = an_tensor_shape(t);
        s->kept = NULL;
        while (an_uop_op(g, base) == AN_OP_ASSIGN) base = an_uop_src(g, base, 0);
        const an_storage *at = an_uop_op(g, base) == AN_OP_BUFFER ? an_storage_of(rt, base) : NULL;
        if (at && !at->is_stand_in)
            s->kept = t;
        else if (at)
            u = an_uop_same(g, u); /* an argument itself: its values in a tensor of their own */
        for (size_t k = 0; k < roots->len && !s->kept; k++)
            while (!an_uop_is_none(u) && an_vec_has(roots, u)) u = an_uop_same(g, u);
        if (an_uop_is_none(u) || !an_vec_push(j->ctx, roots, u)) return AN_ERR_NOMEM;
    }
    const uint32_t end = an_graph_len(g);
    for (uint32_t id = first; id < end; id++) {
        const an_uop u = {id};
        if (an_uop_op(g, u) == AN_OP_ASSIGN && !an_version_is_place(g, rt, u) && !an_vec_has(roots, u) &&
            !an_vec_push(j->ctx, roots, u))
            return AN_ERR_NOMEM;
    }
    return AN_OK;
}

static an_status capture(an_jit *j, const void *args)
{
    an_graph *g = j->graph;
    an_uop_vec roots = {0};
    const uint32_t first = an_graph_len(g);
    j->journal.len = 0;
    an_status st = make_args(j, args);
    if (st) return st;
    an_runtime_set_capture(g, j);
    j->is_running = true;
    st = j->fn(j->user, g, j->args, j->results);
    if (!st) st = an_ctx_status(j->ctx); /* a NULL that the function did not look at */
    if (!st) st = find_roots(j, first, &roots);
    if (!st) st = an_plan_build(g, roots.data, roots.len, NULL, &j->plan);
    j->is_running = false;
    an_runtime_set_capture(g, NULL);
    for (size_t i = 0; !st && i < j->plan->assigns.len; i++)
        if (j->plan->assigns.data[i].id < first)
            st = an_fail(j->ctx, AN_ERR_ARG, "%s: it reads a tensor with an in-place write (or random numbers) from before the capture that has "
                         "not run, and that each call would run again; realize it first", j->name);
    for (size_t i = 0; i < j->in.len && !st; i++)
        j->in.data[i].bound = j->in.data[i].is_null ? SIZE_MAX : an_plan_find(j->plan, j->in.data[i].stand_in);
    for (size_t i = 0; i < j->out.len && !st; i++) j->out.data[i].bound = an_plan_find(j->plan, roots.data[i]);
    if (st) { /* nothing was captured: handles are as before */
        for (size_t i = j->journal.len; i-- > 0;) {
            const written w = j->journal.data[i];
            w.tensor->uop = w.before;
            (void)an_runtime_note_assign(g, w.place, w.latest);
        }
        an_jit_reset(j);
    }
    an_vec_fini(j->ctx, &roots);
    return st;
}

/* --- a call ------------------------------------------------------------------------------------------------------ */

/* Where results go: into the tensors that are there, or into new ones. */
static an_status bind_results(an_jit *j, const void *results)
{
    an_graph *g = j->graph;
    an_status st = AN_OK;
    if (j->out.len && !results) return an_fail(j->ctx, AN_ERR_ARG, "%s: it has results, and there is no struct for them", j->name);
    for (size_t i = 0; i < j->out.len && !st; i++) {
        slot *s = &j->out.data[i];
        an_tensor *t = get(results, s);
        s->is_new = false;
        s->tensor = s->kept;
        if (s->kept) continue;
        s->is_new = !t;
        s->tensor = t;
        if (!t) {
            const an_uop b = an_runtime_new_buffer(g, s->dtype, s->shape, &s->storage);
            s->tensor = an_uop_is_none(b) ? NULL : an_tensor_wrap(g, b, NULL, 0);
            if (!s->tensor) st = AN_ERR_NOMEM;
            continue;
        }
        if (t->graph == g && !an_runtime_is_bound(g, an_tensor_node(t)))
            return refuse(j, AN_ERR_ARG, "result", s, "is to go into a tensor without a buffer; realize that first, or give NULL");
        st = storage_of(j, "result", s, t);
        if (!st && (an_tensor_dtype(t) != s->dtype || !an_shape_eq(an_tensor_shape(t), s->shape)))
            st = refuse(j, AN_ERR_SHAPE, "result", s, "is to go into a tensor of another shape or dtype; give NULL");
        for (size_t k = 0; k < i && !st; k++)
            if (!j->out.data[k].kept && j->out.data[k].storage == s->storage)
                st = refuse(j, AN_ERR_ARG, "result", s, "is to go into the same tensor as another result; give NULL for one");
        for (size_t k = 0; k < j->plan->bound.len && !st; k++)
            if (an_plan_is_captured(j->plan, k) && j->plan->bound.data[k].storage == s->storage)
                st = refuse(j, AN_ERR_ARG, "result", s, "is to go into a tensor that the function reads or writes itself; give NULL");
    }
    return st;
}

/* The argument may not be read, or written, where it is: something else is written, or read, in the same place. */
static bool is_aliased(const an_jit *j, size_t i, bool *is_error)
{
    const slot *s = &j->in.data[i];
    const an_bound *mine = &j->plan->bound.data[s->bound];
    bool found = false;
    for (size_t k = 0; k < j->out.len; k++)
        found = found || (!j->out.data[k].kept && j->out.data[k].storage == s->storage);
    for (size_t k = 0; k < j->plan->bound.len; k++) {
        const an_bound *b = &j->plan->bound.data[k];
        if (an_plan_is_captured(j->plan, k) && b->storage == s->storage) found = found || b->is_written || mine->is_written;
    }
    *is_error = found && mine->is_written;
    for (size_t k = 0; k < j->in.len; k++) {
        const slot *o = &j->in.data[k];
        if (k == i || o->bound == SIZE_MAX || o->storage != s->storage) continue;
        const bool writes = j->plan->bound.data[o->bound].is_written;
        found = found || (writes && !mine->is_written);
        *is_error = *is_error || (writes && mine->is_written);
    }
    return found;
}

/* A donated argument gives its buffer to the first new result of its kind that is written when it has been read. */
static void donate(an_jit *j, slot *s)
{
    const an_bound *in = s->bound == SIZE_MAX ? NULL : &j->plan->bound.data[s->bound];
    if (in && in->is_written) return;
    for (size_t i = 0; i < j->in.len; i++) /* given twice */
        if (&j->in.data[i] != s && !j->in.data[i].is_null && j->in.data[i].storage == s->storage) return;
    for (size_t k = 0; k < j->plan->bound.len; k++)
        if (an_plan_is_captured(j->plan, k) && j->plan->bound.data[k].storage == s->storage) return;
    for (size_t i = 0; i < j->out.len; i++) {
        slot *o = &j->out.data[i];
        if (o->kept || get(j->results, o) || o->dtype != s->dtype || !an_shape_eq(o->shape, s->shape)) continue;
        const an_bound *out = &j->plan->bound.data[o->bound];
        if (in && in->last_read >= out->first_write) continue;
        put(j->results, o, s->tensor);
        return;
    }
}

static an_status bind_args(an_jit *j)
{
    an_status st = AN_OK;
    for (size_t i = 0; i < j->in.len && !st; i++) {
        slot *s = &j->in.data[i];
        bool is_error = false;
        uint32_t storage = s->storage;
        if (s->bound == SIZE_MAX) continue;
        const bool aliased = is_aliased(j, i, &is_error);
        if (is_error)
            return refuse(j, AN_ERR_ARG, "argument", s, "is written by the function, and shares its buffer with another argument, a result or a "
                          "captured tensor; give it one of its own");
        if (aliased) st = an_runtime_copy(j->graph, s->storage, s->stand_in, &storage);
        if (!st) an_plan_rebind(j->plan, s->bound, storage);
    }
    for (size_t i = 0; i < j->out.len && !st; i++)
        if (!j->out.data[i].kept) an_plan_rebind(j->plan, j->out.data[i].bound, j->out.data[i].storage);
    return st;
}

an_status an_jit_call(an_jit *j, const void *args, void *results)
{
    if (!j) return AN_ERR_ARG;
    if (!j->graph) return an_fail(j->ctx, AN_ERR_ARG, "%s: its graph was destroyed", j->name);
    if (an_runtime_capture(j->graph)) return call_inline(j, args, results);
    an_status st = check_args(j, args);
    if (!st) st = check_captured(j);
    if (!st && !j->plan) st = capture(j, args);
    if (st) return st;
    /* The scratch struct holds where results go: NULL, the caller's, or a donated argument. */
    for (size_t i = 0; i < j->out.len && results; i++) put(j->results, &j->out.data[i], get(results, &j->out.data[i]));
    for (size_t i = 0; i < j->in.len; i++)
        if (j->in.data[i].donate && !j->in.data[i].is_null) donate(j, &j->in.data[i]);
    st = bind_results(j, results ? j->results : NULL);
    if (!st) st = bind_args(j);
    if (!st) st = an_plan_run(j->plan);
    if (st) return st;
    for (size_t i = 0; i < j->out.len; i++) {
        slot *s = &j->out.data[i];
        if (!s->kept && !s->is_new && get(results, s) != s->tensor) { /* donated: a new handle for the buffer */
            s->tensor = an_tensor_wrap(j->graph, an_tensor_node(s->tensor), NULL, 0);
            if (!s->tensor) return AN_ERR_NOMEM;
        }
        put(results, s, s->tensor);
    }
    for (size_t i = 0; i < j->in.len; i++)
        if (j->in.data[i].donate && !j->in.data[i].is_null) j->in.data[i].tensor->uop = j->in.data[i].stand_in;
    return AN_OK;
}
