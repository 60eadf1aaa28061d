/* dashboard.h - the live page of a training run. Drawing is a function of its numbers alone, so tests can do it without a
 * terminal. */
#ifndef CLI_DASHBOARD_H
#define CLI_DASHBOARD_H

#include "curve.h"

typedef struct cli_progress {
    const char *model, *data, *device, *recipe; /* "mlp", "Fashion-MNIST", "cpu", "adam, lr 0.001, batch 64, seed 0" */
    uint64_t step, steps;
    uint64_t epoch, epochs; /* the one being run, from 1 */
    double loss;            /* the latest read */
    char result[64];        /* of the latest test: "test accuracy 87.50 %"; empty: none yet */
    double steps_per_second;
    double seconds_left; /* negative: not known yet */
    size_t nbytes;       /* memory of the process */
    const cli_curve *curve;
} cli_progress;

/* One frame of cols x rows: rows lines, each cleared to its end, none wider than cols. */
void cli_dashboard_draw(FILE *out, const cli_style *style, const cli_progress *p, int cols, int rows);

/* "1:02:03", "4:05", "0:07". */
void cli_print_time(char *text, size_t size, double seconds);

#endif
