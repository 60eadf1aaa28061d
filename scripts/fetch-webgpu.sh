#!/bin/sh
# fetch-webgpu.sh - a WebGPU library for anneal, into the cache folder where it looks.   scripts/fetch-webgpu.sh [WHAT...]
#   wgpu         wgpu-native, by the Python package wgpu (the default)
#   dawn         Dawn of 2026, inside the Python package litert-lm-api (Apache-2.0): 131 MB
#   software     a Vulkan driver that needs no GPU: Mesa's lavapipe, by apt. For wgpu-native
#   swiftshader  another, for Dawn, which lavapipe of Debian 12 does not suit: by apt, unpacked into the cache folder
#   test         all of these, without failing: what the tests can use
# Packages are named by version and checked against a SHA-256 before anything of them is kept; apt checks its own. Does nothing
# when all is there, and brings the version named here where there is another. ANNEAL_OFFLINE: fetches nothing.
set -eu

dir=${XDG_CACHE_HOME:-$HOME/.cache}/anneal/webgpu
wgpu_version=0.32.0
dawn_version=0.18.1 # of litert-lm-api
system=$(uname -s)-$(uname -m)
case $system in Darwin-*) suffix=dylib ;; *) suffix=so ;; esac

say() { echo "fetch-webgpu: $*" >&2; }
fail() { say "$*"; return 1; }

wgpu_sum() {
    case $system in
    Linux-x86_64) echo 6499a31b5a29a10b4f1089fea4a0806411f42605fa86b6c0b543a07ca0de8568 ;;
    Linux-aarch64) echo 00454ba1bc794d38c8365f4ad29f381b88ce0a7f115133bfaa6f1dfad7eb2764 ;;
    Darwin-arm64) echo 6c3f654ea01ab2de8a2903354ced02a3c6ef161d0fba1aa4fea60aa86d021908 ;;
    Darwin-x86_64) echo cfd3967616a3c42e2b7a234407df38668c697f5aa505d56e0814d647b6746302 ;;
    esac
}
dawn_sum() {
    case $system in
    Linux-x86_64) echo b2fe9b9a87afe991a7b0d29615b0bfc3d41c7a0ac28e9c54436676482bca2e5b ;;
    Linux-aarch64) echo 9c0e02bf7596693d9adbf6bfbb1bf08ae60c61abf9fa22dff19e5afe6af276f2 ;;
    Darwin-arm64) echo e599ccc4943b1b1c8a49b1de9e524fa2dac4ae23ddf166f42d79a48b3a4b55cb ;;
    esac
}

check() { # FILE SUM
    have=$( (sha256sum "$1" 2>/dev/null || shasum -a 256 "$1") | cut -d' ' -f1)
    [ "$have" = "$2" ] || fail "$1 has the SHA-256 $have, not $2: nothing of it is kept"
}

# FILE NAME VERSION: into the folder as NAME-VERSION, whole or not at all; then NAME, where anneal looks, links to that. Others go.
keep() {
    kept=$2-$3.$suffix
    mkdir -p "$dir" && cp "$1" "$dir/.$kept.$$" && { sync "$dir/.$kept.$$" 2>/dev/null || true; } && mv -f "$dir/.$kept.$$" "$dir/$kept" &&
        ln -s "$kept" "$dir/.$2.$$" && mv -f "$dir/.$2.$$" "$dir/$2.$suffix" ||
        { rm -f "$dir/.$kept.$$" "$dir/.$2.$$"; fail "$dir/$kept cannot be written"; } || return
    for old in "$dir/$2"-*."$suffix"; do [ "$old" = "$dir/$kept" ] || rm -f "$old"; done
    say "$dir/$kept"
}

online() { [ -z "${ANNEAL_OFFLINE:-}" ] || [ "$ANNEAL_OFFLINE" = 0 ] || fail "$1 is not here, and ANNEAL_OFFLINE forbids to fetch it"; }

# WHAT PACKAGE VERSION SUM INSIDE NAME: INSIDE of a Python package, kept as NAME. pip's own settings say where packages come from.
by_pip() {
    [ -f "$dir/$6.$suffix" ] && [ "$(readlink "$dir/$6.$suffix")" = "$6-$3.$suffix" ] && return 0
    [ -n "$4" ] || fail "there is no pinned $1 for $system; build it, and name it by ANNEAL_WEBGPU_LIB" || return
    online "$1 of $2 $3" || return
    command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 ||
        fail "$1 comes by pip: install python3-pip, or set ANNEAL_WEBGPU_LIB to a copy of your own" || return
    # No Python will read it, so any may fetch it.
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 -d "$tmp/$6" "$2==$3" >&2 ||
        fail "pip could not download $2 $3" || return
    wheel=$(echo "$tmp/$6"/*.whl)
    check "$wheel" "$4" || return
    (cd "$tmp/$6" && python3 -m zipfile -e "$wheel" wheel) || fail "$wheel cannot be unpacked" || return
    keep "$tmp/$6/wheel/$5" "$6" "$3"
}

wgpu() { by_pip wgpu-native wgpu $wgpu_version "$(wgpu_sum)" "wgpu/resources/libwgpu_native-release.$suffix" libwgpu_native; }
dawn() { by_pip Dawn litert-lm-api $dawn_version "$(dawn_sum)" "litert_lm/liblitert-lm.$suffix" libwebgpu_dawn; }

software() {
    ls /usr/share/vulkan/icd.d/lvp_icd.*.json >/dev/null 2>&1 && ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1' && return 0
    command -v apt-get >/dev/null || fail "lavapipe comes by apt here; elsewhere, look for Mesa's vulkan-swrast" || return
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; } || fail "as root: apt-get install mesa-vulkan-drivers libvulkan1" || return
        as_root=sudo
    fi
    online lavapipe || return
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 install --no-install-recommends \
        mesa-vulkan-drivers libvulkan1 >&2 || fail "apt-get could not install mesa-vulkan-drivers"
}

swiftshader() {
    [ -f "$dir/swiftshader/vk_swiftshader_icd.json" ] && return 0
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "SwiftShader comes by apt, out of chromium-common" || return
    online SwiftShader || return
    (cd "$tmp" && apt-get -q download chromium-common >&2) || fail "apt-get could not download chromium-common" || return
    dpkg-deb --fsys-tarfile "$tmp"/chromium-common_*.deb | tar -x -C "$tmp" ./usr/lib/chromium/libvk_swiftshader.so \
        ./usr/lib/chromium/vk_swiftshader_icd.json || fail "chromium-common has no SwiftShader in it" || return
    mkdir -p "$dir/swiftshader"
    cp "$tmp/usr/lib/chromium/libvk_swiftshader.so" "$dir/swiftshader/"
    cp "$tmp/usr/lib/chromium/vk_swiftshader_icd.json" "$dir/swiftshader/" # last: it says that the rest is there
    say "$dir/swiftshader; to use it: export VK_ICD_FILENAMES=$dir/swiftshader/vk_swiftshader_icd.json"
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ $# -gt 0 ] || set -- wgpu
for what in "$@"; do
    case $what in
    wgpu | dawn | software | swiftshader) "$what" || exit 1 ;;
    test) for one in wgpu dawn software swiftshader; do ("$one") || say "without it, some tests are skipped"; done ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
