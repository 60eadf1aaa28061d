/* run.c - executes decoded instructions. Every result is rounded as docs/SEMANTICS.md says; every access is checked. */
#include "backend/interp/program.h"

#include <math.h>

typedef struct machine {
    an_ctx *ctx;
    const interp_program *p;
    an_scalar *regs;
    unsigned char *data[AN_KERNEL_PARAM_MAX + AN_LOCALS_MAX];
    int64_t count[AN_KERNEL_PARAM_MAX + AN_LOCALS_MAX]; /* elements */
} machine;

static an_status out_of_bounds(const machine *m, const interp_inst *in, int64_t index)
{
    return an_fail(m->ctx, AN_ERR_INTERNAL, "interp: kernel %s: %s of element %lld of buffer %u, which has %lld", m->p->name,
                   in->op == AN_OP_LOAD ? "load" : "store", (long long)index, in->arg, (long long)m->count[in->arg]);
}

static an_status access(machine *m, const interp_inst *in)
{
    const an_dtype dtype = m->p->params[in->arg].dtype;
    const size_t size = an_dtype_nbytes(dtype);
    const bool load = in->op == AN_OP_LOAD;
    const uint32_t gate = load ? in->src[1] : in->src[2];
    for (uint32_t l = 0; l < in->lanes; l++) {
        const int64_t index = m->regs[in->src[0] + l].i;
        if (gate != INTERP_NO_GATE && !m->regs[gate + l].i) {
            if (load) m->regs[in->dst + l] = (an_scalar){.u = 0};
            continue;
        }
        if (index < 0 || index >= m->count[in->arg]) return out_of_bounds(m, in, index);
        unsigned char *at = m->data[in->arg] + (size_t)index * size;
        if (load)
            m->regs[in->dst + l] = an_scalar_load(dtype, at);
        else
            an_scalar_store(dtype, m->regs[in->src[1] + l], at);
    }
    return AN_OK;
}

/* Element [row, column] of a factor. */
static an_status fragment(machine *m, const uint32_t *list, int64_t row, int64_t column, double *out)
{
    const int64_t index = m->regs[list[1]].i + row * list[2] + column * list[3];
    const interp_inst load = {.op = AN_OP_LOAD, .arg = list[0]};
    if (index < 0 || index >= m->count[list[0]]) return out_of_bounds(m, &load, index);
    const an_dtype dtype = m->p->params[list[0]].dtype;
    *out = an_scalar_load(dtype, m->data[list[0]] + (size_t)index * an_dtype_nbytes(dtype)).f;
    return AN_OK;
}

/* One by one, each sum rounded to f32: matrix units round in a way of their own (docs/SEMANTICS.md). */
static an_status matrix(machine *m, const interp_inst *in)
{
    const uint32_t *a = m->p->lists.data + in->vec_src, *b = a + INTERP_FRAGMENT_NLIST;
    for (uint32_t l = 0; l < in->lanes; l++) {
        double sum = 0, x = 0, y = 0;
        for (uint32_t k = 0; k < in->arg; k++) {
            an_status st = fragment(m, a, m->regs[in->src[0] + l].i, k, &x);
            if (!st) st = fragment(m, b, k, m->regs[in->src[1] + l].i, &y);
            if (st) return st;
            sum = (double)(float)(sum + x * y);
        }
        m->regs[in->dst + l].f = isnan(sum) ? an_scalar_round(AN_F64, (an_scalar){.f = sum}).f : sum;
    }
    return AN_OK;
}

static double canonical(double f)
{
    return isnan(f) ? an_scalar_round(AN_F64, (an_scalar){.f = f}).f : f;
}

/* x*y + z rounded once to f32. The product of two f32 is exact in double; rounding the sum to double and then to f32 is
 * one rounding unless the double lies halfway between two f32, or where f32 has fewer bits: there fmaf knows. */
static double mulacc_f32(double x, double y, double z)
{
    const double s = x * y + z;
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if ((bits & 0x1fffffff) == 0x10000000 || (s != 0 && fabs(s) < 0x1p-125)) return (double)fmaf((float)x, (float)y, (float)z);
    return (double)(float)s;
}

static void elementwise(machine *m, const interp_inst *in)
{
    for (uint32_t l = 0; l < in->lanes; l++) {
        an_scalar s[3] = {{.u = 0}, {.u = 0}, {.u = 0}};
        for (uint32_t i = 0; i < in->nsrc; i++) s[i] = m->regs[in->src[i] + l];
        an_scalar r;
        if (in->op == AN_OP_CAST)
            r = an_scalar_cast((an_dtype)in->dtype, (an_dtype)in->to, s[0]);
        else if (in->op == AN_OP_BITCAST)
            r = an_eval_bitcast((an_dtype)in->dtype, (an_dtype)in->to, s[0]);
        else
            r = an_eval((an_op)in->op, (an_dtype)in->dtype, s);
        m->regs[in->dst + l] = r;
    }
}

/* Any instruction that does not jump back. */
static an_status execute_any(machine *m, const interp_inst *in, size_t *pc)
{
    an_scalar *dst = m->regs + in->dst;
    switch (in->op) {
    case AN_OP_RANGE:
        dst->i = 0;
        if (m->regs[in->src[0]].i <= 0) *pc = in->arg;
        break;
    case AN_OP_LOAD:
    case AN_OP_STORE: return access(m, in);
    case AN_OP_MATRIX: return matrix(m, in);
    case AN_OP_ACC:
    case AN_OP_ACC_SET: memmove(dst, m->regs + in->src[0], in->lanes * sizeof *dst); break;
    case AN_OP_BROADCAST:
        for (uint32_t l = 0; l < in->lanes; l++) dst[l] = m->regs[in->src[0]];
        break;
    case AN_OP_RAMP:
        for (uint32_t l = 0; l < in->lanes; l++) dst[l].i = m->regs[in->src[0]].i + (int64_t)l;
        break;
    case AN_OP_VECTOR:
        for (uint32_t l = 0; l < in->lanes; l++) dst[l] = m->regs[m->p->lists.data[in->vec_src + l]];
        break;
    case AN_OP_HREDUCE: { /* halves onto halves, as the vector units do; docs/SEMANTICS.md fixes the order */
        an_scalar v[AN_LANES_MAX];
        uint32_t lanes = in->nsrc;
        memcpy(v, m->regs + in->src[0], lanes * sizeof *v);
        for (; lanes > 1; lanes = (lanes + 1) / 2)
            for (uint32_t l = 0; l < lanes / 2; l++) {
                const an_scalar pair[2] = {v[l], v[l + (lanes + 1) / 2]};
                v[l] = an_eval((an_op)in->arg, (an_dtype)in->dtype, pair);
            }
        *dst = v[0];
        break;
    }
    default: elementwise(m, in);
    }
    return AN_OK;
}

static an_status execute(machine *m)
{
    const interp_inst *insts = m->p->insts.data;
    const size_t n = m->p->insts.len;
    an_scalar *const regs = m->regs;
    for (size_t pc = 0; pc < n;) {
        const interp_inst *in = &insts[pc++];
        an_scalar *dst = regs + in->dst;
        const an_scalar *x = regs + in->src[0];
        switch ((interp_how)in->how) {
        case INTERP_ADD_F32: dst->f = canonical((double)(float)(x->f + regs[in->src[1]].f)); break;
        case INTERP_MUL_F32: dst->f = canonical((double)(float)(x->f * regs[in->src[1]].f)); break;
        case INTERP_MULACC_F32: dst->f = canonical(mulacc_f32(x->f, regs[in->src[1]].f, regs[in->src[2]].f)); break;
        case INTERP_ADD_INDEX: dst->u = x->u + regs[in->src[1]].u; break;
        case INTERP_MUL_INDEX: dst->u = x->u * regs[in->src[1]].u; break;
        case INTERP_LOAD_F32: {
            float f;
            if (x->i < 0 || x->i >= m->count[in->arg]) return out_of_bounds(m, in, x->i);
            memcpy(&f, m->data[in->arg] + (size_t)x->i * sizeof f, sizeof f);
            dst->f = (double)f;
            break;
        }
        case INTERP_SET: *dst = *x; break;
        case INTERP_NEXT:
            if (++dst->i < x->i) pc = in->arg;
            break;
        case INTERP_ANY: {
            const an_status st = execute_any(m, in, &pc);
            if (st) return st;
            break;
        }
        }
    }
    return AN_OK;
}

static size_t local_nbytes(const interp_program *p, uint32_t number)
{
    return (size_t)p->local_count[number] * an_dtype_nbytes(p->params[AN_KERNEL_PARAM_MAX + number].dtype);
}

static void free_locals(machine *m)
{
    for (uint32_t i = 0; i < AN_LOCALS_MAX; i++)
        an_mem_free(m->ctx, m->data[AN_KERNEL_PARAM_MAX + i], local_nbytes(m->p, i));
}

/* Filled with ones: what is read before it is written shows. */
static an_status make_locals(machine *m)
{
    for (uint32_t i = 0; i < AN_LOCALS_MAX; i++) {
        const size_t nbytes = local_nbytes(m->p, i);
        if (nbytes == 0) continue;
        m->data[AN_KERNEL_PARAM_MAX + i] = an_mem_alloc(m->ctx, nbytes);
        if (!m->data[AN_KERNEL_PARAM_MAX + i]) return AN_ERR_NOMEM;
        memset(m->data[AN_KERNEL_PARAM_MAX + i], 0xff, nbytes);
        m->count[AN_KERNEL_PARAM_MAX + i] = m->p->local_count[i];
    }
    return AN_OK;
}

an_status interp_run(an_ctx *ctx, interp_program *p, const an_launch *launch)
{
    machine m = {.ctx = ctx, .p = p};
    const size_t nbytes = p->regs.len * sizeof *m.regs;
    m.regs = an_mem_alloc(ctx, nbytes);
    if (!m.regs) return AN_ERR_NOMEM;
    if (nbytes) memcpy(m.regs, p->regs.data, nbytes);
    for (uint32_t i = 0; i < p->nparams; i++) {
        const interp_buffer *b = (const interp_buffer *)launch->buffers[i];
        const size_t offset = launch->offsets ? launch->offsets[i] : 0;
        m.data[i] = b->data + offset;
        m.count[i] = (int64_t)((b->base.nbytes - offset) / an_dtype_nbytes(p->params[i].dtype));
    }
    for (uint32_t i = 0; i < p->nvars; i++)
        if (p->var_regs[i] != UINT32_MAX) m.regs[p->var_regs[i]].i = launch->vars[i];
    an_status st = make_locals(&m);
    if (!st) st = execute(&m);
    free_locals(&m);
    an_mem_free(ctx, m.regs, nbytes);
    return st;
}
