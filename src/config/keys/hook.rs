//! The keys of a hook.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;
use crate::hooks::TIMEOUT_SECONDS_MAX;

/// The longest timeout of a hook, in seconds.
const SECONDS_MAX: i64 = {
    assert!(TIMEOUT_SECONDS_MAX == 600, "the reference says it");
    600
};

section! {
    /// A hook command: an item of `hooks` in a group.
    pub static HOOK = "hook";

    /// The kind of hook; only commands exist.
    const TYPE = ["type"] one_of(&["command"]).with_default("command");

    /// The shell command, run in the directory in which massgen is started.
    const COMMAND = ["command"] verbatim_text().make_required()
        .in_found(NeedsNamedConfig("runs its own command"));

    /// Timeout in seconds.
    const TIMEOUT = ["timeout"] integer(1, SECONDS_MAX).with_default("60");

    /// Its network access: none, full, or the hosts of these domains, as in `command_line_network`.
    const NETWORK = ["network"] one_of_or_list(&["off", "on"])
        .in_found(NeedsNamedConfig("runs its own command")).with_default("off");
}
