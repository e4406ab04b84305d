"""JSON Schemas of pydantic's types, which pydantic writes, and of zod's, from data/zod.json.

A schema is right if it is taken as it is, and the answer is valid for the package jsonschema; refused, if the daemon says why and
takes it with schema_lenient. An answer may be invalid only under keywords that the result lists as unchecked.
"""
import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import answers
import pydantic_types
from daemon import running
from outcome import Outcome

SEEDS = range(1, 4)
ZOD = Path(__file__).parent / "data/zod.json"


def schemas():
    yield from pydantic_types.schemas()
    for name, schema in json.loads(ZOD.read_text("utf-8")).items():
        yield f"zod {name}", schema


def outcomes(bin_folder: Path):
    with tempfile.TemporaryDirectory(prefix="ganglion-schemas-") as name:
        with running(bin_folder, answers.model(Path(name) / "model")) as daemon, ThreadPoolExecutor(4) as pool:
            if not daemon.ready:
                yield Outcome("daemon", "wrong", daemon.log()[-300:])
                return
            yield from pool.map(lambda one: outcome(daemon, *one), list(schemas()))


def outcome(daemon, name: str, schema) -> Outcome:
    first = answers.under(daemon, schema)
    lenient = ("--schema-lenient",) if "error" in first else ()
    for seed in SEEDS:
        answer = answers.under(daemon, schema, *lenient, seed=seed)
        why = answer.get("error") or answers.defect(answer["text"], schema, answer.get("unchecked", ()))
        if why:
            return Outcome(name, "wrong", why)
    return Outcome(name, "refused", first["error"]) if lenient else Outcome(name, "right")
