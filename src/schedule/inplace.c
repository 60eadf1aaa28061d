/* inplace.c - calls that write over what they read last. A temporary that dies in a call gives its memory to one that is made there,
 * if every element is read before, and at the index at which, it is written: the two become one buffer, and one slot that is both
 * read and written, which is what an ASSIGN has (build.c) and what every backend, WebGPU's bindings included, can do. */
#include "schedule/schedule.h"

#include "base/idmap.h"
#include "rewrite/rewrite.h"

typedef struct life {
    an_uop buffer;
    size_t nbytes, first, last; /* calls */
} life;

typedef struct in_place {
    an_graph *g;
    an_ctx *ctx;
    an_schedule *s;
    an_idmap life_of; /* temporary -> 1 + index into lives */
    AN_VEC(life) lives;
} in_place;

static life *life_at(in_place *p, an_uop buffer)
{
    const uint32_t i = an_idmap_get(&p->life_of, buffer.id);
    return i ? &p->lives.data[i - 1] : NULL;
}

static an_status find_lives(in_place *p, const an_uop *temps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        life l = {.buffer = temps[i], .first = SIZE_MAX};
        if (!an_buffer_nbytes(p->g, temps[i], &l.nbytes)) return an_ctx_status(p->ctx);
        if (!an_vec_push(p->ctx, &p->lives, l) || !an_idmap_set(&p->life_of, p->ctx, temps[i].id, (uint32_t)p->lives.len)) return AN_ERR_NOMEM;
    }
    for (size_t c = 0; c < p->s->calls.len; c++)
        for (uint32_t b = 0; b < p->s->calls.data[c].nbuffers; b++) {
            life *l = life_at(p, p->s->calls.data[c].buffers[b]);
            if (!l) continue;
            if (l->first == SIZE_MAX) l->first = c;
            l->last = c;
        }
    return AN_OK;
}

/* Is slot r read only at the index at which slot w is written, by its one store, which has no gate? */
static an_status is_elementwise(in_place *p, const an_call *call, uint32_t r, uint32_t w, bool *yes)
{
    const an_graph *g = p->g;
    const an_uop read = an_param(p->g, an_uop_dtype(g, call->buffers[r]), r), written = an_param(p->g, an_uop_dtype(g, call->buffers[w]), w);
    an_uop_vec order = {0};
    an_uop index = AN_UOP_NONE;
    size_t nstores = 0;
    an_status st = an_toposort(p->g, &call->sink, 1, &order);
    if (!st && (an_uop_is_none(read) || an_uop_is_none(written))) st = AN_ERR_NOMEM;
    for (size_t i = 0; i < order.len && !st; i++) {
        const an_uop u = order.data[i];
        if (an_uop_op(g, u) != AN_OP_STORE || !an_uop_eq(an_uop_src(g, u, 0), written)) continue;
        nstores += an_uop_nsrc(g, u) == 3 ? 1 : 2;
        index = an_uop_src(g, u, 1);
    }
    *yes = !st && nstores == 1;
    for (size_t i = 0; i < order.len && *yes; i++) {
        const an_uop u = order.data[i];
        if (an_uop_op(g, u) == AN_OP_LOAD && an_uop_eq(an_uop_src(g, u, 0), read)) *yes = an_uop_eq(an_uop_src(g, u, 1), index);
    }
    an_vec_fini(p->ctx, &order);
    return st;
}

/* Slot r of the call goes; what it read is read through slot w, which gets its buffer. */
static an_status join(in_place *p, an_call *call, uint32_t r, uint32_t w)
{
    an_uop from[AN_KERNEL_PARAM_MAX], to[AN_KERNEL_PARAM_MAX], sink = call->sink;
    for (uint32_t i = 0; i < call->nbuffers; i++) {
        const uint32_t at = i == r ? w : i;
        from[i] = an_param(p->g, an_uop_dtype(p->g, call->buffers[i]), i);
        to[i] = an_param(p->g, an_uop_dtype(p->g, call->buffers[i]), at > r ? at - 1 : at);
        if (an_uop_is_none(from[i]) || an_uop_is_none(to[i])) return AN_ERR_NOMEM;
    }
    const an_status st = an_substitute_many(p->g, &sink, 1, from, to, call->nbuffers);
    if (st) return st;
    call->sink = sink;
    call->buffers[w] = call->buffers[r];
    call->is_read[w] = true;
    call->nbuffers--;
    for (uint32_t i = r; i < call->nbuffers; i++) {
        call->buffers[i] = call->buffers[i + 1];
        call->is_read[i] = call->is_read[i + 1];
        call->is_written[i] = call->is_written[i + 1];
    }
    return AN_OK;
}

/* One temporary that is made in call c takes the place of one that dies there; *found false: there is no such pair. */
static an_status join_one(in_place *p, size_t c, bool *found)
{
    an_call *call = &p->s->calls.data[c];
    *found = false;
    for (uint32_t w = 0; w < call->nbuffers; w++) {
        life *made = life_at(p, call->buffers[w]);
        if (!made || made->first != c || !call->is_written[w] || call->is_read[w]) continue;
        for (uint32_t r = 0; r < call->nbuffers; r++) {
            life *dies = life_at(p, call->buffers[r]);
            if (!dies || dies->last != c || call->is_written[r] || dies->nbytes != made->nbytes ||
                an_uop_dtype(p->g, dies->buffer) != an_uop_dtype(p->g, made->buffer))
                continue;
            an_status st = is_elementwise(p, call, r, w, found);
            if (st || !*found) {
                if (st) return st;
                continue;
            }
            const an_uop old = made->buffer;
            st = join(p, call, r, w);
            if (st) return st;
            for (size_t k = c + 1; k <= made->last; k++)
                for (uint32_t b = 0; b < p->s->calls.data[k].nbuffers; b++)
                    if (an_uop_eq(p->s->calls.data[k].buffers[b], old)) p->s->calls.data[k].buffers[b] = dies->buffer;
            dies->last = made->last;
            return AN_OK;
        }
    }
    return AN_OK;
}

an_status an_schedule_in_place(an_graph *g, an_schedule *s, const an_uop *temps, size_t n)
{
    in_place p = {.g = g, .ctx = an_graph_ctx(g), .s = s};
    an_status st = find_lives(&p, temps, n);
    for (size_t c = 0; c < s->calls.len && !st;) {
        bool found = false;
        st = join_one(&p, c, &found);
        if (!found) c++;
    }
    an_idmap_fini(&p.life_of, p.ctx);
    an_vec_fini(p.ctx, &p.lives);
    return st;
}
