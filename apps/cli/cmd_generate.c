/* cmd_generate.c - `anneal generate MODEL`: goes on with a prompt, a token at a time, from a checkpoint's weights. */
#include "checkpoint.h"
#include "generate.h"
#include "term.h"
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

typedef struct generate_args {
    cli_model_args m;
    const char *checkpoint, *tokenizer, *prompt;
    uint64_t tokens, top_k;
    double temperature, top_p;
    bool json;
} generate_args;

typedef struct job {
    const generate_args *args;
    cli_weights weights;
    cli_tokenizer tokenizer;
    cli_session session;
    generator *generator;
} job;

static int open_all(job *j, cli_error *e)
{
    cli_model_args args = j->args->m;
    if (!j->args->checkpoint) return cli_fail(e, AN_ERR_ARG, "generate: --checkpoint FILE is what the weights come from; 'anneal train %s --save FILE' makes one", args.model);
    const model *m = cli_find_model(args.model, e);
    if (!m) return e->code;
    if (m->data != MODEL_TEXT || m->finish != model_show_text)
        return cli_fail(e, AN_ERR_ARG, "generate: the model %s does not go on with texts", m->name);
    if (cli_weights_open(&j->weights, j->args->checkpoint, e) || cli_weights_options(&j->weights, &args, e)) return e->code;
    if (j->args->tokenizer) {
        if (cli_tokenizer_open(&j->tokenizer, j->weights.ctx, j->args->tokenizer, e)) return e->code;
    } else if (j->weights.alphabet.nvocab) {
        cli_tokenizer_alphabet(&j->tokenizer, &j->weights.alphabet);
    } else {
        return cli_fail(e, AN_ERR_ARG, "%s: has no alphabet; --tokenizer FILE says what its tokens are", j->args->checkpoint);
    }
    if (cli_session_open_net(&j->session, &args, j->tokenizer.n, e)) return e->code;
    if (cli_weights_load(&j->weights, &j->session, e)) return e->code;
    const int64_t length = model_size(&j->session.options, MODEL_CONTEXT);
    return generator_create(j->session.m.net, length, j->tokenizer.n, &j->generator) ? cli_fail_ctx(e, j->session.ctx) : 0;
}

/* A token as it is made: at once on the screen, or a number for JSON. */
static void show(const job *j, int32_t before, int32_t token, bool is_first)
{
    char room[8];
    size_t n = 0;
    if (j->args->json) {
        printf("%s%d", is_first ? "" : ", ", token);
        return;
    }
    const void *bytes = cli_tokenizer_decode(&j->tokenizer, before, token, room, &n);
    fwrite(bytes, 1, n, stdout);
    fflush(stdout);
}

static int run(job *j, cli_error *e)
{
    const generate_args *a = j->args;
    const sampling how = {a->temperature, (int64_t)a->top_k, a->top_p, a->m.seed};
    const float *logits = NULL;
    int32_t *prompt = NULL, token = 0, before = -1;
    size_t n = 0;
    if (cli_tokenizer_encode(&j->tokenizer, a->prompt ? a->prompt : j->tokenizer.alphabet ? "\n" : "", &prompt, &n, e)) return e->code;
    if (n == 0) {
        free(prompt);
        return cli_fail(e, AN_ERR_ARG, "generate: the prompt is empty");
    }
    if (a->json) fputs("{\"tokens\": [", stdout);
    for (size_t i = 0; i < n && !e->code; i++) {
        token = prompt[i];
        if (j->tokenizer.alphabet || i > 0) show(j, before, token, i == 0);
        else if (a->json) printf("%d", token);
        before = token;
        if (generator_feed(j->generator, token, &logits)) cli_fail_ctx(e, j->session.ctx);
    }
    free(prompt);
    const double begun = cli_now();
    uint64_t made = 0;
    for (; made < a->tokens && !e->code; made++) {
        const int sig = cli_signal_pending();
        if (sig) return cli_fail(e, 128 + sig, "interrupted after %llu tokens", (unsigned long long)made);
        token = sample_token(&how, logits, j->tokenizer.n, made);
        if (!j->tokenizer.alphabet && token <= 2) break; /* the text is at its end */
        show(j, before, token, false);
        before = token;
        if (made + 1 < a->tokens && generator_feed(j->generator, token, &logits)) cli_fail_ctx(e, j->session.ctx);
    }
    const double seconds = cli_now() - begun;
    if (e->code) return e->code;
    if (a->json)
        printf("], \"tokens_per_s\": %.1f}\n", (double)made / seconds);
    else
        printf("\n%llu tokens in %.2f s, %.0f tokens/s\n", (unsigned long long)made, seconds, (double)made / seconds);
    return 0;
}

static int verb_run(const void *args)
{
    cli_error e = {0};
    job j = {.args = args};
    cli_signals_block();
    if (!open_all(&j, &e)) run(&j, &e);
    generator_destroy(j.generator);
    cli_session_close(&j.session);
    cli_tokenizer_close(&j.tokenizer);
    cli_weights_close(&j.weights);
    return e.code ? cli_say(&e) : 0;
}

static const cli_option options[] = {
    {"checkpoint", CLI_TEXT, offsetof(generate_args, checkpoint), "FILE", NULL, "a safetensors file with the weights", 0, 0, NULL},
    {"prompt", CLI_TEXT, offsetof(generate_args, prompt), "TEXT", NULL, "what to go on with [a new line]", 0, 0, NULL},
    {"tokens", CLI_WHOLE, offsetof(generate_args, tokens), "N", "500", "how many to make", 0, 1e9, NULL},
    {"temperature", CLI_REAL, offsetof(generate_args, temperature), "X", "0.8", "0 takes the likeliest each time", 0, 100, NULL},
    {"top-k", CLI_WHOLE, offsetof(generate_args, top_k), "N", "0", "draw from the N likeliest only; 0: from all", 0, 1e9, NULL},
    {"top-p", CLI_REAL, offsetof(generate_args, top_p), "P", "0", "draw from the likeliest that make up P together; 0: from all", 0, 1, NULL},
    {"tokenizer", CLI_TEXT, offsetof(generate_args, tokenizer), "FILE", NULL, "llama2.c's tokenizer.bin, for weights that were made with it", 0, 0, NULL},
    {"preset", CLI_TEXT, offsetof(generate_args, m.preset), "NAME", NULL, "the model's sizes, where the file does not say", 0, 0, NULL},
    {"seed", CLI_WHOLE, offsetof(generate_args, m.seed), "N", "0", "same seed, same text", 0, 9007199254740992.0, NULL},
    {"device", CLI_TEXT, offsetof(generate_args, m.device), "NAME", NULL, "where it runs: cpu (the default), interp", 0, 0, NULL},
    CLI_OPTION_JSON(generate_args, "the tokens' numbers and tokens_per_s"),
};

const cli_verb cli_verb_generate = {
    .name = "generate",
    CLI_VERB_OF_MODEL(generate_args),
    .summary = "go on with a text, from a checkpoint",
    .about = "Keys and values of what came before are kept, so a token costs one step; one compilation serves all positions. Past\n"
             "the model's context the latter half of it is read anew.\n",
    .examples = "  anneal train nanogpt --save gpt.safetensors\n"
                "  anneal generate nanogpt --checkpoint gpt.safetensors --prompt 'ROMEO:' --tokens 300\n"
                "  anneal generate llama --preset stories260k --checkpoint stories260K.safetensors --tokenizer tok512.bin\n",
    .options = options,
    .noptions = CLI_COUNT(options),
    .run = verb_run,
};
