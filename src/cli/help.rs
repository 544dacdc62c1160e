//! Examples that `--help` prints below each command.

pub(crate) const EXAMPLES: &str = "\
Examples:
  massgen --config team.yaml \"Add a --verbose flag to @src/:w\"
  massgen demo
  massgen --backend ollama --model qwen3 \"Why is the sky blue?\" > answer.txt
  git diff | massgen \"Review this change\" -
  massgen --config team.yaml --dry-run \"Tidy up @docs/:w\"
  massgen --config team.yaml --max-cost-usd 0.50 \"Find the bug in @src/\"
  massgen --config team.yaml --output-format json \"Review @src/\" | jq -r .answer
  massgen -- explain        (a task that is also the name of a subcommand)

Exit status: 0 delivered, 1 no answer, 2 usage or config, 3 environment, 4 denied by permissions,
5 a limit was reached, 70 a bug in massgen, 75 parked, 130 interrupted.";

pub(crate) const INIT_EXAMPLES: &str = "\
Examples:
  massgen init                                        (asks on the terminal)
  massgen init --yes                                  (takes what is found)
  massgen init --yes --model gpt-5 --model claude-sonnet-5-5 --access rw
  massgen init --yes --backend claude_code --output team.yaml
  massgen init --print --backend ollama --model qwen3 --no-commands

Exit status: 0 written or printed, 2 usage, or the file exists, 3 no model found, 130 interrupted.";

pub(crate) const CHECK_EXAMPLES: &str = "\
Examples:
  massgen config check                                (the config that a run would find)
  massgen config check team.yaml
  massgen config check --json --strict teams/*.yaml";

pub(crate) const SCHEMA_EXAMPLES: &str = "\
Examples:
  massgen schema events > massgen-events.schema.json
  massgen config schema > massgen-config.schema.json        (the schema of team configs)";

pub(crate) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  massgen explain path src/main.rs --config team.yaml --phase final
  massgen explain command \"timeout 60 pytest -q | tail\" --config team.yaml --agent tester
  massgen explain prompt \"Review @src/main.rs and fix @tests/:w\" --json
  massgen explain calls --grants grants.json < calls.jsonl

A line for `explain calls`: {\"tool\": \"write_file\", \"args\": {\"path\": \"a.txt\", \"content\": \"x\"}}

Exit status of `explain command`: 0 allowed, 4 refused.";

pub(crate) const MODELS_EXAMPLES: &str = "\
Examples:
  massgen models
  massgen models --usable
  massgen models claude
  massgen models gpt-5 --json
  massgen models | sort -g -k 8        (by output price)

Prices are in US dollars per million tokens; `-` means unknown. If the context starts with `>`, they
apply to requests with more input tokens than that.";

pub(crate) const TOOL_EXAMPLES: &str = "\
Examples:
  massgen tool read_text_file --args '{\"path\":\"a.txt\"}' --grants grants.json
  massgen tool write_file --args - --config team.yaml --agent writer --phase final < call.json

Exit status: 0 done, 1 failed, 2 usage, config or invalid arguments for the tool, 3 no sandbox,
4 denied.";

pub(crate) const HOOK_EXAMPLES: &str = "\
Examples:
  massgen hook pre-tool-use --grants grants.json --in-sandbox < request.json
  massgen hook pre-tool-use --config team.yaml --agent writer --phase final < request.json

The answer is one line of JSON. Invalid requests are denied: the exit status is 2, and standard error \
says why.";

pub(crate) const WORKFLOW_EXAMPLES: &str = "\
Examples:
  massgen mcp workflow --socket agent.sock

An MCP server on standard input and output, which an external agent such as `type: claude_code`
starts in its sandbox. See `docs/agent-programs.md`.";

pub(crate) const SANDBOX_EXAMPLES: &str = "\
Examples:
  massgen sandbox --config team.yaml -- cargo test
  massgen sandbox --config team.yaml --agent writer --phase final -- make install
  massgen sandbox --grants grants.json -- bash -c 'ls ~ | wc -l'
  massgen sandbox --sandbox landlock -- python3 script.py < input.txt
  massgen sandbox --answer last/agent2.1 -- bash

The command starts in the agent's workspace, with the grants of the agent in the phase. It has no
timeout. Its changes to write paths are delivered when it exits.

Exit status: that of the command, or 128 plus the signal number if a signal killed it; 2 usage or config, \
3 no sandbox, 4 refused by the command rules, 130 interrupted.";

pub(crate) const SERVE_EXAMPLES: &str = "\
Examples:
  massgen mcp serve --grants grants.json
  massgen mcp serve --grants grants.json --sandbox auto        (commands too)
  massgen mcp serve --config team.yaml --agent writer --phase final
  massgen mcp serve --grants grants.json --http                (prints the address and a token)
  massgen mcp serve --grants grants.json --http 127.0.0.1:7801 --token-file token
  claude mcp add files -- massgen mcp serve --grants /home/me/grants.json

Each call is checked as if the agent had made it; a denial gives the reason. Commands are offered if \
the config allows them for the agent, or for a grants file with `--sandbox`. The server exits when its \
client closes standard input, and on Ctrl-C. All HTTP sessions count as one caller.

Exit status: 0 success, 2 usage or config, 3 no sandbox.";

pub(crate) const ORCHESTRATE_EXAMPLES: &str = "\
Examples:
  massgen mcp orchestrate --config team.yaml
  massgen mcp orchestrate --config team.yaml --allow-apply
  massgen mcp orchestrate --config team.yaml --http            (prints the address and a token)
  claude mcp add team -- massgen mcp orchestrate --config /home/me/team.yaml

Callers submit a task and query the state of its run. Only the config decides what a run may open, \
spend and deliver: a path mentioned in a task must be open there. Runs end with the server; the server \
exits when its client closes standard input, and on Ctrl-C. Over HTTP, runs continue without a client.

Exit status: 0 success, 2 usage or config, 3 no API key, or something else is missing.";

pub(crate) const WEB_EXAMPLES: &str = "\
Examples:
  massgen web
  massgen web --config team.yaml --config review.yaml
  massgen web --read-only                      (watch runs that were started in terminals)
  ssh -t -L 7801:127.0.0.1:7801 build massgen web --port 7801 --no-browser

The link that it prints works once and for one minute. In a terminal, Enter prints another one.
The server exits on Ctrl-C; runs that the page started then stop gracefully.

Exit status: 0 success, 2 usage or config, 3 no API key, or something else is missing.";

pub(crate) const INSTALL_EXAMPLES: &str = "\
Examples:
  massgen mcp install --config team.yaml
  massgen mcp install weather --config team.yaml
  massgen mcp install --config team.yaml --update
  massgen mcp list

Packages are installed in `~/.massgen/mcp/servers/`, in a sandbox that reaches only the registry; \
their install scripts do not run. A run starts the installed version, unless its files have changed.";

pub(crate) const UNINSTALL_EXAMPLES: &str = "\
Examples:
  massgen mcp uninstall @modelcontextprotocol/server-brave-search";

pub(crate) const LOGIN_EXAMPLES: &str = "\
Examples:
  massgen mcp login tickets --config team.yaml
  massgen mcp login tickets --config team.yaml --scope tickets:read
  ssh build massgen mcp login tickets --config team.yaml --no-browser

A browser on another machine cannot reach massgen: paste the address that it ends at. \
The credentials are stored in `~/.massgen/mcp/`, readable only by you, and sent only to that server.";

pub(crate) const LOGOUT_EXAMPLES: &str = "\
Examples:
  massgen mcp logout tickets --config team.yaml

The server's tokens expire; some servers let you revoke them earlier in your account there.";

pub(crate) const LOGS_EXAMPLES: &str = "\
Examples:
  massgen logs list
  massgen logs show last
  massgen logs show 20261102 --json | jq 'select(.type == \"voted\")'
  massgen logs follow
  massgen logs follow last --dashboard
  massgen logs export last -o run.tar.gz

RUN is a log directory, the name of a run, a prefix of the name, or `last`.";

pub(crate) const ADVISE_EXAMPLES: &str = "\
Examples:
  massgen advise
  massgen advise --json | jq '.teams[].selected'

It reads the logs of this directory and sends nothing.";

pub(crate) const MEMORY_EXAMPLES: &str = "\
Examples:
  massgen memory list
  massgen memory show style
  massgen memory clear short_term/style.md
  massgen memory clear                        (removes all notes)

Agents keep notes if `enable_memory_filesystem_mode: true` is in `orchestrator.coordination`.";

pub(crate) const SKILLS_EXAMPLES: &str = "\
Examples:
  massgen skills list
  massgen skills list --config team.yaml --json
  massgen skills show pdf

Agents are offered skills by `use_skills: true` in `orchestrator.coordination` of the config.";

pub(crate) const SESSIONS_EXAMPLES: &str = "\
Examples:
  massgen sessions list
  massgen sessions show last
  massgen --continue \"Now add tests\"
  massgen --session-id 20261102_14 \"And the documentation\"
  massgen sessions resume                     (after a crash: resumes the interrupted run)
  massgen sessions fork last
  massgen sessions export last -o session.tar.gz
  massgen sessions import session.tar.gz
  massgen sessions prune --older-than 30d --dry-run
  massgen sessions prune --larger-than 5GiB
  massgen sessions delete session_20261102_140322_9f3c

SESSION is the id of a session, a prefix of the id, or `last`.";

pub(crate) const DIFF_EXAMPLES: &str = "\
Examples:
  massgen diff
  massgen diff log_20261102_140322_123456 --stat
  massgen diff last --path src/

RUN is the name of a run or pipeline, a prefix of the name, or `last`. Shows what the run delivered; if nothing was \
applied, what it would deliver now.";

pub(crate) const APPLY_EXAMPLES: &str = "\
Examples:
  massgen apply last
  massgen apply last --path src/main.rs --yes
  massgen apply log_20261102_140322_123456 --agent agent2

Applies changes of a delivery that you did not accept or have reverted, or the answer of another agent. \
On a terminal, shows the changes and asks which to apply.

Exit status: 0 applied, 2 usage, 3 writing failed and nothing was changed, 4 something was refused,
130 nothing was accepted.";

pub(crate) const PIPELINE_EXAMPLES: &str = "\
Examples:
  massgen pipeline log                        (who did what)
  massgen pipeline roles --config @examples/pipeline/offline_demo
  massgen pipeline revert last --role implementer

RUN is the name of a pipeline, a prefix of the name, or `last`.";

pub(crate) const ROLES_EXAMPLES: &str = "\
Examples:
  massgen pipeline roles
  massgen pipeline roles --config @examples/pipeline/offline_demo
  massgen pipeline roles --config team.yaml --json

Every role may read everything. `the project` means everything except the directories of the other
roles; in a pipeline without a project, only the role's own directory.";

pub(crate) const BRANCHES_EXAMPLES: &str = "\
Examples:
  massgen pipeline branches
  massgen pipeline branches last --json

The roles share `main`. The branch of a role holds its work until it is merged.";

pub(crate) const LOG_EXAMPLES: &str = "\
Examples:
  massgen pipeline log
  massgen pipeline log last --json | jq 'select(.event == \"merge\")'

Each line: commit, time, iteration, number of changed files, author and message. A merge is followed
by the commits that it merged. For the logs of a run see `massgen logs`.";

pub(crate) const REVERT_EXAMPLES: &str = "\
Examples:
  massgen pipeline revert last --role implementer

One new commit reverts what was merged of the role since its last revert. The history and the documents \
that massgen maintains are kept. If later work conflicts, nothing is changed.

Exit status: 0 reverted, or nothing to revert; 2 usage; 3 it conflicts with later work, or the
pipeline is running.";

pub(crate) const RESET_EXAMPLES: &str = "\
Examples:
  massgen pipeline reset --role planner
  massgen pipeline reset last --role implementer

When the pipeline resumes, the role works again. Its changes outside its own directory are kept: see
`massgen pipeline revert`.

Exit status: 0 done, 2 usage, 3 the pipeline is running.";

pub(crate) const UNDO_EXAMPLES: &str = "\
Examples:
  massgen undo
  massgen undo last --path src/main.rs
  massgen undo log_20261102_140322_123456 --force
  massgen apply last        (reapplies the delivery)

Restores every file, symlink and directory to its state before the delivery, byte for byte. Files \
that were changed afterwards are kept; `--force` reverts them too and keeps your version with the \
delivery.

Exit status: 0 everything reverted, 2 usage, 3 writing failed and nothing was changed, 4 files \
that were changed afterwards were kept.";

pub(crate) const REPLAY_EXAMPLES: &str = "\
Examples:
  massgen replay last
  massgen replay log_20261102_140322_123456 --json
  massgen replay last --keep

The recorded replies are replayed in their original order: no model is called, no API key is needed,
and no wait is repeated. The agents get new workspaces below `.massgen`.
Your own paths are only read: a replay delivers nothing.

Exit status: 0 the same, 1 different; others as for a run.";

pub(crate) const DOCTOR_EXAMPLES: &str = "\
Examples:
  massgen doctor
  massgen doctor --config team.yaml --online
  massgen doctor --json | jq '.findings[] | select(.verdict == \"missing\")'

Without `--online`, nothing leaves this machine but questions to the engine or cluster that the config \
names. No files are left behind.

Exit status: 0 nothing required is missing, 2 no such config, 3 something required is missing.";

pub(crate) const DOCKER_EXAMPLES: &str = "\
Examples:
  massgen docker build
  massgen docker build --sudo
  massgen docker dockerfile > Dockerfile        (to build your own image)

The image contains what agents' commands need: bash, git, ripgrep, gh, Python and Node. To use another \
image, set `command_line_docker_image` in the config.

Exit status: 0 built, 3 no container engine, or the build failed.";

pub(crate) const SELFTEST_EXAMPLES: &str = "\
Examples:
  massgen selftest
  massgen selftest --sandbox landlock --only network
  massgen selftest --docker massgen/mcp-runtime:latest
  massgen selftest --json | jq '.levels[].cases[] | select(.verdict == \"failed\")'

Each case is one call of `massgen tool` in its own temporary directory.
No model is called, and nothing leaves this machine.

Exit status: 0 all attacks failed and all ordinary work succeeded, 2 usage, 3 otherwise, or no sandbox \
is available.";

pub(crate) const BATCH_RUN_EXAMPLES: &str = "\
Examples:
  massgen batch run tasks.jsonl --config team.yaml --parallel 8
  massgen batch run tasks.jsonl --config team.yaml --max-cost-usd 50
  massgen batch run tasks.jsonl --config team.yaml --on slurm --parallel 200
  massgen batch run tasks.jsonl --config team.yaml --on array --cells-per-job 4
  massgen batch resume                        (after Ctrl-C, a crash or a spent limit)

Each cell works on a copy: your files change only by `massgen batch apply BATCH CELL`.

Exit status: 0 every cell succeeded, 1 a cell did not or the endpoints fail, 2 usage or config, \
3 environment, 5 the money is spent, 75 parked, 130 interrupted or cancelled.";
