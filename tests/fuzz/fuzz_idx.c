/* fuzz_idx.c - libFuzzer target of the IDX and gzip readers. By hand:
 *   clang-19 -g -fsanitize=fuzzer,address,undefined -Isrc -Iinclude tests/fuzz/fuzz_idx.c src/io/{idx,stream,gzip}.c \
 *     src/base/{base,ctx}.c src/ir/dtype.c -lz -lm -o fuzz_idx && ./fuzz_idx -max_total_time=60 */
#include <anneal/io.h>

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    an_ctx *ctx = NULL;
    an_idx x = {0};
    if (an_ctx_create(NULL, &ctx)) return 0;
    const size_t before = an_ctx_nbytes(ctx);
    const an_status st = an_idx_parse(ctx, "input", data, size, &(an_idx_desc){.nbytes_max = 1 << 20}, &x);
    size_t n = st ? 0 : an_dtype_nbytes(x.dtype);
    for (uint32_t i = 0; st == AN_OK && i < x.rank; i++) n *= x.dims[i];
    if (n != x.nbytes) abort();                                         /* the shape is the size */
    if ((st != AN_OK) != (an_ctx_error(ctx)[0] != '\0')) abort();       /* a failure has a sentence */
    an_idx_fini(&x);
    if (an_ctx_nbytes(ctx) != before) abort();                          /* nothing leaks */
    an_ctx_destroy(ctx);
    return 0;
}
