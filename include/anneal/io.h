/* io.h - files: whole reads with limits, atomic writes, IDX arrays, texts, SHA-256, downloads, and the order in which training
 * visits a data set. Nothing here knows of graphs.
 *
 * Paths are UTF-8 or whatever the system takes; they appear in error sentences as they were given. */
#ifndef ANNEAL_IO_H
#define ANNEAL_IO_H

#include <anneal/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- whole files ---------------------------------------------------------------------------------- */
/* Bytes that the caller owns: an_bytes_fini. All zero is empty. */
typedef struct an_bytes {
    an_ctx *ctx;
    uint8_t *data; /* one 0 byte follows the last, so text can be read as a C string */
    size_t nbytes;
} an_bytes;
AN_API void an_bytes_fini(an_bytes *b);

/* Reads a regular file of at most nbytes_max bytes.
 * Errors: AN_ERR_IO if it cannot be opened or read, AN_ERR_LIMIT if it is longer, AN_ERR_NOMEM. */
AN_API an_status an_file_read(an_ctx *ctx, const char *path, size_t nbytes_max, an_bytes *out);

/* --- atomic writes -------------------------------------------------------------------------------- */
/* A file being written beside its final name. Nothing has that name before commit, and abort leaves nothing. */
typedef struct an_atomic_file an_atomic_file;

AN_API an_status an_atomic_open(an_ctx *ctx, const char *path, an_atomic_file **out);
AN_API an_status an_atomic_write(an_atomic_file *f, const void *data, size_t nbytes);
/* Flushes to the disk and renames; the handle is gone whether it works or not. */
AN_API an_status an_atomic_commit(an_atomic_file *f);
AN_API void an_atomic_abort(an_atomic_file *f); /* NULL is a no-op */

/* The three in one. */
AN_API an_status an_file_write(an_ctx *ctx, const char *path, const void *data, size_t nbytes);

/* Makes a directory and those above it; one that exists is fine. */
AN_API an_status an_dir_create(an_ctx *ctx, const char *path);

/* --- IDX, the format of MNIST and its relatives --------------------------------------------------- */
enum { AN_IDX_RANK_MAX = 8 };

typedef struct an_idx {
    an_ctx *ctx;
    an_dtype dtype; /* u8, i8, i16, i32, f32 or f64 */
    uint32_t rank;
    size_t dims[AN_IDX_RANK_MAX];
    size_t nbytes;
    void *data; /* row-major, in this machine's byte order */
} an_idx;

/* What the reader accepts. All zero is the default. */
typedef struct an_idx_desc {
    size_t nbytes_max; /* of the elements; 0: 1 GiB */
    an_dtype dtype;    /* AN_DTYPE_NONE: any */
    uint32_t rank;     /* 0: any */
} an_idx_desc;

/* Loads an IDX file, plain or gzip (told apart by content, not by name), inflating straight into the result. The header is
 * checked against what is really there before memory is taken, so a small file cannot ask for much. desc may be NULL; *out
 * is written only on success, and is the caller's: an_idx_fini.
 * Errors: AN_ERR_IO; AN_ERR_FORMAT for a wrong magic number, a header that lies about the size, truncated or corrupt data,
 * anything after the data; AN_ERR_DTYPE, AN_ERR_SHAPE for another dtype or rank than desc asks for; AN_ERR_LIMIT;
 * AN_ERR_NOMEM; AN_ERR_UNSUPPORTED for gzip in a build without zlib. The sentence names the file and the byte. */
AN_API an_status an_idx_load(an_ctx *ctx, const char *path, const an_idx_desc *desc, an_idx *out);
/* The same from memory; name stands for the path in sentences. */
AN_API an_status an_idx_parse(an_ctx *ctx, const char *name, const void *data, size_t nbytes, const an_idx_desc *desc,
                              an_idx *out);
AN_API void an_idx_fini(an_idx *idx);

/* --- safetensors ---------------------------------------------------------------------------------- */
/* A named array: in a file that is open, or to be written. */
typedef struct an_array_view {
    const char *name;
    an_dtype dtype; /* bool, i8 .. u64, f8e4m3, f8e5m2, f16, bf16, f32, f64 */
    uint32_t rank;
    const int64_t *dims;
    const void *data; /* row-major, little-endian */
    size_t nbytes;
} an_array_view;
/* A line of a file's "__metadata__". */
typedef struct an_metadata {
    const char *key, *value;
} an_metadata;

typedef struct an_safetensors an_safetensors;
enum { AN_SAFETENSORS_RANK_MAX = 32 };

/* Reads a whole file of at most nbytes_max bytes (0: 16 GiB) and checks all of it: arrays follow each other from the header's
 * end to the file's, each of its dtype's and shape's size; no name stands twice. desc of what is inside stays until close.
 * Errors: AN_ERR_IO; AN_ERR_FORMAT, with what is wrong where; AN_ERR_UNSUPPORTED for a dtype that an_dtype lacks;
 * AN_ERR_LIMIT; AN_ERR_NOMEM. */
AN_API an_status an_safetensors_open(an_ctx *ctx, const char *path, size_t nbytes_max, an_safetensors **out);
AN_API void an_safetensors_close(an_safetensors *f); /* NULL is a no-op */
AN_API size_t an_safetensors_count(const an_safetensors *f);
AN_API an_array_view an_safetensors_get(const an_safetensors *f, size_t i); /* in order of name */
AN_API bool an_safetensors_find(const an_safetensors *f, const char *name, an_array_view *out);
AN_API const char *an_safetensors_metadata(const an_safetensors *f, const char *key); /* NULL if there is none */

/* Writes a file beside its name, syncs it and renames it: the name stands for the old file or for all of the new one, whatever
 * happens. Arrays are laid out by falling element size, so each is aligned. Errors: AN_ERR_IO; AN_ERR_ARG for a name that stands
 * twice or is no UTF-8, or nbytes that is not the shape's; AN_ERR_NOMEM. */
AN_API an_status an_safetensors_write(an_ctx *ctx, const char *path, const an_array_view *arrays, size_t n,
                                      const an_metadata *metadata, size_t nmetadata);

/* --- CIFAR-10 ------------------------------------------------------------------------------------- */
enum { AN_CIFAR_SIDE = 32, AN_CIFAR_PIXELS = 3 * 32 * 32, AN_CIFAR_CLASSES = 10 };

typedef struct an_cifar {
    an_ctx *ctx;
    uint8_t *data;         /* what the rest points into */
    const uint8_t *pixels; /* (ntrain + ntest, 3, 32, 32), those to train on first */
    const uint8_t *labels; /* (ntrain + ntest), 0 to 9 */
    size_t ntrain, ntest;
} an_cifar;

/* Reads the archive of the binary version as it is published (.tar.gz, or unpacked .tar), or the six files in a folder:
 * data_batch_1.bin to data_batch_5.bin, in this order whatever the archive's, and test_batch.bin. Batches may have any number of
 * records up to 100,000. *out is written only on success: an_cifar_fini.
 * Errors: AN_ERR_IO for what is not there; AN_ERR_FORMAT for a file that is not whole records, a label above 9 (named), an archive
 * that is corrupt or truncated; AN_ERR_NOMEM. */
AN_API an_status an_cifar_load(an_ctx *ctx, const char *path, an_cifar *out);
AN_API an_status an_cifar_load_dir(an_ctx *ctx, const char *dir, an_cifar *out);
AN_API an_status an_cifar_parse(an_ctx *ctx, const char *name, const void *data, size_t nbytes, an_cifar *out); /* an archive */
AN_API void an_cifar_fini(an_cifar *c);

/* --- pictures -------------------------------------------------------------------------------------- */
/* Rows from the top, pixels from the left, channels (1 grey, 3 RGB) beside each other, 0 to 255. Borrowed. */
typedef struct an_picture {
    uint32_t width, height, channels;
    const uint8_t *data;
} an_picture;

/* Writes a PNG, beside its name and then in place. Errors: AN_ERR_ARG for a picture of no size, one side above 32,768 or other
 * channels; AN_ERR_LIMIT, AN_ERR_IO, AN_ERR_NOMEM. */
AN_API an_status an_png_write(an_ctx *ctx, const char *path, const an_picture *p);

/* --- SHA-256 -------------------------------------------------------------------------------------- */
enum { AN_SHA256_HEX = 65 }; /* 64 lower-case digits and the 0 byte */

AN_API an_status an_sha256(an_ctx *ctx, const void *data, size_t nbytes, char hex[AN_SHA256_HEX]);
AN_API an_status an_sha256_file(an_ctx *ctx, const char *path, char hex[AN_SHA256_HEX]);

/* --- downloads ------------------------------------------------------------------------------------ */
/*   url          https only. For tests, ANNEAL_TEST_HTTP=1 in the environment also allows http://127.0.0.1
 *   path         final name; its directory exists. Written only after sha256 was found right
 *   sha256       64 hex digits, required
 *   nbytes_max   a longer answer is refused; 0: 1 GiB
 *   progress     called a few times a second, total 0 while unknown; false cancels. May be NULL */
typedef struct an_download_desc {
    const char *url;
    const char *path;
    const char *sha256;
    size_t nbytes_max;
    bool (*progress)(void *user, size_t done, size_t total);
    void *user;
} an_download_desc;

/* Fetches one file. Gives up after 10 s without a connection or 20 s without data; leaves no partial file.
 * With ANNEAL_OFFLINE=1 it fails at once, before any name is looked up.
 * Errors: AN_ERR_IO for what the network or the disk did, AN_ERR_UNSUPPORTED when offline, AN_ERR_FORMAT for a wrong SHA-256,
 * AN_ERR_LIMIT for too much, AN_ERR_ARG for a URL that is not https. */
AN_API an_status an_download(an_ctx *ctx, const an_download_desc *desc);
AN_API bool an_download_is_offline(void); /* ANNEAL_OFFLINE is set, and not to "" or "0" */

/* --- shuffling ------------------------------------------------------------------------------------ */
/* Fills out with a permutation of 0..n-1 that depends on seed, epoch and n alone: Fisher-Yates driven by the Threefry-2x32
 * counter generator (20 rounds) under key seed, counter (epoch, draw). */
AN_API void an_shuffle(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *out);
/* Draw number (step, row) of 0..n-1, with replacement, n >= 1: of the four numbers alone, so any step can be drawn at any time. */
AN_API uint32_t an_sample(uint64_t seed, uint64_t step, uint32_t row, uint32_t n);

/* --- text as tokens -------------------------------------------------------------------------------- */
/* A text and its alphabet: token k is the character chars[k]. The caller's: an_text_fini. */
typedef struct an_text {
    an_ctx *ctx;
    uint32_t *chars; /* code points, rising, nvocab of them */
    uint32_t nvocab;
    int32_t *tokens; /* n of them */
    size_t n;
} an_text;

/* Reads a UTF-8 file of at most nbytes_max bytes (0: 256 MiB). Errors: AN_ERR_IO, AN_ERR_LIMIT; AN_ERR_FORMAT for bytes that
 * are not UTF-8, with the first one's place, and for a text of nothing; AN_ERR_NOMEM. *out is written only on success. */
AN_API an_status an_text_load(an_ctx *ctx, const char *path, size_t nbytes_max, an_text *out);
/* The same from memory; name stands for the path in sentences. */
AN_API an_status an_text_parse(an_ctx *ctx, const char *name, const void *utf8, size_t nbytes, an_text *out);
/* An alphabet without a text, from its characters in UTF-8: what a checkpoint kept of one. */
AN_API an_status an_text_alphabet(an_ctx *ctx, const char *name, const void *utf8, size_t nbytes, an_text *out);
AN_API void an_text_fini(an_text *t);
/* utf8 as tokens of t's alphabet: *n of them, into out unless that is NULL (call twice).
 * Errors: AN_ERR_FORMAT for what is no UTF-8, AN_ERR_ARG for a character that the alphabet lacks. */
AN_API an_status an_text_encode(const an_text *t, const char *utf8, int32_t *out, size_t *n);
/* The character of a token as UTF-8, ended by a 0 byte; returns its bytes, 0 for a number that is no token. */
AN_API size_t an_text_decode(const an_text *t, int32_t token, char out[5]);

#ifdef __cplusplus
}
#endif
#endif
