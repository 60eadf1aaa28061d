/* run_schedule.h - a schedule for any cost model, run by the interpreter kernel by kernel: what a device would be given, without one. */
#ifndef AN_TEST_RUN_SCHEDULE_H
#define AN_TEST_RUN_SCHEDULE_H

#include "an_test.h"

#include <anneal/tensor.h>

#include "codegen/codegen.h"
#include "schedule/schedule.h"

typedef struct an_test_input {
    an_tensor *x;
    const void *data;
} an_test_input;

/* Fills data with out's elements. Buffers that are no inputs begin as NaN. The schedule is the caller's to free. */
void an_test_run_schedule(an_test *t, an_graph *g, const an_cost *cost, an_codegen_opts opts, const an_test_input *in, uint32_t nin, an_tensor *out, void *data,
                          an_schedule *s);

#endif
