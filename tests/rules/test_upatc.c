/* test_upatc.c - what upatc says of files that are wrong: tests/golden/upatc/X.upat gives X.err, word for word, caret and
 * all; a file without an .err is right. GOLDEN_UPDATE=1 writes what is instead of comparing. */
#include "an_test.h"

#include "base/base.h"
#include "upatc/upatc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#define DIRECTORY "tests/golden/upatc"

static bool read_file(const char *path, an_str *out)
{
    char buf[4096];
    size_t n = 0;
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    while ((n = fread(buf, 1, sizeof buf, file)) > 0) an_str_putn(out, buf, n);
    fclose(file);
    return true;
}

static void check_file(an_test *t, const char *name)
{
    an_str path, text, want;
    up_file f;
    an_str_init(&path, t->ctx);
    an_str_init(&text, t->ctx);
    an_str_init(&want, t->ctx);
    an_str_printf(&path, "%s/%s", DIRECTORY, name);
    CHECK(t, read_file(an_str_cstr(&path), &text));
    an_str_clear(&path);
    an_str_printf(&path, "%s/%.*s.err", DIRECTORY, (int)(strlen(name) - strlen(".upat")), name);
    up_file_init(&f, name, an_str_cstr(&text), text.len);
    const bool parsed = up_parse(&f), right = up_check(&f) && parsed; /* both, so that one file can show errors of both */
    const char *got = f.messages ? f.messages : "";
    CHECK_EQ(t, right, f.nerrors == 0);
    if (getenv("GOLDEN_UPDATE")) {
        FILE *file = f.messages ? fopen(an_str_cstr(&path), "wb") : NULL;
        if (file) {
            fputs(got, file);
            fclose(file);
        }
    } else {
        read_file(an_str_cstr(&path), &want); /* none: nothing is said */
        CHECK_STR(t, got, an_str_cstr(&want));
    }
    up_file_fini(&f);
    an_str_fini(&path);
    an_str_fini(&text);
    an_str_fini(&want);
}

static void errors_point_at_what_is_wrong(an_test *t)
{
    unsigned n = 0;
    DIR *dir = opendir(DIRECTORY);
    CHECK(t, dir != NULL);
    for (const struct dirent *e; (e = readdir(dir));) {
        const size_t len = strlen(e->d_name);
        if (len < 5 || strcmp(e->d_name + len - 5, ".upat") != 0) continue;
        check_file(t, e->d_name);
        n++;
    }
    closedir(dir);
    CHECK(t, n >= 5);
}

/* Every way to cut a right file off ends in messages, never in a crash or an endless loop. */
static void a_file_cut_off_anywhere_is_read_to_its_end(an_test *t)
{
    an_str text;
    an_str_init(&text, t->ctx);
    CHECK(t, read_file("src/rewrite/rules/symbolic.upat", &text));
    for (size_t n = 0; n < text.len; n += 1 + n / 40) {
        up_file f;
        up_file_init(&f, "cut", an_str_cstr(&text), n);
        if (up_parse(&f)) up_check(&f);
        up_file_fini(&f);
    }
    an_str_fini(&text);
}

AN_TEST_MAIN(AN_CASE(errors_point_at_what_is_wrong), AN_CASE(a_file_cut_off_anywhere_is_read_to_its_end))
