/* settings.c - the knobs of a context, from the caller or the environment. */
#include <anneal/settings.h>

#include "base/base.h"

#include <stdlib.h>

static bool is_off(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "0") == 0;
}

static uint64_t number(const char *name)
{
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 10) : 0;
}

an_settings an_ctx_settings(const an_ctx *ctx)
{
    const an_settings *set = an_ctx_slot_get(ctx, AN_SLOT_SETTINGS);
    if (set) return *set;
    return (an_settings){.no_fuse = is_off("ANNEAL_FUSE"), .no_opt = is_off("ANNEAL_OPT"), .no_reuse = is_off("ANNEAL_REUSE"),
                         .no_cache = is_off("ANNEAL_CACHE"), .memory_budget = number("ANNEAL_MEMORY_BUDGET")};
}

static void settings_destroy(an_ctx *ctx, void *data)
{
    an_mem_free(ctx, data, sizeof(an_settings));
}

an_status an_ctx_set_settings(an_ctx *ctx, an_settings settings)
{
    an_settings *set = an_ctx_slot_get(ctx, AN_SLOT_SETTINGS);
    if (!set) {
        set = an_mem_alloc(ctx, sizeof *set);
        if (!set) return AN_ERR_NOMEM;
        an_ctx_slot_set(ctx, AN_SLOT_SETTINGS, set, settings_destroy);
    }
    *set = settings;
    return AN_OK;
}
