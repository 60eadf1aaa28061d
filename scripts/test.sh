#!/bin/sh
# test.sh - run the tests and count them.   scripts/test.sh all | check | wasm | count
#   all     everything: release build, ASan+UBSan build, valgrind. The last line is `N passed, N failed, N skipped`
#   check   a subset that takes less than a minute
#   wasm    only build the module for the browser
#   count   only print that line, for the last run
# Exit status: 0 when nothing failed. Every step runs, also after a failure.
set -u
cd "$(dirname "$0")/.."
build=${BUILD:-build}
asan=$build-asan
setup_args="-Dtests=enabled"
[ "${CI:-}" = true ] && setup_args="$setup_args -Dwerror=true"
# Few at a time: a test that measures time should find a core.
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
tally=$build/meson-logs/tally
ok=0

count() { # every test program is one line of JSON in a test log
    cat "$tally"/*.json 2>/dev/null | grep -o '"result": "[A-Z]*"' | awk -v extra="$1" '
        /OK|EXPECTEDFAIL/ && !/UNEXPECTED/ { passed++; next } /SKIP/ { skipped++; next } { failed++ }
        END { if (extra > 0 && !failed) failed = extra
              printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 || passed == 0 }'
}

configure() { # DIR ARGS...
    dir=$1
    shift
    if [ -f "$dir/build.ninja" ]; then
        [ -z "$setup_args" ] || meson configure "$dir" $setup_args
    else
        meson setup "$dir" $setup_args "$@"
    fi
}

# The compiler of the sanitizer build: Clang where it can, so that its warnings count too.
sanitizer_cc() {
    out=$(mktemp) || return
    if echo 'int main(void) { return 0; }' | clang-19 -fsanitize=address,undefined -x c - -o "$out" 2>/dev/null; then echo clang-19; else echo "${CC:-cc}"; fi
    rm -f "$out"
}

run() { # DIR NAME MESON_TEST_ARGS...: run tests, keep the log for the count
    dir=$1 name=$2
    shift 2
    echo "== $name"
    if meson test -C "$dir" --no-rebuild --num-processes "$jobs" --print-errorlogs --logbase "$name" "$@"; then :; else ok=1; fi
    mv -f "$dir/meson-logs/$name.json" "$tally/" 2>/dev/null || true
}

# The module for the browser, where the tools for it are: the wasm test of the native build loads it.
wasm() {
    for tool in clang-19 wasm-ld-19 llvm-ar-19; do
        command -v $tool >/dev/null || { echo "wasm: $tool is not installed: no module for the browser"; return 77; }
    done
    [ -f /usr/include/wasm32-wasi/stdio.h ] || { echo "wasm: wasi-libc is not installed: no module for the browser"; return 77; }
    configure "$build-wasm" --cross-file cross/wasm32-wasi.ini && ninja -C "$build-wasm"
}

all() {
    configure "$build" && ninja -C "$build" || return 1
    wasm || [ $? = 77 ] || return 1
    rm -rf "$tally" && mkdir -p "$tally"
    run "$build" release --no-suite webgpu # software adapters take longer than all the rest: meson test -C build --suite webgpu
    CC=$(sanitizer_cc) configure "$asan" --buildtype=debug -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false && ninja -C "$asan" || return 1
    export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    # Drivers of GPUs leak, and are unloaded before they could be named: no WebGPU library is found in an empty folder.
    export XDG_CACHE_HOME="$(pwd)/$asan/cache"
    run "$asan" asan --suite unit --timeout-multiplier 4
    unset ASAN_OPTIONS UBSAN_OPTIONS XDG_CACHE_HOME
    if command -v valgrind >/dev/null; then
        run "$build" valgrind --suite valgrind --timeout-multiplier 20 \
            --wrap "valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect"
    else
        echo "valgrind is not installed: its run is left out"
    fi
    return $ok
}

case ${1:-all} in
all) all ;;
wasm) wasm; exit $? ;;
check)
    export AN_RANDOM_GRAPHS=100 # the other runs take 2,000
    configure "$build" && ninja -C "$build" && rm -rf "$tally" && mkdir -p "$tally" &&
        run "$build" release --suite unit --suite tree && [ $ok = 0 ]
    ;;
count) count 0; exit $? ;;
*) echo "usage: scripts/test.sh all|check|wasm|count" >&2; exit 2 ;;
esac
status=$?
count $status && [ $status = 0 ]
