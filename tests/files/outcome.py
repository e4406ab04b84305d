"""The outcome of one input."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """`verdict` is "right", "refused" or "wrong" (defined in run.py); `detail` is one line of text."""

    name: str
    verdict: str
    detail: str = ""
