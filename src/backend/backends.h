/* backends.h - the backends of this library, by their const structs. A row here and one in runtime/device.c is all that a
 * new one needs outside its folder. */
#ifndef AN_BACKEND_BACKENDS_H
#define AN_BACKEND_BACKENDS_H

#include <anneal/backend.h>

extern const an_backend an_backend_interp;
#ifdef AN_HAVE_CPU
extern const an_backend an_backend_cpu;
#endif
/* What a device without a clock of its own has for time: the caller's, around launch and wait. */
an_status an_backend_time(an_program *prog, const an_launch *launch, uint32_t n, double *seconds);
#ifdef AN_HAVE_WEBGPU
extern const an_backend an_backend_webgpu;
#endif

#endif
