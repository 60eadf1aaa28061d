/* test_safetensors.c - what is written is read back; what the format's own library refuses is refused; what it accepts has the
 * values it has there (the fixtures beside the repository, and their manifest). */
#define _POSIX_C_SOURCE 200809L /* getline */
#include "an_test.h"
#include <anneal/io.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const float numbers[6] = {1, -2, 3.5f, 0, INFINITY, -0.0f};
static const int64_t two_three[2] = {2, 3}, three[1] = {3}, none[2] = {0, 4};
static const uint8_t bytes[3] = {1, 0, 255};
static const int64_t large = INT64_MIN;

static void path_of(char *out, size_t size, const char *name)
{
    snprintf(out, size, "/tmp/anneal-test-%ld-%s", (long)getpid(), name);
}

static an_status write_some(an_ctx *ctx, const char *path)
{
    const an_array_view arrays[] = {
        {"b.bytes", AN_U8, 1, three, bytes, 3},
        {"a \"quoted\" name", AN_F32, 2, two_three, numbers, sizeof numbers},
        {"empty", AN_F16, 2, none, NULL, 0},
        {"scalar", AN_I64, 0, NULL, &large, 8},
    };
    const an_metadata metadata[] = {{"format", "pt"}, {"text", "line\nline"}};
    return an_safetensors_write(ctx, path, arrays, 4, metadata, 2);
}

static void what_is_written_is_read_back(an_test *t)
{
    char path[128];
    path_of(path, sizeof path, "back");
    an_safetensors *f = NULL;
    an_array_view v = {0};
    CHECK_OK(t, write_some(t->ctx, path));
    CHECK_OK(t, an_safetensors_open(t->ctx, path, 0, &f));
    CHECK_EQ(t, an_safetensors_count(f), 4);
    CHECK(t, an_safetensors_find(f, "a \"quoted\" name", &v));
    CHECK_EQ(t, v.dtype, AN_F32);
    CHECK_EQ(t, v.rank, 2);
    CHECK_EQ(t, v.dims[1], 3);
    CHECK(t, v.nbytes == sizeof numbers && memcmp(v.data, numbers, sizeof numbers) == 0);
    CHECK_EQ(t, (size_t)v.data % sizeof(float), 0);
    CHECK(t, an_safetensors_find(f, "scalar", &v) && v.rank == 0 && memcmp(v.data, &large, 8) == 0);
    CHECK(t, an_safetensors_find(f, "empty", &v) && v.nbytes == 0 && v.dims[0] == 0);
    CHECK(t, !an_safetensors_find(f, "b", &v));
    CHECK_STR(t, an_safetensors_get(f, 1).name, "b.bytes");
    CHECK_STR(t, an_safetensors_metadata(f, "text"), "line\nline");
    CHECK(t, an_safetensors_metadata(f, "other") == NULL);
    an_safetensors_close(f);
    unlink(path);
}

static void mistakes_in_writing_leave_no_file(an_test *t)
{
    char path[128];
    path_of(path, sizeof path, "mistake");
    const an_array_view twice[2] = {{"x", AN_U8, 1, three, bytes, 3}, {"x", AN_U8, 1, three, bytes, 3}};
    const an_array_view short_one = {"x", AN_F32, 1, three, bytes, 3};
    CHECK_FAILS(t, an_safetensors_write(t->ctx, path, twice, 2, NULL, 0), AN_ERR_ARG, "twice");
    CHECK_FAILS(t, an_safetensors_write(t->ctx, path, &short_one, 1, NULL, 0), AN_ERR_ARG, "takes 12 bytes");
    CHECK_FAILS(t, an_safetensors_write(t->ctx, "/nowhere/at/all", twice, 1, NULL, 0), AN_ERR_IO, "/nowhere/at/all");
    CHECK(t, access(path, F_OK) != 0);
}

/* Every file cut at every length is refused, and never taken for whole. */
static void a_file_that_is_cut_is_refused(an_test *t)
{
    char path[128];
    an_bytes whole = {0};
    an_safetensors *f = NULL;
    path_of(path, sizeof path, "cut");
    CHECK_OK(t, write_some(t->ctx, path));
    CHECK_OK(t, an_file_read(t->ctx, path, 1 << 20, &whole));
    for (size_t n = 0; n < whole.nbytes; n++) {
        CHECK_OK(t, an_file_write(t->ctx, path, whole.data, n));
        CHECK_FAILS(t, an_safetensors_open(t->ctx, path, 0, &f), AN_ERR_FORMAT, "is no sound safetensors file");
    }
    CHECK_FAILS(t, an_safetensors_open(t->ctx, path, whole.nbytes - 2, &f), AN_ERR_LIMIT, "");
    an_bytes_fini(&whole);
    unlink(path);
}

/* --- the fixtures -------------------------------------------------------------------------------- */

static double number_of(const json_t *j)
{
    if (!json_is_string(j)) return json_number_value(j);
    const char *s = json_string_value(j);
    return strcmp(s, "nan") == 0 ? (double)NAN : s[0] == '-' ? -HUGE_VAL : HUGE_VAL;
}

static void check_array(an_test *t, const char *file, const an_safetensors *f, const char *name, const json_t *info)
{
    an_array_view v = {0};
    const json_t *shape = json_object_get(info, "shape"), *values = json_object_get(info, "f32");
    if (!an_safetensors_find(f, name, &v)) an_test_fail(__FILE__, __LINE__, "%s: array '%s' is missing", file, name);
    CHECK_EQ(t, v.rank, json_array_size(shape));
    for (uint32_t i = 0; i < v.rank; i++) CHECK_EQ(t, v.dims[i], json_integer_value(json_array_get(shape, i)));
    for (size_t i = 0; i < json_array_size(values); i++) {
        unsigned char room[8] = {0};
        memcpy(room, (const char *)v.data + i * an_dtype_nbytes(v.dtype), an_dtype_nbytes(v.dtype));
        const double got = an_scalar_cast(v.dtype, AN_F32, an_scalar_load(v.dtype, room)).f, want = number_of(json_array_get(values, i));
        if (!(got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 1e-6 * fabs(want)))
            an_test_fail(__FILE__, __LINE__, "%s: '%s', element %zu is %.9g, not %.9g", file, name, i, got, want);
    }
}

static void fixtures_are_taken_and_refused_as_by_the_formats_own_library(an_test *t)
{
    const char *dir = an_test_shared_dir();
    char path[4096], *line = NULL;
    size_t size = 0, accepted = 0, refused = 0;
    if (!dir) return;
    snprintf(path, sizeof path, "%s/data/interchange/MANIFEST.jsonl", dir);
    FILE *manifest = fopen(path, "r");
    CHECK(t, manifest != NULL);
    while (getline(&line, &size, manifest) > 0) {
        json_t *entry = json_loads(line, 0, NULL);
        const char *name = json_string_value(json_object_get(entry, "file")), *verdict = json_string_value(json_object_get(entry, "safetensors_rust"));
        if (name && verdict && strstr(name, ".safetensors")) {
            an_safetensors *f = NULL;
            snprintf(path, sizeof path, "%s/data/interchange/%s", dir, name);
            const an_status st = an_safetensors_open(t->ctx, path, 0, &f);
            const bool is_odd = strstr(name, "odd_") != NULL; /* a stricter reader may refuse these */
            if (strcmp(verdict, "reject") == 0) {
                if (!st) an_test_fail(__FILE__, __LINE__, "%s: was taken, and the format's library refuses it", name);
                refused++;
            } else if (st && !is_odd && st != AN_ERR_UNSUPPORTED) {
                an_test_fail(__FILE__, __LINE__, "%s: was refused: %s", name, an_ctx_error(t->ctx));
            } else if (!st) {
                const char *array = NULL;
                json_t *info = NULL, *arrays = json_object_get(entry, "arrays");
                if (!arrays) arrays = json_object_get(entry, "tensors");
                json_object_foreach(arrays, array, info) check_array(t, name, f, array, info);
                CHECK_EQ(t, an_safetensors_count(f), json_object_size(arrays));
                accepted++;
            }
            an_safetensors_close(f);
            an_ctx_clear_error(t->ctx);
        }
        json_decref(entry);
    }
    free(line);
    fclose(manifest);
    CHECK(t, accepted >= 20);
    CHECK(t, refused >= 40);
}

static void samples_and_alphabets_are_functions_of_their_arguments(an_test *t)
{
    static const char text[] = "h\xc3\xa9llo w\xc3\xb6rld\n";
    an_text x = {0}, y = {0};
    int32_t tokens[16];
    size_t n = 0;
    char c[5];
    CHECK_OK(t, an_text_parse(t->ctx, "text", text, strlen(text), &x));
    CHECK_EQ(t, x.nvocab, 10);
    CHECK_EQ(t, x.n, 12);
    CHECK_EQ(t, x.chars[0], '\n');
    CHECK_OK(t, an_text_encode(&x, "w\xc3\xb6", tokens, &n));
    CHECK_EQ(t, n, 2);
    CHECK_EQ(t, an_text_decode(&x, tokens[1], c), 2);
    CHECK_STR(t, c, "\xc3\xb6");
    CHECK_FAILS(t, an_text_encode(&x, "z", tokens, &n), AN_ERR_ARG, "'z'");
    CHECK_FAILS(t, an_text_parse(t->ctx, "bad", "ab\xff", 3, &y), AN_ERR_FORMAT, "byte 2");
    CHECK_FAILS(t, an_text_parse(t->ctx, "bad", "\xed\xa0\x80", 3, &y), AN_ERR_FORMAT, "byte 0"); /* a surrogate */
    CHECK_FAILS(t, an_text_parse(t->ctx, "bad", "\xc0\xaf", 2, &y), AN_ERR_FORMAT, "byte 0");     /* too long a form */
    CHECK_FAILS(t, an_text_parse(t->ctx, "bad", "", 0, &y), AN_ERR_FORMAT, "empty");
    an_text_fini(&x);
    uint32_t counts[5] = {0};
    for (uint64_t i = 0; i < 5000; i++) counts[an_sample(3, i, 0, 5)]++;
    for (int i = 0; i < 5; i++) CHECK(t, counts[i] > 850 && counts[i] < 1150);
    CHECK_EQ(t, an_sample(3, 7, 1, 1000000), an_sample(3, 7, 1, 1000000));
    CHECK(t, an_sample(3, 7, 1, 1000000) != an_sample(3, 8, 1, 1000000));
    CHECK(t, an_sample(3, 7, 1, 1000000) != an_sample(4, 7, 1, 1000000));
}

AN_TEST_MAIN(AN_CASE(what_is_written_is_read_back), AN_CASE(mistakes_in_writing_leave_no_file), AN_CASE(a_file_that_is_cut_is_refused),
             AN_CASE(fixtures_are_taken_and_refused_as_by_the_formats_own_library),
             AN_CASE(samples_and_alphabets_are_functions_of_their_arguments))
