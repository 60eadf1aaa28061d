/* curve.h - a curve of any length in fixed memory, and its drawing in braille: two by four dots a character.
 *
 *   points are means of `stride` values; when they fill up, neighbours are merged and the stride doubles */
#ifndef CLI_CURVE_H
#define CLI_CURVE_H

#include "term.h"

#include <stddef.h>
#include <stdint.h>

enum { CLI_CURVE_MAX = 2048, CLI_CURVE_COLS_MAX = 512, CLI_CURVE_ROWS_MAX = 128 };

typedef struct cli_curve {
    double x[CLI_CURVE_MAX], y[CLI_CURVE_MAX];
    size_t len;
    uint64_t stride;
    double x_sum, y_sum; /* of the point being gathered */
    uint64_t gathered;
} cli_curve;

/* x does not fall from call to call; values that are not finite are left out. */
void cli_curve_add(cli_curve *c, double x, double y);

/* The least and greatest y; false while there is none. */
bool cli_curve_range(const cli_curve *c, double *min, double *max);

/* One row (0 is the top one) of a drawing cols x rows characters over x in 0..x_max and y in y_min..y_max. */
typedef struct cli_plot {
    uint8_t cells[CLI_CURVE_ROWS_MAX][CLI_CURVE_COLS_MAX]; /* dots, as the low byte of U+2800 */
    int cols, rows;
} cli_plot;
void cli_curve_plot(const cli_curve *c, double x_max, double y_min, double y_max, int cols, int rows, cli_plot *out);
/* UTF-8 braille, or ' ', '.', ':' without it. */
void cli_plot_put_row(FILE *out, const cli_plot *plot, int row, bool utf8);

#endif
