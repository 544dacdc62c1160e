#!/usr/bin/env bash
# Everything that tests/all.sh checks, with what depends on chance repeated many times, all tests as a
# user without rights, and the decoders fuzzed for minutes. Takes hours on a small machine.
set -euo pipefail
export MASSGEN_TEST_LONG=1
export MASSGEN_TEST_DIFFERENTIAL_CASES=${MASSGEN_TEST_DIFFERENTIAL_CASES:-50000}
exec bash "$(dirname "${BASH_SOURCE[0]}")/all.sh"
