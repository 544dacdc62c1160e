//! The calls by which an agent takes part in the coordination, and the single entry point for every
//! call of a model.

use crate::id::AgentNumber;
use crate::tools::CallRequest;
use crate::tools::arguments::ToolCallArguments;
use crate::tools::call::ToolCall;
use crate::tools::error::CallParseError;
use crate::tools::parse;
use crate::tools::served::ToolCatalogue;
use crate::tools::spec::{ToolOffer, ToolSpec, WORK_TABLES, tool_table};
use crate::tools::text_calls::{TextCall, parse_text_call};

/// Any call that a model can make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelCall {
    /// A call of a tool; the gate decides whether it is carried out.
    Tool(ToolCall),
    /// A call to the coordination; it touches no file.
    Workflow(WorkflowCall),
}

/// A call to the coordination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkflowCall {
    /// `new_answer`
    NewAnswer {
        /// The answer; `None` takes the text of the reply. Never blank.
        content: Option<String>,
    },
    /// `vote`
    Vote {
        /// The agent with the best answer.
        agent: AgentNumber,
        /// The number of that agent's answer, if the vote named one (`agent2.1`): a later answer
        /// makes the vote outdated.
        ordinal: Option<u32>,
        /// The scores of that answer, one for each criterion of the config's checklist.
        scores: Vec<u8>,
        /// The reason.
        reason: String,
    },
    /// `submit`
    Submit,
    /// `restart_orchestration`
    Restart {
        /// What is wrong with the final answer.
        reason: String,
        /// What the agents should do instead.
        instructions: String,
    },
}

/// The name of the tool that gives an answer.
pub const NEW_ANSWER: &str = "new_answer";
/// The name of the tool that votes.
pub const VOTE: &str = "vote";

/// The parameter of a vote with the scores of an answer.
const SCORES: &str = "scores";

/// The tools of agents that answer and vote, in the order in which they are offered.
pub const COORDINATION: &[ToolSpec] = tool_table! {
    Read NEW_ANSWER => "Give your complete answer; without content, your message is the answer.",
        "the label of the answer, or why it does not count", {
        Optional Text "content";
    }
    Read VOTE => "Vote for the best answer, yours included.",
        "that the vote counts, or why it does not", {
        Required Text "agent_id" => "as in agent2";
        Required Text "reason";
        Optional Scores SCORES
            => "of that answer, one from 0 to 10 for each criterion, in order";
    }
};

/// Whether voters score answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteScoring {
    /// They give a score for each criterion of a checklist.
    Checklist,
    /// They only vote.
    None,
}

/// The tools offered to the agent that judges the final answer.
pub const EVALUATION: &[ToolSpec] = tool_table! {
    Read "submit" => "Accept the final answer as it is.", "nothing; the turn ends", {
        Required Flag "confirmed" => "must be true";
    }
    Read "restart_orchestration" => "Reject the final answer: all agents begin again.",
        "nothing; the coordination restarts", {
        Required Text "reason" => "what is wrong";
        Required Text "instructions" => "what to do instead";
    }
};

/// Returns the tables of all tools that models can be offered, apart from those of servers.
pub fn tool_tables() -> Vec<&'static [ToolSpec]> {
    [&WORK_TABLES[..], &[COORDINATION, EVALUATION]].concat()
}

/// Returns whether a tool is one by which agents take part in the coordination or judge its result.
pub fn is_workflow_tool(name: &str) -> bool {
    let name = parse::canonical_name(name);
    let mut tools = COORDINATION.iter().chain(EVALUATION);
    tools.any(|tool| tool.name == name)
}

/// Returns the coordination tools offered to each of `agents` agents: a single agent has no one to
/// vote for.
pub fn coordination_offers(agents: usize, scoring: VoteScoring) -> Vec<ToolOffer> {
    let offered_count = if agents > 1 { COORDINATION.len() } else { 1 };
    let offered_tools = COORDINATION.iter().take(offered_count);
    let offers = offered_tools.map(|tool| match scoring {
        VoteScoring::None => tool.offer().without_parameter(SCORES),
        VoteScoring::Checklist => tool.offer(),
    });
    offers.collect()
}

/// Returns the tools offered to the agent that judges the final answer.
pub fn evaluation_offers() -> Vec<ToolOffer> {
    EVALUATION.iter().map(ToolSpec::offer).collect()
}

/// Parses a call of any tool, including the servers' tools in `served`; `arguments` is the model's
/// JSON text.
pub fn parse_model_call(
    name: &str,
    arguments: &str,
    served: &ToolCatalogue,
) -> Result<ModelCall, CallParseError> {
    if let Some(tool) = served.find(name) {
        return tool.parse_call(arguments).map(ModelCall::Tool);
    }
    let tool = parse::find_tool(name, &tool_tables())?;
    let mut arguments = ToolCallArguments::read(tool, arguments)?;
    let workflow = |call| Ok(ModelCall::Workflow(call));
    match tool.name {
        NEW_ANSWER => workflow(WorkflowCall::NewAnswer {
            content: arguments
                .optional_text("content")?
                .filter(|content| !content.trim().is_empty()),
        }),
        VOTE => workflow(vote(&mut arguments)?),
        "submit" => workflow(submit(&mut arguments)?),
        "restart_orchestration" => workflow(WorkflowCall::Restart {
            reason: arguments.text("reason")?,
            instructions: arguments.text("instructions")?,
        }),
        _ => parse::build_call(tool, &mut arguments).map(ModelCall::Tool),
    }
}

/// Returns the text that a reply of the final agent presents: the content of its last `new_answer`,
/// which no longer counts as an answer, or else its own text. A call that is written as text is taken
/// for that call. `None` if it says nothing.
pub fn presented_text(text: &str, calls: &[CallRequest]) -> Option<String> {
    let mut latest_first = calls.iter().rev();
    let answer = latest_first.find_map(|call| answer_content(&call.name, &call.arguments));
    answer.or_else(|| {
        let offers: Vec<ToolOffer> = COORDINATION.iter().map(ToolSpec::offer).collect();
        match parse_text_call(text, &offers) {
            Some(TextCall { name, arguments }) => answer_content(&name, &arguments),
            None => (!text.trim().is_empty()).then(|| text.to_owned()),
        }
    })
}

/// Returns the content of a `new_answer` that has some.
fn answer_content(name: &str, arguments: &str) -> Option<String> {
    if name != NEW_ANSWER {
        return None;
    }
    match parse_model_call(name, arguments, &ToolCatalogue::default()) {
        Ok(ModelCall::Workflow(WorkflowCall::NewAnswer { content })) => content,
        Ok(_) | Err(_) => None,
    }
}

fn vote(arguments: &mut ToolCallArguments) -> Result<WorkflowCall, CallParseError> {
    let target = arguments.text("agent_id")?;
    let Some((agent, ordinal)) = vote_target(&target) else {
        let expected = "`agent` and a number, as in the answers";
        return Err(arguments.invalid_value("agent_id", &target, expected));
    };
    Ok(WorkflowCall::Vote {
        agent,
        ordinal,
        scores: arguments.scores("scores")?,
        reason: arguments.text("reason")?,
    })
}

/// Parses `agent2`, or the label of one of its answers, `agent2.1`. Small models also write
/// `Agent 2`, `agent_2` and `2`.
fn vote_target(text: &str) -> Option<(AgentNumber, Option<u32>)> {
    let text = text.trim().to_ascii_lowercase();
    let number = text.strip_prefix("agent").unwrap_or(&text);
    let text = format!("agent{}", number.trim_start_matches([' ', '_', '-']));
    match text.split_once('.') {
        None => Some((AgentNumber::parse(&text)?, None)),
        Some((agent, ordinal)) => Some((AgentNumber::parse(agent)?, Some(ordinal.parse().ok()?))),
    }
}

fn submit(arguments: &mut ToolCallArguments) -> Result<WorkflowCall, CallParseError> {
    match arguments.flag("confirmed")? {
        Some(true) => Ok(WorkflowCall::Submit),
        Some(false) => {
            let expected = "true; to reject the answer call `restart_orchestration`";
            Err(arguments.invalid_value("confirmed", "false", expected))
        }
        None => Err(arguments.missing_parameter("confirmed")),
    }
}
