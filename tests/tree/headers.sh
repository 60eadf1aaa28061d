#!/bin/sh
# Every header compiles alone; public ones also as C++ and strictly.   headers.sh SOURCE_ROOT LLVM_INCLUDE
set -u
cd "$1" || exit 2
flags="-fsyntax-only -Wall -Wextra -Wpedantic -Werror -Iinclude -Isrc"
bad=0 n=0
for h in $(find include src tools apps models -name '*.h'); do
    case $h in src/backend/cpu/*) [ -n "${2:-}" ] || continue ;; esac # no LLVM, no headers of it
    n=$((n + 1))
    # As an include of an empty file: a guard or a `#pragma once` in a main file would warn.
    echo "#include \"$PWD/$h\"" | ${CC:-cc} -std=c17 $flags -I"$(dirname "$h")" -Imodels ${2:+-isystem$2} -x c - || { echo "not self-contained: $h"; bad=1; }
done
if command -v ${CXX:-c++} >/dev/null; then
    for h in include/anneal/*.h; do
        echo "#include <anneal/${h##*/}>" | ${CXX:-c++} -std=c++17 -fsyntax-only -Wall -Wextra -Werror -Iinclude -x c++ - || { echo "not C++: $h"; bad=1; }
    done
else
    echo "no C++ compiler: the public headers were not tried as C++"
fi
[ $n -gt 10 ] || { echo "only $n headers found"; bad=1; }
echo "$n headers"
exit $bad
