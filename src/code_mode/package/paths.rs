//! Which parameters of massgen's own tools are paths, and the access that they need, as far as the
//! package checks them. Tools of MCP servers are left to the gate.

use crate::permissions::grant::Permission;
use crate::tools::spec::{COMMANDS, TOOLS};

/// Path parameters that a tool only reads from, even if it writes elsewhere.
const READ_PATH_PARAMETERS: &[&str] = &[
    "source_path",
    "source_base_path",
    "file1",
    "file2",
    "dir1",
    "dir2",
    "work_dir",
];
/// Path parameters that need the tool's own permission.
const PATH_PARAMETERS: &[&str] = &[
    "path",
    "paths",
    "base_path",
    "source",
    "destination",
    "destination_path",
    "destination_base_path",
];

/// Returns the access that a tool needs to the path in `parameter`; `None` if it is not a path, or
/// not known to be one.
pub(super) fn path_permission(tool: &str, parameter: &str) -> Option<Permission> {
    let tool = TOOLS
        .iter()
        .chain(COMMANDS)
        .find(|spec| spec.name == tool)?;
    if READ_PATH_PARAMETERS.contains(&parameter) {
        Some(Permission::Read)
    } else {
        PATH_PARAMETERS
            .contains(&parameter)
            .then_some(tool.permission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::spec::ParameterType;

    /// Parameters that are text and not paths.
    const OTHERS: &[&str] = &[
        "pattern",
        "content",
        "input",
        "command",
        "answer",
        "excludePatterns",
        "include_patterns",
        "exclude_patterns",
    ];

    #[test]
    fn every_text_of_every_tool_is_known_for_a_path_or_none() {
        for tool in TOOLS.iter().chain(COMMANDS) {
            for parameter in tool.parameters {
                if matches!(parameter.kind, ParameterType::Text | ParameterType::Texts) {
                    let is_path = path_permission(tool.name, parameter.name).is_some();
                    let is_other = OTHERS.contains(&parameter.name);
                    assert!(is_path != is_other, "{} {}", tool.name, parameter.name);
                }
            }
        }
        assert_eq!(
            path_permission("move_file", "source"),
            Some(Permission::Write)
        );
        assert_eq!(
            path_permission("copy_file", "source_path"),
            Some(Permission::Read)
        );
        assert_eq!(path_permission("mcp__x__write", "path"), None);
    }
}
