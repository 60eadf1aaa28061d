#!/bin/sh
# with_dawn.sh PROGRAM...: runs it with Dawn on SwiftShader, where scripts/fetch-webgpu.sh has put them; else skips.
dir=${XDG_CACHE_HOME:-$HOME/.cache}/anneal/webgpu
for f in libwebgpu_dawn.so swiftshader/vk_swiftshader_icd.json; do
    [ -f "$dir/$f" ] || { echo "skipped: $dir/$f is not there; scripts/fetch-webgpu.sh dawn swiftshader brings it"; exit 77; }
done
# Found by its folder, since the file names the library without one.
VK_ICD_FILENAMES=$dir/swiftshader/vk_swiftshader_icd.json ANNEAL_WEBGPU_LIB=dawn AN_NEEDS_WEBGPU=1 exec "$@"
