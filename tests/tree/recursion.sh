#!/bin/sh
# No function of the library calls itself, directly or through others: a graph a hundred thousand nodes deep must not
# overflow the stack. GCC writes each file's calls; tsort finds the cycles. Calls through pointers are not seen.
#   recursion.sh SOURCE_ROOT LLVM_INCLUDE GENERATED_DIR
set -u
root=$1 llvm=$2 generated=$(realpath "$3")
command -v gcc >/dev/null && command -v tsort >/dev/null || { echo "skipped: needs gcc and tsort"; exit 77; }
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
cd "$root" || exit 2
i=0
for f in $(find src -name '*.c' | sort) "$generated"/*_rules.c; do
    case $f in src/backend/cpu/*) [ -n "$llvm" ] || continue ;; esac # no LLVM, no headers of it
    i=$((i + 1))
    gcc -std=c17 -w -O0 -Iinclude -Isrc -I"$(dirname "$f")" -I"$(dirname "$generated")/tools/srcid" -DAN_HAVE_WEBGPU ${llvm:+-DAN_HAVE_CPU -isystem"$llvm"} -fcallgraph-info -c "$f" -o "$tmp/$i.o" ||
        { echo "does not compile: $f"; exit 1; }
done
# edge: { sourcename: "a.c:f" targetname: "g" label: ... }
cat "$tmp"/*.ci | sed -n 's/^edge: { sourcename: "\([^"]*\)" targetname: "\([^"]*\)".*/\1 \2/p' |
    grep -v -e __indirect_call -e __builtin | sort -u >"$tmp/edges"
n=$(wc -l <"$tmp/edges")
bad=0
awk '$1 == $2 { print "calls itself: " $1; bad = 1 } END { exit bad }' "$tmp/edges" || bad=1
if ! tsort "$tmp/edges" >/dev/null 2>"$tmp/loops"; then
    echo "call each other:"; sed 's/^tsort: //' "$tmp/loops"; bad=1
fi
[ "$n" -gt 100 ] || { echo "only $n calls found"; bad=1; }
echo "$i files, $n calls"
exit $bad
