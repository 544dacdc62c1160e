#!/usr/bin/env bash
# Checks every change: formatting, lints, documentation and tests; for root, what asks something of
# a user's rights a second time as a user without any. `tests/long.sh` repeats what depends on chance
# more often, tries all cases everywhere, runs the agent programs of vendors, and fuzzes. Installs what
# is missing where it may. Ends with "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TERM_COLOR=never INSTA_UPDATE=no
# Tests wait for processes and timeouts much of their time.
threads=$(($(nproc) * 2))
passed=0
failed=0
scratch=$(mktemp -d)
# Commands see a private `/tmp`, so some tests need files elsewhere.
place=$(mktemp -d /var/tmp/massgen-tests.XXXXXX)
trap 'rm -rf "$scratch" "$place"' EXIT

# need COMMAND PACKAGE…: notes the packages that COMMAND comes from if it cannot be run.
packages=()
need() {
  command -v "$1" > /dev/null || packages+=("${@:2}")
}

# install_packages: installs the noted packages.
install_packages() {
  [ "${#packages[@]}" = 0 ] && return
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}" && return
  fi
  echo "missing: install ${packages[*]} (for example: sudo apt-get install ${packages[*]})" >&2
  exit 1
}

# need_component COMMAND NAME: makes sure that the Rust toolchain has the component.
need_component() {
  "$1" --version > /dev/null 2>&1 && return
  command -v rustup > /dev/null && rustup component add "$2" && return
  echo "missing: $1 (for example: rustup component add $2)" >&2
  exit 1
}

# check NAME COMMAND…: runs a command that counts as one test.
check() {
  local name=$1
  shift
  echo "== $name"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $name" >&2
  fi
}

# count NAME COMMAND…: runs a command that reports its tests itself. One that reports no failed
# test and fails all the same counts as one failure. What it says of failures is repeated at the end.
count() {
  local name=$1 log=$scratch/log status=0 good bad
  shift
  echo "== $name"
  "$@" 2>&1 | tee "$log" || status=$?
  good=$(sum passed "$log")
  bad=$(sum failed "$log")
  if [ "$status" != 0 ] && [ "$bad" = 0 ]; then
    bad=1
  fi
  passed=$((passed + good))
  failed=$((failed + bad))
  if [ "$bad" != 0 ]; then
    echo "== failures in: $name" >> "$scratch/failures"
    sed -n '/^failures:$/,$p' "$log" >> "$scratch/failures"
  fi
}

# sum WORD LOG: adds up "N WORD" over the result lines of the test binaries.
sum() {
  sed -n "s/^test result: .* \([0-9]*\) $1;.*/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

# fuzz TARGET: feeds a decoder with changed replies for a minute. What it comes upon is kept
# apart from the corpus.
fuzz() {
  mkdir -p "$scratch/corpus/$1"
  cargo fuzz run --dev --sanitizer none "$1" "$scratch/corpus/$1" "fuzz/corpus/$1" -- \
    -max_total_time=60 -max_len=8192 -verbosity=0
}

# in_memory COMMAND…: runs a command whose temporary files are in memory if root may mount that: tests
# create and remove many small files. A copy of massgen is in huge pages there, which are mapped faster at
# each of its many starts. The mounts end with the command.
in_memory() {
  local enter=() mounted=0
  mkdir -p -m 1777 "$scratch/tmp"
  mkdir -p "$scratch/program"
  chmod 755 "$scratch"
  chmod 1777 "$place"
  if [ "$(id -u)" = 0 ] && unshare -m true 2> /dev/null; then
    enter=(unshare -m)
    mounted=1
  fi
  # shellcheck disable=SC2016
  TMPDIR="$scratch/tmp" MASSGEN_TEST_PLACE="$place" MASSGEN_TEST_BINARY="$scratch/program/massgen" \
    "${enter[@]}" bash -c '
      if [ "$0" = 1 ]; then
        for directory in "$TMPDIR" "$MASSGEN_TEST_PLACE"; do
          mount -t tmpfs -o mode=1777,size=50% massgen-tests "$directory" || exit
        done
        program=$(dirname "$MASSGEN_TEST_BINARY")
        for huge in within_size never; do
          mount -t tmpfs -o "mode=755,huge=$huge" massgen-tests "$program" 2> /dev/null && break
        done
      fi
      install -m 755 "$1" "$MASSGEN_TEST_BINARY" && exec "${@:2}"' \
    "$mounted" "${CARGO_TARGET_DIR:-target}/debug/massgen" "$@"
}

# build: compiles massgen and its tests, and lints them on the way: the driver of clippy compiles as rustc
# does, so nothing is compiled twice. A warning fails the check.
build() {
  RUSTC_WORKSPACE_WRAPPER="$PWD/tests/rustc.sh" cargo test --locked --no-run --all-targets 2>&1 |
    tee "$scratch/build" && ! grep -q '^warning' "$scratch/build"
}

# documentation: makes the documentation from what `build` compiled, and runs its examples.
documentation() {
  RUSTC_WORKSPACE_WRAPPER="$PWD/tests/rustc.sh" RUSTDOC="$PWD/tests/rustdoc.sh" \
    RUSTDOC_OUT="$scratch/documentation" cargo test --locked --doc
}

# report_documentation: prints what `documentation` printed in the background, and returns whether it ended
# well.
report_documentation() {
  cat "$scratch/documentation.log"
  return "$documented"
}

# test_binaries: prints the paths of the unit tests and of the integration tests.
test_binaries() {
  local found
  found=$(sed -nE 's#.*Executable .*(src/lib\.rs|tests/it/main\.rs) \((.*)\)$#\2#p' "$scratch/build")
  if [ "$(wc -w <<< "$found")" != 2 ]; then
    echo "expected two test binaries, found: $found" >&2
    return 1
  fi
  echo "$found"
}

# tests: runs the tests. For root, the self-test checks level overlay here, and levels namespaces and landlock as a user without rights.
tests() {
  local binaries binary status=0 skipped=()
  if [ "${MASSGEN_TEST_LONG:-0}" != 1 ]; then
    skipped=(--skip external_agent_packages::)
    if [ "$(id -u)" = 0 ]; then
      skipped+=(--skip selftest::level_namespaces --skip selftest::level_landlock)
    fi
  fi
  binaries=$(test_binaries) || return 1
  for binary in $binaries; do
    INSTA_WORKSPACE_ROOT=$PWD in_memory "$binary" --test-threads="$threads" "${skipped[@]}" || status=1
  done
  return "$status"
}

# unprivileged: runs, as `nobody`, the tests of what depends on the user's rights: file permissions,
# which root passes by, sandboxes, processes and limits; of the programs of models, those in one language, and
# nothing that is killed again and again. The long suite runs all but those that only look at the repository,
# which `nobody` may be unable to read.
unprivileged() {
  local binaries binary status=0
  binaries=$(test_binaries) || return 1
  # Unit tests and integration tests are named alike: by the module that they belong to.
  local chosen=(
    world:: sandbox_policy:: attempts:: chaos:: code_attacks::the_gate_and_the_sandbox_alone_stop_every_python
    command_runs:: delivery:: disk:: doctor:: exec:: gate:: git:: hooks:: hostile:: locks::
    pipeline_rights:: races:: resource_limits:: sandbox:: sandbox_helper:: sandbox_landlock:: sandboxes::
    selftest:: single_calls:: final_overlay:: store:: undo::
    --skip selftest::level_overlay --skip selftest::every_attack --skip undo::errors_about_a_rollback
    --skip undo::a_process_that_is_killed --skip chaos::kills --skip chaos::contained::a_flood_of_output
  )
  if [ "${MASSGEN_TEST_LONG:-0}" = 1 ]; then
    chosen=(
      --skip tidy:: --skip docs:: --skip browser:: --skip config::cases_give_the_findings
      --skip config::every_file_below_configs --skip config::the_reference_is_what
    )
  fi
  for binary in $binaries; do
    cp "$binary" "$scratch/tests"
    in_memory setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups \
      env -i -C "$scratch" PATH=/usr/bin:/bin HOME="$scratch/tmp" TMPDIR="$scratch/tmp" INSTA_UPDATE=no \
      INSTA_WORKSPACE_ROOT="$scratch" MASSGEN_TEST_BINARY="$scratch/program/massgen" \
      MASSGEN_TEST_PLACE="$place" MASSGEN_TEST_SERVERS="$MASSGEN_TEST_SERVERS" \
      ${PROPTEST_RNG_SEED:+PROPTEST_RNG_SEED="$PROPTEST_RNG_SEED"} \
      "$scratch/tests" --test-threads="$threads" "${chosen[@]}" || status=1
  done
  return "$status"
}

# with_podman: runs the tests of servers in containers with Podman. Its processes end minutes after the tests.
with_podman() {
  local binaries binary status=0
  binaries=$(test_binaries) || return 1
  for binary in $binaries; do
    MASSGEN_TEST_PODMAN=1 INSTA_WORKSPACE_ROOT=$PWD in_memory "$binary" server_containers || status=1
  done
  return "$status"
}

# servers: installs what others wrote and tests need, each at one version: servers, clients, agents,
# libraries.
servers() {
  local scope=@modelcontextprotocol installed="$MASSGEN_TEST_SERVERS/installed"
  local packages=(
    "$scope/server-filesystem@2026.8.31" "$scope/server-everything@2026.8.31"
    "$scope/sdk@1.32.2" ajv@8.20.0 ajv-formats@3.0.1
  )
  if [ "${MASSGEN_TEST_LONG:-0}" = 1 ]; then
    # Agents that are programs: 240, 410 and 100 MB.
    packages+=(
      @anthropic-ai/claude-code@2.1.330 @openai/codex@0.169.0 @google/gemini-cli@0.61.0
    )
  fi
  # The conformance suite of the protocol, and the Node.js that it needs.
  local suite=("$scope/conformance@0.2.0-alpha.12" node@24.21.0)
  local git=mcp-server-git==2026.10.19
  # A virtual environment with what programs of models may import.
  local tables=("numpy==2.4.6" "pandas==3.1.1") environment="$MASSGEN_TEST_SERVERS/tables"
  local all="${packages[*]} ${suite[*]} $git ${tables[*]}"
  [ "$(cat "$installed" 2>/dev/null)" = "$all" ] && return
  npm install --silent --no-audit --no-fund --prefix "$MASSGEN_TEST_SERVERS" "${packages[@]}" &&
    npm install --silent --no-audit --no-fund --prefix "$MASSGEN_TEST_SERVERS/conformance" "${suite[@]}" &&
    /usr/bin/python3 -m pip install --quiet --upgrade --target "$MASSGEN_TEST_SERVERS/python" "$git" &&
    /usr/bin/python3 -m venv --without-pip "$environment" &&
    /usr/bin/python3 -m pip --python "$environment/bin/python3" install --quiet "${tables[@]}" &&
    echo "$all" >"$installed"
}

command -v cargo > /dev/null || {
  echo "missing: cargo (see https://rustup.rs)" >&2
  exit 1
}
need cc build-essential
need /usr/bin/python3 python3
need go golang-go
need git git
need dpkg dpkg
need npm npm
need chromium chromium
need zsh zsh
need fish fish
# Queues for batches: a cluster of four nodes, and a queue of one machine.
need /usr/sbin/slurmctld slurm-wlm munge task-spooler openssh-server
need tsp task-spooler
need /usr/sbin/munged munge
need /usr/sbin/sshd openssh-server
need /usr/bin/pip3 python3-pip
if [ "$(id -u)" = 0 ]; then
  need setpriv util-linux
  need mkfs.ext4 e2fsprogs
fi
install_packages
need_component rustfmt rustfmt
need_component cargo-clippy clippy
export MASSGEN_TEST_SERVERS=${MASSGEN_TEST_SERVERS:-/var/tmp/massgen-test-servers}
# Random cases are the same in each run; the long suite tries others.
if [ "${MASSGEN_TEST_LONG:-0}" != 1 ]; then
  export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}
  export MASSGEN_TEST_DIFFERENTIAL_SEED=${MASSGEN_TEST_DIFFERENTIAL_SEED:-1}
fi
{ servers && npm ci --silent --no-audit --no-fund --prefix tests/web; } &
installing=$!

check "format" cargo fmt --check
check "build and lints" build
documentation > "$scratch/documentation.log" 2>&1 &
documenting=$!
wait "$installing" || {
  echo "could not install the servers and libraries that tests need; see above" >&2
  exit 1
}
check "vendored library" node tests/web/vendor.mjs
count "tests" tests
documented=0
wait "$documenting" || documented=$?
count "documentation" report_documentation
count "packages" bash tests/packages.sh "${CARGO_TARGET_DIR:-target}/debug/massgen"
# The same rules as in tests/it/encodings.rs, for longer and led by coverage. This builds everything
# once more.
if [ "${MASSGEN_TEST_LONG:-0}" = 1 ]; then
  cargo fuzz --version > /dev/null 2>&1 || cargo install --locked cargo-fuzz
  for target in fuzz/targets/*.rs; do
    target=$(basename "$target" .rs)
    check "fuzz $target" fuzz "$target"
  done
fi
if [ "$(id -u)" = 0 ]; then
  count "tests without rights" unprivileged
  if [ "${MASSGEN_TEST_LONG:-0}" = 1 ]; then
    count "tests with Podman" with_podman
  fi
fi

[ ! -e "$scratch/failures" ] || cat "$scratch/failures"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
