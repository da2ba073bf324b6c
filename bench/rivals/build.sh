#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds build/rivals/torch_trace, which measures PyTorch's allocator (docs/traces.md), and torch_pinned,
# which measures its allocator of page-locked memory, where PyTorch is installed:
#   bench/rivals/build.sh [TORCH [CUDA]]
# TORCH: the folder torch of an installation; without it python3 is asked. CUDA: a folder with include
# and lib or lib64 of the CUDA runtime, looked in first; then in those installed with PyTorch, then in a
# toolkit. Headers and library may come from different folders: what pip installs may lack some headers.
# The program finds its libraries where they were at build time; elsewhere LD_LIBRARY_PATH names them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$root/build/rivals

fail() {
    echo "build.sh: $*" >&2
    exit 1
}

find_torch='import importlib.util as u
found = u.find_spec("torch")
print(found.submodule_search_locations[0] if found else "")'
torch=${1:-$(python3 -c "$find_torch" || :)}
[ -n "$torch" ] || fail 'python3 finds no PyTorch; name its folder: bench/rivals/build.sh TORCH'
[ -f "$torch/include/c10/cuda/CUDACachingAllocator.h" ] ||
    fail "$torch has no headers of PyTorch for CUDA"
torch=$(cd "$torch" && pwd)

# The runtime to link is the one that PyTorch itself asks for: its version is in its name.
wanted=$(readelf -d "$torch/lib/libc10_cuda.so" | sed -n 's/.*\[\(libcudart[^]]*\)\].*/\1/p')
[ -n "$wanted" ] || fail "$torch/lib/libc10_cuda.so asks for no libcudart"
major=$(printf '%s\n' "$wanted" | sed -n 's/^libcudart\.so\.\([0-9]*\).*/\1/p')

# The major version of the headers in a folder, 0 where they do not say; fails where they are incomplete.
version_of_headers() {
    [ -f "$1/cuda_runtime.h" ] && [ -f "$1/crt/host_config.h" ] || return 1
    version=$(sed -n 's/^#define[[:space:]]*CUDART_VERSION[[:space:]]*\([0-9]*\).*/\1/p' \
        "$1/cuda_runtime_api.h" | head -n 1)
    echo $((${version:-0} / 1000))
}

headers= # of the first folder that has them all; of the library's major version, where there are such
exact=
cuda_lib=
for folder in ${2:+"$2"} "$torch"/../nvidia/cu[0-9]* "$torch"/../nvidia/cuda_runtime \
    ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda; do
    if [ -z "$exact" ] && found=$(version_of_headers "$folder/include"); then
        [ "$found" = "$major" ] && exact=yes
        [ -n "$headers" ] && [ -z "$exact" ] || headers=$(cd "$folder/include" && pwd)
    fi
    for lib in "$folder/lib" "$folder/lib64"; do
        [ -n "$cuda_lib" ] || [ ! -e "$lib/$wanted" ] || cuda_lib=$(cd "$lib" && pwd)
    done
done
[ -n "$headers" ] ||
    fail "no folder has all of CUDA's headers (crt/host_config.h); name one: bench/rivals/build.sh TORCH CUDA"
[ -n "$cuda_lib" ] || fail "no folder has $wanted; name one: bench/rivals/build.sh TORCH CUDA"

mkdir -p "$out"
commit=$(git --no-optional-locks -C "$root" describe --always --tags --dirty 2>/dev/null || echo unknown)
printf '#define BENCH_COMMIT "%s"\n' "$commit" >"$out/commit.h"
flags="-O2 -g -D_GNU_SOURCE -Wall -Wextra -iquote $root/bench -iquote $here -iquote $out"
objects=
for source in "$root"/bench/base.c "$root"/bench/harness.c "$root"/bench/limits.c \
    "$root"/bench/player.c "$root"/bench/quiet.c "$root"/bench/report.c "$root"/bench/script.c \
    "$root"/bench/script_compare.c "$root"/bench/script_player.c \
    "$root"/bench/trace_file.c "$here"/torch_trace.c; do
    object=$out/$(basename "$source" .c).o
    ${CC:-cc} -std=c17 $flags -c "$source" -o "$object"
    objects="$objects $object"
done
${CXX:-c++} -std=c++17 $flags -isystem "$torch/include" -isystem "$headers" \
    -c "$here/torch_allocator.cpp" -o "$out/torch_allocator.o"
${CXX:-c++} $objects "$out/torch_allocator.o" -o "$out/torch_trace" -L"$torch/lib" -lc10_cuda -lc10 \
    "$cuda_lib/$wanted" -lpthread -Wl,-rpath,"$torch/lib:$cuda_lib"
echo "$out/torch_trace: PyTorch's allocator of $torch"

# The allocator of page-locked memory is in the library of tensors.
[ -e "$torch/lib/libtorch_cuda.so" ] || exit 0
for source in "$root"/bench/waits.c "$here"/torch_pinned.c; do
    ${CC:-cc} -std=c17 $flags -c "$source" -o "$out/$(basename "$source" .c).o"
done
${CXX:-c++} -std=c++17 $flags -isystem "$torch/include" -isystem "$headers" \
    -c "$here/torch_host_allocator.cpp" -o "$out/torch_host_allocator.o"
objects=$(echo "$objects" | sed "s|$out/torch_trace.o||")
${CXX:-c++} $objects "$out/waits.o" "$out/torch_pinned.o" "$out/torch_allocator.o" \
    "$out/torch_host_allocator.o" -o "$out/torch_pinned" -L"$torch/lib" -Wl,--no-as-needed,--allow-shlib-undefined \
    -ltorch_cuda -ltorch_cpu -lc10_cuda -lc10 "$cuda_lib/$wanted" -lpthread \
    -Wl,-rpath,"$torch/lib:$cuda_lib"
echo "$out/torch_pinned: its allocator of page-locked memory"
