#!/usr/bin/env python3
"""run.py BIN [ROW...]: prints how many of users' files are read with the same result as by their reference programs.

BIN is the folder of gangliond and ganglionctl. A row is a module next to this one with a function `outcomes(bin)`, which
yields an Outcome for each input. "right" is equal to the reference, "refused" is an error that names the problem where the
reference accepts the input, and "wrong" is everything else. Exits with 1 if an outcome is wrong. Needs what
`make deps-test` installs.
"""
import importlib
import sys
import time
from collections import Counter
from pathlib import Path

ROWS = ("cases", "templates", "vocabularies", "schemas", "tools")
VERDICTS = ("right", "refused", "wrong")


def main() -> int:
    bin_folder, names = Path(sys.argv[1]).resolve(), sys.argv[2:] or ROWS
    print(f"{'':14}" + "".join(f"{column:>9}" for column in ("total", *VERDICTS, "seconds")))
    not_right = []
    for name in names:
        began = time.monotonic()
        outcomes = list(importlib.import_module(name).outcomes(bin_folder))
        counted = Counter(outcome.verdict for outcome in outcomes)
        not_right += [(name, outcome) for outcome in outcomes if outcome.verdict != "right"]
        cells = (len(outcomes), *(counted[verdict] for verdict in VERDICTS), round(time.monotonic() - began))
        print(f"{name:14}" + "".join(f"{cell:>9}" for cell in cells), flush=True)
    for name, outcome in not_right:
        print(f"{outcome.verdict}: {name} {outcome.name}: {outcome.detail}"[:400])
    return int(any(outcome.verdict == "wrong" for _, outcome in not_right))


if __name__ == "__main__":
    sys.exit(main())
