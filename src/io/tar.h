/* tar.h - the entries of a ustar archive, one after another, from a stream (so from .tar.gz too). */
#ifndef AN_IO_TAR_H
#define AN_IO_TAR_H

#include "io/stream.h"

enum { AN_TAR_NAME_MAX = 257 };

typedef struct an_tar {
    an_stream *s;
    uint64_t left;   /* of the entry at hand, not yet read */
    uint64_t padded; /* and of the zeros that fill its last block */
    bool ended;
} an_tar;

typedef struct an_tar_entry {
    char name[AN_TAR_NAME_MAX]; /* as the archive has it, "/" between folders */
    uint64_t nbytes;
    bool is_file; /* not a folder, link or extension record */
} an_tar_entry;

/* The next entry, skipping what is left of the one before. *more is false at the end of the archive.
 * Errors: AN_ERR_FORMAT for a header whose checksum is wrong (no tar file at all, mostly), a size that is no number, or an
 * archive that ends inside an entry; those of the stream. */
an_status an_tar_next(an_tar *t, an_tar_entry *e, bool *more);

/* Reads nbytes of the entry, which has them: at most e.nbytes together. */
an_status an_tar_read(an_tar *t, void *dst, size_t nbytes);

#endif
