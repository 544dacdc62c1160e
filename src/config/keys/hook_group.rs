//! The keys of a group of hooks for the same tools.

use crate::config::keys::{ValueShape, hook};

section! {
    /// Hooks for the same tools.
    pub static HOOK_GROUP = "hooks.PreToolUse[]";

    /// A regular expression for the whole name of a tool, such as `mcp__git__.*`. `Bash`, `Read`,
    /// `Write`, `Edit`, `Grep`, `Glob` and `LS` match the corresponding tools of massgen. Default,
    /// and for `*`: all tools.
    const MATCHER = ["matcher"] verbatim_text().with_default("'*'");

    /// The hooks. A string is the command alone.
    const HOOKS = ["hooks"] nodes(const { &ValueShape::TextOr(&hook::HOOK) }).make_required();
}
