#!/usr/bin/env bash
# instructions.sh FORMAT...: counts the instructions of products of weights with activations of 16 bits, with AVX2 and with NEON, in
# a step of one row and in a prompt of 64. Both run under emulation, which counts each instruction that is executed. The numbers
# are per weight and row, and say nothing of time.
set -euo pipefail
cd "$(dirname "$0")/../.."
cross/deps/packages.sh qemu-aarch64-static=qemu-user-static jq libc6:arm64

# built ARCH: prints the path of the library's tests.
built() {
    cross/cargo.sh "$1" test --no-run --no-default-features --lib --message-format json |
        jq -r 'select(.executable != null).executable'
}
avx2=$(built amd64) neon=$(built arm64)

# Newer releases of qemu have another name for one instruction at a time.
single=-one-insn-per-tb
qemu-aarch64-static -help | grep -q -e $single || single=-singlestep

# count QEMU TESTS FORMAT ROWS TIMES: prints the number of instructions, those of the start included.
count() {
    GANGLION_PRODUCTS="$3 $4 $5" "$1" -cpu max $single -d exec,nochain -D /dev/stdout \
        "$2" --exact cpu::int16::tests::products_are_counted | grep -c '^Trace'
}

# per_weight QEMU TESTS FORMAT ROWS TIMES
per_weight() {
    local once more
    once=$(count "$1" "$2" "$3" "$4" 1)
    more=$(count "$1" "$2" "$3" "$4" $((1 + $5)))
    # The test's weight has 64 rows of 1,024 columns.
    awk -v "instructions=$((more - once))" -v "products=$((65536 * $4 * $5))" 'BEGIN { printf " %.2f |", instructions / products }'
}

echo '| format | step: AVX2 | NEON | prompt: AVX2 | NEON |'
echo '|---|---|---|---|---|'
for format; do
    printf '| %s |' "$format"
    for work in '1 16' '64 1'; do
        read -r rows times <<<"$work"
        per_weight qemu-x86_64-static "$avx2" "$format" "$rows" "$times"
        per_weight qemu-aarch64-static "$neon" "$format" "$rows" "$times"
    done
    echo
done
