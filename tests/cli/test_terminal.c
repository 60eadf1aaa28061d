/* test_terminal.c ANNEAL - the live page on a pseudo-terminal: it appears, follows a resize, q and Ctrl-C end it, and the
 * terminal is left as it was. */
#define _DEFAULT_SOURCE /* forkpty, setenv */
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

#include <cmocka.h>

enum { SAID_MAX = 4 << 20, PATIENCE_S = 60 };

typedef struct terminal {
    const char *program;
    int fd;
    pid_t pid;
    char *said; /* everything the program wrote, as a string */
    size_t n;
    struct termios before;
} terminal;

static void start(terminal *t, const char *term, const char *no_colour)
{
    const struct winsize size = {.ws_row = 24, .ws_col = 90};
    int slave = -1;
    t->said = calloc(1, SAID_MAX);
    t->n = 0;
    assert_int_equal(openpty(&t->fd, &slave, NULL, NULL, &size), 0);
    assert_int_equal(tcgetattr(t->fd, &t->before), 0);
    t->pid = fork();
    assert_true(t->pid >= 0);
    if (t->pid == 0) {
        close(t->fd);
        if (login_tty(slave) != 0) _exit(120);
        setenv("TERM", term, 1);
        setenv("COLORTERM", "truecolor", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        setenv("NO_COLOR", no_colour, 1);
        execl(t->program, "anneal", "train", "mlp", "--data", "synthetic", "--epochs", "100000", (char *)NULL);
        _exit(121);
    }
    close(slave);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Reads what there is within 50 ms; false when the program has closed the terminal. */
static int more(terminal *t)
{
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    if (poll(&p, 1, 50) <= 0) return 1;
    if (t->n > SAID_MAX - 65536) { /* only the end matters */
        memmove(t->said, t->said + SAID_MAX / 2, t->n - SAID_MAX / 2);
        t->n -= SAID_MAX / 2;
    }
    const ssize_t got = read(t->fd, t->said + t->n, 32768);
    if (got <= 0) return 0;
    t->n += (size_t)got;
    t->said[t->n] = '\0';
    return 1;
}

static void wait_for(terminal *t, const char *words)
{
    const double end = now() + (double)PATIENCE_S;
    while (!strstr(t->said, words)) {
        if (!more(t) || now() > end) fail_msg("'%s' did not appear in:\n%s", words, t->said);
    }
}

/* Waits for the end; returns the exit code, or 1000 + the signal. */
static int finish(terminal *t)
{
    const double end = now() + (double)PATIENCE_S;
    int status = 0;
    while (more(t)) {
        if (now() > end) {
            kill(t->pid, SIGKILL);
            waitpid(t->pid, &status, 0);
            fail_msg("the program did not end");
        }
        if (waitpid(t->pid, &status, WNOHANG) == t->pid) {
            while (t->n < SAID_MAX - 65536) { /* what is still in the pipe */
                const size_t n = t->n;
                if (!more(t) || t->n == n) break;
            }
            t->pid = 0;
            break;
        }
    }
    if (t->pid) waitpid(t->pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Modes as before, cursor on, the normal screen. */
static void assert_restored(terminal *t)
{
    struct termios after;
    assert_int_equal(tcgetattr(t->fd, &after), 0);
    assert_int_equal(after.c_lflag, t->before.c_lflag);
    assert_int_equal(after.c_iflag, t->before.c_iflag);
    const char *left = NULL, *shown = NULL, *entered = NULL;
    for (const char *p = t->said; (p = strstr(p, "\x1b[?1049l")) != NULL; p++) left = p;
    for (const char *p = t->said; (p = strstr(p, "\x1b[?1049h")) != NULL; p++) entered = p;
    for (const char *p = t->said; (p = strstr(p, "\x1b[?25h")) != NULL; p++) shown = p;
    assert_non_null(left);
    assert_non_null(shown);
    assert_true(!entered || entered < left);
}

static void end(terminal *t)
{
    close(t->fd);
    free(t->said);
}

static void the_page_shows_and_q_ends_it(void **state)
{
    terminal t = {.program = *state};
    start(&t, "xterm-256color", "");
    wait_for(&t, "\x1b[?1049h");
    wait_for(&t, "anneal train mlp   synthetic data on ");
    wait_for(&t, "\x1b[38;2;0;173;216m"); /* teal #00ADD8 */
    wait_for(&t, "steps/s");
    wait_for(&t, "test accuracy");
    wait_for(&t, "memory");
    wait_for(&t, "q quits");
    struct termios during;
    assert_int_equal(tcgetattr(t.fd, &during), 0);
    assert_false(during.c_lflag & ICANON);
    assert_int_equal(write(t.fd, "q", 1), 1);
    assert_int_equal(finish(&t), 0);
    assert_restored(&t);
    const char *left = strstr(t.said, "\x1b[?1049l");
    assert_non_null(strstr(left, "test accuracy ")); /* the last word is on the normal screen */
    end(&t);
}

static void ctrl_c_ends_it_with_130(void **state)
{
    terminal t = {.program = *state};
    start(&t, "xterm-256color", "");
    wait_for(&t, "q quits");
    assert_int_equal(write(t.fd, "\x03", 1), 1);
    assert_int_equal(finish(&t), 130);
    assert_restored(&t);
    assert_non_null(strstr(t.said, "interrupted after step "));
    end(&t);
}

static void a_resize_is_followed(void **state)
{
    terminal t = {.program = *state};
    const struct winsize small = {.ws_row = 5, .ws_col = 40};
    start(&t, "xterm-256color", "");
    wait_for(&t, "q quits");
    assert_int_equal(ioctl(t.fd, TIOCSWINSZ, &small), 0);
    const double settled = now() + 1;
    while (now() < settled) assert_true(more(&t));
    t.n = 0; /* look at frames from now on */
    t.said[0] = '\0';
    wait_for(&t, "q quits");
    t.n = 0;
    t.said[0] = '\0';
    wait_for(&t, "q quits");
    char *frame = strstr(t.said, "\x1b[H");
    assert_non_null(frame);
    assert_null(strstr(t.said, "steps/s   left")); /* past column 40 */
    size_t lines = 0;
    for (const char *p = frame; *p && strncmp(p, "q quits", 7) != 0; p++) lines += *p == '\n';
    assert_true(lines < 5);
    assert_int_equal(write(t.fd, "q", 1), 1);
    assert_int_equal(finish(&t), 0);
    end(&t);
}

static void no_color_is_obeyed(void **state)
{
    terminal t = {.program = *state};
    start(&t, "xterm-256color", "1");
    wait_for(&t, "q quits");
    assert_int_equal(write(t.fd, "q", 1), 1);
    assert_int_equal(finish(&t), 0);
    assert_null(strstr(t.said, "\x1b[38"));
    end(&t);
}

static void a_dumb_terminal_gets_lines(void **state)
{
    terminal t = {.program = *state};
    start(&t, "dumb", "");
    wait_for(&t, "step 1/");
    assert_int_equal(write(t.fd, "\x03", 1), 1);
    assert_int_equal(finish(&t), 130);
    assert_null(strchr(t.said, '\x1b'));
    end(&t);
}

static void a_closed_terminal_ends_it(void **state)
{
    terminal t = {.program = *state};
    int status = 0;
    start(&t, "xterm-256color", "");
    wait_for(&t, "q quits");
    close(t.fd); /* SIGHUP */
    const double end_by = now() + (double)PATIENCE_S;
    while (waitpid(t.pid, &status, WNOHANG) == 0) {
        if (now() > end_by) {
            kill(t.pid, SIGKILL);
            waitpid(t.pid, &status, 0);
            fail_msg("the program did not end");
        }
        usleep(20000);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGHUP);
    free(t.said);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s path/to/anneal\n", argv[0]);
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(the_page_shows_and_q_ends_it, argv[1]),
        cmocka_unit_test_prestate(ctrl_c_ends_it_with_130, argv[1]),
        cmocka_unit_test_prestate(a_resize_is_followed, argv[1]),
        cmocka_unit_test_prestate(no_color_is_obeyed, argv[1]),
        cmocka_unit_test_prestate(a_dumb_terminal_gets_lines, argv[1]),
        cmocka_unit_test_prestate(a_closed_terminal_ends_it, argv[1]),
    };
    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
