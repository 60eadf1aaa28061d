/* random_shrink.c - a smaller program with the same fault: fewer outputs, calls replaced by inputs of their shape or by one of
 * their operands, and what nothing needs left out, until no such step keeps the fault. */
#include "random_program.h"

#include <anneal/device.h>

#include <string.h>

/* Leaves out calls that no output needs. ASSIGNs are needed by the later users of their target's handle. */
static void drop_unused(random_program *p)
{
    bool need[RANDOM_CALLS] = {false};
    int to[RANDOM_CALLS];
    for (int i = p->n; i-- > 0;) {
        need[i] = need[i] || p->call[i].output;
        for (int k = 0; k < 3 && need[i]; k++)
            if (p->call[i].src[k] >= 0) need[p->call[i].src[k]] = true;
    }
    for (int i = 0; i < p->n; i++) /* an assignment to something that is needed afterwards */
        if (random_writes(p->call[i].op)) need[i] = true;
    for (int i = p->n; i-- > 0;)
        for (int k = 0; k < 3 && need[i]; k++)
            if (p->call[i].src[k] >= 0) need[p->call[i].src[k]] = true;
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        to[i] = n;
        if (!need[i]) continue;
        random_call c = p->call[i];
        for (int k = 0; k < 3; k++)
            if (c.src[k] >= 0) c.src[k] = to[c.src[k]];
        p->call[n++] = c;
    }
    p->n = n;
}

/* Uses of call i go to value j; i is left out. */
static void forward(random_program *p, int i, int j)
{
    for (int k = i + 1; k < p->n; k++)
        for (int s = 0; s < 3; s++)
            if (p->call[k].src[s] == i) p->call[k].src[s] = j;
    if (p->call[i].output) p->call[j].output = true;
    for (int k = i; k + 1 < p->n; k++) {
        p->call[k] = p->call[k + 1];
        for (int s = 0; s < 3; s++)
            if (p->call[k].src[s] > i) p->call[k].src[s]--;
    }
    p->n--;
}

/* The shape and dtype of value i, by building the program. */
static bool as_input(const random_program *p, int i, random_call *c)
{
    an_ctx *ctx = NULL;
    an_graph *g = NULL;
    an_tensor *v[RANDOM_CALLS] = {NULL};
    bool ok = !an_ctx_create(NULL, &ctx) && !an_graph_create(ctx, &g) && !an_graph_set_device(g, "interp");
    for (int k = 0; k <= i && ok; k++) ok = (v[k] = random_apply(g, p, k, v)) != NULL;
    *c = (random_call){.op = RANDOM_INPUT, .src = {-1, -1, -1}, .seed = 2, .output = p->call[i].output};
    if (ok) {
        c->dtype = an_tensor_dtype(v[i]);
        c->n = an_tensor_rank(v[i]);
        for (uint32_t k = 0; k < c->n; k++) c->p[k] = an_tensor_dim(v[i], (int)k);
    }
    an_graph_destroy(g);
    an_ctx_destroy(ctx);
    return ok;
}

static bool keeps(random_program *p, const random_program *next, bool (*fails)(void *user, const random_program *p), void *user)
{
    bool any = false;
    for (int i = 0; i < next->n; i++) any = any || next->call[i].output;
    if (!any || !fails(user, next)) return false;
    *p = *next;
    return true;
}

static bool smaller_axes(random_program *p, bool (*fails)(void *user, const random_program *p), void *user)
{
    bool moved = false;
    for (int i = 0; i < p->n; i++)
        for (uint32_t k = 0; p->call[i].op == RANDOM_INPUT && k < p->call[i].n; k++)
            for (int64_t d = 1; d < p->call[i].p[k]; d++) {
                random_program next = *p;
                const int64_t old = p->call[i].p[k];
                /* the same size elsewhere is likely the same axis */
                for (int c = 0; c < next.n; c++)
                    for (uint32_t a = 0; a < next.call[c].n; a++)
                        if (next.call[c].p[a] == old && (next.call[c].op == RANDOM_INPUT || next.call[c].op == RANDOM_RESHAPE ||
                                                         next.call[c].op == RANDOM_BROADCAST))
                            next.call[c].p[a] = d;
                if (keeps(p, &next, fails, user)) {
                    moved = true;
                    break;
                }
            }
    return moved;
}

void random_shrink(random_program *p, bool (*fails)(void *user, const random_program *p), void *user)
{
    bool moved = true;
    for (int round = 0; moved && round < 8; round++) {
        moved = false;
        random_program next = *p;
        drop_unused(&next);
        if (next.n < p->n) (void)keeps(p, &next, fails, user);
        for (int i = 0; i < p->n; i++) { /* fewer outputs */
            next = *p;
            if (!next.call[i].output) continue;
            next.call[i].output = false;
            drop_unused(&next);
            if (keeps(p, &next, fails, user)) moved = true, i = -1;
        }
        for (int i = p->n; i-- > 0;) { /* a call by its operand, or by an input */
            for (int s = 0; s < 3 && i < p->n; s++) {
                next = *p;
                if (next.call[i].src[s] < 0) continue;
                forward(&next, i, next.call[i].src[s]);
                drop_unused(&next);
                if (keeps(p, &next, fails, user)) moved = true;
            }
            if (i >= p->n || p->call[i].op == RANDOM_INPUT) continue;
            next = *p;
            if (!as_input(p, i, &next.call[i])) continue;
            drop_unused(&next);
            if (keeps(p, &next, fails, user)) moved = true;
        }
        moved = smaller_axes(p, fails, user) || moved;
    }
}
