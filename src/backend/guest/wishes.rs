//! Owns the answers to what a guest asks massgen for in the middle of its turn: whether it may use a
//! tool of its own, and files that massgen reads and writes for it. The gate decides about each.

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::backend::OwnTool;
use crate::backend::guest::held::foreigner;
use crate::backend::guest::tongue::{Asked, Tongue, Wish, own_tool, whole};
use crate::brief::guests::NOBODY_WAITS;
use crate::tools::call::{Lines, ToolCall, UserPath};
use crate::world::exec::guest::Lodging;
use crate::world::exec::{self, Outcome};
use crate::world::foreigner::Foreigner;

/// The line that answers a wish, if there is one, and what people are told of it.
pub(super) async fn fulfilled(
    tongue: &dyn Tongue,
    lodging: Lodging,
    (id, wish): (&Value, Wish),
) -> (Option<String>, Option<OwnTool>) {
    match wish {
        Wish::Permission(asked) => {
            let (asked, decision) = decided(foreigner(&lodging), asked).await;
            let option = if decision.is_ok() {
                &asked.yes
            } else {
                &asked.no
            };
            let answer = tongue.permit(id, option.as_deref());
            // What it may do, it tells itself.
            let told = decision.err().map(|why| OwnTool {
                denied: Some(why),
                ..own_tool(&asked.tool, &Value::Null)
            });
            (answer, told)
        }
        Wish::Read(path, line, limit) => {
            let lines = lines(line, limit);
            let read = |path| ToolCall::ReadTextFile { path, lines };
            let (given, told) = through_gate(lodging, ("read", &path), read).await;
            let given = given.map(|text| json!({ "content": text }));
            (tongue.grant(id, given), Some(told))
        }
        Wish::Write(path, content) => {
            let write = |path| ToolCall::WriteFile { path, content };
            let (given, told) = through_gate(lodging, ("write", &path), write).await;
            let given = given.map(|_| json!({}));
            (tongue.grant(id, given), Some(told))
        }
    }
}

/// The line that refuses a wish because the turn ends, if there is one.
pub(super) fn refused(tongue: &dyn Tongue, id: &Value, wish: &Wish) -> Option<String> {
    match wish {
        Wish::Permission(_) => tongue.permit(id, None),
        Wish::Read(..) | Wish::Write(..) => tongue.grant(id, Err(NOBODY_WAITS.to_owned())),
    }
}

/// Carries out what the guest asks massgen to do with a file.
async fn through_gate(
    lodging: Lodging,
    (tool, path): (&str, &str),
    make: impl FnOnce(UserPath) -> ToolCall,
) -> (Result<String, String>, OwnTool) {
    let path = whole(&lodging.dir(), path);
    let mut told = own_tool(tool, &Value::from(path.as_str()));
    let call = UserPath::parse(path).map(make);
    let done = match call.map_err(|why| why.to_string()) {
        Ok(call) => carried_out(lodging, call).await,
        Err(why) => Err(why),
    };
    told.denied = done.clone().err();
    (done, told)
}

/// What the gate says of a guest's question.
async fn decided(foreigner: Foreigner, asked: Asked) -> (Asked, Result<(), String>) {
    let foreign = match &asked.foreign {
        Ok(foreign) => foreign.clone(),
        Err(why) => {
            let why = format!("denied: {why}");
            return (asked, Err(why));
        }
    };
    let tool = asked.tool.clone();
    let decided = spawn_blocking(move || foreigner.decide(&tool, foreign)).await;
    let decision = decided.unwrap_or_else(|_| Err("denied: massgen has a bug".to_owned()));
    (asked, decision)
}

async fn carried_out(lodging: Lodging, call: ToolCall) -> Result<String, String> {
    let carry_out = move || match lodging.gate.check(call) {
        Err(denial) => Err(denial.to_string()),
        Ok(permitted) => {
            let observed = exec::run(permitted);
            match observed.outcome {
                Outcome::Done => Ok(observed.content),
                Outcome::Failed | Outcome::Denied => Err(observed.content),
            }
        }
    };
    let done = spawn_blocking(carry_out).await;
    done.unwrap_or_else(|_| Err("massgen has a bug".to_owned()))
}

fn lines(first: Option<u64>, count: Option<u64>) -> Lines {
    match (first, count) {
        (None, None) => Lines::All,
        (first, count) => {
            let first = first.unwrap_or(1).max(1);
            let last = count.map(|count| first.saturating_add(count).saturating_sub(1));
            Lines::Range { first, last }
        }
    }
}
