/* picture.c - see picture.h. */
#define _POSIX_C_SOURCE 200809L
#include "picture.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- what the terminal can do ------------------------------------------------------------------------- */

static bool env_contains(const char *name, const char *part)
{
    const char *v = getenv(name);
    return v && strstr(v, part);
}

/* Asks for the device's attributes (DA1): "4" among them is sixels. What else was typed meanwhile is lost. */
static bool has_sixels(FILE *out)
{
    struct termios saved, raw;
    char answer[64] = "";
    size_t n = 0;
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &saved) != 0 || tcgetpgrp(STDIN_FILENO) != getpgrp()) return false;
    raw = saved;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    fputs("\x1b[c", out);
    fflush(out);
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    while (n + 1 < sizeof answer && !strchr(answer, 'c') && poll(&p, 1, 100) == 1) {
        if (read(STDIN_FILENO, answer + n, 1) != 1) break;
        answer[++n] = '\0';
    }
    tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
    for (char *at = strtok(answer, "?;c"); at; at = strtok(NULL, "?;c"))
        if (strcmp(at, "4") == 0) return true;
    return false;
}

cli_picture_way cli_picture_way_of(FILE *out, const cli_style *style)
{
    static const char *const names[] = {[CLI_PICTURE_TEXT] = "text", [CLI_PICTURE_BLOCKS] = "blocks",
                                        [CLI_PICTURE_SIXEL] = "sixel", [CLI_PICTURE_KITTY] = "kitty"};
    const char *asked = getenv("ANNEAL_PICTURES");
    for (size_t i = 0; asked && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(asked, names[i]) == 0) return (cli_picture_way)i;
    if (!style->colour || !isatty(fileno(out))) return CLI_PICTURE_TEXT;
    if (getenv("KITTY_WINDOW_ID") || env_contains("TERM", "kitty") || env_contains("TERM_PROGRAM", "WezTerm") ||
        env_contains("TERM", "ghostty"))
        return CLI_PICTURE_KITTY;
    if (has_sixels(out)) return CLI_PICTURE_SIXEL;
    return style->utf8 ? CLI_PICTURE_BLOCKS : CLI_PICTURE_TEXT;
}

/* --- pixels ------------------------------------------------------------------------------------------- */

static void pixel(const an_picture *p, uint32_t x, uint32_t y, uint8_t rgb[3])
{
    const uint8_t *at = p->data + ((size_t)y * p->width + x) * p->channels;
    for (int c = 0; c < 3; c++) rgb[c] = at[p->channels == 3 ? c : 0];
}

/* Of 256 colours the nearest in the 6 x 6 x 6 cube. */
static int cube(const uint8_t rgb[3])
{
    int index = 0;
    for (int c = 0; c < 3; c++) index = 6 * index + (rgb[c] * 5 + 127) / 255;
    return index;
}

/* --- text: a character is twice as high as wide, so it stands for one pixel across and two down, or for two across --------- */

static void draw_text(FILE *out, const an_picture *p, uint32_t width)
{
    static const char ramp[] = " .:-=+*#%@";
    for (uint32_t y = 0; y < p->height; y += 2) {
        for (uint32_t x = 0; x < width; x++) {
            uint8_t a[3], b[3];
            pixel(p, x, y, a);
            pixel(p, x, y + 1 < p->height ? y + 1 : y, b);
            const int light = 3 * (a[0] + b[0]) + 6 * (a[1] + b[1]) + (a[2] + b[2]); /* 0 to 5100 */
            fputc(ramp[light * 9 / 5100], out);
        }
        fputc('\n', out);
    }
}

static void put_colour(FILE *out, const uint8_t rgb[3], bool back, const cli_style *style)
{
    if (style->truecolour)
        fprintf(out, "\x1b[%d;2;%d;%d;%dm", back ? 48 : 38, rgb[0], rgb[1], rgb[2]);
    else
        fprintf(out, "\x1b[%d;5;%dm", back ? 48 : 38, 16 + cube(rgb));
}

/* The upper half in the colour of the text, the lower one in that behind it. */
static void draw_blocks(FILE *out, const an_picture *p, uint32_t width, const cli_style *style)
{
    for (uint32_t y = 0; y < p->height; y += 2) {
        uint8_t last[2][3] = {{0}};
        for (uint32_t x = 0; x < width; x++) {
            uint8_t now[2][3] = {{0}};
            pixel(p, x, y, now[0]);
            if (y + 1 < p->height) pixel(p, x, y + 1, now[1]);
            for (int half = 0; half < 2; half++)
                if (x == 0 || memcmp(now[half], last[half], 3) != 0) put_colour(out, now[half], half == 1, style);
            memcpy(last, now, sizeof last);
            fputs("\u2580", out);
        }
        fputs("\x1b[0m\n", out);
    }
}

/* --- pixels proper --------------------------------------------------------------------------------------- */

/* Small pictures are enlarged: to about 320 pixels, by at most 8. */
static uint32_t enlargement(const an_picture *p)
{
    const uint32_t k = 320 / (p->width > p->height ? p->width : p->height);
    return k < 1 ? 1 : k > 8 ? 8 : k;
}

static void enlarged(const an_picture *p, uint32_t k, uint32_t x, uint32_t y, uint8_t rgb[3])
{
    pixel(p, x / k, y / k, rgb);
}

/* Six rows at a time; in each, a line of every colour that occurs, laid over each other. */
static void draw_sixel(FILE *out, const an_picture *p)
{
    const uint32_t k = enlargement(p), w = p->width * k, h = p->height * k;
    uint8_t rgb[3];
    fprintf(out, "\x1bP9;1q\"1;1;%u;%u", w, h);
    for (int i = 0; i < 216; i++) fprintf(out, "#%d;2;%d;%d;%d", i, i / 36 * 20, i / 6 % 6 * 20, i % 6 * 20);
    for (uint32_t y = 0; y < h; y += 6) {
        bool used[216] = {false}, first = true;
        for (uint32_t x = 0; x < w; x++)
            for (uint32_t r = 0; r < 6 && y + r < h; r++) {
                enlarged(p, k, x, y + r, rgb);
                used[cube(rgb)] = true;
            }
        for (int colour = 0; colour < 216; colour++) {
            if (!used[colour]) continue;
            fprintf(out, "%s#%d", first ? "" : "$", colour);
            first = false;
            for (uint32_t x = 0; x < w; x++) {
                int bits = 0;
                for (uint32_t r = 0; r < 6 && y + r < h; r++) {
                    enlarged(p, k, x, y + r, rgb);
                    if (cube(rgb) == colour) bits |= 1 << r;
                }
                fputc('?' + bits, out);
            }
        }
        fputc('-', out);
    }
    fputs("\x1b\\\n", out);
}

/* RGB in base 64, in pieces of at most 4096 characters. */
static void draw_kitty(FILE *out, const an_picture *p)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { PIXELS_A_PIECE = 1024 }; /* a pixel is four characters */
    const uint32_t k = enlargement(p), w = p->width * k, h = p->height * k;
    const size_t n = (size_t)w * h;
    for (size_t at = 0; at < n; at += PIXELS_A_PIECE) {
        const size_t end = at + PIXELS_A_PIECE < n ? at + PIXELS_A_PIECE : n;
        if (at == 0)
            fprintf(out, "\x1b_Ga=T,f=24,s=%u,v=%u,m=%d;", w, h, end < n);
        else
            fprintf(out, "\x1b_Gm=%d;", end < n);
        for (size_t i = at; i < end; i++) {
            uint8_t rgb[3];
            enlarged(p, k, (uint32_t)(i % w), (uint32_t)(i / w), rgb);
            const uint32_t v = (uint32_t)rgb[0] << 16 | (uint32_t)rgb[1] << 8 | rgb[2];
            for (int d = 3; d >= 0; d--) fputc(digits[v >> (6 * d) & 63], out);
        }
        fputs("\x1b\\", out);
    }
    fputc('\n', out);
}

void cli_picture_draw(FILE *out, const an_picture *p, cli_picture_way way, const cli_style *style, int cols)
{
    const uint32_t width = cols > 0 && p->width > (uint32_t)cols ? (uint32_t)cols : p->width;
    switch (way) {
    case CLI_PICTURE_TEXT: draw_text(out, p, width); break;
    case CLI_PICTURE_BLOCKS: draw_blocks(out, p, width, style); break;
    case CLI_PICTURE_SIXEL: draw_sixel(out, p); break;
    case CLI_PICTURE_KITTY: draw_kitty(out, p); break;
    }
}
