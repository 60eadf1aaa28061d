/* model.c - the table of models and their options. */
#include "model.h"

#include <string.h>

#define MODEL(name) extern const model model_##name;
#include "models.def"
#undef MODEL

static const model *const models[] = {
#define MODEL(name) &model_##name,
#include "models.def"
#undef MODEL
};

static const model_value shared[] = {
#define VALUE(id, name, metavar, help, min, max, whole) {name, metavar, help, min, max, whole},
#include "values.def"
#undef VALUE
};

size_t model_count(void)
{
    return sizeof models / sizeof models[0];
}

const model *model_get(size_t i)
{
    return models[i];
}

const model *model_find(const char *name)
{
    for (size_t i = 0; i < model_count(); i++)
        if (strcmp(models[i]->name, name) == 0) return models[i];
    return NULL;
}

uint32_t model_nvalues(const model *m)
{
    return MODEL_OWN + m->nvalues;
}

model_value model_get_value(const model *m, uint32_t i)
{
    return i < MODEL_OWN ? shared[i] : m->values[i - MODEL_OWN];
}

bool model_defaults(const model *m, const char *preset, model_options *out)
{
    const model_preset *p = NULL;
    for (uint32_t i = 0; i < m->npresets && !p; i++)
        if (!preset || strcmp(m->presets[i].name, preset) == 0) p = &m->presets[i];
    if (!p) return false;
    *out = (model_options){.optimizer = p->optimizer ? p->optimizer : "adam",
                           .schedule = p->schedule ? p->schedule : "constant",
                           .precision = p->precision ? p->precision : "f32",
                           .eval_batch = 1};
    memcpy(out->values, p->values, sizeof out->values);
    return true;
}

int64_t model_size(const model_options *o, uint32_t i)
{
    return (int64_t)o->values[i];
}

an_status model_build(const model *m, an_graph *g, const model_options *options, model_graphs *out)
{
    model_graphs r = {0};
    const an_status st = m->build(m, g, options, &r);
    if (!st) *out = r;
    return st;
}
