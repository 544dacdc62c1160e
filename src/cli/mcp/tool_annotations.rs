//! MCP description of a tool: its name, description and schema as agents see them, and annotations
//! about its effects on files and the outside world.

use rmcp::model::{Tool, ToolAnnotations};

use crate::permissions::grant::Permission;
use crate::tools::spec::{COMMANDS, TOOLS, ToolOffer};

/// Tools that write and remove nothing.
const ADDING_TOOLS: &[&str] = &["create_directory"];
/// Tools about commands that start or stop something.
const ACTING_COMMANDS: &[&str] = &[
    "execute_command",
    "start_background_command",
    "stop_background_command",
];

/// Returns the tool as a client lists it.
pub(crate) fn tool_description(offer: &ToolOffer) -> Tool {
    let schema = offer.parameters.as_object().cloned().unwrap_or_default();
    Tool::new(offer.name.clone(), offer.description.clone(), schema)
        .with_annotations(tool_annotations(offer))
}

/// Returns the annotations of a tool. One that is in no table may do anything.
fn tool_annotations(offer: &ToolOffer) -> ToolAnnotations {
    let name = offer.name.as_ref();
    let is_about_commands = COMMANDS.iter().any(|tool| tool.name == name);
    let reads_files = TOOLS
        .iter()
        .any(|tool| tool.name == name && tool.permission == Permission::Read);
    let only_reads = reads_files || (is_about_commands && !ACTING_COMMANDS.contains(&name));
    let reaches_outside_world = !TOOLS.iter().any(|tool| tool.name == name) && !only_reads;
    let hints = ToolAnnotations::new()
        .read_only(only_reads)
        .open_world(reaches_outside_world);
    if only_reads {
        hints
    } else {
        hints.destructive(!ADDING_TOOLS.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &'static str, expected: (bool, Option<bool>, bool)) {
        let tool = TOOLS.iter().chain(COMMANDS).find(|tool| tool.name == name);
        let announced = tool_description(&tool.unwrap().offer());
        let hints = announced.annotations.unwrap();
        let values = (
            hints.read_only_hint.unwrap(),
            hints.destructive_hint,
            hints.open_world_hint.unwrap(),
        );
        assert_eq!(values, expected, "{name}");
    }

    #[test]
    fn hints_say_what_a_tool_may_do() {
        check("read_text_file", (true, None, false));
        check("compare_directories", (true, None, false));
        check("create_directory", (false, Some(false), false));
        for name in [
            "write_file",
            "edit_file",
            "move_file",
            "copy_file",
            "delete_file",
        ] {
            check(name, (false, Some(true), false));
        }
        check("execute_command", (false, Some(true), true));
        check("start_background_command", (false, Some(true), true));
        check("stop_background_command", (false, Some(true), true));
        check("get_background_output", (true, None, false));
        check("list_background_commands", (true, None, false));
    }

    #[test]
    fn mcp_tool_descriptions_are_those_that_agents_are_offered() {
        for tool in TOOLS.iter().chain(COMMANDS) {
            let offer = tool.offer();
            let announced = tool_description(&offer);
            assert_eq!(announced.name, offer.name);
            assert_eq!(
                announced.description.as_deref(),
                Some(offer.description.as_str())
            );
            assert_eq!(announced.schema_as_json_value(), offer.parameters);
        }
    }
}
