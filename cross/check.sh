#!/usr/bin/env bash
# check.sh BINARY ARCH: fails with the reasons unless the binary loads on every supported system. It reads the file and runs
# nothing, so it checks binaries of other architectures too. cross/check-test.sh shows that it can fail.
set -euo pipefail
binary=$1
arch=$2
# JetPack 6.2 has glibc 2.35; Debian 11 has 2.31, and the libgcc_s of GCC 10.
declare -A newest_of=([GLIBC]=2.31 [GCC]=7.0.0)
# The libraries of every supported system. Before 2.34 glibc had separate ones for threads, loading and timers.
allowed='libc.so.6 libm.so.6 libgcc_s.so.1 libdl.so.2 libpthread.so.0 librt.so.1'
case $arch in
amd64) machine='Advanced Micro Devices X86-64' loader=/lib64/ld-linux-x86-64.so.2 ;;
arm64) machine=AArch64 loader=/lib/ld-linux-aarch64.so.1 ;;
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

# The versions that the loader requires. GLIBC_ABI_DT_RELR is one without a symbol.
versions=$(LC_ALL=C readelf --wide --version-info "$binary" | awk '
    /^Version / { needs = /^Version needs/ }
    needs && match($0, /Name: [^ ]+/) { print substr($0, RSTART + 6, RLENGTH - 6) }' | sort -Vu)
symbols=$(LC_ALL=C readelf --wide --dyn-syms "$binary" | awk '$7 == "UND" { print $8 }')
for version in $versions; do
    newest=${newest_of[${version%%_*}]:-}
    if [[ ! ${version#*_} =~ ^[0-9.]+$ ]] || [ "$(printf '%s\n' "$newest" "${version#*_}" | sort -V | tail -n 1)" != "$newest" ]; then
        symbol=$(sed -n "s/@*${version//./\\.}\$//p" <<<"$symbols" | head -n 1)
        fault "needs ${symbol:+$symbol of }$version${newest:+; the newest allowed is ${version%%_*}_$newest}"
    fi
done

needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic" | paste -sd ' ')
for library in $needed; do
    case " $allowed ${loader##*/} " in *" $library "*) ;; *) fault "needs the library $library" ;; esac
done
[[ " $needed " = *' libc.so.6 '* ]] || fault 'does not need libc.so.6: it is not a program for glibc, or a static one'
interpreter=$(sed -n 's/.*\[Requesting program interpreter: \(.*\)\]/\1/p' <<<"$header")
[ "$interpreter" = $loader ] || fault "is loaded by ${interpreter:-nothing}, not by $loader"

path=$(sed -n 's/.*(\(R[UN]*PATH\)).*\[\(.*\)\]/\1 \2/p' <<<"$dynamic" | paste -sd ' ')
[ -z "$path" ] || fault "has a $path, so it loads libraries from a folder that others may write to"

grep -q 'FLAGS_1.*PIE' <<<"$dynamic" || fault 'is not a position-independent executable'
grep -q 'GNU_RELRO' <<<"$header" || fault 'has no RELRO: its relocations stay writable'
grep -Eq '\((FLAGS|FLAGS_1)\).*(BIND_)?NOW' <<<"$dynamic" || fault 'has partial RELRO only: it binds lazily'

images=$("${0%/*}/../target/venv/bin/python" "${0%/*}/images.py" "$binary")
if [ "${images%%:*}" != ok ]; then
    while read -r line; do fault "$line"; done <<<"$images"
fi

[ "$wrong" = 0 ] || exit 1
echo "$binary: $arch; needs $(grep GLIBC <<<"$versions" | tail -n 1) and $needed; PIE, full RELRO; ${images#ok: }"
