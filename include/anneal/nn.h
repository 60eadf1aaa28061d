/* nn.h - modules with named parameters, initialisers and optimisers: PyTorch's vocabulary in C, built on tensor.h alone.
 *
 *     an_init init = {.graph = g, .seed = 0};
 *     an_module *net = an_nn_sequential(g, AN_MODULES(an_nn_linear(&init, 784, 128, NULL), an_nn_function(g, "relu", an_relu),
 *                                                     an_nn_linear(&init, 128, 10, NULL)));
 *     an_optim *opt = an_optim_adam(an_module_parameters(net), &(an_adam_desc){.lr = 1e-3});
 *     an_tensor *loss = an_cross_entropy(an_module_forward(net, x), y, NULL);
 *     an_optim_minimize(opt, loss);
 *     an_optim_plan(opt, &loss, 1, NULL, &plan);
 *     for (...) { an_tensor_write(x, ...); an_tensor_write(y, ...); an_plan_run(plan); an_item_f64(loss, &value); }
 *
 * Modules, parameters and optimisers belong to their graph and go with it. As in tensor.h, a NULL operand gives NULL (or
 * AN_ERR_ARG) without a new error, so a chain of calls needs one check, at its end. */
#ifndef ANNEAL_NN_H
#define ANNEAL_NN_H

#include <anneal/grad.h>
#include <anneal/plan.h>
#include <anneal/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- initialisers ------------------------------------------------------------------------------- */

/* Where parameters come from: the caller's struct. Draw j fills element i from threefry(seed, (i, j)), so a program draws
 * the same parameters on every device. */
typedef struct an_init {
    an_graph *graph;
    uint64_t seed;
    uint32_t draws; /* made so far */
    an_dtype dtype; /* of parameters; AN_DTYPE_NONE: f32 */
    double std;     /* 0: each layer in its own way; else N(0, std^2) for weights of linear layers and embeddings, their biases 0 */
} an_init;

/* Each gives a tensor in a buffer of its own. dims are (out, in, kernel...), as PyTorch lays weights out:
 * fan_in = in * kernel..., fan_out = out * kernel... . Errors: NULL; AN_ERR_ARG for bounds out of order, a negative
 * deviation or fans of a rank below 2; AN_ERR_DTYPE if init's is no float; AN_ERR_DEVICE, AN_ERR_NOMEM. */
AN_API an_tensor *an_init_constant(an_init *init, const int64_t *dims, uint32_t rank, double value);
AN_API an_tensor *an_init_uniform(an_init *init, const int64_t *dims, uint32_t rank, double low, double high);
AN_API an_tensor *an_init_normal(an_init *init, const int64_t *dims, uint32_t rank, double mean, double std);
/* Normal, drawn again until low <= value <= high. The range holds the mean and is at least std wide. */
AN_API an_tensor *an_init_trunc_normal(an_init *init, const int64_t *dims, uint32_t rank, double mean, double std,
                                       double low, double high);
/* slope is that of the leaky ReLU that follows, 0 for ReLU; sqrt(5) gives the default of PyTorch's Linear and Conv,
 * U(-1/sqrt(fan_in), 1/sqrt(fan_in)). */
AN_API an_tensor *an_init_kaiming_uniform(an_init *init, const int64_t *dims, uint32_t rank, double slope);
                                                                     /* U(-b, b), b = sqrt(6 / ((1 + slope^2) fan_in)) */
AN_API an_tensor *an_init_kaiming_normal(an_init *init, const int64_t *dims, uint32_t rank, double slope);
                                                                     /* N(0, 2 / ((1 + slope^2) fan_in)) */
AN_API an_tensor *an_init_xavier_uniform(an_init *init, const int64_t *dims, uint32_t rank, double gain);
                                                                     /* U(-b, b), b = gain sqrt(6 / (fan_in + fan_out)) */
AN_API an_tensor *an_init_xavier_normal(an_init *init, const int64_t *dims, uint32_t rank, double gain);
                                                                     /* N(0, gain^2 2 / (fan_in + fan_out)) */

/* --- modules ------------------------------------------------------------------------------------ */

/* Parameters, children and a forward function. A module has at most one parent; tensors may be shared. */
typedef struct an_module an_module;
typedef an_tensor *(*an_forward)(an_module *m, an_tensor *x);

/* A module of one's own: kind is what it is called in listings, data is for forward (an_module_data), borrowed. */
AN_API an_module *an_module_create(an_graph *g, const char *kind, an_forward forward, void *data);

/* Names a tensor or module within m and returns it. Names have no '.' and are not used twice in one module (AN_ERR_ARG).
 * A parameter is trained; a buffer only belongs to the state. With m or what is added NULL: NULL. */
AN_API an_tensor *an_module_add_parameter(an_module *m, const char *name, an_tensor *tensor);
AN_API an_tensor *an_module_add_buffer(an_module *m, const char *name, an_tensor *tensor);
AN_API an_module *an_module_add_child(an_module *m, const char *name, an_module *child);

/* m(x): NULL if m or x is. */
AN_API an_tensor *an_module_forward(an_module *m, an_tensor *x);

AN_API an_graph *an_module_graph(const an_module *m);
AN_API const char *an_module_kind(const an_module *m);
AN_API void *an_module_data(const an_module *m);
/* By dotted path: "fc1.weight", "0". NULL, without an error, if there is none. */
AN_API an_tensor *an_module_tensor(const an_module *m, const char *path);
AN_API an_module *an_module_child(const an_module *m, const char *path);

/* Training mode of m and all below it; on at first. Dropout asks for it when forward is called. */
AN_API void an_module_train(an_module *m, bool on);
AN_API bool an_module_is_training(const an_module *m);

/* The dtype in which linear layers, convolutions and attention of m and all below it compute; AN_DTYPE_NONE, at first: that of
 * their operands. Operands are cast, parameters stay what they are, so with AN_BF16 or AN_F16 the f32 ones are masters. Norms,
 * softmax and losses go on in f32. */
AN_API void an_module_set_compute(an_module *m, an_dtype dtype);
AN_API an_dtype an_module_compute(const an_module *m);

/* Walks root and all below it, parents first: the module after m, NULL at the end. And: is m's forward function this one? */
AN_API an_module *an_module_next(const an_module *root, an_module *m);
AN_API bool an_module_forward_is(const an_module *m, an_forward forward);

/* A named tensor, its name dotted as in PyTorch's state dicts: "0.weight", "fc1.bias". */
typedef struct an_parameter {
    const char *name;
    an_tensor *tensor;
} an_parameter;
typedef struct an_params {
    an_graph *graph;
    const an_parameter *items; /* live as long as the graph */
    size_t n;
} an_params;

/* The parameters below m, in the order they were added, a shared one once, under its first name; and the whole state,
 * buffers too. On failure, and for a NULL m, n is 0 and graph NULL. */
AN_API an_params an_module_parameters(an_module *m);
AN_API an_params an_module_state(an_module *m);
AN_API int64_t an_module_nparams(an_module *m); /* elements of all parameters */

/* --- layers ------------------------------------------------------------------------------------- */

/* All zero is the default. */
typedef struct an_nn_linear_desc {
    bool no_bias;
} an_nn_linear_desc;

/* x (..., in) -> x @ weight^T + bias (..., out). weight (out, in), bias (out), both U(-1/sqrt(in), 1/sqrt(in)). */
AN_API an_module *an_nn_linear(an_init *init, int64_t in, int64_t out, const an_nn_linear_desc *desc);

typedef struct an_nn_conv_desc {
    an_conv_desc conv; /* stride, padding, dilation, groups */
    bool no_bias;
} an_nn_conv_desc;

/* x (N, in, H, W) -> (N, out, H', W'). weight (out, in / groups, kernel_h, kernel_w), bias (out), both U(-b, b) with
 * b = 1/sqrt(fan_in). */
AN_API an_module *an_nn_conv2d(an_init *init, int64_t in, int64_t out, int64_t kernel_h, int64_t kernel_w,
                               const an_nn_conv_desc *desc);

/* x (integers) -> rows of weight (n, dim), which is N(0, 1). */
AN_API an_module *an_nn_embedding(an_init *init, int64_t n, int64_t dim);

/* Over the last axes, whose sizes are dims: weight 1, bias 0. eps 0: 1e-5. */
typedef struct an_nn_layer_norm_desc {
    double eps;
    bool no_bias;
} an_nn_layer_norm_desc;
AN_API an_module *an_nn_layer_norm(an_init *init, const int64_t *dims, uint32_t rank, const an_nn_layer_norm_desc *desc);
AN_API an_module *an_nn_rms_norm(an_init *init, const int64_t *dims, uint32_t rank, double eps);

/* x (batch, channels, ...): over each group of channels and all that follows. weight 1, bias 0 (channels). eps 0: 1e-5. */
AN_API an_module *an_nn_group_norm(an_init *init, int64_t groups, int64_t channels, double eps);
/* x (batch, channels, ...): in training, over batch and positions, and running_mean and running_var move by momentum (0: 0.1),
 * the latter with the unbiased variance, as PyTorch has it; otherwise with these two. They are buffers, written by the graph of
 * the step: give an_module_state's tensors to the plan. Both compute in f32 at least, and give what x is. */
AN_API an_module *an_nn_batch_norm(an_init *init, int64_t channels, double eps, double momentum);

/* Zeroes elements with probability p and scales the rest, in training mode; else gives x. */
AN_API an_module *an_nn_dropout(an_rng *rng, an_graph *g, double p);

/* A function without parameters as a module: an_nn_function(g, "relu", an_relu). */
AN_API an_module *an_nn_function(an_graph *g, const char *kind, an_tensor *(*fn)(an_tensor *x));
AN_API an_module *an_nn_flatten(an_graph *g); /* all axes after the first become one */
AN_API an_module *an_nn_max_pool2d(an_graph *g, const an_pool_desc *desc);
AN_API an_module *an_nn_avg_pool2d(an_graph *g, const an_pool_desc *desc);

/* One after another, named "0", "1", ... . NULL if one of them is. */
AN_API an_module *an_nn_sequential(an_graph *g, an_module *const *modules, size_t n);
#define AN_MODULES(...)                                                                                                \
    (an_module *const[]){__VA_ARGS__}, sizeof((an_module *const[]){__VA_ARGS__}) / sizeof(an_module *)

/* --- attention ----------------------------------------------------------------------------------- */

/* All zero is the default. */
typedef struct an_attention_desc {
    bool causal;     /* query i, counted from the end, sees keys up to its own */
    an_tensor *mask; /* bool, broadcast to (batch, heads, rows, cols): true where a query may look; NULL: everywhere */
    double scale;    /* 0: 1 / sqrt(dim) */
    double dropout;  /* of probabilities, with rng */
    an_rng *rng;
} an_attention_desc;

/* softmax(q k^T scale) v. q (batch, heads, rows, dim), k and v (batch, groups, cols, dim); groups divides heads, and heads /
 * groups neighbouring heads share keys and values. Gives (batch, heads, rows, dim). A row that may look nowhere is NaN. */
AN_API an_tensor *an_attention(an_tensor *q, an_tensor *k, an_tensor *v, const an_attention_desc *desc);

typedef struct an_nn_attention_desc {
    int64_t heads;
    int64_t groups; /* heads of keys and values; 0: as many as heads */
    bool causal, no_bias;
    an_tensor *mask;     /* as above */
    double rotary_theta; /* rotary positions: pairs turn by position * theta^(-2i/dim); 0: none */
    bool rotary_halves;  /* a pair is (i, i + dim/2), as in Hugging Face's llama; else (2i, 2i + 1), as in Meta's */
    int64_t context;     /* positions that rotary tables are made for */
    double dropout;      /* of probabilities, in training */
    an_rng *rng;
    double out_std;             /* init->std for the projection back; 0: as the others */
    const char *packed;         /* the name of one projection to q, k and v together; NULL: three */
    const char *q, *k, *v, *out; /* names; NULL: "q_proj", "k_proj", "v_proj", "out_proj" */
} an_nn_attention_desc;

/* x (batch, t, dim) -> the same shape: projections to heads, attention, a projection back. */
AN_API an_module *an_nn_attention(an_init *init, int64_t dim, const an_nn_attention_desc *desc);
/* x (batch, t, dim) -> x + weight[0..t): learned positions, weight (n, dim), N(0, 1). */
AN_API an_module *an_nn_positions(an_init *init, int64_t n, int64_t dim);

/* Generation a token at a time. The cache gives buffers of keys and values to every attention below root. One token a
 * sequence, (batch, 1), at the position that its buffer holds: write that before each run. One plan serves all positions:
 *     cache = an_kv_cache_create(net, 1, 256);
 *     logits = an_kv_cache_forward(cache, token);         token: i32 (1, 1)
 *     plan of logits and an_kv_cache_writes(cache);  then, for each token: write token and position, run, read logits */
typedef struct an_kv_cache an_kv_cache;
AN_API an_kv_cache *an_kv_cache_create(an_module *root, int64_t batch, int64_t length);
AN_API an_tensor *an_kv_cache_forward(an_kv_cache *c, an_tensor *token);
AN_API an_tensor *an_kv_cache_position(an_kv_cache *c); /* i32 (), 0 at first */
AN_API int64_t an_kv_cache_length(const an_kv_cache *c);
AN_API an_params an_kv_cache_writes(an_kv_cache *c);

/* --- feed-forward ---------------------------------------------------------------------------------- */

/* w2(silu(w1 x) * w3 x), without biases: w1 and w3 (hidden, dim), w2 (dim, hidden). */
AN_API an_module *an_nn_swiglu(an_init *init, int64_t dim, int64_t hidden);
/* Every expert on every token, weighted by softmax(gate x): the sum. "gate.weight" (n, dim), "experts.0...". */
AN_API an_module *an_nn_mixture(an_init *init, int64_t dim, an_module *const *experts, size_t n);
/* The mean over the mixtures below root, of their last forward, of the load-balance loss (Fedus et al. 2021): n times the sum
 * over experts of the fraction of tokens that it is the first choice of, times its mean probability. 1 is balanced. */
AN_API an_tensor *an_nn_balance_loss(an_module *root);

/* --- optimisers --------------------------------------------------------------------------------- */

/* An optimiser over parameters. Its update is graph: parameters and state are written in place on the device, by the same
 * plan that computes the loss. State (momenta, the number of steps) is in buffers, so a plan that is run again goes on. */
typedef struct an_optim an_optim;

typedef struct an_sgd_desc {
    double lr; /* 0: 1e-3 */
    double momentum, dampening, weight_decay;
    bool nesterov; /* needs momentum and no dampening */
} an_sgd_desc;

/* d = g + weight_decay p;  m = momentum m + (1 - dampening) d, at first m = d;  d = nesterov ? d + momentum m : m;
 * p = p - lr d. */
AN_API an_optim *an_optim_sgd(an_params params, const an_sgd_desc *desc);

typedef struct an_adam_desc {
    double lr;           /* 0: 1e-3 */
    double beta1, beta2; /* 0: 0.9 and 0.999 */
    double eps;          /* 0: 1e-8 */
    double weight_decay;
    bool amsgrad; /* divide by the greatest v so far */
} an_adam_desc;

/* g = g + weight_decay p;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
 * p = p - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps),  t = 1 at the first step. */
AN_API an_optim *an_optim_adam(an_params params, const an_adam_desc *desc);

/* The same, but the decay is p = p - lr weight_decay p, before the rest. PyTorch's default decay is 0.01; here it is as
 * given. */
AN_API an_optim *an_optim_adamw(an_params params, const an_adam_desc *desc);

/* --- told to an optimiser before its first step is built ------------------------------------------- */
/* Errors of all of these: AN_ERR_ARG after a step was built, or for a number out of range. */

/* Parameters for which has says true get a decay of their own, and lr_scale (0: 1) times the learning rate. A later group wins. */
typedef struct an_param_group {
    bool (*has)(const an_parameter *p, void *user);
    void *user;
    double lr_scale, weight_decay;
} an_param_group;
AN_API an_status an_optim_group(an_optim *o, const an_param_group *group);
/* For a group of biases and the weights of norms: rank 0 or 1. */
AN_API bool an_parameter_is_vector(const an_parameter *p, void *user);

/* How the learning rate goes over steps s = 0, 1, ...; it is a graph of the count of steps, so it replays and resumes.
 *   all but one-cycle   below warmup: lr (s + 1) / (warmup + 1); after it, with r = (s - warmup) / (total - warmup), at most 1:
 *     CONSTANT          lr
 *     COSINE            lr_end + (lr - lr_end) (1 + cos(pi r)) / 2
 *     LINEAR            lr + (lr_end - lr) r
 *   ONE_CYCLE           as PyTorch's OneCycleLR: half a wave from lr / 25 up to lr at step warmup (0: 0.3 total - 1), another
 *                       down to lr_end at step total - 1 */
typedef enum an_lr_kind { AN_LR_CONSTANT, AN_LR_COSINE, AN_LR_LINEAR, AN_LR_ONE_CYCLE } an_lr_kind;
typedef struct an_lr_schedule {
    an_lr_kind kind;
    double warmup, total; /* steps */
    double lr_end;
} an_lr_schedule;
AN_API an_status an_optim_schedule(an_optim *o, const an_lr_schedule *s);
/* Other numbers, at any time: they are in a buffer, so plans made before use them. Nothing happens without a schedule. */
AN_API an_status an_optim_set_total(an_optim *o, double warmup, double total);
/* The learning rate of the last step, rank 0. */
AN_API an_tensor *an_optim_rate(an_optim *o);

/* Scales the gradients of a step to a norm of at most max_norm together, as an_clip_grad_norm does; 0: not at all. */
AN_API an_status an_optim_clip(an_optim *o, double max_norm);
/* Parameters change in every n-th run only, by the mean over n runs of the gradients. */
AN_API an_status an_optim_accumulate(an_optim *o, int64_t n);
/* Dynamic loss scaling, for f16: an_optim_minimize differentiates scale * loss (0: 65536) and divides gradients by it. A run
 * whose gradients are not all finite changes nothing and halves the scale; growth_interval (0: 2000) good ones double it. */
AN_API an_status an_optim_scale_loss(an_optim *o, double scale, int64_t growth_interval);
/* Keeps moving averages of the parameters: a = decay a + (1 - decay) p after each step, at first a = p. */
AN_API an_status an_optim_average(an_optim *o, double decay);
AN_API an_tensor *an_optim_averaged(an_optim *o, size_t i); /* of parameter i; NULL without averages */

/* --- steps ----------------------------------------------------------------------------------------- */

/* Builds the update from gradients, one for each parameter, in order (NULL: that parameter stays). The parameters' handles
 * then stand for their new values, as after an_assign. Once for each optimiser and graph of a step. */
AN_API an_status an_optim_step(an_optim *o, an_tensor *const *grads);
/* The same with the gradients of loss (rank 0). */
AN_API an_status an_optim_minimize(an_optim *o, an_tensor *loss);

/* What a step writes: parameters, then state. Give them to an_realize or an_plan_create together with the loss. */
AN_API an_params an_optim_writes(an_optim *o);
/* The plan that does so: more (loss, logits, ...) and the writes. Errors: as an_plan_create. */
AN_API an_status an_optim_plan(an_optim *o, an_tensor *const *more, size_t nmore, an_trace *trace, an_plan **out);

/* The learning rate is a number in a buffer: plans made before use the new one. */
AN_API an_status an_optim_set_lr(an_optim *o, double lr);
AN_API double an_optim_lr(const an_optim *o);
/* The optimiser's own buffers, named as PyTorch names them ("exp_avg.0.weight", "step"), for checkpoints. */
AN_API an_params an_optim_state(an_optim *o);

/* Scales all gradients so that the 2-norm of them together is at most max_norm: by min(1, max_norm / (norm + 1e-6)).
 * grads are replaced; NULLs among them are skipped. Returns the norm before, rank 0, or NULL. */
AN_API an_tensor *an_clip_grad_norm(an_tensor **grads, size_t n, double max_norm);

#ifdef __cplusplus
}
#endif
#endif
