"""JSON Schemas of pydantic's types, as pydantic writes them here, and of zod's, as data/zod.json has them.

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

ZOD = Path(__file__).parent / "data/zod.json"


def schemas():
    yield from pydantic_types.schemas()
    for name, schema in json.loads(ZOD.read_text("utf-8")).items():
        yield f"zod {name}", schema


def outcomes(bin_folder: Path):
    with tempfile.TemporaryDirectory(prefix="ganglion-schemas-") as name:
        folder = Path(name)
        with running(bin_folder, answers.model(folder / "model")) as daemon, ThreadPoolExecutor(4) as pool:
            if not daemon.ready:
                yield Outcome("daemon", "wrong", daemon.log()[-300:])
                return
            each = list(schemas())
            yield from pool.map(lambda one: outcome(daemon, folder, *one), each)


def outcome(daemon, folder: Path, name: str, schema) -> Outcome:
    answer = answers.under(daemon, folder, schema)
    if "error" not in answer:
        why = answers.defect(answer["text"], schema, ())
        return Outcome(name, "wrong" if why else "right", why)
    lenient = answers.under(daemon, folder, schema, "--schema-lenient")
    if "error" in lenient:
        return Outcome(name, "wrong", lenient["error"])
    why = answers.defect(lenient["text"], schema, lenient.get("unchecked", ()))
    return Outcome(name, "wrong", why) if why else Outcome(name, "refused", answer["error"])
