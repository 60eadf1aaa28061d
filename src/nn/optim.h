/* optim.h - what optim.c (making one, its lists) and update.c (the graph of a step) share. */
#ifndef AN_NN_OPTIM_H
#define AN_NN_OPTIM_H

#include <anneal/nn.h>

typedef enum an_optim_kind { AN_OPTIM_SGD, AN_OPTIM_ADAM, AN_OPTIM_ADAMW } an_optim_kind;
enum { AN_OPTIM_NSTATE = 3 }; /* state tensors of a parameter, at most */

struct an_optim {
    an_graph *graph;
    an_optim_kind kind;
    an_params params;
    an_sgd_desc sgd;
    an_adam_desc adam;
    double *decay, *lr_scale; /* of each parameter */
    an_tensor *lr;            /* rank 0 */
    double lr_value;
    an_tensor *step;   /* rank 0, i32: steps done; NULL where nothing depends on it */
    an_tensor **state; /* AN_OPTIM_NSTATE a parameter, NULL where there is none */
    bool *written;     /* a parameter that some step has written */
    bool is_stepped;   /* a step was built: too late to change how */
    double max_norm;   /* 0: any */
    /* the schedule */
    an_lr_kind schedule;
    an_tensor *schedule_numbers; /* f32 (3): warmup, total, end / start; NULL: constant */
    double schedule_end;
    an_tensor *rate; /* rank 0: the learning rate of the last step built */
    /* accumulation of gradients over several runs */
    int64_t accumulate; /* 1: none */
    an_tensor *micro;   /* i32 (): which of them is next */
    an_tensor **sums;   /* a parameter each */
    /* loss scaling */
    an_tensor *scale;   /* f32 () */
    an_tensor *good;    /* i32 (): steps since the scale changed */
    int64_t growth_interval;
    /* moving averages */
    double ema;
    an_tensor **averages; /* a parameter each */
};

/* A buffer of zeros of x's shape, in a dtype. */
an_tensor *an_optim_zeros(an_tensor *x, an_dtype dtype);

#endif
