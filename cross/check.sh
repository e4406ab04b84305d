#!/usr/bin/env bash
# check.sh BINARY ARCH: fails unless the binary loads where Ganglion must run, and says why not. It reads the file and
# runs nothing, so any machine can check any architecture's. cross/check-test.sh shows that each check can fail.
set -euo pipefail
binary=$1
arch=$2
# JetPack 6.2 has glibc 2.35; Debian 11 has 2.31.
newest=2.31
# What every such system has. Before 2.34 glibc had its threads, loader functions and timers apart.
allowed='libc.so.6 libm.so.6 libgcc_s.so.1 libdl.so.2 libpthread.so.0 librt.so.1'
case $arch in
amd64) machine='Advanced Micro Devices X86-64' loader=ld-linux-x86-64.so.2 ;;
arm64) machine=AArch64 loader=ld-linux-aarch64.so.1 ;;
*)
    echo "check.sh: no architecture '$arch': amd64 or arm64" >&2
    exit 2
    ;;
esac

wrong=0
fault() {
    echo "$binary: $*" >&2
    wrong=1
}

header=$(LC_ALL=C readelf --wide --file-header --program-headers "$binary")
dynamic=$(LC_ALL=C readelf --wide --dynamic "$binary")

grep -q "Machine: *$machine\$" <<<"$header" || fault "is not for $arch"

# Versions that it needs, each with a symbol that needs it.
symbols=$(LC_ALL=C readelf --wide --dyn-syms "$binary" | awk '$7 == "UND" && $8 ~ /@/ { print $8 }')
highest=$(grep -o 'GLIBC_[0-9.]*' <<<"$symbols" | sort -Vu | tail -n 1 || true)
while read -r symbol; do
    version=${symbol##*GLIBC_}
    if [ "$(printf '%s\n' "$newest" "$version" | sort -V | tail -n 1)" != "$newest" ]; then
        fault "needs ${symbol/@*GLIBC/ of GLIBC}; the newest allowed is GLIBC_$newest"
    fi
done < <(grep GLIBC_ <<<"$symbols" || true)

needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic" | paste -sd ' ')
for library in $needed; do
    case " $allowed $loader " in *" $library "*) ;; *) fault "needs the library $library" ;; esac
done

path=$(sed -n 's/.*(\(R[UN]*PATH\)).*\[\(.*\)\]/\1 \2/p' <<<"$dynamic")
[ -z "$path" ] || fault "has a $path, which looks for libraries where others may put them"

grep -q 'FLAGS_1.*PIE' <<<"$dynamic" || fault 'is no position-independent executable'
grep -q 'GNU_RELRO' <<<"$header" || fault 'has no RELRO: its relocations stay writable'
grep -Eq '\((FLAGS|FLAGS_1)\).*(BIND_)?NOW' <<<"$dynamic" || fault 'has partial RELRO only: it binds lazily'

# One cubin for each source of kernels: an ELF file for CUDA (machine 190) whose flags name sm_87. Their place changed
# with ABI 8 (CUDA 13).
cubins=0
while IFS=: read -r offset _; do
    read -ra flags < <(od -An -tu1 -j$((offset + 48)) -N4 "$binary")
    abi=$(od -An -tu1 -j$((offset + 8)) -N1 "$binary")
    [ "$abi" -ge 8 ] && sm=${flags[1]} || sm=${flags[0]}
    [ "$sm" != 87 ] || cubins=$((cubins + 1))
done < <(LC_ALL=C grep -obUaP '(?s)\x7fELF\x02\x01\x01.{9}\x02\x00\xbe\x00' "$binary" || true)
sources=$(compgen -G "$(dirname "$0")/../kernels/*.cu" | wc -l)
[ "$cubins" -ge "$sources" ] || fault "has $cubins sm_87 images, for $sources sources of kernels"

[ "$wrong" = 0 ] || exit 1
echo "$binary: $arch; needs ${highest:-no glibc symbol} and $needed; PIE, full RELRO; $cubins sm_87 images"
