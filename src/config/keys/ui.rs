//! The keys of `ui`: what is shown.

use crate::config::keys::ValueShape;

section! {
    /// Display settings, which do not change how agents work.
    pub static UI = "ui";

    /// Whether a run is shown on the whole terminal. `auto` does so on a terminal with two or more
    /// agents, `always` also with one agent; neither does so without a terminal. `--dashboard` and
    /// `--plain` take precedence.
    const DASHBOARD = ["dashboard"] one_of(&["auto", "always", "never"]).with_default("auto");

    /// With `simple`, `terminal`, `silent` or `none`, a run is shown as lines, unless `dashboard`
    /// is set. The other values are `dashboard: auto`.
    const DISPLAY_TYPE = ["display_type"] one_of(&["textual_terminal", "rich_terminal", "web",
        "simple", "terminal", "silent", "none"]).with_default("textual_terminal");
    unsupported ["logging_enabled"] Convenience.with_shape(ValueShape::Flag).with_default("true"),
        "a log is always kept";
    unsupported ["type"] Nothing, "MassGen does nothing with it either";
    unsupported ["theme", "automation_mode", "web_host", "web_port"] Nothing,
        "flags select how a run is shown";
    unsupported ["use_orchestrator_for_single_agent"] Nothing,
        "a single agent answers once and does not vote";
}
