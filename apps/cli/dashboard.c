/* dashboard.c - see dashboard.h.
 *
 *   anneal train mlp    Fashion-MNIST on cpu
 *   adam, lr 0.001, batch 64, seed 0
 *   2.31 |  curve, teal
 *        |
 *   0.12 |________________________
 *        0                    4685 steps
 *   epoch 2/5  #########.......  43 %   step 2014/4685
 *   loss 0.2345   test accuracy 86.1 %   1234 steps/s   left 0:02   memory 93 MiB
 *   q quits */
#include "dashboard.h"

#include <string.h>

enum { LABEL_COLS = 9, ROWS_WITHOUT_CURVE = 7, LINE_MAX_NBYTES = 512 };

void cli_print_time(char *text, size_t size, double seconds)
{
    const unsigned long s = seconds > 0 && seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(text, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, "%lu:%02lu", s / 60, s % 60);
}

/* ASCII text, cut to cols, in a colour. */
static void put_line(FILE *out, const cli_style *style, cli_colour colour, const char *text, int cols)
{
    fprintf(out, "%s%.*s%s\x1b[K\r\n", cli_paint(style, colour), cols, text,
            colour == CLI_PLAIN ? "" : cli_paint(style, CLI_PLAIN));
}

static void put_curve(FILE *out, const cli_style *style, const cli_progress *p, int cols, int rows)
{
    double min = 0, max = 1;
    cli_plot plot;
    const int plot_cols = cols - LABEL_COLS;
    const bool any = cli_curve_range(p->curve, &min, &max);
    if (plot_cols < 4 || rows < 1) return;
    if (min > 0 && min < max / 4) min = 0; /* an axis that starts at nothing reads better */
    cli_curve_plot(p->curve, p->steps > 1 ? (double)p->steps : 1, min, max, plot_cols, rows, &plot);
    for (int row = 0; row < plot.rows; row++) {
        char label[16] = "";
        if (any && row == 0) snprintf(label, sizeof label, "%7.3g", max);
        if (any && row == plot.rows - 1 && row > 0) snprintf(label, sizeof label, "%7.3g", min);
        fprintf(out, "%s%7.7s %s%s%s", cli_paint(style, CLI_DIM), label, style->utf8 ? "\u2502" : "|",
                cli_paint(style, CLI_PLAIN), cli_paint(style, CLI_TEAL));
        cli_plot_put_row(out, &plot, row, style->utf8);
        fprintf(out, "%s\x1b[K\r\n", cli_paint(style, CLI_PLAIN));
    }
}

static void put_bar(FILE *out, const cli_style *style, const cli_progress *p, int cols)
{
    char left[96], right[96];
    const double done = p->steps > 0 ? (double)p->step / (double)p->steps : 0;
    snprintf(left, sizeof left, "epoch %llu/%llu  ", (unsigned long long)p->epoch, (unsigned long long)p->epochs);
    snprintf(right, sizeof right, "  %3.0f %%  step %llu/%llu", done * 100, (unsigned long long)p->step,
             (unsigned long long)p->steps);
    const int room = cols - (int)strlen(left) - (int)strlen(right), width = room < 40 ? room : 40;
    fprintf(out, "%.*s", cols, left);
    if (width > 4) {
        const int full = (int)(done * width + 0.5);
        fputs(cli_paint(style, CLI_TEAL), out);
        for (int i = 0; i < width; i++) {
            if (style->utf8)
                fputs(i < full ? "\u2588" : "\u2591", out);
            else
                fputc(i < full ? '#' : '.', out);
        }
        fputs(cli_paint(style, CLI_PLAIN), out);
    }
    const int left_cols = cols - (int)strlen(left) - (width > 4 ? width : 0);
    if (left_cols > 0) fprintf(out, "%.*s", left_cols, right);
    fputs("\x1b[K\r\n", out);
}

static void put_numbers(FILE *out, const cli_style *style, const cli_progress *p, int cols)
{
    char text[LINE_MAX_NBYTES], left[32] = "-";
    if (p->seconds_left >= 0) cli_print_time(left, sizeof left, p->seconds_left);
    snprintf(text, sizeof text, "loss %.4f   %s   %.*f steps/s   left %s   memory %.0f MiB", p->loss,
             p->result[0] ? p->result : "not tested yet", p->steps_per_second < 10 ? 1 : 0, p->steps_per_second, left, (double)p->nbytes / (1 << 20));
    fprintf(out, "%s%.*s%s\x1b[K", cli_paint(style, CLI_BOLD), cols, text, cli_paint(style, CLI_PLAIN));
}

void cli_dashboard_draw(FILE *out, const cli_style *style, const cli_progress *p, int cols, int rows)
{
    char text[LINE_MAX_NBYTES];
    fputs("\x1b[H", out);
    if (rows >= 3) {
        snprintf(text, sizeof text, "anneal train %s   %s on %s", p->model, p->data, p->device);
        put_line(out, style, CLI_TEAL, text, cols);
    }
    if (rows >= ROWS_WITHOUT_CURVE) {
        put_line(out, style, CLI_DIM, p->recipe, cols);
        put_curve(out, style, p, cols, rows - ROWS_WITHOUT_CURVE);
        snprintf(text, sizeof text, "%7s 0 %*llu steps", "loss", cols > 32 ? cols - 20 : 1, (unsigned long long)p->steps);
        put_line(out, style, CLI_DIM, text, cols);
    }
    if (rows >= 2) put_bar(out, style, p, cols);
    put_numbers(out, style, p, cols);
    if (rows >= 4) fprintf(out, "\r\n%s%.*s%s", cli_paint(style, CLI_DIM), cols, "q quits", cli_paint(style, CLI_PLAIN));
    fputs("\x1b[J", out);
}
