/* fuzz_upatc.c - any bytes as a .upat file, through the parser, the checks and the emitter. On request only:
 *
 *     clang-19 -g -O1 -fsanitize=fuzzer,address,undefined -Iinclude -Isrc -Itools tests/fuzz/fuzz_upatc.c \
 *         tools/upatc/check.c tools/upatc/emit.c tools/upatc/file.c tools/upatc/parse.c -o fuzz_upatc
 *     ./fuzz_upatc -max_len=4096 CORPUS src/rewrite/rules tests/golden/upatc */
#include "upatc/upatc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const up_emit_options options = {.symbol = "fuzz", .set = "fuzz", .number = 1};
    up_file f;
    up_out out = {0};
    up_file_init(&f, "fuzz.upat", (const char *)data, size);
    if (up_parse(&f) && up_check(&f)) up_emit(&f, &options, &out);
    up_out_fini(&out);
    up_file_fini(&f);
    return 0;
}
