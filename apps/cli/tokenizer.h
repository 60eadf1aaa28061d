/* tokenizer.h - text to tokens and back, for generation: the alphabet of a checkpoint, or a file of byte pairs as llama2.c
 * has them. */
#ifndef CLI_TOKENIZER_H
#define CLI_TOKENIZER_H

#include "cli.h"

#include <anneal/io.h>

/* A piece of text that is a token; its bytes lie in the file. */
typedef struct cli_piece {
    float score; /* the greater, the earlier it is put together */
    uint32_t nbytes;
    const uint8_t *bytes;
} cli_piece;

/* One of the two is there. */
typedef struct cli_tokenizer {
    const an_text *alphabet; /* borrowed */
    an_bytes file;
    cli_piece *pieces;
    uint32_t n; /* tokens there are */
} cli_tokenizer;

/* llama2.c's tokenizer.bin: an i32 (the longest piece), then for each token an f32 score, an i32 length, and its bytes. */
int cli_tokenizer_open(cli_tokenizer *t, an_ctx *ctx, const char *path, cli_error *e);
void cli_tokenizer_alphabet(cli_tokenizer *t, const an_text *alphabet);
void cli_tokenizer_close(cli_tokenizer *t);

/* Tokens of text, *n of them, to be freed. With pieces, the first is 1, the beginning of a text. */
int cli_tokenizer_encode(const cli_tokenizer *t, const char *text, int32_t **out, size_t *n, cli_error *e);
/* What a token prints as, after another one (-1: none): bytes, *nbytes of them; room is used if need be. */
const void *cli_tokenizer_decode(const cli_tokenizer *t, int32_t before, int32_t token, char room[8], size_t *nbytes);

#endif
