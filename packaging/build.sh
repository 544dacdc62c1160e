#!/usr/bin/env bash
# Builds the release so that it runs with glibc 2.17 or newer, on any machine, and prints the path of the
# binary. Zig links it: it has the symbols of every version of glibc. Zig does not know `-z
# pack-relative-relocs`, which needs glibc 2.36; build/link_options.rs finds that out and warns.
# Needs cargo, binutils and Python with venv; cargo-zigbuild and Zig are installed below the target directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

oldest=2.17
target=$(uname -m)-unknown-linux-gnu
output=${CARGO_TARGET_DIR:-target}
tools=$output/zig
if [ ! -x "$tools/bin/cargo-zigbuild" ]; then
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --require-hashes --requirement packaging/zig.txt
fi
tools=$(realpath "$tools")
# Packages name all dependencies, and are made offline.
cargo fetch --locked --target "$target" >&2
PATH="$tools/bin:$PATH" CARGO_ZIGBUILD_PYTHON_PATH="$tools/bin/python3" \
  cargo zigbuild --release --locked --target "$target.$oldest" >&2

binary=$output/$target/release/massgen
newest=$(objdump --dynamic-syms "$binary" | grep -oP '\(?GLIBC_\K[0-9.]+' | sort -V | tail -n 1)
if [ "$(printf '%s\n' "$newest" "$oldest" | sort -V | tail -n 1)" != "$oldest" ]; then
  echo "error: \`$binary\` needs glibc $newest, expected $oldest or older" >&2
  echo "hint: objdump --dynamic-syms $binary | grep GLIBC_$newest" >&2
  exit 1
fi
echo "$binary"
