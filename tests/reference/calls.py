"""Reads calls of tools out of answers, by nothing but what the models' makers publish of their formats: jobs on stdin, calls on stdout (JSON).

A job is {"format", "text"}; its calls are pairs of name and arguments.
"""

import json
import re
import sys


def hermes(text):
    for inside in re.findall(r"<tool_call>\s*(.*?)\s*</tool_call>", text, re.DOTALL):
        call = json.loads(inside)
        yield call["name"], call["arguments"]


def llama3(text):
    call = json.loads(text)
    yield call["name"], call["parameters"]


def ministral(text):
    for inside in text.split("[TOOL_CALLS]")[1:]:
        name, arguments = inside.split("[ARGS]", 1)
        yield name, json.loads(arguments)


def mistral_nemo(text):
    for call in json.loads(text.split("[TOOL_CALLS]", 1)[1]):
        yield call["name"], call["arguments"]


readers = {one.__name__.replace("_", "-"): one for one in (hermes, llama3, ministral, mistral_nemo)}
json.dump([list(readers[job["format"]](job["text"])) for job in json.load(sys.stdin)], sys.stdout)
