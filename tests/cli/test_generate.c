/* test_generate.c - generation: a pretrained model goes on as its golden file says; the cache gives the text that recomputing
 * gives, and ten times as fast. */
#define _DEFAULT_SOURCE
#include "checkpoint.h"
#include "generate.h"
#include "term.h"
#include "tokenizer.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* The folder of large files beside the repository, or NULL after a line that says the case is skipped. */
static const char *shared_dir(void)
{
    const char *dir = getenv("SHARED");
    struct stat st;
    if (!dir) dir = "../shared";
    if (stat(dir, &st) == 0) return dir;
    printf("skipped: there is no %s; SHARED names the folder of large files\n", dir);
    return NULL;
}

static cli_model_args args_of(const char *name, const char *preset)
{
    cli_model_args a = {.model = name, .preset = preset};
    for (int i = 0; i < MODEL_VALUES_MAX; i++) a.values[i] = (double)NAN;
    return a;
}

static void a_pretrained_llama_goes_on_as_its_golden_file_says(void **state)
{
    (void)state;
    const char *dir = shared_dir();
    char path[4096];
    cli_error e = {0};
    cli_weights w = {0};
    cli_tokenizer tok = {0};
    cli_session s = {0};
    generator *gen = NULL;
    json_error_t je;
    const cli_model_args args = args_of("llama", "stories260k");
    if (!dir) return;
    snprintf(path, sizeof path, "%s/data/models/stories260K-golden.json", dir);
    json_t *golden = json_load_file(path, 0, &je);
    assert_non_null(golden);
    snprintf(path, sizeof path, "%s/data/models/stories260K.safetensors", dir);
    assert_int_equal(cli_weights_open(&w, path, &e), 0);
    snprintf(path, sizeof path, "%s/data/models/tok512.bin", dir);
    assert_int_equal(cli_tokenizer_open(&tok, w.ctx, path, &e), 0);
    assert_int_equal(tok.n, 512);
    if (cli_session_open_net(&s, &args, tok.n, &e) || cli_weights_load(&w, &s, &e)) fail_msg("%s", e.text);
    assert_int_equal(generator_create(s.m.net, 512, tok.n, &gen), AN_OK);
    const json_t *ids = json_object_get(golden, "greedy_ids"), *logits_at = json_object_get(golden, "logits_at");
    if (!ids || !logits_at) fail_msg("the golden file has other keys than thought");
    char text[8192];
    size_t len = 0, compared = 0;
    int32_t token = 1, before = -1;
    assert_int_equal(json_integer_value(json_array_get(ids, 0)), token);
    for (size_t i = 0; i + 1 < json_array_size(ids); i++) {
        const float *logits = NULL;
        char key[24], room[8];
        size_t n = 0;
        assert_int_equal(generator_feed(gen, token, &logits), AN_OK);
        snprintf(key, sizeof key, "%zu", i);
        const json_t *want = json_object_get(logits_at, key);
        for (size_t k = 0; k < json_array_size(want); k++, compared++) {
            const double x = json_number_value(json_array_get(want, k));
            if (!(fabs((double)logits[k] - x) <= 1e-4)) fail_msg("position %zu, logit %zu: %.7g, not %.7g", i, k, (double)logits[k], x);
        }
        before = token;
        token = sample_token(&(sampling){0}, logits, tok.n, i);
        assert_int_equal(token, json_integer_value(json_array_get(ids, i + 1)));
        const void *bytes = cli_tokenizer_decode(&tok, before, token, room, &n);
        if (len + n < sizeof text) memcpy(text + len, bytes, n);
        len += n;
    }
    text[len] = '\0';
    assert_int_equal(compared, 5 * 512);
    assert_string_equal(text, json_string_value(json_object_get(golden, "greedy_text")));
    json_decref(golden);
    generator_destroy(gen);
    cli_session_close(&s);
    cli_tokenizer_close(&tok);
    cli_weights_close(&w);
}

static void a_prompt_is_cut_into_the_pieces_it_was_trained_with(void **state)
{
    (void)state;
    const char *dir = shared_dir();
    char path[4096], text[256] = "";
    cli_error e = {0};
    an_ctx *ctx = NULL;
    cli_tokenizer tok = {0};
    int32_t *tokens = NULL;
    size_t n = 0, len = 0;
    if (!dir) return;
    assert_int_equal(an_ctx_create(NULL, &ctx), AN_OK);
    snprintf(path, sizeof path, "%s/data/models/tok512.bin", dir);
    assert_int_equal(cli_tokenizer_open(&tok, ctx, path, &e), 0);
    static const char prompt[] = "Once upon a time, caf\xc3\xa9\n";
    assert_int_equal(cli_tokenizer_encode(&tok, prompt, &tokens, &n, &e), 0);
    assert_int_equal(tokens[0], 1);
    assert_true(n < sizeof prompt); /* pieces are longer than characters */
    for (size_t i = 1; i < n; i++) {
        char room[8];
        size_t k = 0;
        const void *bytes = cli_tokenizer_decode(&tok, tokens[i - 1], tokens[i], room, &k);
        memcpy(text + len, bytes, k);
        len += k;
    }
    assert_string_equal(text, prompt);
    free(tokens);
    cli_tokenizer_close(&tok);
    snprintf(path, sizeof path, "%s/data/models/tok512.model", dir); /* another format */
    assert_int_equal(cli_tokenizer_open(&tok, ctx, path, &e), AN_ERR_FORMAT);
    cli_tokenizer_close(&tok);
    an_ctx_destroy(ctx);
}

enum { LENGTH = 256, VOCAB = 65 };

/* The likeliest tokens, LENGTH of them, from all tokens before each time. Seconds. */
static double recompute(an_module *net, int32_t *out)
{
    an_graph *g = an_module_graph(net);
    static float rows[LENGTH * VOCAB];
    int32_t tokens[LENGTH] = {0};
    an_plan *plan = NULL;
    an_module_train(net, false);
    an_tensor *in = an_tensor_from_host(g, AN_I32, AN_DIMS(1, LENGTH), NULL), *y = an_module_forward(net, in);
    assert_int_equal(an_plan_create(g, &y, 1, NULL, &plan), AN_OK);
    assert_int_equal(an_plan_run(plan), AN_OK);
    const double begun = cli_now();
    for (int i = 0; i < LENGTH; i++) {
        assert_int_equal(an_tensor_write(in, tokens, sizeof tokens), AN_OK);
        assert_int_equal(an_plan_run(plan), AN_OK);
        assert_int_equal(an_tensor_read(y, rows, sizeof rows), AN_OK);
        out[i] = sample_token(&(sampling){0}, rows + i * VOCAB, VOCAB, 0);
        if (i + 1 < LENGTH) tokens[i + 1] = out[i];
    }
    const double seconds = cli_now() - begun;
    an_plan_destroy(plan);
    return seconds;
}

static void a_cache_gives_the_same_text_ten_times_as_fast(void **state)
{
    (void)state;
    cli_error e = {0};
    cli_session s = {0};
    generator *gen = NULL;
    int32_t slow[LENGTH], fast[LENGTH], token = 0;
    cli_model_args args = args_of("nanogpt", NULL);
    args.values[MODEL_CONTEXT] = LENGTH;
    args.seed = 5;
    if (cli_session_open_net(&s, &args, VOCAB, &e)) fail_msg("%s", e.text);
    const double slow_s = recompute(s.m.net, slow);
    assert_int_equal(generator_create(s.m.net, LENGTH, VOCAB, &gen), AN_OK);
    const double begun = cli_now();
    for (int i = 0; i < LENGTH; i++) {
        const float *logits = NULL;
        assert_int_equal(generator_feed(gen, token, &logits), AN_OK);
        token = fast[i] = sample_token(&(sampling){0}, logits, VOCAB, 0);
    }
    const double fast_s = cli_now() - begun;
    assert_memory_equal(slow, fast, sizeof slow);
    printf("%d tokens: %.3f s with a cache, %.3f s without: %.1f times as fast\n", LENGTH, fast_s, slow_s, slow_s / fast_s);
    assert_true(slow_s >= 10 * fast_s);
    generator_destroy(gen);
    cli_session_close(&s);
}

static void drawing_keeps_to_top_k_and_top_p_and_to_its_seed(void **state)
{
    (void)state;
    const float logits[4] = {0, 3, 2, -1}; /* 0.035, 0.70, 0.26, 0.013 */
    int counts[4] = {0};
    for (uint64_t i = 0; i < 4000; i++) counts[sample_token(&(sampling){.temperature = 1}, logits, 4, i)]++;
    assert_true(abs(counts[1] - 2790) < 150 && abs(counts[2] - 1026) < 150 && counts[3] > 10 && counts[0] > 70);
    for (uint64_t i = 0; i < 500; i++) {
        assert_int_equal(sample_token(&(sampling){.temperature = 1, .top_k = 1}, logits, 4, i), 1);
        assert_int_equal(sample_token(&(sampling){.temperature = 5, .top_p = 0.2}, logits, 4, i), 1);
        const int32_t two = sample_token(&(sampling){.temperature = 1, .top_p = 0.9}, logits, 4, i);
        assert_true(two == 1 || two == 2);
        assert_int_equal(sample_token(&(sampling){.temperature = 2, .seed = 9}, logits, 4, i),
                         sample_token(&(sampling){.temperature = 2, .seed = 9}, logits, 4, i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pretrained_llama_goes_on_as_its_golden_file_says),
        cmocka_unit_test(a_prompt_is_cut_into_the_pieces_it_was_trained_with),
        cmocka_unit_test(a_cache_gives_the_same_text_ten_times_as_fast),
        cmocka_unit_test(drawing_keeps_to_top_k_and_top_p_and_to_its_seed),
    };
    return cmocka_run_group_tests_name("generate", tests, NULL, NULL);
}
