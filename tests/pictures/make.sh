#!/usr/bin/env bash
# Makes the pictures in docs/pictures: the dashboard in a terminal as SVG, and the page in a browser as
# WebP. They show the team in team.yaml, whose replies are scripted, at work on a copy of `project`.
#
#   MASSGEN=target/release/massgen bash tests/pictures/make.sh
#
# Needs tmux, node, python3, Chromium (CHROMIUM names another one than /usr/bin/chromium), and the
# packages of tests/web.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
pictures=$root/docs/pictures
massgen=$(realpath "${MASSGEN:-$root/target/release/massgen}")
task='Make tally read standard input and print a total'
# The pictures show this path.
project=/tmp/tally
# How long a screen is waited for, in tenths of a second.
waits_max=600

if [ -e "$project" ]; then
    echo "make.sh: $project exists; remove it, since the pictures are made there" >&2
    exit 1
fi
[ -d "$root/tests/web/node_modules" ] || npm ci --prefix "$root/tests/web"
scratch=$(mktemp -d)
server=
terminal() { TMUX_TMPDIR=$scratch tmux -L pictures -f /dev/null "$@"; }
clean() {
    terminal kill-server 2> /dev/null || true
    [ -z "$server" ] || kill "$server" 2> /dev/null || true
    wait
    rm -rf "$scratch" "$project"
}
trap clean EXIT

# Starts from the files of the project as they are in the repository.
begin() {
    rm -rf "$project"
    cp -r "$here/project" "$project"
}

# Waits until the screen has this text.
await() {
    for _ in $(seq "$waits_max"); do
        if terminal capture-pane -p | grep -qF -- "$1"; then return; fi
        sleep 0.1
    done
    echo "make.sh: \`$1\` did not appear; the screen is" >&2
    terminal capture-pane -p >&2
    exit 1
}

press() {
    for key in "$@"; do
        terminal send-keys "$key"
        sleep 0.3
    done
}

draw() {
    terminal capture-pane -e -p | node "$here/screen.mjs" "$2" > "$pictures/$1.svg"
}

mkdir -p "$pictures" "$scratch/home"
export HOME=$scratch/home LANG=C.UTF-8
unset CI NO_COLOR MASSGEN_PLAIN MASSGEN_SCREEN_READER

begin
terminal new-session -d -x 120 -y 26 -c "$project" "$massgen" --config "$here/team.yaml" "$task"
await 'careful 2 votes'
draw dashboard 'Four agents side by side, the answers and votes so far, and the keys'
await 'waits for your review'
await 'select hunk'
press ']' h
draw dashboard-review 'The files and hunks of a delivery, one hunk of which is not selected'
press x
while terminal has-session 2> /dev/null; do sleep 0.1; done

begin
(cd "$project" && exec "$massgen" web --config "$here/team.yaml" --no-browser) > "$scratch/web.log" 2>&1 < /dev/null &
server=$!
for _ in $(seq "$waits_max"); do
    link=$(grep -o 'http://[^ ]*#k=[0-9a-f]*' "$scratch/web.log" || true)
    [ -z "$link" ] || break
    sleep 0.1
done
node "$here/page.mjs" "$link" "$here/team.yaml" "$task" "$pictures"
ls -l "$pictures"
