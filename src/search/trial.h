/* trial.h - candidates: one list of opts, tried on a device. For src/search. */
#ifndef AN_SEARCH_TRIAL_H
#define AN_SEARCH_TRIAL_H

#include "search/search.h"

enum { AN_TEXT_MAX = 2048 }; /* of a list */

/* What one candidate came to. */
typedef struct an_known {
    char list[AN_TEXT_MAX];
    an_search_fate fate;
    double seconds;
    bool is_final; /* timed in turn with the other one that was left */
} an_known;

/* A device with the kernel's buffers on it and the results of the kernel without opts. */
typedef struct an_trials {
    an_ctx *ctx;
    const an_search_desc *desc;
    const an_kernel *kernel; /* in a graph of whatever context */
    const size_t *nbytes;
    an_device *dev;
    an_buffer *buffers[AN_KERNEL_PARAM_MAX];
    unsigned char *start[AN_KERNEL_PARAM_MAX]; /* what each holds before a run */
    unsigned char *want[AN_KERNEL_PARAM_MAX];  /* after it, of those that are written */
    int64_t vars[AN_KERNEL_VAR_MAX];
    AN_VEC(an_key) programs; /* met so far */
    uint32_t nlost;          /* devices */
} an_trials;

an_status an_trials_open(an_ctx *ctx, const an_search_desc *desc, const an_kernel *kernel, const size_t *nbytes, an_trials *t);
void an_trials_close(an_trials *t);
/* Fills fate and seconds of k->list. Errors: AN_ERR_NOMEM. best: seconds of the fastest so far; what is far slower is timed once. */
an_status an_trial(an_trials *t, double best, an_known *k);

/* Times two lists in turn, some rounds, and sets their seconds to the medians. */
an_status an_trial_duel(an_trials *t, an_known *a, an_known *b);

/* The heuristics' list for the kernel and then others like it; those one opt longer than list. Appended as texts. */
typedef AN_VEC(an_known) an_known_vec;
an_status an_trials_first(an_trials *t, an_known_vec *out);
an_status an_trials_longer(an_trials *t, const char *list, an_known_vec *out);

/* beam.c: the search, in whatever process. known: candidates whose fate is settled. begin is called before a candidate is tried,
 * end after it. */
typedef struct an_beam_report {
    void (*begin)(void *user, const an_known *k);
    void (*end)(void *user, const an_known *k);
    void *user;
} an_beam_report;
an_status an_beam(an_ctx *ctx, const an_search_desc *desc, const an_kernel *kernel, const size_t *nbytes, const an_known_vec *known,
                  double until, const an_beam_report *report);
double an_search_clock(void);

#endif
