/* picture.h - pictures in the terminal: kitty's graphics or sixels where the terminal has them, half blocks in colour, or
 * characters of growing darkness in plain text. */
#ifndef CLI_PICTURE_H
#define CLI_PICTURE_H

#include "term.h"

#include <anneal/io.h>

typedef enum cli_picture_way { CLI_PICTURE_TEXT, CLI_PICTURE_BLOCKS, CLI_PICTURE_SIXEL, CLI_PICTURE_KITTY } cli_picture_way;

/* What out can show. ANNEAL_PICTURES (kitty, sixel, blocks, text) is obeyed; else kitty's and its relatives are known by their
 * variables, and a terminal is asked whether it has sixels (within a tenth of a second). */
cli_picture_way cli_picture_way_of(FILE *out, const cli_style *style);

/* Draws p, its pixels enlarged where they are small, cut at cols columns (0: not at all). */
void cli_picture_draw(FILE *out, const an_picture *p, cli_picture_way way, const cli_style *style, int cols);

#endif
