/* backends.h - the backends of this library, by their const structs. A row here and one in runtime/device.c is all that a
 * new one needs outside its folder. */
#ifndef AN_BACKEND_BACKENDS_H
#define AN_BACKEND_BACKENDS_H

#include <anneal/backend.h>

extern const an_backend an_backend_interp;
#ifdef AN_HAVE_CPU
extern const an_backend an_backend_cpu;
#endif

#endif
