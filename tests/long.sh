#!/usr/bin/env bash
# Everything that tests/all.sh checks, with what depends on chance repeated many times, all tests as a
# user without rights, the configs of the Python MassGen, and the decoders fuzzed for minutes. Takes hours on a small machine.
set -euo pipefail
export MASSGEN_TEST_LONG=1
export MASSGEN_TEST_DIFFERENTIAL_CASES=${MASSGEN_TEST_DIFFERENTIAL_CASES:-50000}

# The configs that the Python MassGen ships, at the version of tests/cases/massgen_configs.txt.
if [ -z "${MASSGEN_PEER_CONFIGS:-}" ]; then
  peer=$(mktemp -d)
  trap 'rm -rf "$peer"' EXIT
  /usr/bin/python3 -m pip download --quiet --no-deps --dest "$peer" massgen==0.1.97
  /usr/bin/python3 -m zipfile -e "$peer"/massgen-0.1.97-*.whl "$peer"
  export MASSGEN_PEER_CONFIGS=$peer/massgen/configs
fi
bash "$(dirname "${BASH_SOURCE[0]}")/all.sh"
