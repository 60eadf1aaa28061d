/* test_gates.c - what lies outside of a tensor is not read, whatever is made of the index that leads there. The interpreter
 * checks every access, so a read outside is an error of the plan. */
#include "an_test.h"

#include <anneal/device.h>
#include <anneal/grad.h>
#include <anneal/tensor.h>

/* Where the padded row's gate holds, that of the index read for it holds too; dropping it there would read index -2. */
static void padding_what_an_index_picks_reads_no_index_outside(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    const float table[5] = {10, 11, 12, 13, 14};
    const int32_t index[3] = {4, 0, 2};
    const int64_t rows = 5, picks = 3, before = 2, after = 1;
    an_tensor *x = an_tensor_from_host(g, AN_F32, &rows, 1, table);
    an_tensor *i = an_tensor_from_host(g, AN_I32, &picks, 1, index);
    an_tensor *y = an_pad(an_index_select(x, 0, i), &before, &after, 1, 0);
    float got[6];
    CHECK_OK(t, an_tensor_read(y, got, sizeof got));
    const float want[6] = {0, 0, 14, 10, 12, 0};
    for (int k = 0; k < 6; k++) CHECK_EQ(t, got[k], want[k]);
}

/* A gate over an element of the index that folds to false leaves a number, not one in the shape of the index. */
static void picking_from_what_is_masked_away_gives_zeros(an_test *t)
{
    an_graph *g = an_test_graph(t);
    const float data[4] = {1, 2, 3, 4};
    const uint8_t index[1] = {1};
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(1, 1, 2, 2), data);
    an_tensor *i = an_tensor_from_host(g, AN_U8, AN_DIMS(1, 1, 1, 1), index);
    an_tensor *y = an_gather(an_triu(an_matmul(x, x), 3), 3, i);
    float got = 1;
    CHECK_OK(t, an_tensor_read(y, &got, sizeof got));
    CHECK_EQ(t, got, 0);
}

/* Of a sum in steps the last step may lie past the end: the rows above and below the gradient, padded, are not read either. */
static void padding_the_gradient_of_a_strided_convolution_reads_nothing_outside(an_test *t)
{
    an_graph *g = an_test_graph(t);
    CHECK_OK(t, an_graph_set_device(g, "interp"));
    const float row[5] = {1, 2, 3, 4, 5}, weight[3] = {10, 20, 30};
    an_tensor *x = an_tensor_from_host(g, AN_F32, AN_DIMS(1, 1, 5), row), *grad = NULL;
    an_tensor *w = an_tensor_from_host(g, AN_F32, AN_DIMS(1, 1, 3), weight);
    an_tensor *y = an_conv1d(x, w, NULL, &(an_conv_desc){.stride = {2}, .dilation = {2}, .groups = 1});
    CHECK_OK(t, an_backward_from(y, NULL, &x, 1, &grad));
    an_tensor *padded = an_pad(grad, (const int64_t[]){0, 3, 1}, (const int64_t[]){0, 0, 0}, 3, 0);
    float got[24];
    CHECK_OK(t, an_tensor_read(padded, got, sizeof got));
}

AN_TEST_MAIN(AN_CASE(padding_the_gradient_of_a_strided_convolution_reads_nothing_outside), AN_CASE(padding_what_an_index_picks_reads_no_index_outside), AN_CASE(picking_from_what_is_masked_away_gives_zeros))
