/* suggest.c - "did you mean": the nearest word by edits (insert, delete, replace, swap neighbours: Damerau's distance in
 * its restricted form). */
#include "cli.h"

#include <string.h>

enum { WORD_MAX = 64 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t row[3][WORD_MAX + 1];
    for (size_t j = 0; j <= nb; j++) row[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = least(least(up[j], now[j - 1]) + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = least(now[j], up2[j - 2] + 1);
        }
    }
    return row[na % 3][nb];
}

const char *cli_suggest(const char *typed, const char *const *words, size_t n)
{
    const size_t len = strlen(typed);
    if (len == 0 || len > WORD_MAX) return NULL;
    const char *best = NULL;
    size_t best_distance = len <= 3 ? 2 : 3; /* one edit in a short word, two in a longer one */
    for (size_t i = 0; i < n; i++) {
        const size_t len_word = strlen(words[i]);
        if (len_word > WORD_MAX) continue;
        const size_t d = distance(typed, len, words[i], len_word);
        const bool is_tie = best && d == best_distance && best[0] != typed[0] && words[i][0] == typed[0];
        if ((d < best_distance || is_tie) && d < len_word) { /* equally near: the one that begins alike */
            best = words[i];
            best_distance = d;
        }
    }
    for (size_t i = 0; !best && len >= 3 && i < n; i++)
        if (strncmp(words[i], typed, len) == 0) best = words[i]; /* the beginning of a word */
    return best;
}

int cli_unknown(const char *what, const char *typed, const char *const *words, size_t n)
{
    const char *near = cli_suggest(typed, words, n);
    fprintf(stderr, "anneal: unknown %s '%s'; ", what, typed);
    if (near) {
        fprintf(stderr, "did you mean '%s'?\n", near);
    } else {
        fputs("there is: ", stderr);
        for (size_t i = 0; i < n; i++) fprintf(stderr, "%s%s", i ? ", " : "", words[i]);
        fputc('\n', stderr);
    }
    return AN_ERR_ARG;
}
