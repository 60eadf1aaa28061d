/* backward.c - the reverse sweep: from the loss down, each node hands its cotangent to its sources by the rules of
 * grad.upat. Only nodes between the loss and a wrt are visited. */
#include "autodiff/autodiff.h"
#include "autodiff/grad_rules.h"

static const char *const nondiff[AN_OP_COUNT] = {
#define AN_NONDIFF(id, why) [AN_OP_##id] = why,
#include "autodiff/nondiff.def"
#undef AN_NONDIFF
};

const char *an_nondiff_reason(an_op op)
{
    return nondiff[op];
}

/* One sweep. need and cotangents are indexed by the ids that existed when it began. */
typedef struct sweep {
    an_graph *g;
    an_rewriter rw;
    an_grad_memo memo;
    an_uop_vec order;         /* below the loss, sources first */
    unsigned char *need;      /* lies on a path to a wrt */
    an_uop *cotangents;       /* AN_UOP_NONE: zero so far */
    AN_VEC(an_uop) parts;     /* what a rule gives, one for each source */
    size_t need_nbytes, cotangents_nbytes;
    bool had_error; /* the context held an error before: it says nothing about this sweep */
} sweep;

static void mark_needed(sweep *s, const an_uop *wrt, size_t n)
{
    const uint32_t len = an_graph_len(s->g);
    for (size_t i = 0; i < n; i++)
        if (wrt[i].id < len) s->need[wrt[i].id] = 1;
    for (size_t i = 0; i < s->order.len; i++) {
        const an_uop u = s->order.data[i];
        if (s->need[u.id] || !an_grad_is_float(s->g, u) || nondiff[an_uop_op(s->g, u)]) continue;
        for (uint32_t k = 0; k < an_uop_nsrc(s->g, u); k++)
            if (s->need[an_uop_src(s->g, u, k).id]) s->need[u.id] = 1;
    }
}

/* True if a source of u lies on a path to a wrt through u. */
static bool leads_on(const sweep *s, an_uop u)
{
    if (nondiff[an_uop_op(s->g, u)]) return false;
    for (uint32_t k = 0; k < an_uop_nsrc(s->g, u); k++) {
        const an_uop src = an_uop_src(s->g, u, k);
        if (s->need[src.id] && an_grad_is_float(s->g, src)) return true;
    }
    return false;
}

/* Hands the cotangent of u to its sources. */
static an_status visit(sweep *s, an_uop u)
{
    an_graph *g = s->g;
    an_ctx *ctx = an_graph_ctx(g);
    const char *op = an_op_info_of(an_uop_op(g, u))->text;
    const uint32_t nsrc = an_uop_nsrc(g, u);
    const an_uop cotangent = s->cotangents[u.id];
    s->parts.len = 0;
    if (!an_vec_reserve(ctx, &s->parts, nsrc)) return AN_ERR_NOMEM;
    for (uint32_t k = 0; k < nsrc; k++) s->parts.data[k] = AN_UOP_NONE;
    const bool matched = an_rules_grad.match(&s->rw, u, &cotangent, s->parts.data);
    /* A rule that ran out of memory counts as not matching, and a commutative one then tries the other order. */
    if (!s->had_error && an_ctx_status(ctx)) return an_ctx_status(ctx);
    if (!matched) {
        return an_fail(ctx, AN_ERR_UNSUPPORTED,
                       "no gradient rule for %s on %s: detach its operand, or add a rule to grad.upat", op,
                       an_dtype_name(an_uop_dtype(g, u)));
    }
    const uint32_t rule = an_rules_grad.first_id + (uint32_t)(s->rw.fired - an_rules_grad.rules);
    const uint32_t outer = an_graph_set_rule(g, rule);
    an_status st = AN_OK;
    for (uint32_t k = 0; k < nsrc && !st; k++) {
        const an_uop src = an_uop_src(g, u, k);
        if (!s->need[src.id] || !an_grad_is_float(g, src)) continue;
        an_uop part = s->parts.data[k];
        if (!an_uop_is_none(part)) part = an_grad_fit(g, part, src);
        const an_uop sum = s->cotangents[src.id];
        if (!an_uop_is_none(part) && !an_uop_is_none(sum)) part = an_binary(g, AN_OP_ADD, sum, part);
        if (an_uop_is_none(part)) {
            st = an_ctx_status(ctx);
            if (!st)
                st = an_fail(ctx, AN_ERR_INTERNAL, "gradient rule %s gives nothing for source %u of %s",
                             s->rw.fired->name, k, op);
        }
        s->cotangents[src.id] = part;
    }
    an_graph_set_rule(g, outer);
    return st;
}

static an_status check(an_graph *g, an_uop loss, const an_uop *wrt, size_t n)
{
    an_ctx *ctx = an_graph_ctx(g);
    if (an_uop_is_none(loss)) return an_fail(ctx, AN_ERR_ARG, "backward from no node: building the loss failed");
    if (!an_grad_is_float(g, loss))
        return an_fail(ctx, AN_ERR_DTYPE, "backward from a loss of dtype %s: only floats have gradients; cast it",
                       an_dtype_name(an_uop_dtype(g, loss)));
    for (size_t i = 0; i < n; i++) {
        if (an_uop_is_none(wrt[i])) return an_fail(ctx, AN_ERR_ARG, "backward: operand %zu is no node", i);
        if (!an_grad_is_float(g, wrt[i]))
            return an_fail(ctx, AN_ERR_DTYPE, "backward: operand %zu is of dtype %s; only floats have gradients", i,
                           an_dtype_name(an_uop_dtype(g, wrt[i])));
    }
    return AN_OK;
}

static an_status run(sweep *s, an_uop loss, an_uop cotangent, const an_uop *wrt, size_t n, an_uop *out)
{
    an_graph *g = s->g;
    an_ctx *ctx = an_graph_ctx(g);
    an_status st = an_toposort(g, &loss, 1, &s->order);
    if (st) return st;
    const uint32_t len = an_graph_len(g);
    s->need = an_graph_table(g, sizeof *s->need, &s->need_nbytes);
    s->cotangents = an_graph_table(g, sizeof *s->cotangents, &s->cotangents_nbytes);
    if (!s->need || !s->cotangents) return AN_ERR_NOMEM;
    mark_needed(s, wrt, n);

    if (an_uop_is_none(cotangent)) cotangent = an_grad_full_like(g, loss, 1.0);
    if (!an_uop_is_none(cotangent)) cotangent = an_grad_fit(g, cotangent, loss);
    if (an_uop_is_none(cotangent)) return an_ctx_status(ctx) ? an_ctx_status(ctx) : AN_ERR_NOMEM;
    s->cotangents[loss.id] = cotangent;
    for (size_t i = s->order.len; i-- > 0;) {
        const an_uop u = s->order.data[i];
        if (!s->need[u.id] || an_uop_is_none(s->cotangents[u.id]) || !leads_on(s, u)) continue;
        st = visit(s, u);
        if (st) return st;
    }

    /* The lists are filled whole before the caller sees any of it. */
    s->parts.len = 0;
    if (!an_vec_reserve(ctx, &s->parts, n)) return AN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        an_uop grad = wrt[i].id < len ? s->cotangents[wrt[i].id] : AN_UOP_NONE;
        if (an_uop_is_none(grad)) grad = an_grad_full_like(g, wrt[i], 0.0);
        if (an_uop_is_none(grad)) return AN_ERR_NOMEM;
        s->parts.data[i] = grad;
    }
    if (n) memcpy(out, s->parts.data, n * sizeof *out);
    return AN_OK;
}

an_status an_backward_uops(an_graph *g, an_uop loss, an_uop cotangent, const an_uop *wrt, size_t n, an_uop *out)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_status st = check(g, loss, wrt, n);
    if (st) return st;
    sweep s = {.g = g, .had_error = an_ctx_status(ctx) != AN_OK};
    an_rewriter_init(&s.rw, g, NULL, &s.memo);
    const an_phase phase = an_graph_set_phase(g, AN_PHASE_BACKWARD);
    const uint32_t rule = an_graph_set_rule(g, 0);
    st = run(&s, loss, cotangent, wrt, n, out);
    an_graph_set_rule(g, rule);
    an_graph_set_phase(g, phase);
    an_rewriter_fini(&s.rw);
    an_grad_memo_fini(&s.memo, ctx);
    an_vec_fini(ctx, &s.order);
    an_vec_fini(ctx, &s.parts);
    an_mem_free(ctx, s.need, s.need_nbytes);
    an_mem_free(ctx, s.cotangents, s.cotangents_nbytes);
    return st;
}
