/* test_parts.c - the parts of the command line that need no model: options by table, "did you mean", the curve, the page,
 * and data sets held against each other. */
#define _DEFAULT_SOURCE /* mkdtemp, setenv */
#include "cli.h"
#include "dashboard.h"
#include "dataset.h"
#include "picture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* --- options ----------------------------------------------------------------------------------------------- */

typedef struct sample_args {
    const char *operand, *text, *choice;
    uint64_t whole;
    double real;
    bool flag;
} sample_args;

static const cli_option sample_options[] = {
    {"whole", CLI_WHOLE, offsetof(sample_args, whole), "N", "5", "a whole number", 1, 100, NULL},
    {"real", CLI_REAL, offsetof(sample_args, real), "X", "0.5", "a number", 0, 1, NULL},
    {"text", CLI_TEXT, offsetof(sample_args, text), "T", NULL, "words", 0, 0, NULL},
    {"choice", CLI_CHOICE, offsetof(sample_args, choice), "C", "red", "a colour", 0, 0, "red green blue"},
    {"flag", CLI_FLAG, offsetof(sample_args, flag), NULL, NULL, "on or off", 0, 0, NULL},
};

static const cli_verb sample = {
    .name = "sample",
    .operand = "THING",
    .operand_offset = offsetof(sample_args, operand),
    .summary = "for tests",
    .examples = "  anneal sample x\n",
    .options = sample_options,
    .noptions = CLI_COUNT(sample_options),
    .args_size = sizeof(sample_args),
};

/* stderr and stdout of cli_parse, caught in a file. */
static int parse(char **words, sample_args *args, char *said, size_t size)
{
    int argc = 0;
    while (words[argc]) argc++;
    FILE *f = tmpfile();
    fflush(stdout);
    fflush(stderr);
    const int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    dup2(fileno(f), STDOUT_FILENO);
    dup2(fileno(f), STDERR_FILENO);
    const int code = cli_parse(&sample, argc, words, args);
    fflush(stdout);
    fflush(stderr);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    rewind(f);
    said[fread(said, 1, size - 1, f)] = '\0';
    fclose(f);
    return code;
}

#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})

static char *word(const char *text) /* argv is not const; nobody writes to it */
{
    union {
        const char *in;
        char *out;
    } u = {text};
    return u.out;
}

static void defaults_come_from_the_table(void **state)
{
    (void)state;
    sample_args a;
    char said[4096];
    assert_int_equal(parse(WORDS(word("x")), &a, said, sizeof said), -1);
    assert_string_equal(a.operand, "x");
    assert_int_equal(a.whole, 5);
    assert_true(a.real == 0.5);
    assert_null(a.text);
    assert_string_equal(a.choice, "red");
    assert_false(a.flag);
    assert_string_equal(said, "");
}

static void both_spellings_and_any_order_are_read(void **state)
{
    (void)state;
    sample_args a;
    char said[4096];
    char **words = WORDS(word("--whole=7"), word("--flag"), word("x"), word("--real"), word("0.25"), word("--text="), word("--choice"),
                         word("blue"));
    assert_int_equal(parse(words, &a, said, sizeof said), -1);
    assert_int_equal(a.whole, 7);
    assert_true(a.real == 0.25);
    assert_string_equal(a.text, "");
    assert_string_equal(a.choice, "blue");
    assert_true(a.flag);
    assert_int_equal(parse(WORDS(word("--"), word("--flag")), &a, said, sizeof said), -1);
    assert_string_equal(a.operand, "--flag");
}

static void mistakes_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *words[4], *said;
    } cases[] = {
        {{"x", "--wole", "3"}, "did you mean '--whole'"},
        {{"x", "--zzzzzzzz"}, "'anneal sample --help' lists"},
        {{"x", "--whole", "0"}, "--whole takes a whole number from 1 to 100, not '0'"},
        {{"x", "--whole", "101"}, "not '101'"},
        {{"x", "--whole", "-1"}, "not '-1'"},
        {{"x", "--whole", "3x"}, "not '3x'"},
        {{"x", "--whole", ""}, "not ''"},
        {{"x", "--whole", "99999999999999999999999"}, "not '9999"},
        {{"x", "--real", "nan"}, "--real takes a number from 0 to 1, not 'nan'"},
        {{"x", "--real", "1e999"}, "not '1e999'"},
        {{"x", "--whole"}, "--whole needs a value (N)"},
        {{"x", "--flag=1"}, "--flag takes no value"},
        {{"x", "--choice", "gren"}, "did you mean 'green'"},
        {{"x", "--choice", "ultraviolet"}, "red, green, blue"},
        {{"x", "y"}, "'y' is one word too many"},
        {{"x", "-f"}, "options have two dashes"},
        {{"--flag"}, "which THING?"},
    };
    for (size_t i = 0; i < CLI_COUNT(cases); i++) {
        sample_args a;
        char said[4096], *words[5] = {NULL};
        for (size_t k = 0; k < 4 && cases[i].words[k]; k++) words[k] = word(cases[i].words[k]);
        assert_int_equal(parse(words, &a, said, sizeof said), AN_ERR_ARG);
        if (!strstr(said, cases[i].said)) fail_msg("'%s' lacks '%s'", said, cases[i].said);
    }
}

static void help_names_every_option_and_wins(void **state)
{
    (void)state;
    sample_args a;
    char said[4096];
    assert_int_equal(parse(WORDS(word("--nonsense"), word("--help")), &a, said, sizeof said), 0);
    for (size_t i = 0; i < CLI_COUNT(sample_options); i++) {
        char name[32];
        snprintf(name, sizeof name, "--%s", sample_options[i].name);
        assert_non_null(strstr(said, name));
    }
    assert_non_null(strstr(said, "[0.5]"));
    assert_non_null(strstr(said, "(one of: red green blue)"));
    assert_non_null(strstr(said, "Examples:"));
    assert_non_null(strstr(said, "Exit codes:"));
}

static void near_words_are_suggested_and_far_ones_are_not(void **state)
{
    (void)state;
    static const char *const words[] = {"mlp", "train", "kernels", "cpu", "interp", "pad", "add"};
    const size_t n = CLI_COUNT(words);
    assert_string_equal(cli_suggest("mpl", words, n), "mlp"); /* swapped: one edit */
    assert_string_equal(cli_suggest("trian", words, n), "train");
    assert_string_equal(cli_suggest("kernel", words, n), "kernels");
    assert_string_equal(cli_suggest("cpuu", words, n), "cpu");
    assert_string_equal(cli_suggest("int", words, n), "interp");
    assert_string_equal(cli_suggest("ad", words, n), "add"); /* as near as pad, and it begins alike */
    assert_null(cli_suggest("zebra", words, n));
    assert_null(cli_suggest("", words, n));
}

/* --- the page ----------------------------------------------------------------------------------------------- */

static void a_curve_of_any_length_keeps_its_range(void **state)
{
    (void)state;
    cli_curve *c = calloc(1, sizeof *c);
    double min = 0, max = 0;
    assert_false(cli_curve_range(c, &min, &max));
    for (int i = 0; i < 100000; i++) cli_curve_add(c, i, 10.0 - i * 1e-4);
    cli_curve_add(c, 100000, (double)NAN); /* left out */
    assert_true(c->len <= CLI_CURVE_MAX && c->len >= CLI_CURVE_MAX / 2);
    assert_true(cli_curve_range(c, &min, &max));
    assert_true(max > 9.9 && max <= 10 && min >= 0 && min < 0.1);
    for (size_t i = 1; i < c->len; i++) assert_true(c->x[i] > c->x[i - 1]);
    free(c);
}

static void a_falling_curve_goes_from_top_left_to_bottom_right(void **state)
{
    (void)state;
    cli_curve *c = calloc(1, sizeof *c);
    cli_plot *p = calloc(1, sizeof *p);
    for (int i = 0; i <= 100; i++) cli_curve_add(c, i, 100 - i);
    cli_curve_plot(c, 100, 0, 100, 20, 5, p);
    assert_int_not_equal(p->cells[0][0], 0);
    assert_int_not_equal(p->cells[4][19], 0);
    assert_int_equal(p->cells[0][19], 0);
    assert_int_equal(p->cells[4][0], 0);
    for (int col = 0; col < 20; col++) { /* no gaps */
        int any = 0;
        for (int row = 0; row < 5; row++) any |= p->cells[row][col];
        assert_int_not_equal(any, 0);
    }
    free(p);
    free(c);
}

/* Columns a line takes on the screen: escape sequences take none, a UTF-8 character one. */
static int width(const char *line, size_t n)
{
    int cols = 0;
    for (size_t i = 0; i < n; i++) {
        if (line[i] == '\x1b') {
            while (i < n && !(line[i] >= 'A' && line[i] <= 'Z') && !(line[i] >= 'a' && line[i] <= 'z')) i++;
        } else if (((unsigned char)line[i] & 0xc0) != 0x80 && line[i] != '\r') {
            cols++;
        }
    }
    return cols;
}

static void no_frame_is_larger_than_its_terminal(void **state)
{
    (void)state;
    cli_curve *c = calloc(1, sizeof *c);
    for (int i = 0; i < 500; i++) cli_curve_add(c, i, 1 / (1.0 + i));
    const cli_progress p = {.model = "mlp", .data = "Fashion-MNIST", .device = "cpu", .recipe = "adam, lr 0.001, batch 64, seed 0",
                            .step = 250, .steps = 500, .epoch = 1, .epochs = 1, .loss = 0.25, .result = "test accuracy 87.50 %",
                            .steps_per_second = 1234, .seconds_left = 75, .nbytes = 93 << 20, .curve = c};
    for (int look = 0; look < 4; look++) {
        const cli_style style = {.colour = look & 1, .truecolour = true, .utf8 = look >> 1};
        for (int rows = 1; rows <= 40; rows++) {
            for (int cols = 1; cols <= 200; cols += 7) {
                char *text = NULL;
                size_t n = 0;
                int lines = 1;
                FILE *f = open_memstream(&text, &n);
                cli_dashboard_draw(f, &style, &p, cols, rows);
                fclose(f);
                for (char *at = text, *end; at < text + n; at = end + 1) {
                    end = memchr(at, '\n', (size_t)(text + n - at));
                    lines += end != NULL;
                    if (!end) end = text + n;
                    assert_true(width(at, (size_t)(end - at)) <= cols);
                }
                assert_true(lines <= rows);
                if (!style.colour) assert_null(strstr(text, "\x1b[38"));
                if (rows >= 10 && cols > 100) {
                    assert_non_null(strstr(text, "test accuracy 87.50 %"));
                    assert_non_null(strstr(text, "1234 steps/s"));
                    assert_non_null(strstr(text, "left 1:15"));
                    assert_non_null(strstr(text, "memory 93 MiB"));
                }
                free(text);
            }
        }
    }
    free(c);
}

static void times_read_like_a_clock(void **state)
{
    (void)state;
    char text[32];
    cli_print_time(text, sizeof text, 7);
    assert_string_equal(text, "0:07");
    cli_print_time(text, sizeof text, 245.4);
    assert_string_equal(text, "4:05");
    cli_print_time(text, sizeof text, 3723);
    assert_string_equal(text, "1:02:03");
    cli_print_time(text, sizeof text, (double)NAN);
    assert_string_equal(text, "0:00");
}

/* --- data ------------------------------------------------------------------------------------------------------ */

typedef struct room {
    an_ctx *ctx;
    char dir[64];
} room;

static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                    "t10k-labels-idx1-ubyte"};

/* n images of 2 x 3, or n labels. */
static void write_idx(const room *r, const char *name, uint8_t n, bool is_images, uint8_t first_label)
{
    uint8_t data[16 + 6 * 20] = {0, 0, 8, is_images ? 3 : 1, 0, 0, 0, n, 0, 0, 0, 2, 0, 0, 0, 3};
    const size_t head = is_images ? 16 : 8, each = is_images ? 6 : 1;
    char path[256];
    for (size_t i = 0; i < n * each; i++) data[head + i] = is_images ? (uint8_t)i : (uint8_t)(first_label + i % 3);
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    assert_int_equal(an_file_write(r->ctx, path, data, head + n * each), AN_OK);
}

static int set_up(void **state)
{
    room *r = calloc(1, sizeof *r);
    snprintf(r->dir, sizeof r->dir, "/tmp/anneal-test-XXXXXX");
    if (!mkdtemp(r->dir) || an_ctx_create(NULL, &r->ctx)) return -1;
    write_idx(r, names[0], 10, true, 0);
    write_idx(r, names[1], 10, false, 0);
    write_idx(r, names[2], 4, true, 0);
    write_idx(r, names[3], 4, false, 0);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    room *r = *state;
    char path[256];
    for (size_t i = 0; i < CLI_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", r->dir, names[i]);
        unlink(path);
    }
    rmdir(r->dir);
    an_ctx_destroy(r->ctx);
    free(r);
    return 0;
}

static const cli_want want = {6, 3, NULL};

/* Loading is refused with these words. */
static void assert_load_fails(room *r, cli_want w, int code, const char *words)
{
    cli_place place;
    cli_error e = {0};
    cli_images images[CLI_SPLIT_COUNT];
    assert_int_equal(cli_dataset_place(r->ctx, "fashion-mnist", r->dir, &place, &e), 0);
    assert_int_equal(cli_dataset_load(r->ctx, &place, w, images, &e), code);
    if (!strstr(e.text, words)) fail_msg("'%s' lacks '%s'", e.text, words);
    cli_images_fini(&images[0]);
    cli_images_fini(&images[1]);
    an_ctx_clear_error(r->ctx);
}

static void four_good_files_are_loaded_in_a_thread(void **state)
{
    room *r = *state;
    cli_place place;
    cli_error e = {0};
    cli_loader *loader = NULL;
    const cli_images *images = NULL;
    const uint32_t order[] = {9, 1};
    uint8_t pixels[3 * 6];
    int32_t labels[3];
    assert_int_equal(cli_dataset_place(r->ctx, "fashion-mnist", r->dir, &place, &e), 0);
    assert_int_equal(cli_loader_start(&place, want, &loader, &e), 0);
    assert_int_equal(cli_loader_wait(loader, &images, &e), 0);
    assert_int_equal(images[CLI_SPLIT_TRAIN].n, 10);
    assert_int_equal(images[CLI_SPLIT_TEST].n, 4);
    memset(pixels, 0xff, sizeof pixels);
    memset(labels, 0xff, sizeof labels);
    cli_batch(&images[CLI_SPLIT_TRAIN], order, 2, 3, pixels, labels);
    assert_int_equal(pixels[0], 54); /* image 9 starts at element 54 */
    assert_int_equal(pixels[6], 6);
    assert_int_equal(pixels[12], 0); /* the rest is cleared */
    assert_int_equal(labels[0], 0);
    assert_int_equal(labels[1], 1);
    assert_int_equal(labels[2], 0);
    cli_loader_destroy(loader);
}

static void files_that_do_not_belong_together_are_refused(void **state)
{
    room *r = *state;
    write_idx(r, names[1], 9, false, 0);
    assert_load_fails(r, want, AN_ERR_FORMAT, "has 10 images, but ");
    assert_load_fails(r, want, AN_ERR_FORMAT, "has 9 labels");
    write_idx(r, names[1], 10, false, 1); /* 1 to 3, and 3 is one too many */
    assert_load_fails(r, want, AN_ERR_FORMAT, "label 2 is 3, and the model knows only 0 to 2");
    write_idx(r, names[1], 10, true, 0); /* images where labels should be */
    assert_load_fails(r, want, AN_ERR_SHAPE, "3 dimensions where 1");
    write_idx(r, names[1], 10, false, 0);
    assert_load_fails(r, (cli_want){784, 3, NULL}, AN_ERR_SHAPE, "its images are 2 x 3, which is not the 784");
    write_idx(r, names[0], 0, true, 0);
    write_idx(r, names[1], 0, false, 0);
    assert_load_fails(r, want, AN_ERR_FORMAT, "has 0 images");
}

static void a_folder_that_lacks_a_file_is_refused(void **state)
{
    room *r = *state;
    cli_place place;
    cli_error e = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/%s", r->dir, names[2]);
    unlink(path);
    assert_int_equal(cli_dataset_place(r->ctx, "fashion-mnist", r->dir, &place, &e), AN_ERR_IO);
    assert_non_null(strstr(e.text, "has no t10k-images-idx3-ubyte, plain or .gz"));
    e = (cli_error){0};
    assert_int_equal(cli_dataset_place(r->ctx, "fashion-mnist", "/nowhere/at/all", &place, &e), AN_ERR_IO);
    assert_non_null(strstr(e.text, "there is no folder '/nowhere/at/all'"));
    e = (cli_error){0};
    assert_int_equal(cli_dataset_place(r->ctx, "fashion-mnist", "mnsit", &place, &e), AN_ERR_ARG);
    assert_non_null(strstr(e.text, "did you mean 'mnist'"));
}

static void synthetic_data_is_the_same_each_time_and_says_so(void **state)
{
    room *r = *state;
    cli_place place;
    cli_error e = {0};
    cli_images a[CLI_SPLIT_COUNT], b[CLI_SPLIT_COUNT];
    assert_int_equal(cli_dataset_place(r->ctx, "fashion-mnist", "synthetic", &place, &e), 0);
    assert_true(place.synthetic);
    assert_string_equal(place.title, "synthetic data");
    assert_int_equal(cli_dataset_load(r->ctx, &place, (cli_want){784, 10, NULL}, a, &e), 0);
    assert_int_equal(cli_dataset_load(r->ctx, &place, (cli_want){784, 10, NULL}, b, &e), 0);
    assert_memory_equal(a[0].pixels, b[0].pixels, (size_t)a[0].n * 784);
    assert_memory_equal(a[1].labels, b[1].labels, a[1].n);
    for (int i = 0; i < CLI_SPLIT_COUNT; i++) {
        cli_images_fini(&a[i]);
        cli_images_fini(&b[i]);
    }
}

static void offline_without_data_says_what_to_do(void **state)
{
    room *r = *state;
    cli_place place;
    cli_error e = {0};
    setenv("XDG_CACHE_HOME", r->dir, 1);
    setenv("ANNEAL_OFFLINE", "1", 1);
    assert_int_equal(cli_dataset_place(r->ctx, "mnist", NULL, &place, &e), AN_ERR_UNSUPPORTED);
    assert_non_null(strstr(e.text, "ANNEAL_OFFLINE"));
    assert_non_null(strstr(e.text, "--data DIR"));
    unsetenv("ANNEAL_OFFLINE");
    unsetenv("XDG_CACHE_HOME");
}

/* Every row has what a download needs. */
static void the_table_of_data_sets_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_dataset_count(); i++) {
        const cli_dataset_info *d = cli_dataset_get(i);
        assert_ptr_equal(cli_dataset_find(d->name), d);
        for (int f = 0; f < (d->archive ? 1 : CLI_FILE_COUNT); f++) assert_int_equal(strlen(d->sha256[f]), 64);
        assert_non_null(d->mirrors[0]);
        for (int m = 0; m < CLI_MIRRORS && d->mirrors[m]; m++) assert_int_equal(strncmp(d->mirrors[m], "https://", 8), 0);
    }
}

/* --- pictures ------------------------------------------------------------------------------------------- */

/* What is drawn of p, malloc's. */
static char *drawn(const an_picture *p, cli_picture_way way, cli_style style, int cols)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    cli_picture_draw(f, p, way, &style, cols);
    fclose(f);
    return text;
}

static void pictures_are_drawn_in_four_ways(void **state)
{
    (void)state;
    static const uint8_t pixels[2 * 3] = {0, 255, 128, 255, 255, 0}; /* two rows of three, grey */
    const an_picture p = {.width = 3, .height = 2, .channels = 1, .data = pixels};
    char *text = drawn(&p, CLI_PICTURE_TEXT, (cli_style){0}, 80);
    assert_string_equal(text, "=@:\n"); /* means of 127, 255 and 64 */
    free(text);
    text = drawn(&p, CLI_PICTURE_TEXT, (cli_style){0}, 2);
    assert_string_equal(text, "=@\n"); /* cut */
    free(text);
    text = drawn(&p, CLI_PICTURE_BLOCKS, (cli_style){.colour = true, .truecolour = true, .utf8 = true}, 80);
    assert_string_equal(text, "\x1b[38;2;0;0;0m\x1b[48;2;255;255;255m\u2580\x1b[38;2;255;255;255m\u2580"
                              "\x1b[38;2;128;128;128m\x1b[48;2;0;0;0m\u2580\x1b[0m\n");
    free(text);
    text = drawn(&p, CLI_PICTURE_KITTY, (cli_style){.colour = true}, 80);
    assert_ptr_equal(strstr(text, "\x1b_Ga=T,f=24,s=24,v=16,m=0;AAAA"), text); /* enlarged 8 times, begins in black */
    assert_string_equal(text + strlen(text) - 3, "\x1b\\\n");
    free(text);
    text = drawn(&p, CLI_PICTURE_SIXEL, (cli_style){.colour = true}, 80);
    assert_ptr_equal(strstr(text, "\x1bP9;1q\"1;1;24;16#0;2;0;0;0"), text);
    assert_non_null(strstr(text, "#215~~") ? strstr(text, "#215~~") : strstr(text, "#215????????~~~~~~~~")); /* white, six rows of it */
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_come_from_the_table),
        cmocka_unit_test(both_spellings_and_any_order_are_read),
        cmocka_unit_test(mistakes_are_said),
        cmocka_unit_test(help_names_every_option_and_wins),
        cmocka_unit_test(near_words_are_suggested_and_far_ones_are_not),
        cmocka_unit_test(a_curve_of_any_length_keeps_its_range),
        cmocka_unit_test(a_falling_curve_goes_from_top_left_to_bottom_right),
        cmocka_unit_test(no_frame_is_larger_than_its_terminal),
        cmocka_unit_test(times_read_like_a_clock),
        cmocka_unit_test_setup_teardown(four_good_files_are_loaded_in_a_thread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_that_do_not_belong_together_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_that_lacks_a_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(synthetic_data_is_the_same_each_time_and_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(offline_without_data_says_what_to_do, set_up, tear_down),
        cmocka_unit_test(the_table_of_data_sets_is_whole),
        cmocka_unit_test(pictures_are_drawn_in_four_ways),
    };
    return cmocka_run_group_tests_name("cli", tests, NULL, NULL);
}
