"""What became of one input."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """`verdict` is "right", "refused" or "wrong" (run.py says which is which); `detail` is one line for a reader."""

    name: str
    verdict: str
    detail: str = ""
