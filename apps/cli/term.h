/* term.h - the terminal: what it can show, its size, raw mode with a full-screen page, keys, and signals taken in turn.
 *
 * Signals are blocked and asked for (sigpending), so no handler and no global state is needed; block them before any thread
 * is started, since threads inherit the mask. */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <stdbool.h>
#include <stdio.h>
#include <termios.h>

/* --- colours: teal forward, ember backward, gold fused --------------------------------------------- */
typedef enum cli_colour { CLI_PLAIN, CLI_TEAL, CLI_EMBER, CLI_GOLD, CLI_DIM, CLI_BOLD, CLI_COLOUR_COUNT } cli_colour;

/* What output to a file may contain. */
typedef struct cli_style {
    bool colour;    /* not under NO_COLOR, TERM=dumb, or when the output is no terminal */
    bool truecolour; /* COLORTERM says so; else the 256-colour palette */
    bool utf8;      /* block and braille characters may be used */
} cli_style;
cli_style cli_style_of(FILE *out);
const char *cli_paint(const cli_style *style, cli_colour colour); /* the escape sequence, "" without colour */

/* --- the full-screen page --------------------------------------------------------------------------- */
typedef struct cli_term {
    struct termios saved;
    bool is_open, has_keys;
} cli_term;

/* Can a page be shown: stdout is a terminal that is not dumb, and we are in its foreground. */
bool cli_term_usable(void);
void cli_term_open(cli_term *t);  /* alternate screen, no cursor, keys unbuffered */
void cli_term_close(cli_term *t); /* all back as it was; a closed one is a no-op */
int cli_term_key(cli_term *t);    /* a key that was pressed, or -1 */
void cli_term_size(int *cols, int *rows);
void cli_term_write(const char *text, size_t n);

/* --- signals ----------------------------------------------------------------------------------------- */
void cli_signals_block(void); /* INT, TERM, HUP, QUIT, TSTP */
/* A pending signal's number, taken off the queue, or 0. */
int cli_signal_pending(void);
void cli_signals_unblock(void);

double cli_now(void); /* monotonic seconds */

#endif
