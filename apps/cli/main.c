/* main.c - the command line: finds the verb and hands over. */
#include "cli.h"

#include "apps/cli/versions.h" /* made by Meson */

#include <string.h>

#define CLI_VERB(name) extern const cli_verb cli_verb_##name;
#include "commands.def"
#undef CLI_VERB

static const cli_verb *const verbs[] = {
#define CLI_VERB(name) &cli_verb_##name,
#include "commands.def"
#undef CLI_VERB
};

static const struct {
    int number;
    const char *text;
} exit_codes[] = {
#define AN_STATUS(id, number, text) {number, text},
#include <anneal/status.def>
#undef AN_STATUS
};

/* Room for any verb's arguments, aligned for all of them. */
typedef union args_room {
    max_align_t align;
    char bytes[1024];
} args_room;

static void print_help(FILE *out)
{
    fputs("anneal - a tensor compiler: one graph, forward and backward, relaxed into fused kernels\n\n"
          "Usage: anneal VERB ...\n\nVerbs:\n",
          out);
    for (size_t i = 0; i < CLI_COUNT(verbs); i++) {
        char left[32];
        snprintf(left, sizeof left, "%s %s", verbs[i]->name, verbs[i]->operand ? verbs[i]->operand : "");
        fprintf(out, "  %-15s %s\n", left, verbs[i]->summary);
    }
    fputs("\n'anneal VERB --help' has options and examples; 'anneal --version' says which this is.\n"
          "First steps: anneal train mlp\n\nExit codes:\n",
          out);
    for (size_t i = 0; i < CLI_COUNT(exit_codes); i++) fprintf(out, "  %3d  %s\n", exit_codes[i].number, exit_codes[i].text);
    fprintf(out, "  %3d  interrupted (Ctrl-C)\n", CLI_EXIT_INTERRUPTED);
    fputs("\nEnvironment: NO_COLOR turns colour off; ANNEAL_OFFLINE=1 forbids downloads; ANNEAL_MIRROR=URL is where\n"
          "data sets are fetched from; XDG_CACHE_HOME is where they are kept (~/.cache).\n",
          out);
}

static int unknown_verb(const char *typed)
{
    const char *words[CLI_COUNT(verbs)];
    for (size_t i = 0; i < CLI_COUNT(verbs); i++) words[i] = verbs[i]->name;
    if (typed[0] == '-')
        return cli_usage_error("unknown option '%s'; the verb comes first: 'anneal train mlp --steps 100'", typed);
    return cli_unknown("verb", typed, words, CLI_COUNT(verbs));
}

int main(int argc, char **argv)
{
    args_room args;
    if (argc < 2) {
        print_help(stderr);
        return AN_ERR_ARG;
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) {
        puts("anneal " AN_VERSION);
        return cli_finish(0);
    }
    const bool wants_help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (wants_help && argc < 3) {
        print_help(stdout);
        return cli_finish(0);
    }
    if (wants_help) word = argv[2];
    for (size_t i = 0; i < CLI_COUNT(verbs); i++) {
        if (strcmp(verbs[i]->name, word) != 0) continue;
        if (wants_help) {
            cli_print_help(stdout, verbs[i], NULL);
            return cli_finish(0);
        }
        if (verbs[i]->args_size > sizeof args) return cli_usage_error("the verb '%s' has more arguments than there is room for", word);
        const int code = cli_parse(verbs[i], argc - 2, argv + 2, args.bytes);
        return code >= 0 ? code : cli_finish(verbs[i]->run(args.bytes));
    }
    return unknown_verb(word);
}
