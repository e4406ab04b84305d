#!/usr/bin/env bash
# Runs what README.md tells a robot's program to do. Started by run.sh, on its bus.
set -euo pipefail
cd "$(dirname "$0")/../.."

echo "The README's Python program:"
sed -n '/^```python$/,/^```$/{/^```/d;p}' README.md | target/venv/bin/python -
echo "The README's busctl line:"
line=$(grep '^busctl ' README.md)
bash -euc "$line"
