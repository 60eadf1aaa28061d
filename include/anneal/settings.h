/* settings.h - the knobs of a context. They change how values are computed, never which (but for the order of float sums):
 * tests compare both positions. Every one is in the keys of what it changes. */
#ifndef ANNEAL_SETTINGS_H
#define ANNEAL_SETTINGS_H

#include <anneal/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A field for each row of settings.def. All zero is the default. */
typedef struct an_settings {
#define AN_SETTING(type, field, variable, how, text) type field;
#include <anneal/settings.def>
#undef AN_SETTING
} an_settings;

/* Those in force: as set, else as the environment says. */
AN_API an_settings an_ctx_settings(const an_ctx *ctx);
/* For plans made from now on. Errors: AN_ERR_NOMEM. */
AN_API an_status an_ctx_set_settings(an_ctx *ctx, an_settings settings);

#ifdef __cplusplus
}
#endif
#endif
