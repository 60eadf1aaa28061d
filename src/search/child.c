/* child.c - the search in a process of its own, and the watch over it.
 *
 * The child is forked, without exec: it has the kernel already. Only the caller's thread is in it, so it opens the device anew and
 * touches nothing else of ours, and it leaves by _exit. It writes a record before a candidate and one after it; the parent waits
 * for each no longer than the candidate may take, kills the child if it must, notes what became of the candidate, and starts
 * another that knows it. */
#define _GNU_SOURCE /* pipe2 */
#include "search/trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOSSES_MAX = 16 }; /* children that a search may lose */

typedef struct record {
    bool is_end;
    an_known k;
} record;

typedef struct watch {
    an_ctx *ctx;
    an_known_vec known;
    an_known now; /* the candidate being tried */
    bool is_trying;
} watch;

static an_status note(watch *w, const an_known *k)
{
    return an_vec_push(w->ctx, &w->known, *k) ? AN_OK : AN_ERR_NOMEM;
}

/* --- in the child --------------------------------------------------------------------------------------------------- */

static void send_record(int fd, const record *r)
{
    const char *p = (const char *)r;
    size_t n = sizeof *r;
    while (n > 0) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) _exit(1); /* nobody listens */
        p += done;
        n -= (size_t)done;
    }
}

static void send_begin(void *user, const an_known *k)
{
    const record r = {.is_end = false, .k = *k};
    send_record(*(int *)user, &r);
}

static void send_end(void *user, const an_known *k)
{
    const record r = {.is_end = true, .k = *k};
    send_record(*(int *)user, &r);
}

static void be_child(const an_search_desc *desc, const an_kernel *kernel, const size_t *nbytes, const an_known_vec *known, double until,
                     int fd)
{
    an_ctx *ctx = NULL;
    const an_beam_report report = {send_begin, send_end, &fd};
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm((unsigned)(2 * (desc->seconds + desc->candidate_seconds)) + 10); /* if the parent is gone */
    if (an_ctx_create(NULL, &ctx)) _exit(1);
    _exit(an_beam(ctx, desc, kernel, nbytes, known, until, &report) ? 1 : 0);
}

/* --- in the parent -------------------------------------------------------------------------------------------------- */

typedef enum news { RECORD, END, LATE } news;

/* The next record, in whole. */
static news listen(int fd, double deadline, record *r)
{
    char *p = (char *)r;
    size_t n = sizeof *r;
    while (n > 0) {
        const double left = deadline - an_search_clock();
        struct pollfd one = {.fd = fd, .events = POLLIN};
        if (left <= 0) return LATE;
        const int ready = poll(&one, 1, (int)(left * 1e3) + 1);
        if (ready < 0 && errno != EINTR) return END;
        if (ready <= 0) continue;
        const ssize_t done = read(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return END;
        p += done;
        n -= (size_t)done;
    }
    return RECORD;
}

/* Follows a child to its end; *again: it was lost, and another may go on. */
static an_status follow(watch *w, const an_search_desc *desc, pid_t child, int fd, bool *again)
{
    an_status st = AN_OK;
    news what = RECORD;
    int how = 0;
    w->is_trying = false;
    double limit = desc->seconds + desc->candidate_seconds; /* to begin with, the kernel without opts, slow as it may be */
    while (!st) {
        record r;
        what = listen(fd, an_search_clock() + limit, &r);
        limit = desc->candidate_seconds;
        if (what != RECORD) break;
        w->is_trying = !r.is_end;
        if (r.is_end)
            st = note(w, &r.k);
        else
            w->now = r.k;
    }
    if (what != END) (void)kill(child, SIGKILL);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
    *again = w->is_trying && !st;
    if (*again && !w->now.is_final) {
        w->now.fate = what == LATE ? AN_SEARCH_HUNG : AN_SEARCH_DIED;
        st = note(w, &w->now);
    }
    return st;
}

static an_status run_child(watch *w, const an_search_desc *desc, const an_kernel *kernel, const size_t *nbytes, double until, bool *again)
{
    int ends[2];
    *again = false;
    if (pipe2(ends, O_CLOEXEC) != 0) return an_fail(w->ctx, AN_ERR_DEVICE, "search: no pipe: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        be_child(desc, kernel, nbytes, &w->known, until, ends[1]);
    }
    (void)close(ends[1]);
    const an_status st = child < 0 ? an_fail(w->ctx, AN_ERR_DEVICE, "search: no process: %s", strerror(errno))
                                   : follow(w, desc, child, ends[0], again);
    (void)close(ends[0]);
    return st;
}

/* --- without one ------------------------------------------------------------------------------------------------------ */

static void note_nothing(void *user, const an_known *k)
{
    (void)user;
    (void)k;
}

static void note_end(void *user, const an_known *k)
{
    (void)note(user, k);
}

/* --- the whole --------------------------------------------------------------------------------------------------------- */

/* Those that were timed in turn decide, if there are; the list of the heuristics comes first in either case. */
static an_status conclude(watch *w, an_search_result *out)
{
    const an_known *best = NULL, *first = NULL;
    bool finals = false;
    for (size_t i = 0; i < w->known.len; i++) finals = finals || w->known.data[i].is_final;
    for (size_t i = 0; i < w->known.len; i++) {
        const an_known *k = &w->known.data[i];
        if (!k->is_final) out->count[k->fate]++;
        if (k->fate != AN_SEARCH_TIMED || k->is_final != finals) continue;
        if (!first) first = k;
        if (!best || k->seconds < best->seconds) best = k;
    }
    if (!best) return AN_OK;
    out->found = true;
    out->seconds = best->seconds;
    out->first_seconds = first->seconds;
    return an_opt_parse(w->ctx, best->list, &out->list);
}

an_status an_search(an_ctx *ctx, const an_search_desc *desc, const an_kernel *kernel, const size_t *nbytes, an_search_result *out)
{
    watch w = {.ctx = ctx};
    const double until = an_search_clock() + desc->seconds;
    an_search_result r = {0};
    an_status st = AN_OK;
    if (desc->no_child) {
        const an_beam_report report = {note_nothing, note_end, &w};
        st = an_beam(ctx, desc, kernel, nbytes, &w.known, until, &report);
        if (st) an_ctx_clear_error(ctx); /* of memory too: there may be none on the device for a second copy of what the kernel needs */
        st = AN_OK;
    } else {
        bool again = true;
        for (int i = 0; i < LOSSES_MAX && again && !st && an_search_clock() < until; i++)
            st = run_child(&w, desc, kernel, nbytes, until, &again);
    }
    if (!st) st = conclude(&w, &r);
    an_vec_fini(ctx, &w.known);
    if (st)
        an_search_result_fini(ctx, &r);
    else
        *out = r;
    return st;
}

void an_search_result_fini(an_ctx *ctx, an_search_result *r)
{
    an_vec_fini(ctx, &r->list);
}
