#!/bin/sh
# checkpoint.sh ANNEAL SOURCE_ROOT - a run that is killed goes on to the same bytes; a write that fails leaves the old file; what
# is no checkpoint, or another run's, is refused.
set -u
anneal=$1 root=$2
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cat "$root"/docs/*.md >"$dir/text"
passed=0 failed=0
ok() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "not ok: $1"; sed 's/^/    /' "$dir/err"; }
check() { what=$1; shift; if "$@"; then ok; else fail "$what"; fi; }
train() { "$anneal" train nanogpt --preset tiny --dim 16 --context 16 --batch 4 --dropout 0.1 --accumulate 2 --data "$dir/text" --plain "$@" >"$dir/out" 2>"$dir/err"; }
refuse() { # CODE WORDS ARGUMENT...
    code=$1 words=$2
    shift 2
    train "$@"
    got=$?
    if [ $got -ne "$code" ] || ! grep -qF -- "$words" "$dir/err"; then fail "$*: exit code $got, or it does not say '$words'"; else ok; fi
}

train --steps 4000 --save "$dir/whole" || fail "a whole run"
# Killed as soon as step 400 is saved, wherever it is then.
train --steps 4000 --save "$dir/parts" --save-every 400 &
pid=$!
waited=0
while [ ! -f "$dir/parts" ] && [ $waited -lt 3000 ]; do sleep 0.02; waited=$((waited + 1)); done
pkill -KILL -P $pid 2>/dev/null || kill -KILL $pid
wait $pid 2>/dev/null
check "nothing was saved before the kill" test -f "$dir/parts"
check "the kill came too late to cut the run short" sh -c "! cmp -s '$dir/whole' '$dir/parts'"
cp "$dir/parts" "$dir/at400"
train --steps 4000 --save "$dir/parts" --resume "$dir/parts" || fail "resuming"
check "a run that was cut and resumed has other bytes than one that was not" cmp "$dir/whole" "$dir/parts"

# A disk that takes no more: the old file stays, and the failure is said.
cp "$dir/at400" "$dir/kept"
(trap '' XFSZ; ulimit -f 1; "$anneal" train nanogpt --preset tiny --dim 16 --context 16 --batch 4 --dropout 0.1 --accumulate 2 --data "$dir/text" --plain --steps 4000 --resume "$dir/at400" --save "$dir/kept" --save-every 401 >/dev/null 2>"$dir/err")
got=$?
check "a failed write has exit code $got, not 5" test $got -eq 5
check "a failed write does not say so" grep -q "cannot write" "$dir/err"
check "a failed write harms the old checkpoint" cmp -s "$dir/at400" "$dir/kept"
check "a failed write leaves a part behind" test -z "$(find "$dir" -name 'kept.*')"

refuse 6 "is no sound safetensors file" --steps 4000 --resume "$dir/text"
head -c 3000 "$dir/at400" >"$dir/half"
refuse 6 "is no sound safetensors file" --steps 4000 --resume "$dir/half"
refuse 1 "another seed" --steps 4000 --seed 1 --resume "$dir/at400"
refuse 1 "another layers" --steps 4000 --layers 2 --resume "$dir/at400"
refuse 1 "another steps" --steps 3900 --resume "$dir/at400"
refuse 1 "is at its end, step 4000 of 4000" --steps 4000 --resume "$dir/whole"
refuse 5 "cannot" --steps 4000 --resume "$dir/none"

# Generation from it: the same seed, the same text.
for seed in 1 1 2; do
    "$anneal" generate nanogpt --checkpoint "$dir/whole" --prompt "The " --tokens 60 --seed $seed --json >"$dir/made$seed.$passed" 2>"$dir/err" || fail "generate"
    ok
done
set -- "$dir"/made1.*
check "the same seed gives another text" sh -c "[ \"\$(sed 's/,* \"tokens_per.*//' '$1')\" = \"\$(sed 's/,* \"tokens_per.*//' '$2')\" ]"
"$anneal" generate nanogpt --checkpoint "$dir/whole" --prompt "The ♞" >"$dir/out" 2>"$dir/err"
check "a character that was never seen is not refused" test $? -eq 1
"$anneal" generate llama --checkpoint "$dir/whole" >"$dir/out" 2>"$dir/err"
check "another model's checkpoint is not refused" grep -q "is of the model nanogpt" "$dir/err"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
