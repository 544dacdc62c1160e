//! The policy of a machine: what it refuses, which commands it binds, and when it counts. Each test
//! has an `/etc` of its own, in a mount namespace of its own.

use std::process::Command;

use massgen::sandbox_policy::sandbox_level::SandboxLevel;
use rustix::process::geteuid;

use crate::command_runs::is_supported;
use crate::project::{Project, binary};

/// Functions for the scripts. In `check` every line must succeed.
const FUNCTIONS: &str = r#"
set -e
massgen=$0
policy=/etc/massgen/policy.yaml
cp -a /etc "$HOME/etc" 2> "$HOME/errors" || true
mkdir -p "$HOME/etc/massgen"
chmod 755 "$HOME/etc" "$HOME/etc/massgen"
mount --bind "$HOME/etc" /etc
set_policy() { cat > $policy; chmod 644 $policy; }
# Runs a command that has this exit status and prints this, on either stream.
ends() {
    status=$1; wanted=$2; shift 2
    ended=0; "$@" > "$HOME/printed" 2>&1 < /dev/null || ended=$?
    if ! test $ended = $status || ! grep -qF -- "$wanted" "$HOME/printed"; then
        echo "expected $status and $wanted, but $* ended with $ended" >&2
        cat "$HOME/printed" >&2
        return 1
    fi
}
refused() { ends 2 "$@"; }
allowed() { ends 0 "$@"; }
user() { setpriv --reuid=65533 --regid=65533 --clear-groups "$@"; }
"#;

/// A team without models.
const TEAM: &str = "agents:\n- id: a\n  backend:\n    type: scripted\n    cwd: w\n    \
                    replies: [{calls: [{name: new_answer, arguments: {content: done}}]}, {text: done}]\n";

/// Runs the script in a project with these files, as root of the machine or, in a user namespace, as
/// a root that owns what the user owns.
#[track_caller]
fn check(files: &[(&str, &str)], script: &str) {
    let project = Project::new().file("team.yaml", TEAM);
    let project = files
        .iter()
        .fold(project, |project, (path, text)| project.file(path, text));
    let namespaces = if geteuid().is_root() { "-m" } else { "-rm" };
    let ran = Command::new("unshare")
        .args([namespaces, "sh", "-c"])
        .arg(format!("{FUNCTIONS}\n{script}"))
        .arg(binary())
        .current_dir(project.path(""))
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", project.home(""))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{script}\n{errors}");
}

#[test]
fn vendors_and_hosts_that_are_not_listed_are_refused_at_their_line() {
    let agent = |backend: &str| format!("agents:\n- id: a\n  backend:\n    {backend}\n");
    let other = agent("type: openai\n    model: m");
    let own = "type: chatcompletion\n    model: m\n    base_url: ";
    let listed = agent(&format!("{own}http://127.0.0.1:9/v1"));
    let unlisted = agent(&format!("{own}https://evil.example/v1"));
    check(
        &[
            ("other.yaml", &other),
            ("listed.yaml", &listed),
            ("unlisted.yaml", &unlisted),
        ],
        r#"
allowed 'ok' "$massgen" config check other.yaml unlisted.yaml
echo '{vendors: [chatcompletion], hosts: [127.0.0.1, .example.org]}' | set_policy
allowed 'ok' "$massgen" config check listed.yaml team.yaml
refused 'other.yaml:4:11' "$massgen" config check other.yaml
refused '`type: openai` is not allowed on this machine' "$massgen" config check other.yaml
refused 'unlisted.yaml:6:5' "$massgen" config check unlisted.yaml
refused 'the host `evil.example` is not allowed on this machine' "$massgen" --config unlisted.yaml x
export OPENAI_API_KEY=k
own="$massgen --backend chatcompletion -m m"
refused 'is not allowed on this machine' $own --base-url http://127.0.0.2:9/v1 x
refused 'is not allowed on this machine' "$massgen" --backend openai -m gpt-5 x
refused 'is not allowed on this machine' env OPENAI_BASE_URL=http://127.0.0.2:9 "$massgen" --config team.yaml --set 'agents[0].backend={type: chatcompletion, model: m}' x
# These reach a port on which nothing listens.
ends 1 '127.0.0.1:9' $own --base-url http://127.0.0.1:9/v1 x
ends 3 'no model available' "$massgen" x
grep -q 'the policy of this machine sets: vendors chatcompletion' "$HOME/printed"
"#,
    );
}

#[test]
fn a_program_that_finds_its_endpoint_itself_needs_to_be_named() {
    let agent = "agents:\n- id: a\n  backend: {type: claude_code, cwd: w}\n";
    check(
        &[("claude.yaml", agent)],
        r#"
check="$massgen config check claude.yaml"
echo 'vendors: [claude_code]' | set_policy
allowed 'ok' $check
echo 'hosts: [api.anthropic.com]' | set_policy
refused 'no external agent that `vendors` does not name' $check
echo '{hosts: [api.anthropic.com], vendors: [claude_code]}' | set_policy
allowed 'ok' $check
echo 'vendors: []' | set_policy
refused 'allows none' $check
allowed 'done' "$massgen" --config team.yaml x
"#,
    );
}

#[test]
fn a_weaker_sandbox_is_refused_in_configs_and_flags() {
    if !is_supported(SandboxLevel::Namespaces) {
        return;
    }
    let weak = format!("{TEAM}    enable_mcp_command_line: true\n    command_line_sandbox: off\n");
    let auto = format!("{TEAM}    enable_mcp_command_line: true\n");
    check(
        &[("weak.yaml", &weak), ("auto.yaml", &auto)],
        r#"
allowed 'out' "$massgen" sandbox --sandbox off -- echo out
echo 'min_sandbox_level: namespaces' | set_policy
allowed 'done' "$massgen" --config auto.yaml x
allowed 'out' "$massgen" sandbox -- echo out
for level in off landlock; do
    is_refused="the sandbox level \`$level\` is not allowed on this machine"
    refused "$is_refused" "$massgen" sandbox --sandbox $level -- echo out
    refused "$is_refused" "$massgen" --config auto.yaml --sandbox $level x
    refused "$is_refused" "$massgen" tool execute_command --config auto.yaml --sandbox $level --args '{"command": "true"}'
done
refused 'weak.yaml:8:5' "$massgen" --config weak.yaml x
refused 'the sandbox level `off`' "$massgen" explain command --config weak.yaml true
refused 'the sandbox level `off`' "$massgen" --config team.yaml --check true --sandbox off x
"#,
    );
}

#[test]
fn rules_about_calls_apply_to_every_agent_and_caller() {
    let grants = r#"{"context_paths": [{"path": "open", "permission": "read"}]}"#;
    let direct = r#"{"context_paths": [{"path": "open/closed", "permission": "read"}]}"#;
    check(
        &[
            ("grants.json", grants),
            ("direct.json", direct),
            ("open/closed/salaries", "SALARIES"),
            ("open/plan", "PLAN"),
        ],
        r#"
read_file() { "$massgen" tool read_file --grants $1 --args "{\"path\": \"$PWD/open/$2\"}"; }
see() { "$massgen" sandbox --grants $1 -- sh -c "cat $PWD/open/plan $PWD/open/closed/*; true"; }
allowed SALARIES read_file grants.json closed/salaries
allowed SALARIES see grants.json
echo "permissions: {deny: ['read_file($PWD/open/closed)', 'command(rm *)']}" | set_policy
allowed PLAN read_file grants.json plan
ends 4 'denied: read of' read_file grants.json closed/salaries
ends 4 'denied: read of' read_file direct.json closed/salaries
allowed PLAN see grants.json
grep -q SALARIES "$HOME/printed" && exit 1
opens() { sed "1i orchestrator: {context_paths: [{path: $PWD/$1}]}" team.yaml > opens.yaml; }
explain="$massgen explain path --config opens.yaml"
opens open/closed
allowed 'read  deny' $explain open/closed/salaries
opens open
allowed 'read  allow' $explain open/plan
"#,
    );
}

#[test]
fn limits_are_lowered_and_never_raised() {
    let limited = format!("limits: {{max_tool_calls: 9, max_cost_usd: 10}}\n{TEAM}");
    let stricter = format!("limits: {{max_cost_usd: 0.5}}\n{TEAM}");
    check(
        &[("limited.yaml", &limited), ("stricter.yaml", &stricter)],
        r#"
dry="$massgen --dry-run x --config"
allowed 'limits of the run: $10, 9 tool calls' $dry limited.yaml
echo 'limits: {max_cost_usd: 2.5, max_tool_calls: 0}' | set_policy
allowed 'limits of the run: $2.5, 0 tool calls' $dry limited.yaml
allowed 'limits of the run: $2.5, 0 tool calls' $dry team.yaml
allowed 'limits of the run: $0.5, 0 tool calls' $dry stricter.yaml
allowed 'limits of the run: $1, 0 tool calls' $dry team.yaml --max-cost-usd 1
allowed 'limits of the run: $2.5, 0 tool calls' $dry team.yaml --max-cost-usd 3
grep -q 'this machine allows less than the flags' "$HOME/printed"
allowed 'limits of the run: $2.5, 0 tool calls' $dry team.yaml --set limits.max_cost_usd=3
allowed 'limited.yaml:1:1' "$massgen" config check limited.yaml
grep -q 'this machine allows less, which applies: $2.5, 0 tool calls' "$HOME/printed"
allowed 'stricter.yaml: ok' "$massgen" config check stricter.yaml
"#,
    );
}

#[test]
fn a_policy_counts_only_if_it_is_roots_alone() {
    check(
        &[],
        r#"
run="$massgen --config team.yaml x"
allowed 'done' $run
echo 'vendors: [openai]' | set_policy
allowed 'done' $run
for place in $policy /etc/massgen; do
    for mode in g+w o+w; do
        chmod $mode $place
        refused "\`$place\` is not root's alone" $run
        chmod go-w $place
        allowed 'done' $run
    done
done
mv $policy "$HOME/policy.yaml"
allowed 'done' $run
ln -s "$HOME/policy.yaml" $policy
refused "is not root's alone" $run
rm $policy
mv /etc/massgen /etc/other
ln -s other /etc/massgen
refused '`/etc/massgen` is not root' $run
"#,
    );
}

#[test]
fn an_ordinary_user_cannot_own_the_policy_and_has_to_read_it() {
    if !geteuid().is_root() {
        return;
    }
    check(
        &[],
        r#"
chown -R 65533 "$HOME" .
chown -R 0:0 "$HOME/etc/massgen"
run="user $massgen --config team.yaml x"
chmod 711 "$(dirname "$HOME")"
echo 'limits: {max_tool_calls: 3}' | set_policy
allowed 'done' $run
allowed 'at most 3 tool calls' user "$massgen" --config team.yaml --dry-run x
chmod 600 $policy
ends 3 'cannot read `/etc/massgen/policy.yaml`' $run
chmod 644 $policy
chmod 700 /etc/massgen
ends 3 'cannot look at `/etc/massgen/policy.yaml`' $run
chmod 755 /etc/massgen
allowed 'done' $run
chown 65533 $policy
refused "is not root's alone" $run
"#,
    );
}

#[test]
fn no_command_runs_on_an_invalid_policy_whatever_the_environment_says() {
    check(
        &[],
        r#"
all() {
    expected=$1
    shift
    $expected 'policy.yaml' "$@" "$massgen" --config team.yaml x
    $expected 'policy.yaml' "$@" "$massgen" --config team.yaml --dry-run x
    $expected 'policy.yaml' "$@" "$massgen" config check team.yaml
    $expected 'policy.yaml' "$@" "$massgen" explain path .
    $expected 'policy.yaml' "$@" "$massgen" sandbox -- true
    $expected 'policy.yaml' "$@" "$massgen" apply
    $expected 'policy.yaml' "$@" "$massgen" init --yes
    $expected 'policy.yaml' "$@" "$massgen" mcp serve --config team.yaml
    $expected 'policy.yaml' "$@" "$massgen" web
    $expected 'policy.yaml' "$@" "$massgen" --continue
    $expected 'policy.yaml' "$@" "$massgen" hook pre-tool-use --config team.yaml
    $expected '"outcome":"failed"' "$@" "$massgen" --config team.yaml --output-format json x
}
echo 'vendor: [openai]' | set_policy
all refused
all refused env HOME=/nowhere MASSGEN_STATE_DIR="$PWD/state" XDG_CONFIG_HOME="$PWD"
refused 'policy.yaml:1:1: unknown key `vendor`' "$massgen" --config team.yaml x
is_invalid() { set_policy; refused "$1" "$massgen" --config team.yaml x; }
echo 'vendors:' | is_invalid '`vendors` has no value'
echo 'limits: {max_cost_usd: }' | is_invalid '`limits.max_cost_usd` has no value'
echo 'limits: {max_cost_usd: -1}' | is_invalid 'max_cost_usd'
echo 'vendors: [opnai]' | is_invalid 'unknown backend type `opnai`'
echo 'hosts: ["https://a.example"]' | is_invalid 'is not a host name or an address'
echo 'hosts: ["${HOST}"]' | HOST=a.example is_invalid '${HOST}'
echo 'permissions: {deny: ["read_file(~/x)"]}' | is_invalid 'no home directory is known'
echo 'min_sandbox_level: off' | is_invalid 'min_sandbox_level'
echo '[' | is_invalid 'policy.yaml:'
echo 'vendors: [openai]' | set_policy
allowed 'done' "$massgen" --config team.yaml x
"#,
    );
}

#[test]
fn a_policy_in_force_is_shown() {
    check(
        &[],
        r#"
dry="$massgen --config team.yaml --dry-run x"
allowed 'nothing was sent' $dry
grep -q 'policy of this machine' "$HOME/printed" && exit 1
echo '{vendors: [openai, ollama], min_sandbox_level: landlock, permissions: {deny: [command(rm *)]}}' | set_policy
shown='vendors openai, ollama; sandbox level landlock or stronger; deny: command(rm *)'
allowed "policy of this machine: $shown" $dry
"$massgen" doctor --config team.yaml > "$HOME/printed" 2>&1 || true
grep -qF "$shown" "$HOME/printed"
"#,
    );
}
