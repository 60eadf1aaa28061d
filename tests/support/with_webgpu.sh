#!/bin/sh
# with_webgpu.sh wgpu|dawn PROGRAM...: runs it with that library on the software adapter that suits it, wgpu-native on Mesa's lavapipe or Dawn
# on SwiftShader, where scripts/fetch-webgpu.sh has put them; else skips.
dir=${XDG_CACHE_HOME:-$HOME/.cache}/anneal/webgpu
library=$1
shift
case $library in
wgpu) file=libwgpu_native.so driver=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json 2>/dev/null | head -1) ;;
dawn) file=libwebgpu_dawn.so driver=$dir/swiftshader/vk_swiftshader_icd.json && export AN_SHORT_KERNELS=1 ;;
esac
for f in "$dir/$file" "$driver"; do
    [ -f "$f" ] || { echo "skipped: ${f:-a driver for lavapipe} is not there; scripts/fetch-webgpu.sh test brings it"; exit 77; }
done
# Found by its folder, since the driver's file names its library without one. Compilers of software adapters are slow.
export VK_ICD_FILENAMES="$driver" VK_DRIVER_FILES="$driver" ANNEAL_WEBGPU_LIB="$library" ANNEAL_WEBGPU_TIMEOUT=900
AN_WEBGPU=1 AN_NEEDS_WEBGPU=1 AN_CONFORMANCE_ONLY=webgpu exec "$@"
