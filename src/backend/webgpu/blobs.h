/* blobs.h - compiled shaders on disk, for a library that gives and takes them as blobs (Dawn does).
 *
 * A blob is a file named by the hash of its key, with key, value and a checksum in it; written beside and renamed. What cannot be
 * read, or is not what was written, is not there. load and store may be called from any thread, and use no allocator. */
#ifndef AN_WEBGPU_BLOBS_H
#define AN_WEBGPU_BLOBS_H

#include "base/base.h"

enum { GPU_BLOBS_PATH_MAX = 512 };

typedef struct gpu_blobs {
    char folder[GPU_BLOBS_PATH_MAX]; /* "": nothing is kept */
} gpu_blobs;

/* Errors: AN_ERR_NOMEM. A folder that cannot be had means that nothing is kept. It is made if need be; when it holds more than nbytes_max, its oldest files go until half of that is left. */
an_status gpu_blobs_open(an_ctx *ctx, gpu_blobs *b, const char *folder, uint64_t nbytes_max);

/* As Dawn asks for them: the size of the value, 0 if there is none; value is filled if value_nbytes is that. user: gpu_blobs. */
size_t gpu_blobs_load(const void *key, size_t key_nbytes, void *value, size_t value_nbytes, void *user);
void gpu_blobs_store(const void *key, size_t key_nbytes, const void *value, size_t value_nbytes, void *user);

#endif
