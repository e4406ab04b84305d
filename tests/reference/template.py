"""Renders chat templates as Hugging Face's transformers does: jobs on stdin, texts on stdout (JSON).

A job is {"template", "variables", "messages"}, with messages as pairs of role and content, or as objects. The environment is the one that transformers documents for chat templates.
"""

import datetime
import json
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


environment = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
)
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)

texts = []
for job in json.load(sys.stdin):
    messages = [
        one if isinstance(one, dict) else {"role": one[0], "content": one[1]} for one in job["messages"]
    ]
    try:
        template = environment.from_string(job["template"])
        texts.append(template.render(messages=messages, **job["variables"]))
    except jinja2.exceptions.TemplateError as error:
        texts.append(f"error: {error}")
json.dump(texts, sys.stdout)
