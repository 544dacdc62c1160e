//! The keys of the policy of a machine, `/etc/massgen/policy.yaml`.

use crate::config::keys::{limits, permissions};

section! {
    /// What the administrator of a machine allows.
    pub static MACHINE_POLICY = "";

    /// The types of backends that may be used. Default: all.
    const VENDORS = ["vendors"] texts();

    /// The hosts of endpoints that may be used. Default: all.
    const HOSTS = ["hosts"] texts();

    /// The weakest level of the sandbox that may be used. Default: any, and none.
    const MIN_SANDBOX_LEVEL = ["min_sandbox_level"] one_of(&["overlay", "namespaces", "landlock"]);

    /// The limits that no run exceeds.
    const LIMITS = ["limits"] section(&RUN_LIMITS);
    row permissions::KEY.row();
}

section! {
    /// The limits that no run exceeds.
    pub static RUN_LIMITS = "limits";
    row limits::MAX_COST_USD.row();
    row limits::MAX_TOKENS_TOTAL.row();
    row limits::MAX_TOOL_CALLS.row();
}
