#!/usr/bin/env bash
# run.sh [STAGE...]: checks the CUDA backend on this machine's GPU in the named stages, or in all, and prints one table. It needs only
# the files of `make gpu`. A check that cannot run is NOT RUN. Exit status: 0 all passed, 1 a check failed, 77 a check could not run.
# run.sh figures MODEL...: the speeds of each model, next to those of the program PEER; see figures.py.
# run.sh programs [SIZE-TYPE]: the speeds that clients of a random model see: many at once, guided answers, guesses as right as those of a
# real model, restored sessions. QUESTIONS, ROUNDS and TOKENS set the amount.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
# shellcheck source-path=SCRIPTDIR source=../support/daemon.sh
. ./daemon.sh
stages=(goldens smollm2 device diff self_test towers images modes rows guesses lasting long equal sanitize daemon lifecycle figures anatomy)
ctl=./ganglionctl
smol=SmolLM2-135M-Instruct.Q4_1.gguf
# The tiny models: folders with safetensors, or else GGUF files. FAMILIES names some of them ("lfm2 gemma4"); the default is all.
folders=(golden/tiny-*)
if [ -n "${FAMILIES:-}" ]; then
    read -ra folders <<<"$FAMILIES"
    folders=("${folders[@]/#/golden/tiny-}")
fi
tiny=()
for model in "${folders[@]}"; do
    [ -e "$model/model.safetensors" ] || model+=/model.q8_0.gguf
    tiny+=("$model")
done
# reference MODEL: the reference of a tiny model.
reference() { [ -d "$1" ] && echo "$1/golden.json" || echo "$1.golden.json"; }
failed=0 missing=0
folder=$(mktemp -d -t ganglion-gpu.XXXXXX)

clean_up() {
    end_daemon
    end_bus
    rm -rf "$folder" synthetic.gguf
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

row() { printf '%-52s %-8s %s\n' "$1" "$2" "${3:-}"; }
passed() { row "$1" passed "${2:-}"; }
failing() { row "$1" FAILED "${2:-}"; failed=1; }
not_run() { row "$1" 'NOT RUN' "${2:-}"; missing=1; }

# judge NAME STATUS TEXT: prints the row of an exit status.
judge() {
    case $2 in
    0) passed "$1" "${3:-}" ;;
    77) not_run "$1" "${3:-}" ;;
    *) failing "$1" "exit $2; ${3:-}" ;;
    esac
}

# score NAME MODEL GOLDEN TYPE ARGUMENTS...: compares a model with a reference, with that type of activations and cache. A q8_0 cache has
# f16 activations.
score() {
    local name=$1 model=$2 golden=$3 type=$4 output status
    shift 4
    output=$($ctl score --backend cuda --compare --model "$model" --activations "${type/q8_0/f16}" --kv "$type" "$@" "$golden" 2>&1)
    status=$?
    output=$(grep -E 'mean \||p99|greedy|error|ganglionctl:' <<<"$output" | tr -s ' ' | paste -sd ';')
    judge "$name" $status "$output"
}

# check NAME ARGUMENTS...: runs gpu-check and prints its last line, and more if it fails.
check() {
    local name=$1 output status
    shift
    if [ ! -x gpu-check ]; then
        not_run "$name" 'gpu-check is not in this pack'
        return
    fi
    if [[ $(./gpu-check 2>&1) != *"  $1 "* ]]; then
        not_run "$name" "gpu-check does not know $1"
        return
    fi
    output=$(./gpu-check "$@" 2>&1)
    status=$?
    judge "$name" $status "$(tail -n 1 <<<"$output")"
    case $status in 0 | 77) ;; *) tail -n 40 <<<"$output" ;; esac
}

# bounds FOLDER TYPE: prints the bounds of a tiny model whose rounding differs from most (golden/README.md).
bounds() {
    if [ -e "$1/rounding" ]; then
        awk -v type="$2" '{ print "--mean", $1 * (type == "f16" ? 0.005 : 0.01), "--p99", $1 * 0.05 }' "$1/rounding"
    fi
}

# compared MODEL GOLDEN: compares a tiny model with a reference, for both images and both kinds of memory.
compared() {
    local type image memory within
    for type in f16 bf16 q8_0; do
        read -ra within < <(bounds "$(dirname "$2")" $type)
        for image in cubin ptx; do
            for memory in device unified; do
                GANGLION_CUDA_IMAGE=$image score "${2#golden/} $type $image $memory" \
                    "$1" "$2" $type --memory $memory --emulate-tegra "${within[@]}"
            done
        done
    done
}

# The references of all tiny models.
stage_goldens() {
    local folder_of golden
    for folder_of in "${folders[@]}"; do
        # far.golden.json is for a longer context, in which a model has other angles.
        for golden in "$folder_of"/{,far.}golden.json; do
            [ ! -e "$golden" ] || compared "$folder_of" "$golden"
        done
        for golden in "$folder_of"/model.q8_0.gguf.{,far.}golden.json; do
            [ ! -e "$golden" ] || compared "$folder_of/model.q8_0.gguf" "$golden"
        done
    done
}

stage_smollm2() {
    local bounds type mean p99 image memory
    for bounds in 'f16 0.005 0.05' 'bf16 0.04 0.3' 'q8_0 0.06 0.3'; do
        read -r type mean p99 <<<"$bounds"
        for image in cubin ptx; do
            for memory in device unified; do
                if [ -e $smol ]; then
                    GANGLION_CUDA_IMAGE=$image score "SmolLM2 $type $image $memory" $smol \
                        golden/$smol.golden.json "$type" --memory $memory --emulate-tegra --mean "$mean" --p99 "$p99"
                else
                    not_run "SmolLM2 $type $image $memory" "$smol is not here"
                fi
            done
        done
    done
}

# The same at far positions.
stage_long() {
    local model
    for model in "${tiny[@]}"; do
        check "long: ${model#golden/}" long "$model"
    done
}

# Only the driver's side. The last part loses the device on purpose.
stage_device() {
    check 'memory, mailboxes, graphs' smoke
    check 'a sticky error is known as one' smoke sticky
}

# Every operation against the CPU executor.
stage_diff() {
    local image
    for image in cubin ptx; do
        GANGLION_CUDA_IMAGE=$image check "each operation $image" diff
    done
    # A part of the GPU uses other kernels for the same number of rows.
    check 'attention of prompts, 16 multiprocessors' diff --sms 16 attend ' prompt '
}

# Vision towers, and prompts with images, against their references.
stage_towers() {
    local image
    for image in cubin ptx; do
        GANGLION_CUDA_IMAGE=$image check "towers $image" towers golden/vision
    done
    check 'towers in managed memory' towers --tegra golden/vision
    check 'towers on 16 multiprocessors' towers --sms 16 golden/vision
    if PYTHONPATH=$PWD/gguf.whl python3 synthesize_tower.py "$folder/tower.gguf" >"$folder/synthesize.log" 2>&1; then
        check 'an image in the shape of Qwen3-VL-2B' towers --time "$folder/tower.gguf"
        rm -f "$folder/tower.gguf"
    else
        not_run 'an image in the shape of Qwen3-VL-2B' "$(tail -n 1 "$folder/synthesize.log")"
    fi
}
stage_images() {
    local image
    for image in cubin ptx; do
        GANGLION_CUDA_IMAGE=$image check "prompts with images $image" images golden/vision
    done
    check 'prompts with images in managed memory' images --tegra golden/vision
    check 'prompts with images on 16 multiprocessors' images --sms 16 golden/vision
}

# Every mode of a step.
stage_modes() {
    local model
    for model in "${tiny[@]}" $smol; do
        if [ -e "$model" ]; then
            check "${model#golden/} modes" modes "$model"
        else
            not_run "$model modes" "$model is not here"
        fi
    done
}

# Conversations in one step have the same bits as alone.
stage_rows() {
    local model
    for model in "${tiny[@]}"; do
        check "${model#golden/} rows" rows "$model"
    done
}

# Models that guess tokens: a head, an assistant, and draft models of attention layers alone.
stage_guesses() {
    check 'heads that guess' head head own
    check 'an assistant' head golden/tiny-gemma4,golden/assistant
    check 'draft models' draft golden/tiny-qwen3 golden/tiny-gemma3
}

# Sessions that are evicted, restored, branched and rewound answer with equal bits. SEQUENCES and SMOL_SEQUENCES set their number.
stage_lasting() {
    check 'tiny lasting' lasting --sequences "${SEQUENCES:-1000}"
    if [ -e $smol ]; then
        check 'SmolLM2 lasting' lasting --sequences "${SMOL_SEQUENCES:-24}" $smol
    else
        not_run 'SmolLM2 lasting' "$smol is not here"
    fi
}

# same NAME ONE OTHER: compares two outputs of `score --greedy`, and fails for two equal errors.
same() {
    if ! grep -q greedy <<<"$2"; then
        failing "$1" "$(tail -n 1 <<<"$2")"
    elif [ "$2" = "$3" ]; then
        passed "$1"
    else
        failing "$1" "$(tail -n 1 <<<"$3")"
    fi
}

# A replayed step and a step on a few multiprocessors have the same greedy tokens and log probabilities.
stage_equal() {
    local model graph other name
    for model in "${tiny[@]}"; do
        name="${model#golden/} graph = eager"
        graph=$($ctl score --backend cuda --model "$model" --greedy 48 "$(reference "$model")" 2>&1)
        other=$($ctl score --backend cuda --mode none --model "$model" --greedy 48 "$(reference "$model")" 2>&1)
        same "$name" "$graph" "$other"
        name="${model#golden/} partition = whole"
        other=$($ctl score --backend cuda --sms 16 --model "$model" --greedy 48 "$(reference "$model")" 2>&1)
        if [[ $other == *'no partition'* ]]; then
            not_run "$name" "$(tail -n 1 <<<"$other")"
        else
            same "$name" "$graph" "$other"
        fi
    done
}

stage_sanitize() {
    local tool model kv name output status summary
    for tool in memcheck racecheck; do
        for model in "${tiny[@]}"; do
            for kv in f16 q8_0; do
                name="${model#golden/} $kv $tool"
                if ! command -v compute-sanitizer >/dev/null; then
                    not_run "$name" 'compute-sanitizer is not here'
                    continue
                fi
                output=$(compute-sanitizer --tool $tool --error-exitcode 9 $ctl score --backend cuda --mode none \
                    --kv $kv --model "$model" --greedy 16 "$(reference "$model")" 2>&1)
                status=$?
                summary=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|not supported|Unable' <<<"$output" | tail -n 1)
                case $status in
                0) passed "$name" "$summary" ;;
                9) failing "$name" "$summary" ;;
                *) not_run "$name" "exit $status; $summary" ;;
                esac
            done
        done
    done
}

# cut_is_fine STATUS TEXT: prints the status of ganglionctl ask, or 0 if max_tokens cut the answer.
cut_is_fine() {
    case $1:$2 in
    *'was cut after'*) echo 0 ;;
    *) echo "$1" ;;
    esac
}

# reload_daemon NAME: reloads with another context, so that a second engine loads next to the first.
reload_daemon() {
    local name=$1 counting says status
    timeout 300 $ctl ask --quiet --max-tokens 64 'Count to one hundred.' </dev/null >"$folder/counted" 2>&1 &
    counting=$!
    printf '%s\n' '[kv]' 'context = 1024' >>"$folder/gangliond.toml"
    says=$(timeout 300 $ctl reload 2>&1)
    judge "$name" $? "$says"
    wait $counting
    status=$(cut_is_fine $? "$(<"$folder/counted")")
    [ -s "$folder/counted" ] || status="$status, and no answer"
    judge "$name: what ran meanwhile" "$status" "$(tr -s '[:space:]' ' ' <"$folder/counted" | head -c 60)"
    says=$($ctl status --json | python3 -c '
import json, sys
status = json.load(sys.stdin)
print(status["model"]["context"], status["backend"], "graph", status["graph_state"])')
    [[ $says == "1024 "* ]]
    judge "$name: active" $? "$says"
    says=$(timeout 120 $ctl ask --quiet --max-tokens 16 'Name three sensors of a robot.' </dev/null 2>&1)
    judge "$name: ask afterwards" "$(cut_is_fine $? "$says")" "$(tr -s '[:space:]' ' ' <<<"$says")"
}

# The self-test for operators.
stage_self_test() {
    local says status
    says=$(./gangliond --self-test 2>&1)
    status=$?
    [[ $says == *'GPU:'*worst/bound* ]] || status="$status, and of no GPU"
    judge 'gangliond --self-test' "$status" "$(grep -c '^[a-z]' <<<"$says") operations of CPU and GPU"
    [ "$status" = 0 ] || printf '%s\n' "$says"
}

# crash_daemon NAME: the report of a crash has the program's address, among all mappings of the driver.
crash_daemon() {
    local status
    kill -SEGV "$daemon"
    wait "$daemon"
    status=$?
    daemon=''
    grep -qE ' 00000000 .*/gangliond$' "$folder/daemon.log" || status="$status, and its address is missing"
    judge "$1" "${status/#139/0}" "$(grep -m 1 'got SIGSEGV' "$folder/daemon.log")"
}

# verify_daemon NAME: the checks of a board, as far as this machine can run them. The file stays in verify.json.
verify_daemon() {
    local says status
    says=$(timeout 900 $ctl verify --config "$folder/gangliond.toml" --output verify.json 2>"$folder/verify.log")
    status=$?
    judge "$1" $status "$(tail -n 1 <<<"$says")"
    [ $status = 0 ] || grep -A 3 '^FAIL ' <<<"$says"
}

# The daemon answers on the pack's bus with the GPU, and stops in order.
stage_daemon() {
    local backend=${BACKEND:-cuda} name="gangliond, ${BACKEND:-cuda}" says status answer
    if [ ! -e $smol ]; then
        not_run "$name" "$smol is not here"
        return
    fi
    printf '%s\n' "backend = '$backend'" '[model]' "path = '$PWD/$smol'" >"$folder/gangliond.toml"
    if ! start_bus bus.conf org.ganglion.Llm1.conf \
        "$PWD/dbus/ld.so" --library-path "$PWD/dbus" "$PWD/dbus/dbus-daemon"; then
        failing "$name: bus"
        return
    fi
    if start_daemon . "$folder/gangliond.toml" 120; then
        says=$($ctl status --json | python3 -c '
import json, sys
status = json.load(sys.stdin)
print(status["backend"] + ";", status.get("device", "no device"))')
        if [[ $says == "$backend; "?* && $says != *'no device' ]]; then
            passed "$name: status" "$says"
        else
            failing "$name: status" "$says"
        fi
        answer=$(timeout 120 $ctl ask --quiet --max-tokens 32 'Name three sensors of a robot.' </dev/null 2>&1)
        status=$(cut_is_fine $? "$answer")
        [ -n "$answer" ] || status="$status, and no answer"
        judge "$name: ask" "$status" "$(tr -s '[:space:]' ' ' <<<"$answer")"
        reload_daemon "$name: reload"
        verify_daemon "$name: verify"
        end_daemon
        judge "$name: stops on a signal" $?
        start_daemon . "$folder/gangliond.toml" 120 && crash_daemon "$name: last words"
    else
        failing "$name: ready" "$(tail -n 1 "$folder/daemon.log")"
        end_daemon
    fi
    end_bus
}

# Prints `bench --json` as one line. Exits with 1 if the memory's peak during the load exceeds the bound in $1.
figures='
import json, sys
report = json.load(sys.stdin)
bound = float(sys.argv[1])
best = report["best"]
def shown(key, form, unknown="?"):
    return unknown if report[key] is None else form.format(report[key])
print(", ".join([
    "prefill {:.0f}".format(best["prefill_tokens_per_second"]),
    "decode {:.1f} tok/s".format(best["decode_tokens_per_second"]),
    "{:.0f} GB/s".format(best["decode_gigabytes_per_second"]) + shown("percent_of_copy", " = {:.0f}% of a copy", ""),
    shown("step_nodes", "{} nodes", "no graph"),
    "load {:.2f} s".format(report["load_seconds"]) + shown("load_gigabytes_per_second", " ({:.1f} GB/s", " (?")
    + shown("percent_of_disk", " = {:.0f}% of the disk", "")
    + shown("cached_load_seconds", ", cached {:.2f} s)", ")"),
    "peak " + shown("load_peak_ratio", "{:.3f}"),
]))
ratio = report["load_peak_ratio"]
sys.exit(0 if bound == float("inf") else 77 if ratio is None else ratio > bound)
'

# bench NAME BOUND ARGUMENTS...: prints a row of figures. BOUND limits the peak during the load, or is inf.
bench() {
    local name=$1 bound=$2 report line status
    shift 2
    if ! report=$($ctl bench --backend cuda --model synthetic.gguf --prompt 512 --generate 256 --json "$@" 2>"$folder/bench.log"); then
        failing "$name" "$(tail -n 1 "$folder/bench.log")"
        return
    fi
    line=$(python3 -c "$figures" "$bound" <<<"$report")
    status=$?
    if [ "$bound" = inf ] && [ $status = 0 ]; then
        row "$name" figures "$line"
    else
        judge "$name" $status "$line"
    fi
}

# Prints `bench --mode A,B,... --json` as a line for each mode and each check: name, verdict and text, separated by tabs.
anatomy='
import json, sys
modes = {row["mode"]: row for row in json.load(sys.stdin)["modes"]}

def line(name, verdict, text):
    print(name, verdict, text, sep="\t")

def check(name, text, *figures, holds):
    known = all(figure is not None for figure in figures)
    line(name, ("passed" if holds(*figures) else "FAILED") if known else "NOT RUN", text.format(*figures))

for mode, row in modes.items():
    text = "{tokens_per_second:.1f} tok/s, step p50 {step_milliseconds_p50:.3f} p99 {step_milliseconds_p99:.3f} ms"
    text += ", {kernels_per_step} kernels"
    if row["gpu_microseconds"] is not None:
        text += ", GPU {gpu_microseconds:.0f} us, gap {gap_microseconds:.1f} us = {gap_percent:.1f}%"
        text += " = {gap_microseconds_per_node:.3f} a node"
    text += ", host {host_microseconds_per_token:.1f} us, CPU {cpu_microseconds_per_token:.0f} us = {cpu_percent:.0f}%"
    text += ", first token {first_token_milliseconds:.2f} ms"
    if row["recording_microseconds"] is not None:
        text += ", recorded in {recording_microseconds:.0f} us"
    line(mode, "figures", text.format(**row))

eager = modes["none"]
def compare(mode, name, text, key, holds):
    check(mode + " " + name, text, modes[mode][key], eager[key], holds=holds)

if sys.argv[1] == "steps":
    for mode in ("full_decode_only", "full"):
        compare(mode, "no slower than none", "{:.1f} tok/s, {:.1f}; tolerance 2%", "tokens_per_second",
                lambda graph, none: graph >= 0.98 * none)
        compare(mode, "p99 no worse", "{:.3f} ms, {:.3f}; tolerance 10%", "step_milliseconds_p99",
                lambda graph, none: graph <= 1.10 * none)
        compare(mode, "CPU a token <= 1/5 of none", "{:.0f} us, {:.0f}", "cpu_microseconds_per_token",
                lambda graph, none: 5 * graph <= none)
        check(mode + " gap a node <= 0.9 us", "{}", modes[mode]["gap_microseconds_per_node"],
              holds=lambda gap: gap <= 0.9)
else:
    compare("full", "first token no later than none", "{:.3f} ms, {:.3f}; tolerance 2%", "first_token_milliseconds",
            lambda graph, none: graph <= 1.02 * none)
'

# anatomy NAME WHAT ARGUMENTS...: the parts of a step's time in each mode.
anatomy() {
    local name=$1 what=$2 report of verdict text
    shift 2
    if ! report=$($ctl bench --backend cuda --memory device --model synthetic.gguf --json "$@" 2>"$folder/bench.log"); then
        failing "$name" "$(tail -n 1 "$folder/bench.log")"
        return
    fi
    while IFS=$'\t' read -r of verdict text; do
        row "$name $of" "$verdict" "$text"
        case $verdict in
        FAILED) failed=1 ;;
        'NOT RUN') missing=1 ;;
        esac
    done < <(python3 -c "$anatomy" "$what" <<<"$report" || printf 'report\tFAILED\tit is not as expected\n')
}

# Random weights of Qwen3's shapes, loaded from the page cache. A file of 4B takes minutes and 8 GB of disk, so all stages use one file
# before the next is made.
with_synthetic() {
    local size type name
    [ -z "${synthetic:-}" ] || return 0
    synthetic=made
    for size in ${SIZES:-0.6b 4b}; do
        for type in ${TYPES:-bf16 q8_0 q4_0}; do
            name="Qwen3-$size $type"
            # Only the figures include q8_0.
            asked figures || [ "$type" != q8_0 ] || continue
            if ! PYTHONPATH=$PWD/gguf.whl python3 synthesize.py "$size" "$type" synthetic.gguf >"$folder/synthesize.log" 2>&1; then
                not_run "$name" "$(tail -n 1 "$folder/synthesize.log")"
                continue
            fi
            # The peak is a check: in unified memory at most 1.05 x (weights + KV).
            if asked figures; then
                bench "$name graph" inf --memory device
                bench "$name eager" inf --memory device --mode none
                bench "$name unified, peak <= 1.05" 1.05 --memory unified --reps 1
            fi
            if [ "$type" != q8_0 ]; then
                ! asked lifecycle || check "$name lifecycle's cost" lifecycle --cost synthetic.gguf
                if asked anatomy; then
                    anatomy "$name" steps --prompt 512 --generate 256 --mode full_decode_only,full,piecewise,none
                    anatomy "$name 24 tokens" prompt --prompt 24 --generate 2 --reps 9 --mode full,none
                fi
            fi
            rm -f synthetic.gguf
        done
    done
}

stage_figures() { with_synthetic; }
stage_anatomy() { with_synthetic; }

# The states of the decode graph with every fault of the driver, and the cost of a change of the cache.
stage_lifecycle() {
    check 'lifecycle of the decode graph' lifecycle "${tiny[@]}"
    check 'reload next to a running model' reload "${tiny[@]}"
    check 'memory returned and allocated again' memory "${tiny[@]}"
    with_synthetic
}

# programs SIZE-TYPE: prints the figures of examples without a verdict. They run one after the other, as each needs the whole device.
programs() {
    local backend=${BACKEND:-cuda} model=$folder/programs.gguf status=0
    read -ra lengths <<<"${TOKENS:-500 4000 16000}"
    PYTHONPATH=$PWD/gguf.whl python3 synthesize.py "${1%%-*}" "${1#*-}" "$model" vocabulary.gguf >/dev/null || return
    ./callers "$model" "$backend" "${CONTEXT:-21000}" "${QUESTIONS:-100}" || status=1
    ./guides "$model" "$backend" "${ROUNDS:-3}" || status=1
    ./guesses "$model" "$backend" --replay answers.json --rounds "${ROUNDS:-3}" || status=1
    ./restored "$model" "$folder" "$backend" "${lengths[@]}" || status=1
    return $status
}

if [ "${1:-}" = figures ] && [ $# -gt 1 ] && [[ " ${stages[*]} " != *" $2 "* ]]; then
    shift
    exec python3 figures.py "$@"
fi
if [ "${1:-}" = programs ]; then
    programs "${2:-4b-q4_0}"
    exit
fi
[ $# -gt 0 ] || set -- "${stages[@]}"
for stage in "$@"; do
    if [[ " ${stages[*]} " != *" $stage "* ]]; then
        echo "$stage is none of: ${stages[*]}" >&2
        exit 64
    fi
done
asked() { [[ " ${wanted[*]} " == *" $1 "* ]]; }
wanted=("$@")
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi'
for stage in "$@"; do
    begun=$SECONDS
    "stage_$stage"
    printf '==> %s: %s s\n' "$stage" $((SECONDS - begun))
done

[ $failed = 0 ] || exit 1
[ $missing = 0 ] || exit 77
