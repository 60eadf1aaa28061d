/* term.c - see term.h. */
#define _DEFAULT_SOURCE /* TIOCGWINSZ */
#include "term.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* --- colours ----------------------------------------------------------------------------------------- */

static bool env_has(const char *name, const char *text)
{
    const char *v = getenv(name);
    return v && strcmp(v, text) == 0;
}

cli_style cli_style_of(FILE *out)
{
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    const bool on_terminal = isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
    cli_style style = {.colour = on_terminal && !(no_colour && no_colour[0]),
                       .truecolour = env_has("COLORTERM", "truecolor") || env_has("COLORTERM", "24bit")};
    setlocale(LC_CTYPE, "");
    style.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    return style;
}

const char *cli_paint(const cli_style *style, cli_colour colour)
{
    static const char *const rgb[CLI_COLOUR_COUNT] = {
        [CLI_PLAIN] = "\x1b[0m", /* teal #00ADD8, ember #FF7A45, gold #F2C57C */
        [CLI_TEAL] = "\x1b[38;2;0;173;216m",
        [CLI_EMBER] = "\x1b[38;2;255;122;69m",
        [CLI_GOLD] = "\x1b[38;2;242;197;124m",
        [CLI_DIM] = "\x1b[2m",
        [CLI_BOLD] = "\x1b[1m",
    };
    static const char *const palette[CLI_COLOUR_COUNT] = {
        [CLI_PLAIN] = "\x1b[0m",         [CLI_TEAL] = "\x1b[38;5;38m", [CLI_EMBER] = "\x1b[38;5;209m",
        [CLI_GOLD] = "\x1b[38;5;222m", [CLI_DIM] = "\x1b[2m",        [CLI_BOLD] = "\x1b[1m",
    };
    if (!style->colour) return "";
    return style->truecolour ? rgb[colour] : palette[colour];
}

/* --- the page ------------------------------------------------------------------------------------------ */

bool cli_term_usable(void)
{
    const char *term = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || !term || strcmp(term, "dumb") == 0) return false;
    return tcgetpgrp(STDOUT_FILENO) == getpgrp();
}

void cli_term_write(const char *text, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(STDOUT_FILENO, text, n);
        if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (done < 0) return; /* the terminal is gone; SIGHUP says so */
        text += done;
        n -= (size_t)done;
    }
}

static void write_text(const char *text)
{
    cli_term_write(text, strlen(text));
}

void cli_term_open(cli_term *t)
{
    fflush(stdout);
    t->has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &t->saved) == 0;
    if (t->has_keys) {
        struct termios raw = t->saved;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* ISIG stays: Ctrl-C is a signal */
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    }
    write_text("\x1b[?1049h\x1b[?25l\x1b[2J");
    t->is_open = true;
}

void cli_term_close(cli_term *t)
{
    if (!t->is_open) return;
    write_text("\x1b[0m\x1b[?25h\x1b[?1049l");
    if (t->has_keys) tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
    t->is_open = false;
}

int cli_term_key(cli_term *t)
{
    unsigned char key;
    if (!t->is_open || !t->has_keys) return -1;
    return read(STDIN_FILENO, &key, 1) == 1 ? key : -1;
}

void cli_term_size(int *cols, int *rows)
{
    struct winsize size = {0};
    *cols = 80;
    *rows = 24;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        *cols = size.ws_col;
        *rows = size.ws_row;
    }
}

/* --- signals ---------------------------------------------------------------------------------------------- */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

static sigset_t signal_set(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) sigaddset(&set, signals[i]);
    return set;
}

void cli_signals_block(void)
{
    const sigset_t set = signal_set();
    sigprocmask(SIG_BLOCK, &set, NULL);
}

void cli_signals_unblock(void)
{
    const sigset_t set = signal_set();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int cli_signal_pending(void)
{
    sigset_t pending, one;
    if (sigpending(&pending) != 0) return 0;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        int taken = 0;
        if (sigismember(&pending, signals[i]) != 1) continue;
        sigemptyset(&one);
        sigaddset(&one, signals[i]);
        if (sigwait(&one, &taken) == 0) return taken;
    }
    return 0;
}

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
