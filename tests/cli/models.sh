#!/bin/sh
# models.sh ANNEAL SOURCE_ROOT - each model of text learns more than how often each character occurs, in 200 steps at its smallest; each
# model has as many parameters as its help says.
set -u
anneal=$1 root=$2
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
text=${SHARED:-$root/../shared}/data/tinyshakespeare.txt
[ -f "$text" ] || { text=$dir/text; cat "$root"/docs/*.md >"$text"; }
# Entropy of single characters, in nats; bytes do for what is nearly all ASCII.
entropy=$(od -An -v -tu1 "$text" | awk '{ for (i = 1; i <= NF; i++) { c[$i]++; n++ } } END { for (k in c) h -= c[k] / n * log(c[k] / n); printf "%.4f", h }')
bad=0
for model in nanogpt llama moe bert; do
    "$anneal" train $model --preset tiny --data "$text" --json >"$dir/out" 2>"$dir/err" || { echo "not ok: $model does not train"; cat "$dir/err"; bad=1; continue; }
    loss=$(sed -n 's/.*"validation_loss": \([0-9.]*\).*/\1/p' "$dir/out")
    steps=$(grep -c '"step"' "$dir/out")
    echo "$model: validation loss $loss after $steps steps; single characters have $entropy"
    [ "$steps" -eq 200 ] && awk "BEGIN { exit !($loss > 0 && $loss < $entropy) }" || { echo "not ok: $model"; bad=1; }
done
# Without matrix units, auto is f32: the same numbers. The large preset asks for it.
for precision in f32 auto f16; do
    "$anneal" train nanogpt --preset tiny --data "$text" --steps 5 --precision $precision --json >"$dir/$precision" 2>/dev/null || { echo "not ok: --precision $precision"; bad=1; }
    sed -n 's/.*"\(validation_loss\|loss\)": \([0-9.]*\).*/\2/p' "$dir/$precision" >"$dir/losses.$precision"
done
[ -s "$dir/losses.f32" ] && cmp -s "$dir/losses.f32" "$dir/losses.auto" || { echo "not ok: auto is not f32 where there are no matrix units"; bad=1; }
cmp -s "$dir/losses.f32" "$dir/losses.f16" && { echo "not ok: f16 gives what f32 does"; bad=1; }
# Help may round to thousands. The text has 65 characters.
awk 'BEGIN { for (n = 0; n < 400; n++) { for (i = 48; i < 112; i++) printf "%c", i; printf "\n" } }' >"$dir/letters"
for model in nanogpt llama moe bert mlp conv vit diffusion dit meanflow; do
    case $model in
    nanogpt | llama | moe | bert) data="--data $dir/letters" ;;
    mlp | conv | vit) data="--data synthetic" ;;
    *) data= ;;
    esac
    said=$("$anneal" train $model --help | grep -o '[0-9][0-9,]* parameters' | head -n 1 | tr -dc 0-9)
    has=$("$anneal" train $model $data --steps 1 2>&1 | grep -o '[0-9][0-9]* parameters' | head -n 1 | tr -dc 0-9)
    case $said in *000) has=$(((has + 500) / 1000 * 1000)) ;; esac
    [ -n "$said" ] && [ "$said" = "$has" ] || { echo "not ok: $model has $has parameters; its help says '$said'"; bad=1; }
done
exit $bad
