/* jvp.c - the forward sweep: sources before users, each node gets its tangent from those of its sources by the rules of
 * jvp.upat. A tangent that is zero is no node, and what depends on no input is not visited. */
#include "autodiff/autodiff.h"
#include "autodiff/grad_rules.h"

/* One sweep. tangents is indexed by the ids that existed when it began; AN_UOP_NONE is zero. */
typedef struct sweep {
    an_graph *g;
    an_rewriter rw;
    an_grad_memo memo;
    an_uop_vec order; /* below the outputs, sources first */
    an_uop *tangents;
    unsigned char *given;      /* an input: its tangent is the caller's, whatever it was computed from */
    AN_VEC(an_uop) in, parts;  /* of the sources of one node, and what each adds */
    size_t tangents_nbytes, given_nbytes;
    bool had_error; /* the context held an error before: it says nothing about this sweep */
} sweep;

/* Collects the tangents of the sources of u in s->in. *any: there is one. False when memory is out. */
static bool collect(sweep *s, an_uop u, bool *any)
{
    const uint32_t nsrc = an_uop_nsrc(s->g, u);
    an_ctx *ctx = an_graph_ctx(s->g);
    *any = false;
    s->in.len = s->parts.len = 0;
    if (!an_vec_reserve(ctx, &s->in, nsrc) || !an_vec_reserve(ctx, &s->parts, nsrc)) return false;
    for (uint32_t k = 0; k < nsrc; k++) {
        s->in.data[k] = s->tangents[an_uop_src(s->g, u, k).id];
        s->parts.data[k] = AN_UOP_NONE;
        *any = *any || !an_uop_is_none(s->in.data[k]);
    }
    return true;
}

/* What two sources add: of a choice, where(c, x, 0) + where(c, 0, y) is where(c, x, y). */
static an_uop add_parts(an_graph *g, an_uop a, an_uop b)
{
    const bool choice = an_uop_op(g, a) == AN_OP_WHERE && an_uop_op(g, b) == AN_OP_WHERE && an_uop_eq(an_uop_src(g, a, 0), an_uop_src(g, b, 0));
    if (choice && an_uop_is_number(g, an_uop_src(g, a, 2), 0.0) && an_uop_is_number(g, an_uop_src(g, b, 1), 0.0))
        return an_select(g, an_uop_src(g, a, 0), an_uop_src(g, a, 1), an_uop_src(g, b, 2));
    return an_binary(g, AN_OP_ADD, a, b);
}

/* The tangent of u from those of its sources. */
static an_status visit(sweep *s, an_uop u)
{
    an_graph *g = s->g;
    an_ctx *ctx = an_graph_ctx(g);
    bool any = false;
    if (!collect(s, u, &any)) return AN_ERR_NOMEM;
    if (!any) return AN_OK;
    const bool matched = an_rules_jvp.match(&s->rw, u, s->in.data, s->parts.data);
    /* A rule that ran out of memory counts as not matching, and a commutative one then tries the other order. */
    if (!s->had_error && an_ctx_status(ctx)) return an_ctx_status(ctx);
    if (!matched)
        return an_fail(ctx, AN_ERR_UNSUPPORTED,
                       "no forward-mode rule for %s on %s: detach its operand, or add a rule to jvp.upat",
                       an_op_info_of(an_uop_op(g, u))->text, an_dtype_name(an_uop_dtype(g, u)));
    const uint32_t outer = an_graph_set_rule(g, an_rules_jvp.first_id + (uint32_t)(s->rw.fired - an_rules_jvp.rules));
    an_uop sum = AN_UOP_NONE;
    bool ok = true;
    for (uint32_t k = 0; k < an_uop_nsrc(g, u) && ok; k++) {
        if (an_uop_is_none(s->parts.data[k])) continue;
        const an_uop part = an_grad_fit(g, s->parts.data[k], u);
        sum = an_uop_is_none(sum) ? part : add_parts(g, sum, part);
        ok = !an_uop_is_none(sum);
    }
    an_graph_set_rule(g, outer);
    if (!ok) return an_ctx_status(ctx) ? an_ctx_status(ctx) : AN_ERR_NOMEM;
    s->tangents[u.id] = sum;
    return AN_OK;
}

static an_status check_node(an_graph *g, const char *what, size_t i, an_uop u)
{
    an_ctx *ctx = an_graph_ctx(g);
    if (an_uop_is_none(u)) return an_fail(ctx, AN_ERR_ARG, "jvp: %s %zu is no node", what, i);
    if (an_grad_is_float(g, u)) return AN_OK;
    return an_fail(ctx, AN_ERR_DTYPE, "jvp: %s %zu is of dtype %s; only floats have tangents", what, i,
                   an_dtype_name(an_uop_dtype(g, u)));
}

static an_status run(sweep *s, const an_jvp_request *r, an_uop *out)
{
    an_graph *g = s->g;
    an_ctx *ctx = an_graph_ctx(g);
    an_status st = an_toposort(g, r->outputs, (uint32_t)r->noutputs, &s->order);
    if (st) return st;
    const uint32_t len = an_graph_len(g);
    s->tangents = an_graph_table(g, sizeof *s->tangents, &s->tangents_nbytes);
    s->given = an_graph_table(g, sizeof *s->given, &s->given_nbytes);
    if (!s->tangents || !s->given) return AN_ERR_NOMEM;
    for (size_t i = 0; i < r->ninputs; i++) {
        const an_uop x = r->inputs[i];
        an_uop d = r->tangents[i];
        s->given[x.id] = 1;
        if (an_uop_is_none(d)) continue;
        d = an_grad_fit(g, d, x);
        if (!an_uop_is_none(d) && !an_uop_is_none(s->tangents[x.id])) d = an_binary(g, AN_OP_ADD, s->tangents[x.id], d);
        if (an_uop_is_none(d)) return AN_ERR_NOMEM;
        s->tangents[x.id] = d;
    }
    for (size_t i = 0; i < s->order.len; i++) {
        const an_uop u = s->order.data[i];
        if (s->given[u.id] || !an_grad_is_float(g, u) || an_nondiff_reason(an_uop_op(g, u))) continue;
        st = visit(s, u);
        if (st) return st;
    }

    /* The lists are filled whole before the caller sees any of it. */
    s->parts.len = 0;
    if (!an_vec_reserve(ctx, &s->parts, r->noutputs)) return AN_ERR_NOMEM;
    for (size_t i = 0; i < r->noutputs; i++) {
        const an_uop y = r->outputs[i];
        an_uop d = y.id < len ? s->tangents[y.id] : AN_UOP_NONE;
        if (an_uop_is_none(d)) d = an_grad_full_like(g, y, 0.0);
        if (an_uop_is_none(d)) return AN_ERR_NOMEM;
        s->parts.data[i] = d;
    }
    if (r->noutputs) memcpy(out, s->parts.data, r->noutputs * sizeof *out);
    return AN_OK;
}

an_status an_jvp_uops(an_graph *g, const an_jvp_request *r, an_uop *out)
{
    an_ctx *ctx = an_graph_ctx(g);
    an_status st = AN_OK;
    for (size_t i = 0; i < r->noutputs && !st; i++) st = check_node(g, "output", i, r->outputs[i]);
    for (size_t i = 0; i < r->ninputs && !st; i++) st = check_node(g, "input", i, r->inputs[i]);
    if (st) return st;
    sweep s = {.g = g, .had_error = an_ctx_status(ctx) != AN_OK};
    an_rewriter_init(&s.rw, g, NULL, &s.memo);
    const an_phase phase = an_graph_set_phase(g, AN_PHASE_TANGENT);
    const uint32_t rule = an_graph_set_rule(g, 0);
    st = run(&s, r, out);
    an_graph_set_rule(g, rule);
    an_graph_set_phase(g, phase);
    an_rewriter_fini(&s.rw);
    an_grad_memo_fini(&s.memo, ctx);
    an_vec_fini(ctx, &s.order);
    an_vec_fini(ctx, &s.in);
    an_vec_fini(ctx, &s.parts);
    an_mem_free(ctx, s.tangents, s.tangents_nbytes);
    an_mem_free(ctx, s.given, s.given_nbytes);
    return st;
}
