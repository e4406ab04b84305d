"""Encodes texts with the Python package tokenizers: a job on stdin, ids on stdout (JSON).

A job is {"tokens", "merges", "special", "pre", "texts", "save"}: spellings by id, merges as in GGUF, ids of
control tokens, the pre-tokenizer's name, and where the tokenizer.json goes. "added" has the members of added tokens that match in
the texts.
"""

import json
import sys

import splits
from tokenizers import AddedToken

job = json.load(sys.stdin)
special = set(job["special"])
tokenizer = splits.plain(job["pre"], job["tokens"], job["merges"])
for added in job.get("added", []):
    tokenizer.add_tokens([AddedToken(**added)])
ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in job["texts"]]
# Added afterwards: our plain text has no special tokens.
tokenizer.add_special_tokens([AddedToken(job["tokens"][id], special=True) for id in sorted(special)])
tokenizer.save(job["save"])
json.dump(ids, sys.stdout)
