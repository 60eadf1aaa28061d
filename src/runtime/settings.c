/* settings.c - the knobs of a context, from the caller or the environment. */
#include <anneal/settings.h>

#include "runtime/state.h"

#include <stdlib.h>

static bool off(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "0") == 0;
}

/* 0 for what is no number. */
static uint64_t number(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] >= '0' && value[0] <= '9' ? strtoull(value, NULL, 10) : 0;
}

an_settings an_ctx_settings(const an_ctx *ctx)
{
    const an_settings *set = an_ctx_slot_get(ctx, AN_SLOT_SETTINGS);
    if (set) return *set;
    an_settings s = {0};
#define OFF off
#define NUMBER number
#define AN_SETTING(type, field, variable, how, text) s.field = how(variable);
#include <anneal/settings.def>
#undef AN_SETTING
    return s;
}

an_key an_settings_mix(an_key key, const an_settings *s)
{
#define AN_SETTING(type, field, variable, how, text) key = an_key_mix(key, (uint64_t)s->field);
#include <anneal/settings.def>
#undef AN_SETTING
    return key;
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
