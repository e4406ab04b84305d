"""Cuts the reference of prompts with images down to two cases, for the GGUF file of the language model.

Usage: prompts.py FOLDER OUT, where FOLDER is tiny-NAME of the references, next to tiny-NAME.q8_0.gguf and
tiny-NAME.q8_0.gguf.golden.json. It writes OUT/tiny-NAME.prompts.json, and copies the GGUF file. The embeddings are those of
the tower of tiny-NAME.mmproj-f16.gguf: GANGLION_VISION_WRITE=OUT of images::images_meet_their_references writes them.
"""

import json
import pathlib
import shutil
import sys

CASES = ["one", "wide"]
RESULTS = ["input_ids", "image_token_positions", "token_logprobs", "argmax", "last_top10", "greedy"]
GEOMETRY = ["position_ids", "rope_delta"]


def cases(path):
    return {case["name"]: case for case in json.loads(path.read_text())["cases"]}


folder, out = map(pathlib.Path, sys.argv[1:])
file = folder.with_name(f"{folder.name}.q8_0.gguf")
whole, quantized = cases(folder / "golden.json"), cases(file.with_name(f"{file.name}.golden.json"))
cut = []
for name in CASES:
    case = {"name": name} | {key: quantized[name][key] for key in RESULTS}
    case |= {key: whole[name][key] for key in GEOMETRY if key in whole[name]}
    grid = whole[name]["processor"].get("image_grid_thw")
    case["processor"] = {} if grid is None else {"image_grid_thw": grid}
    cut.append(case)
(out / f"{folder.name}.prompts.json").write_text(json.dumps({"cases": cut}, separators=(",", ":")) + "\n")
shutil.copy(file, out)
