"""Merges files of figures.py from one GPU and driver into a Markdown table, next to the targets.

usage: table.py FILE.json...      (the later of two files of one model counts)

A figure that misses its target is bold; "-" was not measured. Files of other GPUs or drivers are not mixed: exit 1.
"""

import json
import sys

QUANTIZED = "quantized"
BF16 = "bf16"
PROMPTS = [128, 512, 2048, 8192, 32000]
# Targets relative to the peer's speed.
PROMPT_TARGETS = {
    QUANTIZED: {128: 1.0, 512: 1.2, 2048: 1.2, 8192: 1.2, 32000: 1.2},
    BF16: {128: 0.95, 512: 0.95, 2048: 0.95, 8192: 0.95, 32000: 0.85},
}
LONG_DECODE = 1.3
# The target relative to decode at 512 tokens.
KEPT = {8192: 0.85, 32000: 0.60}
# The target in percent of the memory's copy bandwidth.
SHARES = {"4b-bf16": 73, "4b-q4_0": 45}
# Tokens/s of a prompt of 512, on an H100.
ABSOLUTE = {"4b-bf16": 30_000}
# Targets relative to the time of one row, at 512 tokens each.
ROWS = {4: 1.15, 8: 1.3}
PARTITION = 625
LAYERS = {"0.6b": 28, "1.7b": 28, "4b": 36, "8b": 36, "gemma3-1b": 26, "gemma3-4b": 34, "phi4-mini": 32, "granite-2b": 40}
NODES_A_LAYER, NODES_BESIDES = 5, 6
# Conversations of a step.
TOGETHER = [1, 2, 4, 8]
GAP, HOST = 0.9, 20


def marked(text, good):
    return text if good is not False else f"**{text}**"


def table(heading, rows):
    if not rows:
        return
    print("| " + " | ".join(heading) + " |")
    print("|" + "---|" * len(heading))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


class Run:
    """The figures of one file."""

    def __init__(self, path):
        with open(path) as file:
            run = json.load(file)
        self.path, self.model, self.date = path, run["model"], run["date"]
        self.machine = run["gpu"], run["driver"]
        self.family = BF16 if self.model.lower().endswith(("bf16", "-f16")) else QUANTIZED
        self.size = self.model.lower().split("-", 1)[0]
        self.reports = {name: report for name, report in run["ours"].items() if "failed" not in report}
        self.contexts = self.of("contexts")
        peer = run["peer"] or {}
        self.peer = {context["prompt"]: context for context in peer.get("contexts", [])}
        self.peer_rows = {row["rows"]: row["step_milliseconds"] for row in peer.get("rows", [])}

    def of(self, part):
        """Returns a part's contexts by the length of their prompts."""
        report = self.reports.get(part, {"contexts": []})
        return {context["prompt"]: context for context in report["contexts"]}

    def speed(self, prompt, what):
        """Returns the speed and its ratio to the peer's; `None` if unknown."""
        key = f"{what}_tokens_per_second"
        context, peer = self.contexts.get(prompt), self.peer.get(prompt)
        speed = context and context["best"][key]
        return speed, speed and peer and speed / peer[key]


def with_target(speed, ratio, target):
    if speed is None:
        return "-"
    if ratio is None:
        return f"{speed:,.0f}"
    return f"{speed:,.0f}, " + marked(f"{ratio:.2f} x", target is None or ratio >= target)


def prompts(runs):
    rows = []
    for family, targets in PROMPT_TARGETS.items():
        rows.append([f"*{family}: target*", *(f"*>= {targets[prompt]} x*" for prompt in PROMPTS)])
        for run in runs:
            if run.family == family:
                cells = [with_target(*run.speed(prompt, "prefill"), targets[prompt]) for prompt in PROMPTS]
                rows.append([run.model, *cells])
    print("Prompts, tokens/s and how many times the peer's:\n")
    table(["", *(f"{prompt:,} tokens" for prompt in PROMPTS)], rows)


def decode(runs):
    rows = []
    for run in runs:
        short, _ = run.speed(512, "decode")
        share = run.contexts.get(512, {}).get("percent_of_copy")
        target = SHARES.get(run.model.lower())
        shown = "-"
        if share is not None:
            shown = marked(f"{share:.0f}%", target is None or share >= target) + (f" (>= {target}%)" if target else "")
        cells = [run.model, with_target(*run.speed(512, "decode"), None), shown]
        for prompt, kept in KEPT.items():
            speed, ratio = run.speed(prompt, "decode")
            cell = with_target(speed, ratio, LONG_DECODE)
            if speed and short:
                bound = kept if run.model.lower() == "4b-bf16" else None
                cell += ", " + marked(f"{100 * speed / short:.0f}%", bound is None or speed / short >= bound)
                cell += f" (>= {100 * bound:.0f}%)" if bound else ""
            cells.append(cell)
        rows.append(cells)
    print(f"Decode, tokens/s and how many times the peer's (>= {LONG_DECODE} x at 8,192 and 32,000):\n")
    table(["", "at 512", "of what a copy moves", "at 8,192, of that at 512", "at 32,000, of that at 512"], rows)


def steps(runs):
    rows = []
    for run in runs:
        context = run.contexts.get(512)
        if not context:
            continue
        mode = context["modes"][0]
        nodes, layers = context["step_nodes"], LAYERS.get(run.size)
        most = layers and NODES_A_LAYER * layers + NODES_BESIDES
        gap, host = mode["gap_microseconds_per_node"], mode["host_microseconds_per_token"]
        together = run.of("rows")
        cells = [
            run.model,
            "-" if nodes is None else marked(str(nodes), most is None or nodes <= most) + (f" (<= {most})" if most else ""),
            "-" if gap is None else marked(f"{gap:.2f} us", gap <= GAP),
            marked(f"{host:.1f} us", host <= HOST),
        ]
        for prompt in (512, 8192):
            times = {row["rows"]: row["times_the_first"] for row in together.get(prompt, {"rows": []})["rows"]}
            targets = ROWS if prompt == 512 and run.model.lower() == "4b-q4_0" else {}
            shown = [
                marked(f"{times[count]:.2f} x", count not in targets or times[count] <= targets[count])
                for count in ROWS
                if count in times
            ]
            cells.append(", ".join(shown) or "-")
        partition = run.of("partition").get(512)
        moved = partition and partition["best"]["decode_gigabytes_per_second"]
        report = run.reports.get("partition", {})
        cells.append("-" if not moved else marked(f"{moved:,.0f} GB/s", moved >= PARTITION) + f" on {report['multiprocessors']}")
        rows.append(cells)
    bounds = ", ".join(f"<= {target} x for {count}" for count, target in ROWS.items())
    print(f"Steps: a gap of <= {GAP} us a node, host <= {HOST} us a token; 4 and 8 rows of 512 tokens (4b-q4_0) {bounds}; a partition of")
    print(f"16 multiprocessors >= {PARTITION} GB/s:\n")
    table(["", "nodes", "gap a node", "host a token", "4, 8 rows at 512", "at 8,192", "16 multiprocessors"], rows)


def together(runs):
    """Returns tokens per second of all conversations of a step, and the ratio to the peer's."""
    rows = []
    for run in runs:
        ours = {row["rows"]: row["step_milliseconds"] for row in run.of("rows").get(512, {"rows": []})["rows"]}
        if not ours:
            continue
        shown = [
            with_target(1e3 * count / ours[count], run.peer_rows.get(count) and run.peer_rows[count] / ours[count], None) if count in ours else "-"
            for count in TOGETHER
        ]
        rows.append([run.model, *shown])
    if rows:
        print("Several conversations of 512 tokens in one step, tokens/s of all and how many times the peer's:\n")
        table(["", *map(str, TOGETHER)], rows)


def main(paths):
    if not paths:
        sys.exit(__doc__)
    latest = {}
    for run in sorted((Run(path) for path in paths), key=lambda run: run.date):
        latest[run.model] = run
        first = next(iter(latest.values()))
        if run.machine != first.machine:
            sys.exit(
                "table.py: {} is of {}, driver {}, and {} of {}, driver {}: figures of different machines are not mixed".format(
                    run.path, *run.machine, first.path, *first.machine
                )
            )
    runs = sorted(latest.values(), key=lambda run: (run.size, run.model))
    (gpu, driver), dates = runs[0].machine, sorted({run.date[:10] for run in runs})
    print(f"{gpu}, driver {driver}, {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}\n")
    prompts(runs)
    decode(runs)
    steps(runs)
    together(runs)
    for model, wanted in ABSOLUTE.items():
        speed = model in latest and latest[model].speed(512, "prefill")[0]
        if speed:
            print(f"{model} reads 512 tokens at " + marked(f"{speed:,.0f} tok/s", speed >= wanted) + f" (>= {wanted:,} on an H100).")


main(sys.argv[1:])
