/* print.c - see print.h. */
#include "print.h"

void cli_put(void *out, const char *text)
{
    fputs(text, out);
}

void cli_put_json(void *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p == '\n')
            fputs("\\n", out);
        else if (*p < 0x20)
            fprintf(out, "\\u%04x", *p);
        else
            fputc(*p, out);
    }
}

void cli_json_string(FILE *out, const char *text)
{
    fputc('"', out);
    cli_put_json(out, text);
    fputc('"', out);
}

cli_colour cli_phase_colour(an_phase phase)
{
    switch (phase) {
    case AN_PHASE_TANGENT:
    case AN_PHASE_FORWARD: return CLI_TEAL;
    case AN_PHASE_BACKWARD: return CLI_EMBER;
    case AN_PHASE_UPDATE: return CLI_GOLD;
    }
    return CLI_PLAIN;
}

const char *cli_phase_name(an_phase phase)
{
    switch (phase) {
    case AN_PHASE_FORWARD: return "forward";
    case AN_PHASE_BACKWARD: return "backward";
    case AN_PHASE_UPDATE: return "update";
    case AN_PHASE_TANGENT: return "tangent";
    }
    return "?";
}
