/* op.c - the facts of ops.def, as a table. */
#include "ir/uop.h"

enum {
    ANY = -1,
    ELEM = AN_TRAIT_ELEM,
    COMM = AN_TRAIT_COMM,
    ASSOC = AN_TRAIT_ASSOC,
    IDEM = AN_TRAIT_IDEM,
    MOVE = AN_TRAIT_MOVE,
    IDENT = AN_TRAIT_IDENT,
    KERNEL = AN_TRAIT_KERNEL,
    UNARY = AN_TRAIT_UNARY,
    BINARY = AN_TRAIT_BINARY,
    TERNARY = AN_TRAIT_TERNARY,
    CMP = AN_TRAIT_CMP
};

static const an_op_info op_info[AN_OP_COUNT] = {
    [AN_OP_NONE] = {"none", 0, AN_RESULT_NONE, 0},
#define AN_OP(id, text, arity, result, traits)                                                     \
    [AN_OP_##id] = {text, arity, AN_RESULT_##result, traits},
#include "ir/ops.def"
#undef AN_OP
};

const an_op_info *an_op_info_of(an_op op)
{
    return &op_info[(unsigned)op < AN_OP_COUNT ? op : AN_OP_NONE];
}

an_op an_op_parse(const char *text)
{
    for (int op = 1; op < AN_OP_COUNT; op++)
        if (strcmp(op_info[op].text, text) == 0) return (an_op)op;
    return AN_OP_NONE;
}
