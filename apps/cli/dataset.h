/* dataset.h - images and labels for training: where they are found, and loading them in a thread of its own while kernels
 * compile.
 *
 * The order of places, first hit wins: what --data names; the Debian package; the cache (~/.cache/anneal); a download into
 * the cache, against SHA-256 pins; made-up data, which is said. What --data names is used or is an error, never replaced. */
#ifndef CLI_DATASET_H
#define CLI_DATASET_H

#include "fetch.h"

typedef enum cli_split { CLI_SPLIT_TRAIN, CLI_SPLIT_TEST, CLI_SPLIT_COUNT } cli_split;
/* The four files of MNIST and its relatives. */
typedef enum cli_file { CLI_TRAIN_IMAGES, CLI_TRAIN_LABELS, CLI_TEST_IMAGES, CLI_TEST_LABELS, CLI_FILE_COUNT } cli_file;

enum { CLI_CLASSES_MAX = 10 };

/* A row of datasets.def. */
typedef struct cli_dataset_info {
    const char *name, *title, *package, *package_dir; /* package NULL: Debian has none */
    const char *mirrors[CLI_MIRRORS];
    const char *classes[CLI_CLASSES_MAX]; /* NULL: the digit */
    const char *archive; /* NULL: the four files. Else the one archive of CIFAR-10's binary version; its pin is sha256[0] */
    const char *sha256[CLI_FILE_COUNT];
} cli_dataset_info;

size_t cli_dataset_count(void);
const cli_dataset_info *cli_dataset_get(size_t i);
const cli_dataset_info *cli_dataset_find(const char *name); /* NULL if there is none of that name */

/* Where a data set was found. */
typedef struct cli_place {
    const cli_dataset_info *info; /* NULL for a folder given by --data, and for synthetic data */
    bool synthetic;
    bool is_cifar;   /* dir is an archive, or a folder of CIFAR-10's six files */
    char title[128]; /* "Fashion-MNIST", "the files in DIR", "synthetic data" */
    char dir[CLI_PATH_MAX];
} cli_place;

/* Finds data for a model whose default data set is preset. data is the value of --data or NULL: a folder, an archive of CIFAR-10,
 * a name of the table, or "synthetic". May download, with progress on stderr; falling back to synthetic data is a note on stderr.
 * Returns 0, or a code with the sentence in e. */
int cli_dataset_place(an_ctx *ctx, const char *preset, const char *data, cli_place *out, cli_error *e);

/* The folder of the Debian package, if all is in it. Tests put ANNEAL_TEST_ROOT in front, to be without the package. */
bool cli_package_dir(const cli_dataset_info *info, char *out, size_t size);
/* The path of a file in dir, plain or .gz, whichever is there (plain first); false if neither is. */
bool cli_dataset_path(const char *dir, cli_file file, char *out, size_t size);
/* The archive of a data set that is one, in dir; false if it is not there. */
bool cli_dataset_archive(const cli_dataset_info *info, const char *dir, char *out, size_t size);
/* Does dir hold all four? missing (may be NULL) gets the name of one that it lacks. */
bool cli_dataset_is_complete(const char *dir, const char **missing);
/* Fetches the four files of a data set, or its archive, into dir, which is made. Files already there stay. */
int cli_dataset_fetch(an_ctx *ctx, const cli_dataset_info *info, const char *dir, cli_error *e);

/* --- in memory ---------------------------------------------------------------------------------------- */
/* One split. */
typedef struct cli_images {
    const uint8_t *pixels; /* (n, features), from 0 to 255 */
    const uint8_t *labels; /* (n) */
    uint32_t n, features;
    an_idx files[2]; /* the memory of both, when they come from files; */
    an_cifar cifar;  /* or of both splits, in that to train on; */
    uint8_t *made;   /* else from here */
} cli_images;

/* What a model takes: anything else in the files is an error. */
typedef struct cli_want {
    uint32_t features, classes;
    void (*synthesize)(uint64_t seed, uint32_t i, uint8_t *pixels, uint8_t *label); /* NULL: bright spots */
} cli_want;

/* Both splits from a place; fini both whatever is returned. */
int cli_dataset_load(an_ctx *ctx, const cli_place *place, cli_want want, cli_images out[CLI_SPLIT_COUNT], cli_error *e);
void cli_images_fini(cli_images *x);

/* The same in a thread, with a context of its own, since a context belongs to one thread at a time. */
typedef struct cli_loader cli_loader;
int cli_loader_start(const cli_place *place, cli_want want, cli_loader **out, cli_error *e);
/* Waits; the result, CLI_SPLIT_COUNT of them, lives until destroy. */
int cli_loader_wait(cli_loader *l, const cli_images **out, cli_error *e);
void cli_loader_destroy(cli_loader *l); /* waits too; NULL is a no-op */

/* Copies the rows order[0..n) of a split, labels widened to int32; rows n..batch are cleared. labels may be NULL. */
void cli_batch(const cli_images *from, const uint32_t *order, uint32_t n, uint32_t batch, uint8_t *images, int32_t *labels);

#endif
