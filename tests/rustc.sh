#!/usr/bin/env bash
# What cargo starts in place of rustc for massgen and its tests: the driver of clippy, which compiles as rustc
# does and lints on the way. The library is linted with its unit tests only: without them it is the same code.
set -euo pipefail

case " $* " in
  *" --crate-type lib "*) exec "$@" ;;
  *) exec clippy-driver "$@" ;;
esac
