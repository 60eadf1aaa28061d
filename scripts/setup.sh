#!/bin/sh
# setup.sh - install what anneal needs, on Debian 12, Ubuntu 24.04 and their like.   scripts/setup.sh [build|test]
#   build   what `make build` needs (the default)    test   the tools of the tests too
# Does nothing, and asks for nothing, when all is there. Only missing packages are installed; nothing is upgraded on purpose.
set -eu

want=${1:-build}
build="ca-certificates gcc libc6-dev make meson ninja-build pkg-config llvm-19-dev zlib1g-dev libcurl4-openssl-dev libssl-dev libjansson-dev"
tests="libcmocka-dev valgrind"
# Without these the tests that need them are skipped, and say so.
tests_optional="clang-19 libclang-rt-19-dev clang-tidy-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32 nodejs"
optional="dataset-fashion-mnist" # in Debian; elsewhere `anneal train` downloads the images

case $want in
build) need=$build like=$optional ;;
test) need="$build $tests" like="$optional $tests_optional" ;;
*) echo "usage: scripts/setup.sh [build|test]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: this machine has no apt. anneal needs a C compiler, meson, ninja, pkg-config, LLVM 19 with its C headers," \
        "zlib, libcurl, libcrypto and jansson; its tests need cmocka and valgrind. Trying with what is there." >&2
    exit 0
fi

missing() { # those of "$@" that are not installed, nor provided by something that is
    have=$(dpkg-query -W -f='${db:Status-Status} ${Package} ${Provides}\n' 2>/dev/null | sed -n 's/^installed //p' | tr ' ,' '\n\n')
    for p in "$@"; do printf '%s\n' "$have" | grep -qxF "$p" || printf '%s ' "$p"; done
}

need_missing=$(missing $need)
like_missing=""
for p in $(missing $like); do # a tool that came another way will do
    case $p in
    nodejs) command -v node >/dev/null && continue ;;
    clang-19 | clang-tidy-19) command -v "$p" >/dev/null && continue ;;
    lld-19) command -v wasm-ld-19 >/dev/null && continue ;;
    esac
    like_missing="$like_missing $p"
done

as_root=""
may_install=yes
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then as_root=sudo; else may_install=no; fi
fi
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >&2
}

if [ -n "$need_missing" ]; then
    if [ $may_install = no ]; then
        echo "setup: missing packages, and neither root nor sudo to install them. As root, run:" >&2
        echo "    apt-get install $need_missing" >&2
        exit 1
    fi
    echo "setup: installing $need_missing" >&2
    apt update || echo "setup: the package lists could not be renewed; trying with the old ones" >&2
    if ! apt install --no-install-recommends $need_missing; then
        echo "setup: apt-get could not install: $need_missing" >&2
        echo "setup: is there a network, and does this release have LLVM 19? Debian 12 and Ubuntu 24.04 do." >&2
        exit 1
    fi
fi

if [ "$want" = test ]; then # libraries and software drivers for the webgpu tests: what is missing skips them
    "$(dirname "$0")/fetch-webgpu.sh" test || true
fi

if [ -n "$like_missing" ] && [ $may_install = yes ]; then
    can="" # in one transaction where possible; a package this release lacks is no failure
    for p in $like_missing; do
        apt-cache policy "$p" 2>/dev/null | grep -q 'Candidate: [^(]' && can="$can $p"
    done
    if [ -n "$can" ]; then
        echo "setup: installing$can" >&2
        apt install --no-install-recommends $can || echo "setup: could not install$can; what needs them is skipped" >&2
    fi
fi
