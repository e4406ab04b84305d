"""Renders lines of Jinja in transformers' setup: {"lines", "variables"} on stdin, a text for each line on stdout (JSON).

The environment is that of transformers' `_compile_jinja_template`. An error is "error", and what a template raises is
"raised: " and its message.
"""

import json
import sys

from transformers_jinja import Raised, environment

job = json.load(sys.stdin)
rendered = []
for line in job["lines"]:
    try:
        rendered.append(environment().from_string(line).render(**job["variables"]))
    except Raised as error:
        rendered.append(f"raised: {error}")
    except Exception:
        rendered.append("error")
json.dump(rendered, sys.stdout)
