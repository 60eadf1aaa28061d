/* decode.c - nodes of a linear list to instructions over registers. */
#include "backend/interp/program.h"

#include "base/idmap.h"

typedef struct decoder {
    an_ctx *ctx;
    const an_kernel *kernel;
    interp_program *p;
    an_idmap reg_of;  /* node -> 1 + first register */
    an_idmap at;      /* RANGE -> 1 + its instruction */
} decoder;

static an_status unsupported(decoder *d, an_uop u)
{
    return an_fail(d->ctx, AN_ERR_INTERNAL, "interp: kernel %s: %s cannot be run", d->kernel->name,
                   an_op_info_of(an_uop_op(d->kernel->graph, u))->text);
}

static bool new_regs(decoder *d, an_uop u, uint32_t *first)
{
    const uint32_t lanes = an_uop_lanes(d->kernel->graph, u);
    if (!an_vec_reserve(d->ctx, &d->p->regs, lanes)) return false;
    *first = (uint32_t)d->p->regs.len;
    for (uint32_t i = 0; i < lanes; i++) d->p->regs.data[d->p->regs.len++] = (an_scalar){.u = 0};
    return an_idmap_set(&d->reg_of, d->ctx, u.id, *first + 1);
}

static uint32_t reg_of(const decoder *d, an_uop u)
{
    return an_idmap_get(&d->reg_of, u.id) - 1; /* 0 - 1 is NO_GATE, which verify.c rules out for values */
}

static interp_how how_of(const interp_inst *in)
{
    const bool f32 = in->dtype == AN_F32, index = in->dtype == AN_INDEX;
    if (in->op == AN_OP_END) return INTERP_NEXT;
    if (in->lanes != 1) return INTERP_ANY;
    switch (in->op) {
    case AN_OP_ADD: return f32 ? INTERP_ADD_F32 : index ? INTERP_ADD_INDEX : INTERP_ANY;
    case AN_OP_MUL: return f32 ? INTERP_MUL_F32 : index ? INTERP_MUL_INDEX : INTERP_ANY;
    case AN_OP_MULACC: return f32 ? INTERP_MULACC_F32 : INTERP_ANY;
    case AN_OP_LOAD: return f32 && in->src[1] == INTERP_NO_GATE ? INTERP_LOAD_F32 : INTERP_ANY;
    case AN_OP_ACC_SET: return INTERP_SET;
    default: return INTERP_ANY;
    }
}

/* Of a PARAM or LOCAL. */
static uint32_t slot_of(const an_graph *g, an_uop ptr)
{
    const uint64_t arg = an_uop_arg(g, ptr);
    return an_uop_op(g, ptr) == AN_OP_LOCAL ? AN_KERNEL_PARAM_MAX + (uint32_t)(arg >> 32) : (uint32_t)arg;
}

static an_status decode_one(decoder *d, an_uop u)
{
    const an_graph *g = d->kernel->graph;
    const an_op op = an_uop_op(g, u);
    const uint32_t nsrc = an_uop_nsrc(g, u);
    interp_inst in = {.op = (uint8_t)op,
                      .dtype = (uint8_t)an_uop_dtype(g, u),
                      .to = (uint8_t)an_uop_dtype(g, u),
                      .lanes = (uint8_t)an_uop_lanes(g, u),
                      .src = {0, INTERP_NO_GATE, INTERP_NO_GATE},
                      .nsrc = nsrc};
    if (op == AN_OP_PARAM || op == AN_OP_PREFETCH) return AN_OK;
    if (op == AN_OP_LOCAL) {
        const uint32_t number = (uint32_t)(an_uop_arg(g, u) >> 32);
        d->p->params[AN_KERNEL_PARAM_MAX + number].dtype = an_uop_dtype(g, u);
        d->p->local_count[number] = (uint32_t)an_uop_arg(g, u);
        return AN_OK;
    }
    if (op == AN_OP_ACC_GET) { /* the register of its accumulator, copied: the loop may run again */
        in.op = AN_OP_ACC;
    }
    if (op != AN_OP_STORE && op != AN_OP_ACC_SET && op != AN_OP_END && !new_regs(d, u, &in.dst)) return AN_ERR_NOMEM;
    switch (op) {
    case AN_OP_CONST:
        d->p->regs.data[in.dst] = an_uop_const_value(g, u);
        return AN_OK;
    case AN_OP_VAR:
        for (uint32_t i = 0; i < d->kernel->nvars; i++)
            if (an_uop_eq(d->kernel->vars[i], u)) d->p->var_regs[i] = in.dst;
        return AN_OK;
    case AN_OP_LOAD:
    case AN_OP_STORE:
        in.arg = slot_of(g, an_uop_src(g, u, 0));
        for (uint32_t i = 1; i < nsrc; i++) in.src[i - 1] = reg_of(d, an_uop_src(g, u, i));
        if (op == AN_OP_STORE) in.lanes = (uint8_t)an_uop_lanes(g, an_uop_src(g, u, 1));
        break;
    case AN_OP_RANGE:
        in.src[0] = reg_of(d, an_uop_src(g, u, 0));
        if (!an_idmap_set(&d->at, d->ctx, u.id, (uint32_t)d->p->insts.len + 1)) return AN_ERR_NOMEM;
        break;
    case AN_OP_END: {
        const an_uop range = an_uop_src(g, u, 0);
        const uint32_t start = an_idmap_get(&d->at, range.id) - 1;
        in.src[0] = reg_of(d, an_uop_src(g, range, 0));
        in.dst = reg_of(d, range);
        in.arg = start + 1;
        d->p->insts.data[start].arg = (uint32_t)d->p->insts.len + 1; /* past this END */
        break;
    }
    case AN_OP_ACC_SET:
        in.dst = reg_of(d, an_uop_src(g, u, 0));
        in.src[0] = reg_of(d, an_uop_src(g, u, 1));
        in.lanes = (uint8_t)an_uop_lanes(g, an_uop_src(g, u, 0));
        break;
    case AN_OP_ACC:
    case AN_OP_ACC_GET:
    case AN_OP_RAMP:
    case AN_OP_BROADCAST: in.src[0] = reg_of(d, an_uop_src(g, u, 0)); break;
    case AN_OP_LANE:
        in.src[0] = reg_of(d, an_uop_src(g, u, 0)) + (uint32_t)an_uop_arg(g, u);
        in.op = AN_OP_BROADCAST;
        break;
    case AN_OP_HREDUCE:
        in.src[0] = reg_of(d, an_uop_src(g, u, 0));
        in.arg = (uint32_t)an_reduce_op(an_uop_arg(g, u));
        in.nsrc = an_uop_lanes(g, an_uop_src(g, u, 0));
        break;
    case AN_OP_VECTOR:
        in.vec_src = (uint32_t)d->p->lists.len;
        for (uint32_t i = 0; i < nsrc; i++)
            if (!an_vec_push(d->ctx, &d->p->lists, reg_of(d, an_uop_src(g, u, i)))) return AN_ERR_NOMEM;
        break;
    case AN_OP_FRAGMENT: /* where it begins */
        in.op = AN_OP_ACC;
        in.src[0] = reg_of(d, an_uop_src(g, u, 1));
        break;
    case AN_OP_MATRIX:
        in.vec_src = (uint32_t)d->p->lists.len;
        for (uint32_t i = 0; i < 2; i++) {
            const an_uop x = an_uop_src(g, u, i);
            const an_fragment f = an_fragment_of(an_uop_arg(g, x));
            const uint32_t list[INTERP_FRAGMENT_NLIST] = {slot_of(g, an_uop_src(g, x, 0)), reg_of(d, x), f.row_step, f.column_step};
            for (uint32_t k = 0; k < INTERP_FRAGMENT_NLIST; k++)
                if (!an_vec_push(d->ctx, &d->p->lists, list[k])) return AN_ERR_NOMEM;
            in.arg = i == 0 ? f.columns : in.arg;
            in.src[i] = reg_of(d, an_uop_src(g, u, 2 + i));
        }
        break;
    default:
        if (!an_op_has(op, AN_TRAIT_ELEM)) return unsupported(d, u);
        for (uint32_t i = 0; i < nsrc; i++) in.src[i] = reg_of(d, an_uop_src(g, u, i));
        in.dtype = (uint8_t)an_uop_dtype(g, an_uop_src(g, u, op == AN_OP_WHERE ? 1 : 0));
        break;
    }
    in.how = (uint8_t)how_of(&in);
    return an_vec_push(d->ctx, &d->p->insts, in) ? AN_OK : AN_ERR_NOMEM;
}

an_status interp_decode(an_ctx *ctx, const an_kernel *kernel, interp_program *p)
{
    decoder d = {.ctx = ctx, .kernel = kernel, .p = p};
    an_status st = AN_OK;
    p->name_nbytes = strlen(kernel->name) + 1;
    p->name = an_mem_alloc(ctx, p->name_nbytes);
    if (!p->name) return AN_ERR_NOMEM;
    memcpy(p->name, kernel->name, p->name_nbytes);
    p->nparams = kernel->nparams;
    p->nvars = kernel->nvars;
    for (uint32_t i = 0; i < p->nvars; i++) p->var_regs[i] = UINT32_MAX; /* until the list has it */
    memcpy(p->params, kernel->params, sizeof kernel->params);
    for (size_t i = 0; i < kernel->nlinear && !st; i++) st = decode_one(&d, kernel->linear[i]);
    an_idmap_fini(&d.reg_of, ctx);
    an_idmap_fini(&d.at, ctx);
    return st;
}

void interp_program_fini(an_ctx *ctx, interp_program *p)
{
    an_mem_free(ctx, p->name, p->name_nbytes);
    an_vec_fini(ctx, &p->insts);
    an_vec_fini(ctx, &p->lists);
    an_vec_fini(ctx, &p->regs);
}
