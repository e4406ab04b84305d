#!/usr/bin/env bash
# Runs the examples of README.md. run.sh starts it on its bus.
set -euo pipefail
cd "$(dirname "$0")/../.."

echo "The README's Python program:"
sed -n '/^```python$/,/^```$/{/^```/d;p}' README.md | target/venv/bin/python -
echo "The README's busctl line:"
line=$(grep '^busctl ' README.md)
bash -euc "$line"
