/* device.h - choosing where a graph runs. */
#ifndef ANNEAL_DEVICE_H
#define ANNEAL_DEVICE_H

#include <anneal/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The backends in this build, the default one first; *n their number. */
AN_API const an_backend *const *an_backends(size_t *n);

/* The open device of that name ("cpu", "interp"; NULL: the default), opened on first use and closed with the context.
 * Errors: AN_ERR_ARG for an unknown name (the sentence lists those there are), AN_ERR_DEVICE. */
AN_API an_status an_device_get(an_ctx *ctx, const char *name, an_device **out);
AN_API const char *an_device_name(const an_device *dev);
/* Does it have units that multiply matrices of f16, summing in f32? Then f16 is several times as fast as f32 there. */
AN_API bool an_device_has_matrix(const an_device *dev);

/* The device of a graph's buffers and plans: set before the first of them is made, else the default.
 * Errors: as an_device_get; AN_ERR_ARG when the graph already has buffers on another. */
AN_API an_status an_graph_set_device(an_graph *g, const char *name);
AN_API an_device *an_graph_device(an_graph *g); /* NULL with a sentence if it cannot be opened */

#ifdef __cplusplus
}
#endif
#endif
