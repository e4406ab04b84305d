#!/usr/bin/env bash
# Checks the CUDA backend on the GPU at hand and prints one table; needs nothing that `make gpu` did not
# pack beside it. A check that cannot run says NOT RUN and is never a pass. Exit: 0 all passed, 1 a check
# failed, 77 something could not run.
set -uo pipefail
cd "$(dirname "$0")"
ctl=./ganglionctl
failed=0 missing=0
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi'

row() { printf '%-52s %-8s %s\n' "$1" "$2" "${3:-}"; }
passed() { row "$1" passed "${2:-}"; }
failing() { row "$1" FAILED "${2:-}"; failed=1; }
not_run() { row "$1" 'NOT RUN' "${2:-}"; missing=1; }

# verdict NAME COMMAND...: by the exit status; what it printed, on one line.
verdict() {
    local name=$1 output status
    shift
    output=$("$@" 2>&1)
    status=$?
    output=$(grep -E 'mean \||p99|greedy|error|ganglionctl:|ERROR SUMMARY|RACECHECK' <<<"$output" | tr -s ' ' | paste -sd ';')
    case $status in
    0) passed "$name" "$output" ;;
    77) not_run "$name" "$output" ;;
    *) failing "$name" "exit $status; $output" ;;
    esac
}

score() { # MODEL GOLDEN ACTIVATIONS KV ARGUMENTS...
    local model=$1 golden=$2 activations=$3 kv=$4
    shift 4
    $ctl score --backend cuda --compare --model "$model" --activations "$activations" --kv "$kv" "$@" "$golden"
}

# Section 9 of the design.
for model in golden/tiny-*; do
    for type in f16 bf16; do
        for image in cubin ptx; do
            for memory in device unified; do
                GANGLION_CUDA_IMAGE=$image verdict "${model#golden/} $type $image $memory" \
                    score "$model" "$model/golden.json" $type $type --memory $memory
            done
        done
    done
done
smol=SmolLM2-135M-Instruct.Q4_1.gguf
for arguments in 'f16 0.005 0.05' 'bf16 0.04 0.3'; do
    read -r type mean p99 <<<"$arguments"
    for image in cubin ptx; do
        for memory in device unified; do
            if [ -e $smol ]; then
                GANGLION_CUDA_IMAGE=$image verdict "SmolLM2 $type $image $memory" \
                    score $smol golden/$smol.golden.json $type $type --memory $memory --mean $mean --p99 $p99
            else
                not_run "SmolLM2 $type $image $memory" "$smol is not here"
            fi
        done
    done
done

# A replayed step is the step: the same greedy tokens, and the same log probabilities.
for model in golden/tiny-*; do
    graph=$($ctl score --backend cuda --model "$model" --greedy 48 "$model/golden.json" 2>&1)
    eager=$($ctl score --backend cuda --eager --model "$model" --greedy 48 "$model/golden.json" 2>&1)
    if [ -n "$graph" ] && [ "$graph" = "$eager" ]; then passed "${model#golden/} graph = eager"; else failing "${model#golden/} graph = eager"; fi
done

for tool in memcheck racecheck; do
    for model in golden/tiny-*; do
        name="${model#golden/} $tool"
        if ! command -v compute-sanitizer >/dev/null; then
            not_run "$name" 'compute-sanitizer is not here'
            continue
        fi
        output=$(compute-sanitizer --tool $tool --error-exitcode 9 $ctl score --backend cuda --eager --model "$model" --greedy 16 "$model/golden.json" 2>&1)
        status=$?
        summary=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|not supported|Unable' <<<"$output" | tail -n 1)
        if [ $status = 0 ]; then passed "$name" "$summary"
        elif [ $status = 9 ]; then failing "$name" "$summary"
        else not_run "$name" "exit $status; $summary"; fi
    done
done

# Figures, not checks: random weights at Qwen3's shapes, made here.
export PYTHONPATH=$PWD/gguf.whl
for size in ${SIZES:-0.6b 4b}; do
    for type in bf16 q8_0 q4_0; do
        if ! python3 synthesize.py "$size" "$type" synthetic.gguf >synthesize.log 2>&1; then
            not_run "Qwen3-$size $type" "$(tail -n 1 synthesize.log)"
            continue
        fi
        for mode in '' --eager; do
            best=$($ctl bench --backend cuda $mode --model synthetic.gguf --prompt 512 --generate 256 --reps 3 2>&1 | awk '$1 == "best"')
            row "Qwen3-$size $type ${mode:-graph}" "$([ -n "$best" ] && echo figures || echo FAILED)" "prefill, decode tokens/s, GB/s: ${best#best}"
            [ -n "$best" ] || failed=1
        done
    done
done
rm -f synthetic.gguf

[ $failed = 0 ] || exit 1
[ $missing = 0 ] || exit 77
