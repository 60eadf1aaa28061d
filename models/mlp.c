/* mlp.c - 784-128-10 with ReLU: the smallest network worth training. */
#include "model.h"

static an_module *net(an_init *init)
{
    an_graph *g = init->graph;
    return an_nn_sequential(g, AN_MODULES(an_nn_linear(init, 784, 128, NULL), /* (batch, 784) -> (batch, 128) */
                                          an_nn_function(g, "relu", an_relu),
                                          an_nn_linear(init, 128, 10, NULL))); /* -> (batch, 10) */
}

const model model_mlp = {
    .name = "mlp",
    .title = "a perceptron with one hidden layer, 784-128-10",
    .dataset = "fashion-mnist",
    .features = 784,
    .classes = 10,
    .net = net,
};
