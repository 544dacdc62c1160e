#!/usr/bin/env bash
# Measures the terminal view and the page of massgen and of the Python program, in turn, with the same
# scripted endpoint. Prints a line of JSON for each measurement. See docs/performance.md.
#
#   bash tests/bench/front_ends/compare.sh MASSGEN VENV [REPETITIONS]
#
# VENV is a Python environment with the packages `massgen` and `pyte`.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
massgen=$(realpath "$1")
venv=$(realpath "$2")
repetitions=${3:-3}
scratch=$(mktemp -d)
node "$here/endpoint.mjs" 8461 > "$scratch/endpoint.log" &
endpoint=$!
trap 'kill "$endpoint"; rm -rf "$scratch"' EXIT
until grep -q listening "$scratch/endpoint.log"; do sleep 0.1; done
# The Python program asks for its setup unless there is a config in this place.
mkdir -p "$scratch/project/.massgen" "$scratch/home"
cp "$here/team.yaml" "$scratch/project"
cp "$here/team.yaml" "$scratch/project/.massgen/config.yaml"
cd "$scratch/project"
export HOME=$scratch/home LANG=C.UTF-8 OPENAI_API_KEY=unused
unset CI NO_COLOR
terminal() {
    curl -s -X POST http://127.0.0.1:8461/reset
    echo "{\"program\": \"$1\", \"terminal\": $("$venv/bin/python" "$here/terminal.py" "$2" "$3" --config team.yaml hi)}"
}
for _ in $(seq "$repetitions"); do
    terminal rust 'done: ' "$massgen"
    terminal python 'Final Answer' "$venv/bin/massgen"
    node "$here/page.mjs" rust "$massgen"
    node "$here/page.mjs" python "$venv/bin/massgen"
done
