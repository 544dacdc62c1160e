#!/usr/bin/env bash
# What `cargo test --doc` starts in place of rustdoc: first makes the documentation in RUSTDOC_OUT, from
# what was compiled for the tests, with warnings as errors; then runs the examples.
set -euo pipefail

words=()
is_value=0
for word in "$@"; do
  case $word in
    --test) ;;
    --test-run-directory | --test-args) is_value=1 ;;
    *)
      [ "$is_value" = 1 ] || words+=("$word")
      is_value=0
      ;;
  esac
done
rustdoc -D warnings --out-dir "$RUSTDOC_OUT" "${words[@]}"
exec rustdoc "$@"
