//! The keys of `permissions`: what is denied, needs approval or is allowed, in addition to the
//! grants.

use crate::config::keys::ValueShape;
use crate::config::keys::limits::SECONDS_MAX;

keys! {
    /// Calls that are denied or need approval, within the grants. Rules of the agent, its backend,
    /// `orchestrator` and the top of the file are combined.
    const KEY = ["permissions"] section(&PERMISSIONS);
}

section! {
    /// Rules about calls; see `docs/rules.md` for their syntax and scope. Rules only restrict the
    /// grants. `deny` takes precedence over `ask`, and `ask` over `allow`.
    pub static PERMISSIONS = "permissions";

    /// Denied calls: `command(git push *)`, `read_file(GLOB)`, `write_file(GLOB)`,
    /// `mcp(server/tool)`, `tool(NAME)`.
    const DENY = ["deny"] nodes(&ValueShape::Verbatim).with_default("[]");

    /// Calls that need approval. Without an answer they are denied.
    const ASK = ["ask"] nodes(&ValueShape::Verbatim).with_default("[]");

    /// Calls that need no approval, for readers and for `massgen explain`. It grants nothing and
    /// does not override `ask`: calls without a rule are allowed anyway, within the grants.
    const ALLOW = ["allow"] nodes(&ValueShape::Verbatim).with_default("[]");

    /// Calls and their expected decision, such as `- write_file(src/x.lock): deny`. A different
    /// decision is an error.
    const EXAMPLES = ["examples"] nodes(&ValueShape::Verbatim).with_default("[]");

    /// Timeout of an approval request in seconds, 300 by default; the call is then denied. The
    /// shortest of several applies.
    const ASK_TIMEOUT_SECONDS = ["ask_timeout_seconds"] integer(1, SECONDS_MAX);

    /// `false` disables the rules next to it.
    const ENABLED = ["enabled"] flag().with_default("true");

    /// What is denied in addition to the rules: `read-only` and `researcher` deny writing files and
    /// running commands and programs. The others deny nothing.
    const ROLE = ["role"] one_of(&["read-only", "researcher", "read-write", "implementer"]);

    /// The same lists as MassGen writes them: `*` at the end of a pattern of commands also matches
    /// further words. With it, `automation_default` is `risk-based` unless it is set.
    const RULES = ["rules"] section(&PERMISSION_RULES);

    /// Which calls need approval in addition to the rules: with `risk-based`, commands that MassGen
    /// considers dangerous, such as `sudo`, `rm -r`, `git push --force` and `curl`; with
    /// `deny-all`, all commands and all calls of MCP servers; with `allow-all`, none. Calls that
    /// `ask` names need approval in any case.
    const AUTOMATION_DEFAULT = ["automation_default"] one_of(&["risk-based", "deny-all",
        "allow-all"]);
    unsupported ["roles", "mode", "risk", "risk_tiers"] Restricts,
        "write the rules as `deny` and `ask`";
    unsupported ["approval", "approvals", "provider", "max_consecutive_auto"] Restricts,
        "write `ask`; approval requests go to the terminal or to `--approval-socket`";
    unsupported ["audit", "audit_log", "ledger"] Convenience,
        "every call and every answer is in `events.jsonl` of the run";
}

section! {
    /// The lists of `permissions`, where MassGen has them. Both are combined.
    pub static PERMISSION_RULES = "permissions.rules";
    row DENY.row();
    row ASK.row();
    row ALLOW.row();
}
