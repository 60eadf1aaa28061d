/* test_measure.c ANNEAL SOURCE_ROOT - what a run measures and plans: --profile, kernels --time, graph --memory, --memory-budget. */
#define _POSIX_C_SOURCE 200809L /* popen, mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

enum { SAID_MAX = 1 << 20, PATH_SIZE = 4096 };

static const char *program;
static char folder[] = "/tmp/anneal-measure-XXXXXX", text_path[PATH_SIZE];
static char said[SAID_MAX]; /* what the last command wrote */

/* Runs the program with those arguments; its exit code, and its output (and errors) in said. */
static __attribute__((format(printf, 1, 2))) int run(const char *fmt, ...)
{
    char args[PATH_SIZE], command[3 * PATH_SIZE];
    va_list list;
    va_start(list, fmt);
    vsnprintf(args, sizeof args, fmt, list);
    va_end(list);
    snprintf(command, sizeof command, "'%s' %s 2>&1", program, args);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    said[fread(said, 1, sizeof said - 1, f)] = '\0';
    const int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static json_t *said_json(void)
{
    json_error_t error;
    json_t *root = json_loads(said, 0, &error);
    if (!root) fail_msg("not JSON (%s): %.200s", error.text, said);
    return root;
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("no number '%s'", key);
    return json_number_value(value);
}

static size_t count_category(const json_t *events, const char *category)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *have = json_string_value(json_object_get(json_array_get(events, i), "cat"));
        n += have && strcmp(have, category) == 0;
    }
    return n;
}

static void a_profile_of_a_run_is_a_trace(void **state)
{
    (void)state;
    enum { STEPS = 3 };
    char path[PATH_SIZE];
    json_error_t error;
    snprintf(path, sizeof path, "%s/trace.json", folder);
    assert_int_equal(run("kernels mlp --show none --json"), 0);
    json_t *plan = said_json();
    const size_t nkernels = json_array_size(json_object_get(plan, "kernels"));
    json_decref(plan);
    assert_true(nkernels > 4);
    assert_int_equal(run("train mlp --data synthetic --steps %d --json --profile %s", STEPS, path), 0);
    json_t *root = json_load_file(path, 0, &error);
    if (!root) fail_msg("%s: %s", path, error.text);
    const json_t *events = json_object_get(root, "traceEvents");
    assert_true(count_category(events, "kernel") >= STEPS * nkernels);
    assert_true(count_category(events, "pass") >= 5);
    assert_true(count_category(events, "transfer") >= STEPS);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0) continue;
        assert_true(json_string_value(json_object_get(e, "name"))[0] != '\0');
        assert_true(number_of(e, "ts") >= 0 && number_of(e, "dur") >= 0);
        const char *category = json_string_value(json_object_get(e, "cat"));
        if (strcmp(category, "kernel") == 0) assert_true(number_of(json_object_get(e, "args"), "bytes") > 0);
    }
    json_decref(root);
    assert_int_equal(run("train mlp --data synthetic --steps 1 --json --profile %s/none/trace.json", folder), 5);
    assert_non_null(strstr(said, "cannot create a file there"));
}

static void kernels_are_listed_by_time(void **state)
{
    (void)state;
    assert_int_equal(run("kernels mlp --time --json"), 0);
    json_t *root = said_json();
    const json_t *kernels = json_object_get(root, "kernels");
    double last = 1e9, sum = 0;
    assert_true(json_array_size(kernels) > 4);
    for (size_t i = 0; i < json_array_size(kernels); i++) {
        const json_t *k = json_array_get(kernels, i);
        const double seconds = number_of(k, "seconds");
        assert_true(seconds >= 0 && seconds <= last);
        assert_true(number_of(k, "bytes") > 0 && number_of(k, "peak") >= 0);
        assert_true(json_string_value(json_object_get(k, "name"))[0] != '\0');
        last = seconds;
        sum += seconds;
    }
    assert_true(sum > 0.99 * number_of(root, "seconds") && sum < 1.01 * number_of(root, "seconds"));
    json_decref(root);
    assert_int_equal(run("kernels mlp --time"), 0);
    assert_non_null(strstr(said, "peak"));
}

/* Bytes between the kernels of nanogpt's step at its defaults (4 layers, 4 heads, width 128, 64 characters, 12 sequences). */
static void memory_of_a_gpt(const char *more, double *planned, double *apart)
{
    assert_int_equal(run("graph nanogpt --data %s --memory --json %s", text_path, more), 0);
    json_t *root = said_json();
    *planned = number_of(root, "bytes");
    *apart = number_of(root, "bytes_unplanned");
    assert_true(number_of(root, "bytes_live") <= *planned);
    const json_t *buffers = json_object_get(root, "buffers");
    double sum = 0, end = 0;
    for (size_t i = 0; i < json_array_size(buffers); i++) {
        const json_t *b = json_array_get(buffers, i);
        if (!json_is_true(json_object_get(b, "temporary"))) continue;
        sum += number_of(b, "bytes");
        if (number_of(b, "offset") + number_of(b, "bytes") > end) end = number_of(b, "offset") + number_of(b, "bytes");
    }
    assert_true(end <= *planned && sum > *planned);
    json_decref(root);
}

static void a_gpt_takes_half_of_its_intermediates(void **state)
{
    (void)state;
    double planned = 0, apart = 0;
    memory_of_a_gpt("", &planned, &apart);
    printf("    %.0f bytes of %.0f: %.2f\n", planned, apart, planned / apart);
    assert_true(planned <= 0.5 * apart);
}

/* The lines of the steps only, which hold the losses. */
static double losses_of(double budget, char *losses, size_t size)
{
    assert_int_equal(run("train nanogpt --data %s --steps 8 --memory-budget %.0f --json --timing", text_path, budget), 0);
    size_t n = 0;
    losses[0] = '\0';
    for (const char *line = said; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const size_t len = strcspn(line, "\n");
        if (strncmp(line, "{\"step\"", 7) != 0 || n + len + 2 > size) continue;
        memcpy(losses + n, line, len);
        n += len;
        losses[n++] = '\n';
        losses[n] = '\0';
    }
    const char *last = strstr(said, "\"steps_per_s\": ");
    assert_non_null(last);
    return 1 / strtod(last + strlen("\"steps_per_s\": "), NULL);
}

static void a_budget_changes_no_loss(void **state)
{
    (void)state;
    static char free_of[4096], tight[4096];
    double planned = 0, apart = 0, within = 0, same = 0;
    memory_of_a_gpt("", &planned, &apart);
    const double step = losses_of(0, free_of, sizeof free_of);
    assert_true(strlen(free_of) > 100);
    const double budgets[] = {apart / 2, planned / 2};
    for (int i = 0; i < 2; i++) {
        char more[64];
        snprintf(more, sizeof more, "--memory-budget %.0f", budgets[i]);
        memory_of_a_gpt(more, &within, &same);
        assert_true(within <= budgets[i]);
        const double tight_step = losses_of(budgets[i], tight, sizeof tight);
        printf("    %.0f bytes: %.2f of the time\n", within, tight_step / step);
        assert_string_equal(free_of, tight);
    }
    assert_int_equal(run("train nanogpt --data %s --steps 1 --json --memory-budget 1000", text_path), 10);
    assert_non_null(strstr(said, "the memory budget of 1000 bytes between kernels is too small"));
}

/* Some text, of the manuals. */
static int write_text(const char *root)
{
    char command[3 * PATH_SIZE];
    snprintf(text_path, sizeof text_path, "%s/text", folder);
    snprintf(command, sizeof command, "cat '%s'/docs/*.md >'%s'", root, text_path);
    return system(command);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_of_a_run_is_a_trace), cmocka_unit_test(kernels_are_listed_by_time),
        cmocka_unit_test(a_gpt_takes_half_of_its_intermediates), cmocka_unit_test(a_budget_changes_no_loss)};
    char command[PATH_SIZE];
    if (argc != 3 || !mkdtemp(folder) || write_text(argv[2]) != 0) return 2;
    program = argv[1];
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? failed : 2;
}
