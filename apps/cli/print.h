/* print.h - text to stdout from the library's pieces: whole, quoted for JSON or for dot. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include "term.h"

#include <anneal/graph.h>

void cli_put(void *out, const char *text);        /* an an_put on a FILE * */
void cli_put_json(void *out, const char *text);   /* the same, escaped, without the quotes */
void cli_json_string(FILE *out, const char *text); /* "quoted" */

/* The colour and the word of a phase. */
cli_colour cli_phase_colour(an_phase phase);
const char *cli_phase_name(an_phase phase);

#endif
