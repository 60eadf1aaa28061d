/* search.h - which opts make a kernel fastest on a device: found by trying.
 *
 * A beam search over lists of opts (codegen/opt.h), from the heuristics' list and from none. Each candidate is compiled, its
 * results are compared with those of the kernel without opts, and then it is timed. All of it happens in a child process that
 * opens the device anew: one that hangs or dies takes a candidate with it, not the caller. What is known survives the child, so the
 * next one goes on from there. Where a device does not work in a forked process, it is opened anew in this one; a candidate that it
 * gets lost with, or that it does not answer for in time, is left alone with it, and another is opened.
 *
 * Any backend can be searched, by its own clock (an_backend.time). */
#ifndef AN_SEARCH_SEARCH_H
#define AN_SEARCH_SEARCH_H

#include "codegen/opt.h"
#include <anneal/backend.h>

/* The seconds of one run of a program, or AN_ERR_* if it cannot be run. */
typedef struct an_search_timer {
    an_status (*run)(void *user, an_device *dev, an_program *prog, const an_launch *launch, double *seconds);
    void *user;
} an_search_timer;

/*   width      lists kept from one depth to the next
 *   depth      opts tried beyond those of the start
 *   seconds    for the whole kernel; what was found by then counts
 *   candidate_seconds  for compiling, checking and timing one; a candidate that takes longer is killed
 *   timer      NULL: the backend's
 *   no_child   run in this process, for devices that cannot be opened in a forked one; candidate_seconds are then a limit for each wait
 *              for the device */
typedef struct an_search_desc {
    const an_backend *backend;
    int threads;
    an_codegen_opts opts;
    uint32_t width, depth;
    double seconds, candidate_seconds;
    const an_search_timer *timer;
    bool no_child;
} an_search_desc;

typedef enum an_search_fate {
    AN_SEARCH_TIMED,
    AN_SEARCH_WRONG,   /* other values than the kernel without opts */
    AN_SEARCH_REFUSED, /* does not compile or run, or the same program as another */
    AN_SEARCH_HUNG,    /* killed by its time limit */
    AN_SEARCH_DIED     /* took its process with it, or the device */
} an_search_fate;

/* What came out.
 *   list       the fastest; found false: nothing was timed, the heuristics' list stays
 *   seconds    of a run of it; first_seconds: of the heuristics' list */
typedef struct an_search_result {
    an_opt_vec list;
    bool found;
    double seconds, first_seconds;
    uint32_t count[AN_SEARCH_DIED + 1]; /* candidates by fate */
} an_search_result;

/* kernel: graph, sink, params and vars; vars get a value in the middle of their bounds. nbytes: of each param's buffer.
 * Errors: AN_ERR_NOMEM; AN_ERR_DEVICE if there can be no child. What goes wrong with candidates is no error. */
an_status an_search(an_ctx *ctx, const an_search_desc *desc, const an_kernel *kernel, const size_t *nbytes, an_search_result *out);
void an_search_result_fini(an_ctx *ctx, an_search_result *r);

/* --- winners on disk (winners.c) -----------------------------------------------------------------------------------
 * A JSON file of key -> list of opts. A file that is corrupt, foreign or of another version is ignored with one warning, and replaced
 * by the next save. Processes share it: a save takes the lock, reads what others wrote, adds its own and renames. */
typedef struct an_winners an_winners;
enum { AN_WINNERS_MAX = 20000 };

/* path is copied; a file need not be there; NULL: in memory only. Errors: AN_ERR_NOMEM. */
an_status an_winners_open(an_ctx *ctx, const char *path, an_winners **out);
void an_winners_close(an_winners *w); /* NULL is a no-op */
/* The list of opts under key, as text that lives until the next call; NULL: none. */
const char *an_winners_find(const an_winners *w, an_key key);
an_status an_winners_add(an_winners *w, an_key key, const char *opts, double seconds, double first_seconds);
/* Writes what was added since. What the disk refuses is a warning. */
an_status an_winners_save(an_winners *w);

#endif
