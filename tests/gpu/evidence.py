"""Prints a Markdown table of families from the output of run.sh on standard input: a row for each, a column for each kind of check.

usage: run.sh goldens modes rows lasting long equal lifecycle | evidence.py

A cell has the number of checks that passed of those that ran, and for references the largest mean of |delta logprob| in f16 and bf16.
"""

import collections
import re
import sys

# Columns: the heading, and what a row's name must contain. A row may belong to several.
COLUMNS = [
    ("safetensors", r"^tiny-\S+/(far\.)?golden\.json "),
    ("GGUF", r"\.gguf\.(far\.)?golden\.json "),
    ("cubin", r"golden\.json .* cubin "),
    ("PTX", r"golden\.json .* ptx "),
    ("managed memory", r"golden\.json .* unified$"),
    ("16 multiprocessors", r" partition = whole$"),
    ("graph = eager", r" graph = eager$"),
    ("modes", r" modes$"),
    ("rows", r" rows$"),
    ("long", r"^long: "),
    ("lasting", r"^tiny-\S+ lasting$"),
    ("lifecycle", r" lifecycle$"),
]
ROW = re.compile(r"^(?P<name>.{1,}?)\s+(?P<verdict>passed|FAILED|NOT RUN)\s*(?P<text>.*)$")
MEAN = re.compile(r"mean \|[^|]*\| (?P<mean>[0-9.e-]+)")


def main():
    passed, ran, means = collections.Counter(), collections.Counter(), {}
    families = []
    for line in sys.stdin:
        row = ROW.match(line.rstrip())
        family = row and re.search(r"tiny-([a-z0-9_-]+)", row["name"])
        if not family:
            continue
        family = family[1]
        if family not in families:
            families.append(family)
        for heading, pattern in COLUMNS:
            if re.search(pattern, row["name"]):
                ran[family, heading] += 1
                passed[family, heading] += row["verdict"] == "passed"
        mean = MEAN.search(row["text"])
        kind = re.search(r"golden\.json (f16|bf16) ", row["name"])
        if mean and kind:
            key = family, kind[1]
            means[key] = max(means.get(key, 0.0), float(mean["mean"]))
    headings = [heading for heading, _ in COLUMNS] + ["f16", "bf16"]
    print("| family | " + " | ".join(headings) + " |")
    print("|---" * (len(headings) + 1) + "|")
    for family in families:
        cells = []
        for heading, _ in COLUMNS:
            count = ran[family, heading]
            cells.append(f"{passed[family, heading]} of {count}" if count else "-")
        cells += [f"{means[family, kind]:.1e}" if (family, kind) in means else "-" for kind in ("f16", "bf16")]
        print("| " + " | ".join([family, *cells]) + " |")


main()
