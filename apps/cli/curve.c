/* curve.c - see curve.h. */
#include "curve.h"

#include <math.h>
#include <string.h>

static void push(cli_curve *c, double x, double y)
{
    if (c->len == CLI_CURVE_MAX) {
        for (size_t i = 0; i < CLI_CURVE_MAX / 2; i++) {
            c->x[i] = (c->x[2 * i] + c->x[2 * i + 1]) / 2;
            c->y[i] = (c->y[2 * i] + c->y[2 * i + 1]) / 2;
        }
        c->len /= 2;
        c->stride *= 2;
    }
    c->x[c->len] = x;
    c->y[c->len++] = y;
}

void cli_curve_add(cli_curve *c, double x, double y)
{
    if (!isfinite(y)) return;
    if (c->stride == 0) c->stride = 1;
    c->x_sum += x;
    c->y_sum += y;
    if (++c->gathered < c->stride) return;
    push(c, c->x_sum / (double)c->gathered, c->y_sum / (double)c->gathered);
    c->x_sum = c->y_sum = 0;
    c->gathered = 0;
}

bool cli_curve_range(const cli_curve *c, double *min, double *max)
{
    if (c->len == 0) return false;
    *min = *max = c->y[0];
    for (size_t i = 1; i < c->len; i++) {
        *min = fmin(*min, c->y[i]);
        *max = fmax(*max, c->y[i]);
    }
    return true;
}

static void set_dot(cli_plot *p, int x, int y)
{
    static const uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}; /* Unicode, U+2800 */
    if (x < 0 || y < 0 || x >= 2 * p->cols || y >= 4 * p->rows) return;
    p->cells[y / 4][x / 2] |= bits[y % 4][x % 2];
}

static int scaled(double v, double min, double max, int n)
{
    const double at = max > min ? (v - min) / (max - min) : 0.5;
    return (int)(fmin(fmax(at, 0), 1) * (n - 1) + 0.5);
}

/* Joins two points by a step at every dot column between them: enough at this resolution. */
static void line(cli_plot *p, int x0, int y0, int x1, int y1)
{
    const int dx = x1 > x0 ? x1 - x0 : 1;
    int y_last = y0;
    for (int i = 1; i <= dx; i++) {
        const int y = y0 + (y1 - y0) * i / dx;
        const int from = y < y_last ? y : y_last, to = y < y_last ? y_last : y;
        for (int k = from; k <= to; k++) set_dot(p, x1 > x0 ? x0 + i : x1, k);
        y_last = y;
    }
}

void cli_curve_plot(const cli_curve *c, double x_max, double y_min, double y_max, int cols, int rows, cli_plot *out)
{
    out->cols = cols < CLI_CURVE_COLS_MAX ? cols : CLI_CURVE_COLS_MAX;
    out->rows = rows < CLI_CURVE_ROWS_MAX ? rows : CLI_CURVE_ROWS_MAX;
    memset(out->cells, 0, sizeof out->cells);
    const int nx = 2 * out->cols, ny = 4 * out->rows;
    int x_last = 0, y_last = 0;
    for (size_t i = 0; i < c->len; i++) {
        const int x = scaled(c->x[i], 0, x_max, nx), y = ny - 1 - scaled(c->y[i], y_min, y_max, ny);
        if (i == 0)
            set_dot(out, x, y);
        else
            line(out, x_last, y_last, x, y);
        x_last = x;
        y_last = y;
    }
}

void cli_plot_put_row(FILE *out, const cli_plot *plot, int row, bool utf8)
{
    for (int i = 0; i < plot->cols; i++) {
        const unsigned dots = plot->cells[row][i];
        if (dots == 0) {
            fputc(' ', out);
        } else if (!utf8) {
            fputc(dots & 0x1b ? (dots & 0xe4 ? ':' : '\'') : '.', out); /* upper half, both, lower half */
        } else { /* U+2800 + dots */
            fputc(0xe2, out);
            fputc((int)(0xa0 | dots >> 6), out);
            fputc((int)(0x80 | (dots & 0x3f)), out);
        }
    }
}
