#!/bin/sh
# libanneal keeps no state of its own: no object holds a variable that can be written. And what it exports begins with an_.
#   symbols.sh LIBANNEAL_INTERNAL_A LIBANNEAL_SO
set -u
bad=0
# Constant tables with pointers are in .data.rel.ro: written by the loader only.
vars=$(objdump -t "$1" | awk '/^[^ ]+\.o:/ { file = $1 }
    /[ \t](\.data|\.bss|\.tdata|\.tbss|\*COM\*|\.(data|bss|tdata|tbss)\.[^\t]*)\t/ && !/ d  / && !/\.data\.rel\.ro/ { print file, $NF }')
if [ -n "$vars" ]; then
    echo "variables that can be written:"; echo "$vars"; bad=1
fi
objdump -t "$1" | grep -q ' F .text' || { echo "no functions found in $1"; bad=1; }
other=$(nm -D --defined-only "$2" | awk '$2 ~ /[A-Z]/ && $3 !~ /^(an_|__bss_start$|_edata$|_end$)/ { print $3 }')
if [ -n "$other" ]; then
    echo "exported without the prefix an_:"; echo "$other"; bad=1
fi
exported=$(nm -D --defined-only "$2" | grep -c ' T an_')
[ "$exported" -gt 20 ] || { echo "only $exported functions exported"; bad=1; }
echo "$exported functions exported"
exit $bad
