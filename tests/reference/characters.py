"""Encodes and decodes texts with the Python package tokenizers: a job on stdin, results on stdout (JSON).

A job is {"files", "texts"}: the contents of tokenizer.json files, and texts. The result has for each file a pair for each text: its ids,
and the text of the ids without special tokens.
"""

import json
import sys

from tokenizers import Tokenizer

job = json.load(sys.stdin)
results = []
for file in job["files"]:
    tokenizer = Tokenizer.from_str(json.dumps(file))
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in job["texts"]]
    results.append([(one, tokenizer.decode(one)) for one in ids])
json.dump(results, sys.stdout)
