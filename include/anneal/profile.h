/* profile.h - what a run spends its time on: passes, compiling, kernels, transfers, recorded as they happen and written as a trace
 * for Perfetto or chrome://tracing. While a context records, each kernel is waited for, so kernels do not overlap. */
#ifndef ANNEAL_PROFILE_H
#define ANNEAL_PROFILE_H

#include <anneal/inspect.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct an_profile an_profile;

typedef enum an_event_kind { AN_EVENT_PASS, AN_EVENT_COMPILE, AN_EVENT_KERNEL, AN_EVENT_TRANSFER } an_event_kind;

/* Strings live as long as the profile. */
typedef struct an_event {
    an_event_kind kind;
    const char *name;       /* of a pass or kernel; "read" or "write" of a transfer */
    double start, seconds;  /* since the profile began */
    double nbytes, flops;   /* a kernel's by the cost model's count; nbytes of a transfer */
} an_event;

/* The context records from now on. Not destroyed with the context: destroy it before. Errors: NULL, AN_ERR_NOMEM in the
 * context; AN_ERR_ARG if it records already. */
AN_API an_profile *an_profile_start(an_ctx *ctx);
AN_API void an_profile_stop(an_profile *p);    /* what is there can still be read; twice is once */
AN_API void an_profile_destroy(an_profile *p); /* stops it; NULL is a no-op */

AN_API size_t an_profile_count(const an_profile *p);
AN_API an_event an_profile_get(const an_profile *p, size_t i);
AN_API void an_profile_clear(an_profile *p); /* forgets the events, not the beginning */
/* False when a million events were reached, or memory ran out: what is there is right, the rest is missing. */
AN_API bool an_profile_is_whole(const an_profile *p);

/* The trace as JSON, in Chrome's trace event format, piece by piece: complete events ("ph": "X") with times in microseconds, host,
 * kernels and transfers as three threads; args have bytes, operations, GB/s and GF/s. Errors: AN_ERR_NOMEM. */
AN_API an_status an_profile_print(const an_profile *p, an_put put, void *user);

#ifdef __cplusplus
}
#endif
#endif
