/* settings.h - the knobs of a context. They change how values are computed, never which (but for the order of float sums):
 * tests compare both positions. Every one is in the keys of what it changes. */
#ifndef ANNEAL_SETTINGS_H
#define ANNEAL_SETTINGS_H

#include <anneal/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All zero is the default. */
typedef struct an_settings {
    bool no_fuse; /* a kernel for every operation: the twin that fusion is tested against. ANNEAL_FUSE=0 */
    bool no_opt;  /* plain loop nests: no tiles, no vectors. ANNEAL_OPT=0 */
    bool no_reuse; /* every intermediate in memory of its own. ANNEAL_REUSE=0 */
    uint64_t memory_budget; /* bytes between kernels; what does not fit is computed again. 0: no limit. ANNEAL_MEMORY_BUDGET=N */
    bool no_cache; /* nothing is read from or kept in the folder of compiled kernels. Read when a device compiles for the
                    * first time. ANNEAL_CACHE=0 */
} an_settings;

/* Those in force: as set, else as the environment says. */
AN_API an_settings an_ctx_settings(const an_ctx *ctx);
/* For plans made from now on. Errors: AN_ERR_NOMEM. */
AN_API an_status an_ctx_set_settings(an_ctx *ctx, an_settings settings);

#ifdef __cplusplus
}
#endif
#endif
