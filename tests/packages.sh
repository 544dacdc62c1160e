#!/usr/bin/env bash
# Packages a binary, installs each package in an empty place, and runs the offline demo from it as a user
# without rights: tests/packages.sh BINARY. Ends with the number of passed and failed tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d /tmp/massgen-packages.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
umask 022
release=$scratch/release
passed=0
failures=()

# check NAME COMMAND…: runs a command that counts as one test, and shows what it prints if it fails.
check() {
  local name=$1 status
  shift
  # In a condition, `set -e` has no effect.
  set +e
  (set -e; "$@") > "$scratch/log" 2>&1
  status=$?
  set -e
  if [ "$status" = 0 ]; then
    passed=$((passed + 1))
    echo "test $name ... ok"
  else
    failures+=("$name")
    echo "test $name ... FAILED"
    cp "$scratch/log" "$scratch/log.${#failures[@]}"
  fi
}

# as_user COMMAND…: runs a command with an empty environment, for root as `nobody`.
as_user() {
  local user=()
  if [ "$(id -u)" = 0 ]; then
    user=(setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups)
  fi
  "${user[@]}" env -i PATH=/usr/bin:/bin HOME="$PWD" "$@"
}

# runs_the_demo MASSGEN: the offline demo delivers a program that runs.
runs_the_demo() {
  local project
  project=$(mktemp -d "$scratch/project.XXXXXX")
  echo '# Weather station' > "$project/README.md"
  [ "$(id -u)" != 0 ] || chown -R nobody "$project"
  cd "$project"
  as_user "$1" --plain --config @examples/basic/offline_demo "Greet my project"
  [[ "$(as_user sh hello_massgen.sh)" = "Hello from massgen, Weather station!"* ]]
}

# has_pages PREFIX [ZSH]: manual pages and completions are below the prefix, where programs look for them.
has_pages() {
  local share=$1/share
  as_user test -r "$share/zsh/${2:-site-functions}/_massgen"
  as_user grep -q _massgen "$share/bash-completion/completions/massgen"
  as_user grep -q 'complete -c massgen' "$share/fish/vendor_completions.d/massgen.fish"
  as_user zgrep -q 'Revert a delivery' "$(echo "$share"/man/man1/massgen-undo.1*)"
  as_user test -r "$(echo "$share"/man/man1/massgen.1*)"
}

# package BINARY VERSION OUT: packages as of a fixed time.
package() {
  SOURCE_DATE_EPOCH=1700000000 python3 packaging/package.py "$@"
}

# refuses CAUSE BINARY VERSION OUT: this is not packaged for this cause, and nothing is left behind.
refuses() {
  local cause=$1 before
  shift
  before=$(ls -A "$scratch")
  if package "$@" 2> "$scratch/log.refused"; then return 1; fi
  cat "$scratch/log.refused"
  grep -qF "$cause" "$scratch/log.refused"
  rm "$scratch/log.refused"
  diff <(echo "$before") <(ls -A "$scratch")
}

tarball() {
  mkdir "$scratch/local"
  tar -xzf "$release"/massgen-*.tar.gz -C "$scratch/local" --strip-components=1
  has_pages "$scratch/local"
  runs_the_demo "$scratch/local/bin/massgen"
}

wheel() {
  local environment=$scratch/environment pip=(/usr/bin/python3 -m pip --quiet --disable-pip-version-check)
  /usr/bin/python3 -m venv --without-pip "$environment"
  "${pip[@]}" --python "$environment/bin/python3" install --no-index "$release"/*.whl
  has_pages "$environment"
  runs_the_demo "$environment/bin/massgen"
  "${pip[@]}" --python "$environment/bin/python3" uninstall --yes massgen-cli
  [ -z "$(find "$environment" -name '*massgen*')" ]
}

npm_package() {
  mkdir "$scratch/node"
  npm install --silent --offline --no-audit --no-fund --prefix "$scratch/node" "$release"/massgen-cli-*.tgz
  has_pages "$scratch/node/node_modules/massgen-cli"
  runs_the_demo "$scratch/node/node_modules/.bin/massgen"
}

# in_root COMMAND…: runs dpkg on an empty root, with a stand-in for AppArmor.
in_root() {
  local root=()
  [ "$(id -u)" = 0 ] || root=(unshare --map-root-user)
  PATH=$scratch/apparmor:/usr/sbin:/usr/bin:/sbin:/bin "${root[@]}" \
    dpkg --root="$scratch/root" --force-script-chrootless --force-depends --force-unsafe-io "$@"
}

debian_package() {
  local profile=$scratch/root/etc/apparmor.d/massgen
  mkdir -p "$scratch/root/var/lib/dpkg/"{info,updates} "$scratch/apparmor"
  touch "$scratch/root/var/lib/dpkg/"{status,available}
  printf '#!/bin/sh\nexec grep -q "userns," "$3"\n' > "$scratch/apparmor/apparmor_parser"
  chmod +x "$scratch/apparmor/apparmor_parser"
  in_root --install "$release"/*.deb
  in_root --verify massgen
  has_pages "$scratch/root/usr" vendor-completions
  runs_the_demo "$scratch/root/usr/bin/massgen"
  grep -q '^profile massgen /usr/bin/massgen ' "$profile"
  in_root --remove massgen
  [ ! -e "$profile" ]
  [ -z "$(find "$scratch/root/usr" -name '*massgen*')" ]
}

# An AppArmor that does not know user namespaces gets no profile that it could not read.
old_apparmor() {
  mkdir -p "$scratch/old/usr/share/massgen" "$scratch/refusing"
  cp packaging/deb/apparmor "$scratch/old/usr/share/massgen/apparmor"
  printf '#!/bin/sh\nexit 1\n' > "$scratch/refusing/apparmor_parser"
  chmod +x "$scratch/refusing/apparmor_parser"
  DPKG_ROOT=$scratch/old PATH=$scratch/refusing:$PATH packaging/deb/postinst configure
  [ ! -e "$scratch/old/etc/apparmor.d/massgen" ]
}

checksums() {
  cd "$release"
  sha256sum --check --strict SHA256SUMS
  diff <(awk '{ print $2 }' SHA256SUMS) <(LC_ALL=C ls | grep -v SHA256SUMS)
}

# The SBOM names what is in the binary, and not what only tests use.
bill_of_materials() {
  python3 - "$release"/*.cdx.json << 'EOF'
import json, sys
names = [component["name"] for component in json.load(open(sys.argv[1]))["components"]]
assert "rustix" in names and "lit-html" in names and "portable-pty" not in names, names
EOF
}

# stand_in: compiles a program that answers as massgen does, and is packaged in no time.
stand_in() {
  cc -x c -o "$scratch/massgen" - << 'EOF'
#include <stdio.h>
#include <string.h>
int main(int count, char **arguments) {
  if (count > 2) return puts("# completions") < 0;
  return puts(strcmp(arguments[1], "man") ? "massgen 1.2.3" : ".ie x\n.TH massgen 1") < 0;
}
EOF
  cp "$scratch/massgen" "$scratch/foreign"
  # The processor in the ELF header: RISC-V.
  printf '\363\000' | dd of="$scratch/foreign" bs=1 seek=18 conv=notrunc status=none
}

same_bytes() {
  package "$scratch/massgen" 1.2.3 "$scratch/first"
  (umask 077; package "$scratch/massgen" 1.2.3 "$scratch/second")
  diff -r "$scratch/first" "$scratch/second"
}

# too_large: a disk that is full leaves nothing behind.
too_large() {
  (ulimit -f 8; refuses "File too large" "$scratch/massgen" 1.2.3 "$scratch/out")
}

strip -o "$scratch/program" "$1"
chmod 755 "$scratch/program"
version=$("$scratch/program" --version)
check "packages::all_are_made" package "$scratch/program" "${version#massgen }" "$release"
check "packages::checksums" checksums
check "packages::bill_of_materials" bill_of_materials
check "packages::tarball" tarball
check "packages::wheel" wheel
check "packages::npm" npm_package
check "packages::debian" debian_package
check "packages::old_apparmor" old_apparmor
check "packages::stand_in" stand_in
check "packages::same_bytes" same_bytes
check "packages::no_binary" refuses "cannot read the binary" "$scratch/none" 1.2.3 "$scratch/out"
check "packages::no_program" refuses "not a 64-bit Linux program" LICENSE 1.2.3 "$scratch/out"
check "packages::other_processor" refuses "processor" "$scratch/foreign" 1.2.3 "$scratch/out"
check "packages::other_version" refuses "expected \`massgen 1.2.4\`" "$scratch/massgen" 1.2.4 "$scratch/out"
check "packages::existing_directory" refuses "already exists" "$scratch/massgen" 1.2.3 "$scratch/first"
check "packages::full_disk" too_large

if [ "${#failures[@]}" != 0 ]; then
  echo "failures:"
  for number in "${!failures[@]}"; do
    echo "---- ${failures[number]}"
    cat "$scratch/log.$((number + 1))"
  done
fi
result=$([ "${#failures[@]}" = 0 ] && echo ok || echo FAILED)
echo "test result: $result. $passed passed; ${#failures[@]} failed; 0 ignored"
[ "${#failures[@]}" = 0 ]
