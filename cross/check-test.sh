#!/usr/bin/env bash
# check-test.sh [FOLDER]: shows that check.sh can fail: for each architecture a small program that passes, then the same
# with one fault at a time, each of which must be refused with the words that name it. FOLDER has the images that
# kernels/build.rs made; if none is named, those of this machine's package.
set -euo pipefail
cd "$(dirname "$0")/.."
cross/deps/python.sh cross/deps/cross.txt
export ZIG_GLOBAL_CACHE_DIR=$PWD/target/zig
built=${1:-}
if [ -z "$built" ]; then
    release=$(cross/build.sh "$(dpkg --print-architecture)")
    # shellcheck disable=SC2012 # the newest of names that cargo made
    built=$(ls -t "$release"/build/ganglion-*/out/images.rs | head -n 1)
    built=${built%/*}
fi
folder=$(mktemp -d -t ganglion-check.XXXXXX)
trap 'rm -rf "$folder"' EXIT

# images NAME FILE...: an assembler source that embeds these; PTX ends in a NUL there as here.
images() {
    local name=$1
    shift
    {
        echo '.section .rodata'
        printf '.incbin "%s"\n' "$@"
    } >"$folder/$name.s"
}
mkdir "$folder/images"
cp "$built"/*.{cubin,ptx} "$folder/images/"
cd "$folder/images"
# As CUDA 13 makes them. What the build made is deflated.
new=$folder/smoke
zlib() { "$OLDPWD/target/venv/bin/python" -c "import sys, zlib; sys.stdout.buffer.write(zlib.$1(sys.stdin.buffer.read()$2))"; }
zlib decompress '' <smoke.sm_87.cubin >"$new.cubin"
printf '\x08' | dd of="$new.cubin" bs=1 seek=8 conv=notrunc status=none # the ABI
printf '\x00\x57' | dd of="$new.cubin" bs=1 seek=48 conv=notrunc status=none # sm_87, where ABI 8 has it
zlib decompress '' <smoke.sm_87.ptx | sed '0,/^\.version 8\.5$/s//.version 9.0/' >"$new.ptx"
for kind in cubin ptx; do
    zlib compress ', 9' <"$new.$kind" >"$new.deflated"
    mv "$new.deflated" "$new.$kind"
done
all=(*.cubin *.sm_87.ptx)
images all "${all[@]/#/$PWD/}"
images lacks-one "${all[@]/#/$PWD/}"
sed -i '/\/embed\.sm_87\.cubin/d' "$folder/lacks-one.s"
images twice-another "${all[@]/#/$PWD/}" "$PWD/norm.sm_87.cubin"
sed -i '/\/embed\.sm_87\.cubin/d' "$folder/twice-another.s"
images other-gpu "${all[@]/#/$PWD/}"
sed -i '/sm_87\.cubin/d' "$folder/other-gpu.s"
images lacks-ptx "${all[@]/#/$PWD/}"
sed -i '/\/embed\.sm_87\.ptx/d' "$folder/lacks-ptx.s"
for kind in cubin ptx; do
    sed "s,\".*/smoke\.sm_87\.$kind\",\"$new.$kind\"," "$folder/all.s" >"$folder/new-$kind.s"
done
cd - >/dev/null

cat >"$folder/main.c" <<'C'
#include <stdio.h>
int main(void) { return puts("ganglion") < 0; }
C
cat >"$folder/uses-odd.c" <<'C'
int odd(void);
int main(void) { return odd(); }
C
echo 'int odd(void) { return 1; }' >"$folder/odd.c"

# What no linker here makes, made of what it made: "loader" takes the interpreter away, "rpath" makes a RUNPATH an RPATH,
# "symbol" leaves a needed version without a symbol of it.
cat >"$folder/patch.py" <<'PY'
import struct
import sys

path, what = sys.argv[1:]
data = bytearray(open(path, "rb").read())
programs, tables = struct.unpack_from("<QQ", data, 32)
program_size, program_count, table_size, table_count = struct.unpack_from("<HHHH", data, 54)
sections = [struct.unpack_from("<IIQQQQ", data, tables + table_size * index) for index in range(table_count)]
if what == "loader":
    for at in range(programs, programs + program_size * program_count, program_size):
        if struct.unpack_from("<I", data, at) == (3,):  # PT_INTERP
            struct.pack_into("<I", data, at, 0)
for _, kind, _, _, start, size in sections:
    if what == "rpath" and kind == 6:  # SHT_DYNAMIC
        for at in range(start, start + size, 16):
            if struct.unpack_from("<Q", data, at) == (29,):
                struct.pack_into("<Q", data, at, 15)
    if what == "symbol" and kind == 0x6FFFFFFF:  # SHT_GNU_versym: all are global and without a version
        for at in range(start, start + size, 2):
            if struct.unpack_from("<H", data, at)[0] > 1:
                struct.pack_into("<H", data, at, 1)
open(path, "wb").write(data)
PY
patch() { target/venv/bin/python "$folder/patch.py" "$@"; }

compile() { target/venv/bin/python -m ziglang cc -target "$machine" -O1 -Wl,--no-gc-sections "$@"; }

# refuse WORDS ARGUMENTS...: what is compiled from these must be refused with these words and no others.
refuse() {
    local words=$1
    shift
    compile -o "$folder/bad" "$@"
    refused "$words"
}

# refused WORDS: as $folder/bad now is.
refused() {
    local words=$1
    if cross/check.sh "$folder/bad" "$arch" >"$folder/said" 2>&1; then
        echo "check.sh passes a binary that should be refused: it $words" >&2
        exit 1
    fi
    if grep -vE "$words" "$folder/said"; then
        echo "check.sh should have said only that it $words" >&2
        exit 1
    fi
    sort -u "$folder/said" | sed "s,$folder,  refused: ,;q"
}

# library NAME VERSION: one of that name, whose function odd() is of that version.
library() {
    mkdir -p "$folder/$arch"
    echo "$2 { global: odd; };" >"$folder/version"
    compile -shared -Wl,-soname,"$1" -Wl,--version-script="$folder/version" -o "$folder/$arch/$1" "$folder/odd.c"
}

for arch in amd64 arm64; do
    case $arch in amd64) cpu=x86_64 ;; arm64) cpu=aarch64 ;; esac
    machine=$cpu-linux-gnu.2.31
    good=("$folder/main.c" "$folder/all.s" -pie -s)
    compile -o "$folder/good" "${good[@]}"
    cross/check.sh "$folder/good" "$arch"

    compile -shared -Wl,-soname,libodd.so -o "$folder/libodd.so" "$folder/odd.c"
    refuse 'needs the library libodd.so' "${good[@]}" -Wl,--no-as-needed "$folder/libodd.so"
    refuse 'has a RUNPATH /opt/lib' "${good[@]}" -Wl,-rpath,/opt/lib
    patch "$folder/bad" rpath
    refused 'has a RPATH /opt/lib'
    refuse 'is no position-independent' "$folder/main.c" "$folder/all.s" -no-pie -s
    refuse 'has no RELRO' "${good[@]}" -Wl,-z,norelro
    refuse 'has partial RELRO' "${good[@]}" -Wl,-z,lazy
    cp "$folder/good" "$folder/bad"
    patch "$folder/bad" loader
    refused 'is loaded by nothing'
    refuse 'is loaded by /opt/ld.so' "${good[@]}" -Wl,-dynamic-linker,/opt/ld.so

    for source in lacks-one twice-another other-gpu lacks-ptx; do
        case $source in
        lacks-one) words='has 0 sm_87 images of embed' ;;
        twice-another) words='has 0 sm_87 images of embed|has 2 sm_87 images of norm' ;;
        other-gpu) words='has 0 sm_87 images of' ;;
        lacks-ptx) words='has 0 sm_87 PTX of embed' ;;
        esac
        refuse "$words" "$folder/main.c" "$folder/$source.s" -pie -s
    done
    refuse 'has an sm_87 image of ABI 8' "$folder/main.c" "$folder/new-cubin.s" -pie -s
    cross/check.sh "$folder/bad" "$arch" own >/dev/null
    refuse 'has PTX 9.0' "$folder/main.c" "$folder/new-ptx.s" -pie -s
    cross/check.sh "$folder/bad" "$arch" own >/dev/null

    library libm.so.6 GLIBC_ABI_DT_RELR
    refuse 'needs odd of GLIBC_ABI_DT_RELR' "$folder/uses-odd.c" "$folder/all.s" -pie -s "$folder/$arch/libm.so.6"
    patch "$folder/bad" symbol
    refused 'needs GLIBC_ABI_DT_RELR'
    library libgcc_s.so.1 GCC_14.0.0
    refuse 'needs odd of GCC_14.0.0' "$folder/uses-odd.c" "$folder/all.s" -pie -s "$folder/$arch/libgcc_s.so.1"

    machine=$cpu-linux-gnu.2.36
    refuse 'needs __libc_start_main of GLIBC_2.34' "${good[@]}"
    machine=$cpu-linux-musl
    # With no library at all: compiling a static one takes longer than everything else here.
    refuse 'does not need libc.so.6|is loaded by nothing' "$folder/odd.c" "$folder/all.s" -pie -s -static -nostdlib -Wl,-e,odd
done
if cross/check.sh "$folder/good" amd64 2>"$folder/said"; then
    echo 'check.sh takes a binary for arm64 as one for amd64' >&2
    exit 1
fi
grep -q 'is not for amd64' "$folder/said"
