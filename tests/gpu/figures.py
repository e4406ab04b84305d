"""Measures models on this machine's GPU, and the peer (llama.cpp) in the same minute. Writes a JSON file for each.

usage: figures.py [--out FOLDER] [--peer PROGRAM] [--prompts LENGTH,...] [--rows COUNT,...] [--generate TOKENS] MODEL...

Without --rows COUNT it measures 1, 2, 4 and 8 conversations that step together; with an empty list, none, and no partition either.
MODEL is a .gguf file, or SIZE-TYPE (4b-q4_0), which synthesize.py makes of random blocks and which is removed again.
PROGRAM is peer.cpp, built against llama.cpp; else the environment's PEER; without either only we are measured. Files go
to FOLDER, else to the environment's OUT, else to figures/. table.py merges them. Needs ganglionctl in its folder.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
REPETITIONS = 2


class Failed(Exception):
    pass


def output(*command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise Failed(f"{pathlib.Path(command[0]).name}: exit {done.returncode}; {last[0]}")
    return done.stdout


def machine():
    """Returns the names of the GPU and its driver."""
    try:
        line = output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()[0]
    except FileNotFoundError:
        raise Failed("there is no nvidia-smi to name the GPU") from None
    name, driver = line.split(", ")
    return name, driver


def synthesize(name, path):
    size, _, kind = name.rpartition("-")
    wheel = HERE / "gguf.whl"
    paths = [str(wheel)] * wheel.exists() + [os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    output(sys.executable, HERE / "synthesize.py", size, kind, path, env=environment)


def runs(asked):
    """Returns the arguments of ganglionctl bench, by the key in the file."""
    contexts = ["--prompt", asked.prompts, "--generate", str(asked.generate), "--reps", str(REPETITIONS)]
    if not asked.rows:
        return {"contexts": contexts}
    return {
        "contexts": contexts,
        "rows": ["--prompt", "512,8192", "--generate", "64", "--reps", "1", "--rows", asked.rows],
        "partition": ["--prompt", "512", "--generate", "64", "--reps", "1", "--sms", "16"],
    }


def ours(model, asked):
    ctl = os.environ.get("GANGLIONCTL", HERE / "ganglionctl")
    backend = os.environ.get("BACKEND", "cuda")
    reports = {}
    for name, arguments in runs(asked).items():
        try:
            report = output(ctl, "bench", "--backend", backend, "--memory", "device", "--model", model, "--json", *arguments)
            reports[name] = json.loads(report)
        except Failed as failure:
            # Another size or an older driver may still work.
            reports[name] = {"failed": str(failure)}
    return reports


def peers(program, model, asked):
    rows = [asked.rows] if asked.rows else []
    lines = output(program, model, asked.prompts, asked.generate, REPETITIONS, *rows).splitlines()
    measured = [json.loads(line) for line in lines]
    contexts, rows = ([line for line in measured if key in line] for key in ("prompt", "rows"))
    return {"program": pathlib.Path(program).name, "contexts": contexts, "rows": rows}


def show(model, measured, peer):
    others = {context["prompt"]: context for context in (peer or {}).get("contexts", [])}
    contexts = measured["contexts"]
    if "failed" in contexts:
        print(f"{model}: {contexts['failed']}", flush=True)
        return
    for context in contexts["contexts"]:
        words = [f"{model:<12} {context['prompt']:>6}"]
        other = others.get(context["prompt"])
        for what, key in [("prompt", "prefill_tokens_per_second"), ("decode", "decode_tokens_per_second")]:
            speed = context["best"][key]
            words.append(f"{what} {speed:>9.1f} tok/s")
            if other:
                words.append(f"peer {other[key]:>9.1f} = {speed / other[key]:.2f} x")
        print("  ".join(words), flush=True)
    for row in (peer or {}).get("rows", []):
        print(f"{model:<12} peer's step of {row['rows']}: {row['step_milliseconds']:.3f} ms", flush=True)
    for context in measured.get("rows", {}).get("contexts", []):
        for row in context["rows"]:
            print(f"{model:<12} our step of {row['rows']} after {context['prompt']}: {row['step_milliseconds']:.3f} ms", flush=True)
    for name in ("rows", "partition"):
        if "failed" in measured.get(name, {}):
            print(f"{model:<12} {name}: {measured[name]['failed']}", flush=True)
    if "failed" in (peer or {}):
        print(f"{model:<12} peer: {peer['failed']}", flush=True)


def measure(model, folder, program, gpu, driver, asked):
    """Writes the model's file. Returns whether all figures could be measured."""
    name = pathlib.Path(model).name.removesuffix(".gguf")
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCRATCH", HERE)) as scratch:
        path = pathlib.Path(model)
        if not path.exists():
            path = pathlib.Path(scratch, "synthetic.gguf")
            synthesize(model, path)
        date = datetime.datetime.now(datetime.timezone.utc)
        measured = ours(path, asked)
        try:
            peer = peers(program, path, asked) if program else None
        except (Failed, OSError) as failure:
            peer = {"failed": str(failure)}
    run = {
        "gpu": gpu,
        "driver": driver,
        "date": date.isoformat(timespec="seconds"),
        "model": name,
        "ours": measured,
        "peer": peer,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}-{date:%Y%m%dT%H%M%S}.json", "w") as file:
        json.dump(run, file, indent=1)
    show(name, measured, peer)
    return not any("failed" in part for part in [*measured.values(), peer or {}])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=os.environ.get("OUT") or "figures")
    parser.add_argument("--peer", default=os.environ.get("PEER"))
    parser.add_argument("--prompts", default="128,512,2048,8192,32000")
    parser.add_argument("--rows", default="1,2,4,8")
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    complete = True
    try:
        gpu, driver = machine()
        print(f"{gpu}, driver {driver}", flush=True)
    except Failed as failure:
        sys.exit(f"figures.py: {failure}")
    for model in arguments.models:
        try:
            complete &= measure(model, pathlib.Path(arguments.out), arguments.peer, gpu, driver, arguments)
        except Failed as failure:
            print(f"{model}: {failure}", flush=True)
            complete = False
    # Like run.sh: something could not run.
    sys.exit(0 if complete and arguments.peer else 77)


main()
