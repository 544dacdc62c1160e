//! Examples that `--help` prints below each command. Pure data.

pub(crate) const EXAMPLES: &str = "\
Examples:
  massgen --config team.yaml \"Add a --verbose flag to @src/:w\"
  massgen --config @examples/basic/offline_demo \"write a hello program\"
  massgen --backend ollama --model qwen3 \"Why is the sky blue?\" > answer.txt
  git diff | massgen \"Review this change\" -
  massgen --config team.yaml --dry-run \"Tidy up @docs/:w\"
  massgen --config team.yaml --max-cost-usd 0.50 \"Find the bug in @src/\"
  massgen --config team.yaml --output-format json \"Review @src/\" | jq -r .answer
  massgen -- explain        (a task that is also the name of a subcommand)

Exit status: 0 delivered, 1 no answer, 2 usage or config, 3 environment, 4 denied by permissions,
5 a limit was met, 70 a bug of massgen, 130 interrupted.";

pub(crate) const CHECK_EXAMPLES: &str = "\
Examples:
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

Exit status of `explain command`: 0 it may be run, 4 it is refused.";

pub(crate) const MODELS_EXAMPLES: &str = "\
Examples:
  massgen models
  massgen models claude
  massgen models gpt-5 --json
  massgen models | sort -g -k 8        (by the price of output)

Prices are in US dollars for a million tokens; `-` is not known. Where the context begins with `>`,
they are for requests with more input tokens than that.";

pub(crate) const TOOL_EXAMPLES: &str = "\
Examples:
  massgen tool read_text_file --args '{\"path\":\"a.txt\"}' --grants grants.json
  massgen tool write_file --args - --config team.yaml --agent writer --phase final < call.json

Exit status: 0 done, 1 it failed, 2 usage, config or arguments that the tool does not take, 3 no
sandbox, 4 denied.";

pub(crate) const HOOK_EXAMPLES: &str = "\
Examples:
  massgen hook pre-tool-use --grants grants.json --in-sandbox < request.json
  massgen hook pre-tool-use --config team.yaml --agent writer --phase final < request.json

The answer is one line of JSON. Whatever cannot be answered is denied: the exit status is 2, and
standard error says why.";

pub(crate) const WORKFLOW_EXAMPLES: &str = "\
Examples:
  massgen mcp workflow --socket relay

It is a server of the Model Context Protocol on standard input and output, which an agent such as
`type: claude_code` starts in its sandbox. See `docs/agent-programs.md`.";

pub(crate) const SANDBOX_EXAMPLES: &str = "\
Examples:
  massgen sandbox --config team.yaml -- cargo test
  massgen sandbox --config team.yaml --agent writer --phase final -- make install
  massgen sandbox --grants grants.json -- bash -c 'ls ~ | wc -l'
  massgen sandbox --sandbox C -- python3 script.py < input.txt

The command begins in the agent's workspace and may do what its grants allow in the phase. It has no
time limit. What it changed in write paths is delivered when it has ended.

Exit status: that of the command, 128 and the signal's number if a signal ended it; 2 usage or config,
3 no sandbox, 4 refused by the rules for commands, 130 interrupted.";

pub(crate) const SERVE_EXAMPLES: &str = "\
Examples:
  massgen mcp serve --grants grants.json
  massgen mcp serve --grants grants.json --sandbox auto        (commands too)
  massgen mcp serve --config team.yaml --agent writer --phase final
  massgen mcp serve --grants grants.json --http                (prints the address and a token)
  massgen mcp serve --grants grants.json --http 127.0.0.1:7801 --token-file token
  claude mcp add files -- massgen mcp serve --grants /home/me/grants.json

Each call is decided about as the agent's own would be, and a denied one says why. Commands are
offered where the config lets the agent run some, and for a grants file with `--sandbox`. The server
ends when its client closes standard input, and on Ctrl-C. All sessions on HTTP are one caller.

Exit status: 0 ended, 2 usage or config, 3 no sandbox.";

pub(crate) const ORCHESTRATE_EXAMPLES: &str = "\
Examples:
  massgen mcp orchestrate --config team.yaml
  massgen mcp orchestrate --config team.yaml --allow-apply
  massgen mcp orchestrate --config team.yaml --http            (prints the address and a token)
  claude mcp add team -- massgen mcp orchestrate --config /home/me/team.yaml

Callers give a task and ask how its run stands. What the run may open, spend and deliver stands in the
config alone: a path that a task mentions has to be open there. Runs end with the server, and the server
with its client on standard input, or on Ctrl-C; on HTTP, runs go on when a client has gone.

Exit status: 0 ended, 2 usage or config, 3 no key, or something else is missing.";

pub(crate) const LOGIN_EXAMPLES: &str = "\
Examples:
  massgen mcp login tickets --config team.yaml
  massgen mcp login tickets --config team.yaml --scope tickets:read
  ssh build massgen mcp login tickets --config team.yaml --no-browser

A browser on another machine cannot come back: paste the address that it ends at.
What is given is kept in `~/.massgen/mcp/`, for you alone, and sent to nobody but that server.";

pub(crate) const LOGOUT_EXAMPLES: &str = "\
Examples:
  massgen mcp logout tickets --config team.yaml

What the server gave is not valid for ever; some let you take it back at once in your account there.";

pub(crate) const LOGS_EXAMPLES: &str = "\
Examples:
  massgen logs list
  massgen logs show last
  massgen logs show 20261102 --json | jq 'select(.type == \"voted\")'
  massgen logs follow
  massgen logs export last -o run.tar.gz

RUN is a log directory, the name of a run, the beginning of that name, or `last`.";

pub(crate) const SESSIONS_EXAMPLES: &str = "\
Examples:
  massgen sessions list
  massgen sessions show last
  massgen --continue \"Now add tests\"
  massgen --session-id 20261102_14 \"And the documentation\"
  massgen sessions resume                     (after a crash: goes on where the run was broken off)
  massgen sessions fork last
  massgen sessions export last -o session.tar.gz
  massgen sessions import session.tar.gz
  massgen sessions prune --older-than 30d --dry-run
  massgen sessions prune --larger-than 5GiB
  massgen sessions delete session_20261102_140322_9f3c

SESSION is the id of a session, the beginning of it, or `last`.";

pub(crate) const DIFF_EXAMPLES: &str = "\
Examples:
  massgen diff
  massgen diff log_20261102_140322_123456 --stat
  massgen diff last --path src/

RUN is the name of a run, the beginning of it, or `last`. Shown is what the run delivered; of a run of
which nothing was applied, what it would deliver now.";

pub(crate) const APPLY_EXAMPLES: &str = "\
Examples:
  massgen apply last
  massgen apply last --path src/main.rs --yes
  massgen apply log_20261102_140322_123456 --agent agent2

Applies what you did not take of a delivery, what you have taken back, or the answer of another agent.
On a terminal you are shown what would change and choose.

Exit status: 0 applied, 2 usage, 3 it could not be written and nothing was changed, 4 something was
refused, 130 nothing was taken.";

pub(crate) const ROLES_EXAMPLES: &str = "\
Examples:
  massgen roles
  massgen roles --config @examples/pipeline/offline_demo
  massgen roles --config team.yaml --json

Every role may read everything. Where one writes `the project`, that is all of it but the directories
of the other roles; in a pipeline that began without a project, its own directory alone.";

pub(crate) const BRANCHES_EXAMPLES: &str = "\
Examples:
  massgen branches
  massgen branches last --json

`main` is what the roles share. The branch of a role holds its work until that is merged.";

pub(crate) const LOG_EXAMPLES: &str = "\
Examples:
  massgen log
  massgen log last --json | jq 'select(.event == \"merge\")'

Each line: the commit, when it was made, in which iteration, how many files it changed, by whom, and
what it says. What a merge brought follows it. For the records of a run see `massgen logs`.";

pub(crate) const REVERT_EXAMPLES: &str = "\
Examples:
  massgen revert last --role implementer

One new commit takes out what was merged of the role since it was taken out last. The history stays,
and so do the documents that massgen keeps. Where later work changed the same, nothing is done.

Exit status: 0 taken out, or there was nothing; 2 usage; 3 it is in the way of later work, or the
pipeline is running.";

pub(crate) const RESET_EXAMPLES: &str = "\
Examples:
  massgen reset --role planner
  massgen reset last --role implementer

The next time that the pipeline goes on, the role works again. What it changed outside its own directory
stays: see `massgen revert`.

Exit status: 0 done, 2 usage, 3 the pipeline is running.";

pub(crate) const UNDO_EXAMPLES: &str = "\
Examples:
  massgen undo
  massgen undo last --path src/main.rs
  massgen undo log_20261102_140322_123456 --force
  massgen apply last        (takes the undoing back)

Every file, link and directory is as it was before the delivery, byte for byte. What was changed since
stays; with `--force` it is replaced and kept with the delivery.

Exit status: 0 all is as it was, 2 usage, 3 it could not be written and nothing was changed, 4 something
was changed since and stays.";

pub(crate) const REPLAY_EXAMPLES: &str = "\
Examples:
  massgen replay last
  massgen replay log_20261102_140322_123456 --json
  massgen replay last --keep

The recorded replies are played again in the order of the record: no model is asked, no key is
needed, and no wait is repeated. The workspaces of the agents are new ones below `.massgen`.
Your own paths are only read: a replay delivers nothing.

Exit status: 0 the same, 1 different; others as for a run.";

pub(crate) const DOCTOR_EXAMPLES: &str = "\
Examples:
  massgen doctor
  massgen doctor --config team.yaml --online
  massgen doctor --json | jq '.findings[] | select(.verdict == \"missing\")'

Without `--online` nothing leaves this machine, and nothing is left behind on it in any case.

Exit status: 0 all that is needed is there, 2 there is no such config, 3 something needed is missing.";

pub(crate) const DOCKER_EXAMPLES: &str = "\
Examples:
  massgen docker build
  massgen docker build --sudo
  massgen docker dockerfile > Dockerfile        (to build an image of your own from)

The image holds what commands of agents need: bash, git, ripgrep, gh, Python and Node. A config
names another one with `command_line_docker_image`.

Exit status: 0 built, 3 no engine, or it could not be built.";

pub(crate) const SELFTEST_EXAMPLES: &str = "\
Examples:
  massgen selftest
  massgen selftest --sandbox C --only network
  massgen selftest --docker massgen/mcp-runtime:latest
  massgen selftest --json | jq '.tiers[].cases[] | select(.verdict == \"failed\")'

Each case is one call of `massgen tool` in a directory of its own, in which alone anything happens.
No model is asked, and nothing leaves this machine.

Exit status: 0 no attack did harm and all ordinary work went through, 2 usage, 3 otherwise, or there
is no sandbox to try.";
