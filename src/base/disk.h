/* disk.h - values kept on disk by key, from one process to the next.
 *
 * A disk, here, is a folder of packs. A pack is a file with a table of keys and their values, written once (beside, fsync, rename)
 * and never changed, so processes share a folder without locks. Every table and every value has a checksum of 128 bits that
 * is compared before anything of it is used. A pack that is torn, foreign or corrupt is deleted with one warning,
 * and so made again by whoever needs its values. The oldest packs go when the folder has more than its limit; using a pack
 * makes it young.
 *
 * Nothing here fails for what the disk does: what cannot be read is not there, what cannot be written is not kept, and the
 * context gets a warning. */
#ifndef AN_BASE_DISK_H
#define AN_BASE_DISK_H

#include "base/base.h"

/* A number for the sources of this library. Part of every key whose value they decide. */
uint64_t an_source_id(void);

/* Where this user's caches are: $XDG_CACHE_HOME/anneal, else ~/.cache/anneal. False if neither is set, or it is too long. */
bool an_cache_folder(char *path, size_t size);

typedef struct an_disk an_disk;

typedef struct an_disk_item {
    an_key key;
    const void *data;
    size_t nbytes;
} an_disk_item;

enum { AN_DISK_PACKS_MAX = 1024, AN_DISK_ITEMS_MAX = 65536 };

/* folder is made by the first put. nbytes_max: of all packs together. Errors: AN_ERR_NOMEM. */
an_status an_disk_open(an_ctx *ctx, const char *folder, uint64_t nbytes_max, an_disk **out);
void an_disk_close(an_disk *s); /* NULL is a no-op */

/* Takes note of packs that came since. Errors: AN_ERR_NOMEM. */
an_status an_disk_refresh(an_disk *s);

/* The value of key in memory that the caller frees by an_mem_free(ctx, *data, *nbytes); *data is NULL where there is none.
 * Errors: AN_ERR_NOMEM. */
an_status an_disk_get(an_disk *s, an_key key, void **data, size_t *nbytes);
/* Forgets a value that was found to be of no use, and warns as for a corrupt one. */
void an_disk_reject(an_disk *s, an_key key);

/* Keeps n values (up to AN_DISK_ITEMS_MAX) as one pack, then evicts. Errors: AN_ERR_NOMEM. */
an_status an_disk_put(an_disk *s, const an_disk_item *items, size_t n);

#endif
