/* opt_list.c - lists of opts: applied, enumerated, written and read. */
#include "codegen/opt.h"

#include <string.h>

an_status an_opt_apply_list(an_graph *g, an_uop *sink, const an_opt *list, size_t n)
{
    an_uop now = *sink;
    for (size_t i = 0; i < n; i++) {
        const char *why = NULL;
        const an_status st = an_opt_apply(g, &now, list[i], &why);
        if (st) return st;
        if (why)
            return an_fail(an_graph_ctx(g), AN_ERR_ARG, "opt %zu of the list, %s of range %u by %lld, does not apply: %s", i + 1,
                           an_opt_name(list[i].kind), list[i].range, (long long)list[i].amount, why);
    }
    *sink = now;
    return AN_OK;
}

/* Amounts worth a try; 0 ends them. For ORDER they are the other ranges. */
static const int64_t amounts[AN_OPT_COUNT][8] = {
    [AN_OPT_UPCAST] = {2, 3, 4, 6, 8}, [AN_OPT_UNROLL] = {2, 4, 8},       [AN_OPT_GROUP] = {2, 4, 8}, [AN_OPT_VECTOR] = {4, 8, 16, 32},
    [AN_OPT_CUT] = {4, 8, 16, 32, 64}, [AN_OPT_PADTO] = {4, 6, 8, 16, 64},
};

static an_status try_opt(an_graph *g, an_uop sink, an_opt opt, an_opt_vec *out)
{
    const char *why = NULL;
    an_uop trial = sink;
    const an_status st = an_opt_apply(g, &trial, opt, &why);
    if (st || why) return st;
    return an_vec_push(an_graph_ctx(g), out, opt) ? AN_OK : AN_ERR_NOMEM;
}

static an_status legal_of_range(const an_dag *d, an_uop sink, size_t r, an_opt_kind kind, int64_t lanes_max, int64_t scratch,
                                an_opt_vec *out)
{
    const uint32_t id = an_range_id(an_uop_arg(d->g, d->ranges.data[r]));
    const int64_t n = an_range_bound(d->g, d->ranges.data[r]);
    an_status st = AN_OK;
    for (size_t k = 0; kind == AN_OPT_ORDER && k < r && !st; k++) /* outwards only: each order is reached that way */
        st = try_opt(d->g, sink, (an_opt){kind, id, an_range_id(an_uop_arg(d->g, d->ranges.data[k]))}, out);
    if ((kind == AN_OPT_PACK || kind == AN_OPT_KEEP) && scratch) st = try_opt(d->g, sink, (an_opt){kind, id, scratch}, out);
    for (size_t k = 0; k < sizeof amounts[kind] / sizeof amounts[kind][0] && amounts[kind][k] && !st; k++) {
        const int64_t amount = amounts[kind][k];
        if (kind == AN_OPT_VECTOR && amount > lanes_max) continue;
        if (kind == AN_OPT_PADTO && n > 0 && n % amount == 0) continue; /* a CUT */
        st = try_opt(d->g, sink, (an_opt){kind, id, amount}, out);
    }
    /* A tail after as many vectors or copies as there are. */
    for (int64_t amount = 4; kind == AN_OPT_SPLIT && amount <= 16 && !st; amount *= 2)
        if (n > amount && n % amount) st = try_opt(d->g, sink, (an_opt){kind, id, n - n % amount}, out);
    return st;
}

an_status an_opt_legal(an_graph *g, an_uop sink, const an_codegen_opts *opts, an_opt_vec *out)
{
    an_dag d = {0};
    const int64_t lanes_max = opts->vector_nbytes; /* of bytes; a wide one of anything else */
    an_status st = an_dag_init(&d, g, &sink, 1);
    for (size_t r = 0; r < d.ranges.len && !st; r++)
        for (int kind = 0; kind < AN_OPT_COUNT && !st; kind++)
            st = legal_of_range(&d, sink, r, (an_opt_kind)kind, lanes_max, opts->scratch_nbytes, out);
    an_dag_fini(&d);
    return st;
}

an_status an_opt_print(an_str *out, const an_opt *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        an_str_printf(out, "%s%s:%u:%lld", i ? " " : "", an_opt_name(list[i].kind), list[i].range, (long long)list[i].amount);
    return out->failed ? AN_ERR_NOMEM : AN_OK;
}

/* The kind whose name is text[0..len-1], or AN_OPT_COUNT. */
static an_opt_kind kind_of_name(const char *text, size_t len)
{
    for (int k = 0; k < AN_OPT_COUNT; k++)
        if (strlen(an_opt_name((an_opt_kind)k)) == len && memcmp(an_opt_name((an_opt_kind)k), text, len) == 0) return (an_opt_kind)k;
    return AN_OPT_COUNT;
}

/* The digits at *at, and *at past them; -1 for none or too many. */
static int64_t number(const char **at)
{
    int64_t v = 0;
    const size_t n = strspn(*at, "0123456789");
    if (n == 0 || n > 18) return -1;
    for (size_t i = 0; i < n; i++) v = v * 10 + ((*at)[i] - '0');
    *at += n;
    return v;
}

an_status an_opt_parse(an_ctx *ctx, const char *text, an_opt_vec *out)
{
    static const char blanks[] = " ,\t\n";
    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        const size_t len = strcspn(text, blanks), name = strcspn(text, ":");
        const an_opt_kind kind = name < len ? kind_of_name(text, name) : AN_OPT_COUNT;
        const char *at = text + name;
        const int64_t range = name < len ? (at++, number(&at)) : -1;
        const int64_t amount = range >= 0 && *at == ':' ? (at++, number(&at)) : -1;
        if (kind == AN_OPT_COUNT || range < 0 || range > UINT32_MAX || amount < 0 || at != text + len)
            return an_fail(ctx, AN_ERR_ARG, "'%.*s' is no opt: one is NAME:RANGE:AMOUNT, like UPCAST:1024:4",
                           (int)(len < 60 ? len : 60), text);
        if (out->len >= AN_OPTS_MAX) return an_fail(ctx, AN_ERR_ARG, "a list of more than %d opts", AN_OPTS_MAX);
        const an_opt opt = {kind, (uint32_t)range, amount};
        if (!an_vec_push(ctx, out, opt)) return AN_ERR_NOMEM;
        text += len;
    }
    return AN_OK;
}
