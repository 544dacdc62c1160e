//! MCP tools by which clients start and inspect runs: their names, arguments and descriptions.

use rmcp::model::{Tool, ToolAnnotations};
use schemars::{JsonSchema, schema_for};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Starts a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunTaskRequest {
    /// The task. A path after `@` has to be open to the team; one that is written `@path:w` has to be
    /// open for writing.
    pub(crate) task: String,
    /// Waits until the run has ended. Cancelling the call then ends the run. Without it, the call
    /// answers with the name of the run as soon as it has begun.
    #[serde(default)]
    pub(crate) wait: bool,
}

/// Asks for the state of a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunStatusRequest {
    /// The name that `run_task` gave.
    pub(crate) run: String,
    /// Waits until the run has ended. Cancelling the call leaves the run alone.
    #[serde(default)]
    pub(crate) wait: bool,
}

/// Names a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunNameRequest {
    /// The name that `run_task` gave.
    pub(crate) run: String,
}

/// Asks for files that were not delivered.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApplyRequest {
    /// The name that `run_task` gave.
    pub(crate) run: String,
    /// Applies the files of this agent's last answer instead of the winner's, such as `agent2` for the
    /// answer `agent2.1`.
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// Applies only what lies in these paths. All, if there are none.
    #[serde(default)]
    pub(crate) paths: Vec<String>,
}

/// Parses the arguments of a call.
///
/// # Errors
/// The arguments do not fit; the error says why.
pub(crate) fn parse_arguments<T: DeserializeOwned>(
    arguments: Option<Map<String, Value>>,
) -> Result<T, String> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    serde_json::from_value(arguments).map_err(|error| format!("the arguments do not fit: {error}"))
}

/// Returns all tools, as a client lists them.
pub(crate) fn tool_list() -> Vec<Tool> {
    let acts = || ToolAnnotations::new().read_only(false).open_world(true);
    let reads = || ToolAnnotations::new().read_only(true).open_world(false);
    vec![
        tool_description::<RunTaskRequest>(
            "run_task",
            "Lets a team of agents work on a task: each works on its own, they vote, and the winner \
             presents the answer. It takes minutes and costs money. Answers with the name of the run.",
            acts().destructive(true),
        ),
        tool_description::<RunStatusRequest>(
            "status",
            "Says how far a run is. Of one that has ended: the answer, what became of each file, what \
             it cost, and how it ended.",
            reads(),
        ),
        tool_description::<RunNameRequest>(
            "answers",
            "Lists all answers of a run under anonymous names, with the votes and their reasons.",
            reads(),
        ),
        tool_description::<ApplyRequest>(
            "apply",
            "Applies the files of a run that has ended and that were not delivered, or those of \
             another answer. The user may have kept that for a person; then it says what to do.",
            acts().destructive(true),
        ),
        tool_description::<RunNameRequest>(
            "cancel",
            "Ends a run in order: the best answer so far is its result, and nothing is delivered.",
            acts().destructive(false),
        ),
    ]
}

fn tool_description<T: JsonSchema>(
    name: &'static str,
    description: &'static str,
    hints: ToolAnnotations,
) -> Tool {
    let schema = schema_for!(T).as_value().as_object().cloned();
    Tool::new(name, description, schema.unwrap_or_default()).with_annotations(hints)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_tool_says_what_it_takes() {
        for tool in tool_list() {
            let schema = tool.schema_as_json_value();
            assert_eq!(schema["type"], "object", "{}", tool.name);
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let properties = schema["properties"].as_object().unwrap();
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{}: {name}", tool.name);
            }
        }
    }

    #[track_caller]
    fn check(arguments: &Value, expected: Result<&str, &str>) {
        let found = parse_arguments::<RunTaskRequest>(arguments.as_object().cloned());
        match (found, expected) {
            (Ok(found), Ok(task)) => assert_eq!(found.task, task),
            (Err(found), Err(reason)) => assert!(found.contains(reason), "{found}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn a_caller_gives_a_task_and_nothing_that_widens_it() {
        check(&json!({"task": "x"}), Ok("x"));
        check(&json!({"task": "x", "wait": true}), Ok("x"));
        check(&json!({}), Err("missing field `task`"));
        check(&json!({"task": 7}), Err("invalid type"));
        for key in ["config", "context_paths", "cwd_context", "max_cost_usd"] {
            check(&json!({"task": "x", (key): "y"}), Err("unknown field"));
        }
    }
}
