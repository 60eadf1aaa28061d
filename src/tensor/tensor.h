/* tensor.h - what a tensor handle is, and what the files of the tensor API share. */
#ifndef AN_TENSOR_TENSOR_H
#define AN_TENSOR_TENSOR_H

#include "ir/uop.h"
#include <anneal/tensor.h>

/* Lives in the graph's arena.
 *   uop    the node it stands for; an_realize and an_assign replace it
 *   epoch  the oldest count of in-place writes its value was built at (runtime/runtime.h); UINT64_MAX: always current */
struct an_tensor {
    an_graph *graph;
    an_uop uop;
    uint64_t epoch;
};

/* A handle for a node built now from the operands (NULLs among them are skipped); NULL if u is none. */
an_tensor *an_tensor_wrap(an_graph *g, an_uop u, an_tensor *const *operands, size_t n);

/* The node x stands for at present: of an in-place write that has run, the buffer. */
an_uop an_tensor_node(an_tensor *x);

#endif
