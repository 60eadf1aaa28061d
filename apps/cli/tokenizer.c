/* tokenizer.c - see tokenizer.h. */
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 1 << 20, BEGINNING = 1, FIRST_BYTE = 3 };

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

int cli_tokenizer_open(cli_tokenizer *t, an_ctx *ctx, const char *path, cli_error *e)
{
    *t = (cli_tokenizer){0};
    if (an_file_read(ctx, path, 64u << 20, &t->file)) return cli_fail_ctx(e, ctx);
    const uint8_t *data = t->file.data;
    const size_t nbytes = t->file.nbytes;
    t->pieces = malloc((nbytes / 8 + 1) * sizeof *t->pieces);
    if (!t->pieces) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    size_t at = 4;
    while (at < nbytes) {
        const uint32_t length = nbytes - at >= 8 ? u32_at(data + at + 4) : UINT32_MAX;
        if (nbytes - at < 8 || length > nbytes - at - 8 || t->n >= PIECES_MAX)
            return cli_fail(e, AN_ERR_FORMAT, "%s: is no tokenizer of llama2.c: token %u does not fit into it", path, t->n);
        const uint32_t bits = u32_at(data + at);
        cli_piece *p = &t->pieces[t->n++];
        *p = (cli_piece){.nbytes = length, .bytes = data + at + 8};
        memcpy(&p->score, &bits, sizeof bits);
        at += 8 + length;
    }
    return t->n > FIRST_BYTE + 256 ? 0 : cli_fail(e, AN_ERR_FORMAT, "%s: is no tokenizer of llama2.c: it has %u tokens", path, t->n);
}

void cli_tokenizer_alphabet(cli_tokenizer *t, const an_text *alphabet)
{
    *t = (cli_tokenizer){.alphabet = alphabet, .n = alphabet->nvocab};
}

void cli_tokenizer_close(cli_tokenizer *t)
{
    free(t->pieces);
    an_bytes_fini(&t->file);
    *t = (cli_tokenizer){0};
}

/* The token with these bytes, a's then b's; -1 if there is none. */
static int32_t find(const cli_tokenizer *t, const uint8_t *a, size_t na, const uint8_t *b, size_t nb)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->pieces[i].nbytes == na + nb && memcmp(t->pieces[i].bytes, a, na) == 0 && memcmp(t->pieces[i].bytes + na, b, nb) == 0)
            return (int32_t)i;
    return -1;
}

/* Puts together the neighbours whose piece has the best score, until none fit. */
static size_t merge(const cli_tokenizer *t, int32_t *tokens, size_t n)
{
    for (;;) {
        size_t best = n;
        int32_t best_token = -1;
        for (size_t i = 1; i + 1 < n; i++) { /* the beginning stays */
            const cli_piece *a = &t->pieces[tokens[i]], *b = &t->pieces[tokens[i + 1]];
            const int32_t token = find(t, a->bytes, a->nbytes, b->bytes, b->nbytes);
            if (token < 0 || (best_token >= 0 && t->pieces[token].score <= t->pieces[best_token].score)) continue;
            best = i;
            best_token = token;
        }
        if (best == n) return n;
        tokens[best] = best_token;
        memmove(tokens + best + 1, tokens + best + 2, (n - best - 2) * sizeof *tokens);
        n--;
    }
}

/* A character that is a piece, or else its bytes. */
static size_t put_character(const cli_tokenizer *t, const uint8_t *s, size_t size, int32_t *out)
{
    const int32_t token = find(t, s, size, s, 0);
    if (token >= 0) {
        out[0] = token;
        return 1;
    }
    for (size_t i = 0; i < size; i++) out[i] = s[i] + FIRST_BYTE;
    return size;
}

int cli_tokenizer_encode(const cli_tokenizer *t, const char *text, int32_t **out, size_t *n, cli_error *e)
{
    const size_t nbytes = strlen(text);
    int32_t *tokens = malloc((nbytes + 2) * sizeof *tokens);
    size_t len = 0;
    if (!tokens) return cli_fail(e, AN_ERR_NOMEM, "out of memory");
    if (t->alphabet) {
        if (an_text_encode(t->alphabet, text, tokens, &len)) {
            free(tokens);
            return cli_fail_ctx(e, t->alphabet->ctx);
        }
    } else {
        tokens[len++] = BEGINNING;
        if (nbytes) len += put_character(t, (const uint8_t *)" ", 1, tokens + len); /* a text begins as a word does */
        for (size_t at = 0, size = 0; at < nbytes; at += size) {
            for (size = 1; at + size < nbytes && size < 4 && ((uint8_t)text[at + size] & 0xc0) == 0x80;) size++;
            len += put_character(t, (const uint8_t *)text + at, size, tokens + len);
        }
        len = merge(t, tokens, len);
    }
    *out = tokens;
    *n = len;
    return 0;
}

const void *cli_tokenizer_decode(const cli_tokenizer *t, int32_t before, int32_t token, char room[8], size_t *nbytes)
{
    *nbytes = 0;
    if (t->alphabet) {
        *nbytes = an_text_decode(t->alphabet, token, room);
        return room;
    }
    if (token < 0 || (uint32_t)token >= t->n) return room;
    const cli_piece *p = &t->pieces[token];
    if (token >= FIRST_BYTE && token < FIRST_BYTE + 256) { /* "<0x0A>" is written for a byte */
        room[0] = (char)(token - FIRST_BYTE);
        *nbytes = 1;
        return room;
    }
    const size_t skip = before == BEGINNING && p->nbytes > 0 && p->bytes[0] == ' ';
    *nbytes = p->nbytes - skip;
    return p->bytes + skip;
}
