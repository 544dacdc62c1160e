//! Carries out `update_plan`. The agent's model session keeps the plan; this writes it to the
//! agent's workspace too, if the config says so.

use serde_json::{Value, json};

use crate::prompts::call_answers;
use crate::tools::call::{ToolCall, UserPath};
use crate::tools::task_plan::TaskPlan;
use crate::world::access::gate::Gate;
use crate::world::exec::make_call;
use crate::world::exec::tool_result::Observation;

/// Implements `update_plan`. A plan whose file cannot be written counts, and the agent reads why.
pub(super) fn update_plan(gate: &Gate, plan: &TaskPlan) -> Observation {
    let confirmation = call_answers::plan_updated(plan);
    let Some(file) = &gate.policy().plan_file else {
        return Observation::done(confirmation);
    };
    match write_plan(gate, &file.to_string(), plan) {
        Ok(observation) => Observation::done(confirmation).with_changes(observation.changes),
        Err(reason) => {
            Observation::done(call_answers::plan_file_not_written(&confirmation, &reason))
        }
    }
}

fn write_plan(gate: &Gate, file: &str, plan: &TaskPlan) -> Result<Observation, String> {
    let call = ToolCall::WriteFile {
        path: UserPath::parse(file).map_err(|invalid| invalid.to_string())?,
        content: format!("{:#}\n", plan_json(plan)),
    };
    make_call(&gate.without_hooks(), call)
}

/// Returns the content of the file, as MassGen writes it: tasks with a number, a description and a
/// status.
fn plan_json(plan: &TaskPlan) -> Value {
    let tasks = plan.entries.iter().zip(1_usize..).map(|(entry, number)| {
        json!({
            "id": number.to_string(),
            "description": entry.content,
            "status": entry.status.word(),
        })
    });
    json!({"tasks": tasks.collect::<Vec<_>>()})
}
