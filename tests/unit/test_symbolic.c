/* test_symbolic.c - golden files of the symbolic rules (tests/golden/rewrite): expressions, what they become, and by which
 * rules, in the order in which they fired. GOLDEN_UPDATE=1 writes what is instead of comparing. */
#include "an_test.h"

#include "base/base.h"
#include <anneal/inspect.h>

#include <stdio.h>
#include <stdlib.h>

/* Appends a file; false if it cannot be read. */
static bool read_file(const char *path, an_str *out)
{
    char buf[4096];
    size_t n = 0;
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    while ((n = fread(buf, 1, sizeof buf, file)) > 0) an_str_putn(out, buf, n);
    const bool ok = !ferror(file);
    fclose(file);
    return ok;
}

static void put(void *user, const char *text)
{
    an_str_put(user, text);
}

/* Rewrites one case: its input, then the two comment lines that say what came of it. */
static void run_case(an_ctx *ctx, const char *input, size_t n, an_str *out)
{
    an_graph *g = NULL;
    an_uop u = AN_UOP_NONE;
    an_str text;
    an_trace *trace = an_trace_create(ctx);
    if (!trace || an_graph_create(ctx, &g)) an_test_fail(__FILE__, __LINE__, "%s", an_ctx_error(ctx));
    an_str_init(&text, ctx);
    an_str_putn(&text, input, n);
    an_str_putn(out, input, n);
    if (an_expr_parse(g, an_str_cstr(&text), &u) || an_expr_rewrite(g, "symbolic", &u, trace))
        an_test_fail(__FILE__, __LINE__, "%s: %s", an_str_cstr(&text), an_ctx_error(ctx));
    an_str_put(out, "# expect: ");
    if (an_expr_print(g, u, 64, put, out)) an_test_fail(__FILE__, __LINE__, "%s", an_ctx_error(ctx));
    an_str_put(out, "\n# fired: ");
    for (size_t i = 0; i < an_trace_get_pass(trace, 0).nfired; i++) an_str_printf(out, " %s", an_trace_get_fired(trace, 0, i).rule);
    an_str_put(out, an_trace_get_pass(trace, 0).nfired ? "\n" : " nothing\n");
    an_str_fini(&text);
    an_trace_destroy(trace);
    an_graph_destroy(g);
}

/* A file is cases with an empty line between them; a comment of their own stays with them. */
static void check_file(an_test *t, const char *name)
{
    an_str path, want, got;
    an_str_init(&path, t->ctx);
    an_str_init(&want, t->ctx);
    an_str_init(&got, t->ctx);
    an_str_printf(&path, "tests/golden/rewrite/%s.txt", name);
    CHECK(t, read_file(an_str_cstr(&path), &want));
    const char *start = an_str_cstr(&want), *line = start;
    bool any = false;
    for (;;) {
        const char *end = line + strcspn(line, "\n");
        const bool last = *line == '\0', empty = end == line, result = strncmp(line, "# expect:", 9) == 0 || strncmp(line, "# fired:", 8) == 0;
        if (empty || result) {
            if (any) run_case(t->ctx, start, (size_t)(line - start), &got);
            any = false;
            if (empty && !last) an_str_put(&got, "\n");
            start = *end ? end + 1 : end;
        } else if (line[0] != '#') {
            any = true;
        }
        if (last) break;
        line = *end ? end + 1 : end;
    }
    if (getenv("GOLDEN_UPDATE")) {
        FILE *file = fopen(an_str_cstr(&path), "wb");
        CHECK(t, file && fwrite(an_str_cstr(&got), 1, got.len, file) == got.len);
        CHECK(t, fclose(file) == 0);
    } else {
        CHECK_STR(t, an_str_cstr(&got), an_str_cstr(&want));
    }
    an_str_fini(&path);
    an_str_fini(&want);
    an_str_fini(&got);
}

#define FILES                                                                                                              \
    FILE_CASE(divmod) FILE_CASE(sums) FILE_CASE(compare) FILE_CASE(where_bool) FILE_CASE(minmax) FILE_CASE(cast)           \
    FILE_CASE(floats) FILE_CASE(valid)

#define FILE_CASE(name)                                                                                                    \
    static void name##_comes_out_as_written(an_test *t)                                                                    \
    {                                                                                                                      \
        check_file(t, #name);                                                                                              \
    }
FILES
#undef FILE_CASE
#define FILE_CASE(name) AN_CASE(name##_comes_out_as_written),
AN_TEST_MAIN(FILES)
