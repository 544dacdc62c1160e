//! The names that other programs use for tools equivalent to massgen's.

/// Each tool with its names in other programs.
const ALIASES: &[(&str, &[&str])] = &[
    ("read_text_file", &["Read"]),
    ("read_multiple_files", &["Read"]),
    ("write_file", &["Write"]),
    ("edit_file", &["Edit", "MultiEdit"]),
    ("apply_patch", &["Write", "Edit", "MultiEdit"]),
    ("grep_files", &["Grep"]),
    ("search_files", &["Glob"]),
    ("list_directory", &["LS"]),
    ("directory_tree", &["LS"]),
    ("execute_command", &["Bash"]),
    ("start_background_command", &["Bash"]),
];

/// Returns whether `tool` is a tool of massgen with an alias in another program, or such an alias.
pub fn is_known_tool(tool: &str) -> bool {
    names_of(tool).nth(1).is_some()
}

/// Returns all names of a tool, given its name in massgen or in another program.
pub fn names_of(tool: &str) -> impl Iterator<Item = &str> {
    let aliases = ALIASES
        .iter()
        .filter(move |(own_name, others)| *own_name == tool || others.contains(&tool));
    let aliases = aliases.flat_map(move |(own_name, others)| {
        let others = others.iter().copied().filter(move |_| *own_name == tool);
        std::iter::once(*own_name).chain(others)
    });
    std::iter::once(tool).chain(aliases)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::spec::{COMMANDS, TOOLS, ToolSpec};

    #[test]
    fn every_alias_names_an_existing_tool() {
        for (own_name, _) in ALIASES {
            let is_own = |tool: &ToolSpec| tool.name == *own_name;
            assert!(TOOLS.iter().chain(COMMANDS).any(is_own), "{own_name}");
        }
    }
}
