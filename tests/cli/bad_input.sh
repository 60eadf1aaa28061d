#!/bin/sh
# bad_input.sh ANNEAL - gives the program what it must refuse: each is a sentence on stderr and an exit code, and nothing is
# half-written. Also what scripts rely on: plain text when piped, JSON that two runs repeat to the last digit.
set -u
anneal=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0
unset NO_COLOR COLORTERM ANNEAL_OFFLINE ANNEAL_MIRROR ANNEAL_TEST_HTTP
export HOME="$dir/home" XDG_CACHE_HOME="$dir/cache"

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "not ok: $1"; sed 's/^/    /' "$dir/err"; }

# refuse CODE WORDS ARGUMENT...: the exit code, one sentence with these words, and an empty stdout.
refuse() {
    code=$1 words=$2
    shift 2
    "$anneal" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    if [ "$got" -ne "$code" ]; then fail "$*: exit code $got, not $code"
    elif ! grep -qF -- "$words" "$dir/err"; then fail "$*: does not say '$words'"
    elif [ -s "$dir/out" ]; then fail "$*: wrote to stdout"
    elif ! head -n 1 "$dir/err" | grep -q '^anneal: '; then fail "$*: is not said as 'anneal: ...'"
    else pass; fi
}

# accept WORDS ARGUMENT...: exit code 0 and these words on stdout.
accept() {
    words=$1
    shift
    "$anneal" "$@" >"$dir/out" 2>"$dir/err" </dev/null
    got=$?
    if [ "$got" -ne 0 ]; then fail "$*: exit code $got"
    elif ! grep -qF -- "$words" "$dir/out"; then fail "$*: does not print '$words'"
    else pass; fi
}

check() { # NAME, then a command that must succeed
    name=$1
    shift
    if "$@"; then pass; else fail "$name"; fi
}

# --- the command line ----------------------------------------------------------------------------------------
refuse 1 "did you mean 'train'" trian mlp
refuse 1 "unknown verb 'xyzzy'; there is: train, run" xyzzy
refuse 1 "the verb comes first" --steps 5 train mlp
refuse 1 "unknown model 'mpl'; did you mean 'mlp'" train mpl
refuse 1 "unknown model 'resnet'" run resnet
refuse 1 "unknown model 'mpl'" graph mpl
refuse 1 "unknown model 'mpl'" kernels mpl
refuse 1 "which MODEL?" train
refuse 1 "unknown option '--stesp'; did you mean '--steps'" train mlp --stesp 5
refuse 1 "--steps takes a whole number" train mlp --steps many
refuse 1 "--steps takes a whole number" train mlp --steps 0
refuse 1 "--batch takes a whole number" train mlp --batch 0
refuse 1 "--lr takes a number" train mlp --lr -1
refuse 1 "--batch-schedule: mlp is compiled for one size of batch; dynmlp takes any" train mlp --batch-schedule 8
refuse 1 "--batch-schedule 8,x: sizes from 1 to 4096 with commas between them" train dynmlp --batch-schedule 8,x
refuse 1 "--batch-schedule 8,: sizes from 1 to 4096" train dynmlp --batch-schedule 8,
refuse 1 "--batch 5000: dynmlp takes up to 4096" train dynmlp --batch 5000
accept "epoch 2/2  step 7/7" train dynmlp --data synthetic --batch-schedule 4000,3999 --epochs 2 --test-images 10
accept "batch any up to 4096" kernels dynmlp --show none
accept "batch from 1 to 4096" kernels dynmlp --show none
refuse 1 "--steps needs a value" train mlp --steps
refuse 1 "unknown device 'cpuu'; did you mean 'cpu'" train mlp --data synthetic --device cpuu
refuse 1 "unknown device 'tpu'" kernels mlp --device tpu
refuse 1 "did you mean 'adam'" train mlp --optimizer adm
refuse 1 "'twice' is one word too many" train mlp twice
refuse 1 "unknown op 'ad'; did you mean 'add'" explain ad
refuse 1 "two different outputs" graph mlp --dot --json
refuse 1 "--batch 20000 is more than the 12000 images" train mlp --data synthetic --batch 20000

# --- the environment --------------------------------------------------------------------------------------------
ANNEAL_MEMORY_BUDGET=10MB refuse 1 "ANNEAL_MEMORY_BUDGET is '10MB' in the environment; it takes a whole number" train mlp --data synthetic --steps 1
ANNEAL_MEMORY_BUDGET=99999999999999999999 refuse 1 "ANNEAL_MEMORY_BUDGET is '9" kernels mlp --show none
ANNEAL_BAND_NBYTES=lots refuse 1 "ANNEAL_BAND_NBYTES is 'lots'" kernels mlp --show none
ANNEAL_BEAM=-1 refuse 1 "ANNEAL_BEAM is '-1'" kernels mlp --show none
ANNEAL_FUSE=no refuse 1 "ANNEAL_FUSE is 'no' in the environment; it takes 0, or 1 as if it were not set" kernels mlp --show none
ANNEAL_THREADS=two refuse 1 "ANNEAL_THREADS is 'two'" kernels mlp --show none
ANNEAL_FUSE=1 ANNEAL_BEAM= accept "kernels" kernels mlp --show none

# --- data ------------------------------------------------------------------------------------------------------
bytes() { head -c "$1" /dev/zero; }
# good FOLDER: 20 images to train, 10 to test, all of class 0
good() {
    rm -rf "$1" && mkdir -p "$1"
    { printf '\0\0\010\003\0\0\0\024\0\0\0\034\0\0\0\034'; bytes 15680; } >"$1/train-images-idx3-ubyte"
    { printf '\0\0\010\001\0\0\0\024'; bytes 20; } >"$1/train-labels-idx1-ubyte"
    { printf '\0\0\010\003\0\0\0\012\0\0\0\034\0\0\0\034'; bytes 7840; } >"$1/t10k-images-idx3-ubyte"
    { printf '\0\0\010\001\0\0\0\012'; bytes 10; } >"$1/t10k-labels-idx1-ubyte"
}
d=$dir/data
bad() { # CODE WORDS
    refuse "$1" "$2" train mlp --data "$d" --batch 10 --steps 1 --json
}
refuse 5 "there is no folder" train mlp --data "$dir/nowhere"
refuse 1 "did you mean 'mnist'" train mlp --data mnits
good "$d"; rm "$d/t10k-labels-idx1-ubyte"
bad 5 "has no t10k-labels-idx1-ubyte"
good "$d"; gzip "$d"/*; accept '"test_accuracy": ' train mlp --data "$d" --batch 10 --steps 1 --json
head -c 40 "$d/train-images-idx3-ubyte.gz" >"$d/x" && mv "$d/x" "$d/train-images-idx3-ubyte.gz"
bad 6 "train-images-idx3-ubyte.gz: is truncated: it ends at byte 40"
good "$d"; gzip "$d"/*; printf '\377\377\377\377' | dd of="$d/train-images-idx3-ubyte.gz" bs=1 seek=45 conv=notrunc 2>/dev/null
bad 6 "train-images-idx3-ubyte.gz: "
good "$d"; printf '\0\0\010\003\0\0\0\025\0\0\0\034\0\0\0\034' | dd of="$d/train-images-idx3-ubyte" bs=1 conv=notrunc 2>/dev/null
bad 6 "its header claims 21 x 28 x 28 elements"
good "$d"; printf '\0\0\010\003\0\0\0\023\0\0\0\034\0\0\0\034' | dd of="$d/train-images-idx3-ubyte" bs=1 conv=notrunc 2>/dev/null
bad 6 "goes on after the 14896 bytes"
good "$d"; printf 'hello, world' >"$d/train-images-idx3-ubyte"
bad 6 "is not an IDX file"
good "$d"; { printf '\0\0\010\001\0\0\0\023'; bytes 19; } >"$d/train-labels-idx1-ubyte"
bad 6 "has 20 images, but"
good "$d"; { printf '\0\0\010\001\0\0\0\024'; bytes 19; printf '\012'; } >"$d/train-labels-idx1-ubyte"
bad 6 "label 19 is 10, and the model knows only 0 to 9"
good "$d"; { printf '\0\0\010\003\0\0\0\024\0\0\0\020\0\0\0\020'; bytes 5120; } >"$d/train-images-idx3-ubyte"
bad 2 "its images are 16 x 16, which is not the 784 numbers"
good "$d"; mv "$d/train-labels-idx1-ubyte" "$d/x"; mv "$d/train-images-idx3-ubyte" "$d/train-labels-idx1-ubyte"; mv "$d/x" "$d/train-images-idx3-ubyte"
bad 2 "train-labels-idx1-ubyte: has 3 dimensions where 1"
good "$d"; : >"$d/train-images-idx3-ubyte"
bad 6 "train-images-idx3-ubyte: is truncated: it ends at byte 0"

# --- downloads --------------------------------------------------------------------------------------------------
ANNEAL_OFFLINE=1 refuse 7 "ANNEAL_OFFLINE" train mlp --data mnist --steps 1
ANNEAL_MIRROR=http://127.0.0.1:1 refuse 1 "only https" train mlp --data mnist --steps 1 2>/dev/null
export ANNEAL_TEST_ROOT="$dir"
ANNEAL_OFFLINE=1 refuse 7 "sudo apt-get install dataset-fashion-mnist" train mlp --steps 1
export ANNEAL_TEST_HTTP=1 ANNEAL_MIRROR=http://127.0.0.1:1 # nothing listens there
refuse 5 "cannot be fetched" train mlp --data fashion-mnist --steps 1
accept "of SYNTHETIC data: no real images" train mlp --steps 1
check "falling back to synthetic data is not said at once" grep -q "training on SYNTHETIC data instead" "$dir/err"
accept '"synthetic": true' train mlp --steps 1 --json
unset ANNEAL_TEST_HTTP ANNEAL_MIRROR ANNEAL_TEST_ROOT
files() { [ -z "$(find "$dir/cache" -type f ! -path '*/kernels/*' ! -path '*/schedules/*' 2>/dev/null)" ]; } # what was compiled is kept
check "a failed download leaves files in the cache" files

# --- the output ---------------------------------------------------------------------------------------------------
accept "anneal 0." --version
for verb in $("$anneal" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z0-9]*\) .*/\1/p'); do
    accept "Examples:" $verb --help
    accept "Examples:" help $verb
done
accept "Verbs:" --help
accept '"checks": [' doctor --json
accept 'floordiv' explain
for op in $("$anneal" explain | sed -n 's/^  \([a-z0-9_]*\) .*/\1/p'); do
    accept "Rules that mention it:" explain "$op"
    if grep -q '^An example' "$dir/out"; then check "explain $op: nothing is rewritten" grep -q '^  1\. .* => .* by ' "$dir/out"; fi
done
accept 'grad x = (mul g z)' explain mul
run="train mlp --data synthetic --steps 30 --seed 3"
accept "test accuracy" $run
check "piped output has escape sequences" sh -c "! grep -q '$(printf '\033')' '$dir/out'"
check "piped output has carriage returns" sh -c "! grep -q '$(printf '\r')' '$dir/out'"
accept '{"step": 30, "loss": ' $run --json
cp "$dir/out" "$dir/first"
check "there is not a line a step and one more" test "$(wc -l <"$dir/first")" -eq 31
accept '"test_accuracy": ' $run --json
check "two runs with one seed differ" cmp -s "$dir/first" "$dir/out"
accept '"test_accuracy": ' train mlp --data synthetic --steps 30 --seed 4 --json
check "another seed gives the same losses" sh -c "! cmp -s '$dir/first' '$dir/out'"
accept '"test_images": 100' train mlp --data synthetic --steps 1 --test-images 100 --json
ten="train mlp --data synthetic --steps 10 --batch 8 --test-images 10 --json"
accept '"device": "interp"' $ten --device interp
cp "$dir/out" "$dir/oracle"
accept '"step": 10' $ten
# Each loss within 1e-5 of the oracle's.
check "the device and interp disagree" sh -c "paste '$dir/oracle' '$dir/out' | awk '/step\":/ && /loss/ {
    gsub(/[{},]/, \"\"); d = \$4 - \$8; if (d < 0) d = -d; if (!(d <= 1e-5 * \$4)) exit 1; n++ } END { exit n != 10 }'"
accept '"kernels": [' kernels mlp --json
accept 'boundary: ' kernels mlp --why
accept 'digraph mlp {' graph mlp --dot
accept '"phase": "backward"' graph mlp --json
accept '# forward ' graph mlp
accept '"prediction": ' run mlp --data synthetic --epochs 0 --json
if [ -w /dev/full ]; then
    "$anneal" graph mlp >/dev/full 2>"$dir/err"
    check "a full disk is not noticed" test $? -eq 5
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
