/* driver.c RUNS SEED-FILE... - runs a libFuzzer target without libFuzzer: each seed as it is, then RUNS mutations of them,
 * the same ones each time. Shallow beside the real thing, but it needs no compiler support, so the tests run it always. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NBYTES_MAX = 1 << 16, SEEDS_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct seed {
    uint8_t *data;
    size_t n;
} seed;

/* SplitMix64. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static seed read_seed(const char *path)
{
    seed s = {malloc(NBYTES_MAX), 0};
    FILE *f = fopen(path, "rb");
    if (!f || !s.data) {
        perror(path);
        exit(2);
    }
    s.n = fread(s.data, 1, NBYTES_MAX / 2, f);
    fclose(f);
    return s;
}

/* One to eight small changes: a bit, a byte, a cut, a run doubled. */
static size_t mutate(uint64_t *state, uint8_t *data, size_t n)
{
    for (uint64_t k = draw(state) % 8 + 1; k > 0; k--) {
        const size_t at = n > 0 ? draw(state) % n : 0;
        switch (draw(state) % 4) {
        case 0:
            if (n > 0) data[at] ^= (uint8_t)(1u << draw(state) % 8);
            break;
        case 1:
            if (n > 0) data[at] = (uint8_t)draw(state);
            break;
        case 2: n = at; break;
        default: {
            const size_t len = draw(state) % 16;
            if (n + len > NBYTES_MAX) break;
            memmove(data + at + len, data + at, n - at);
            n += len;
        }
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    seed seeds[SEEDS_MAX];
    size_t nseeds = 0;
    uint64_t state = 1;
    if (argc < 3) return 2;
    for (int i = 2; i < argc && nseeds < SEEDS_MAX; i++) seeds[nseeds++] = read_seed(argv[i]);
    for (size_t i = 0; i < nseeds; i++) LLVMFuzzerTestOneInput(seeds[i].data, seeds[i].n);
    for (long run = strtol(argv[1], NULL, 10); run > 0; run--) {
        const seed *s = &seeds[draw(&state) % nseeds];
        uint8_t *work = calloc(1, NBYTES_MAX), *exact = NULL;
        if (!work) return 2;
        memcpy(work, s->data, s->n);
        const size_t n = mutate(&state, work, s->n);
        exact = malloc(n > 0 ? n : 1); /* so that a sanitizer sees a read past the end */
        if (!exact) return 2;
        memcpy(exact, work, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
        free(work);
    }
    for (size_t i = 0; i < nseeds; i++) free(seeds[i].data);
    return 0;
}
