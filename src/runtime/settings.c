/* settings.c - the knobs of a context, from the caller or the environment. */
#include <anneal/settings.h>

#include "runtime/state.h"

#include <errno.h>
#include <stdlib.h>

static bool off(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "0") == 0;
}

/* 0 for what is no number; an_settings_check says so. */
static uint64_t number(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] >= '0' && value[0] <= '9' ? strtoull(value, NULL, 10) : 0;
}

static bool is_off(const char *value)
{
    return strcmp(value, "0") == 0 || strcmp(value, "1") == 0;
}

static bool is_number(const char *value)
{
    if (value[strspn(value, "0123456789")]) return false;
    errno = 0;
    (void)strtoull(value, NULL, 10);
    return errno == 0;
}

an_status an_settings_check(an_ctx *ctx)
{
    static const struct {
        const char *name;
        bool (*fits)(const char *value);
        const char *takes;
    } rows[] = {
#define OFF is_off, "0, or 1 as if it were not set"
#define NUMBER is_number, "a whole number, in digits alone"
#define AN_SETTING(type, field, variable, how, text) {variable, how},
#include <anneal/settings.def>
#undef AN_SETTING
#undef OFF
#undef NUMBER
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *value = getenv(rows[i].name);
        if (value && *value && !rows[i].fits(value))
            return an_fail(ctx, AN_ERR_ARG, "%s is '%.40s' in the environment; it takes %s", rows[i].name, value, rows[i].takes);
    }
    return AN_OK;
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
