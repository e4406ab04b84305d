"""Renders chat templates in the setup of Hugging Face transformers: jobs on stdin, texts on stdout (JSON).

A job is {"template", "variables", "messages"}, with messages as pairs of role and content, or as objects.
"""

import json
import sys

import jinja2

from transformers_jinja import environment

texts = []
for job in json.load(sys.stdin):
    messages = [
        one if isinstance(one, dict) else {"role": one[0], "content": one[1]} for one in job["messages"]
    ]
    try:
        template = environment().from_string(job["template"])
        texts.append(template.render(messages=messages, **job["variables"]))
    except jinja2.exceptions.TemplateError as error:
        texts.append(f"error: {error}")
json.dump(texts, sys.stdout)
