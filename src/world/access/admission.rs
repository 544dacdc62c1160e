//! Checks whether an agent may use commands, programs, a plan, pages of the Web, tools of its
//! vendor, media, subagents and server tools at all, whatever paths the call touches: each needs
//! what the agent was given for it, and command lines and programs must pass the checks of their
//! text. Passing these checks permits nothing.

use crate::commands::judge::judge;
use crate::permissions::PathPermissionManager;
use crate::text::{join_with_commas, single_line};
use crate::tools::call::ToolCall;
use crate::tools::served::OutsideEffects;
use crate::tools::spec::ANSWER;
use crate::world::access::policy::GatePolicy;
use crate::world::access::verdict::{Denial, DeniedSubject};
use crate::world::mcp::SideEffectPolicy;

/// The longest part of an address that a denial quotes, in characters.
const URL_CHARS_MAX: usize = 200;

/// Checks that `policy` allows a call of this kind under these permissions.
pub(in crate::world) fn check_capabilities(
    policy: &GatePolicy,
    permissions: &PathPermissionManager,
    call: &ToolCall,
) -> Result<(), Denial> {
    admit_command(policy, call)?;
    admit_answer(policy, call)?;
    admit_program(policy, permissions, call)?;
    admit_plan(policy, call)?;
    admit_page(policy, call)?;
    admit_vendor_tool(policy, call)?;
    admit_media(policy, call)?;
    admit_subagents(policy, call)?;
    admit_server(policy, call)
}

/// Checks the command line in `call` against the command rules.
fn admit_command(policy: &GatePolicy, call: &ToolCall) -> Result<(), Denial> {
    if !call.is_about_commands() {
        return Ok(());
    }
    let Some(commands) = &policy.commands else {
        return Err(Denial {
            subject: DeniedSubject::Command {
                command: call.command().unwrap_or(call.name()).to_owned(),
                suggestion: "work with the file tools".to_owned(),
            },
            rule: "no-commands",
            reason: "you may not run commands".to_owned(),
        });
    };
    let Some(line) = call.command() else {
        return Ok(());
    };
    judge(commands.rules(), line).map_err(|refusal| Denial {
        subject: DeniedSubject::Command {
            command: refusal.command,
            suggestion: refusal.suggestion,
        },
        rule: refusal.rule,
        reason: refusal.reason,
    })
}

/// Checks that the agent has been shown the answer on which a command is to run.
fn admit_answer(policy: &GatePolicy, call: &ToolCall) -> Result<(), Denial> {
    let ToolCall::ExecuteCommand {
        answer: Some(label),
        ..
    } = call
    else {
        return Ok(());
    };
    let denial = |rule, reason: &str, suggestion| Denial {
        subject: DeniedSubject::Call {
            subject: label.to_string(),
            suggestion,
        },
        rule,
        reason: reason.to_owned(),
    };
    let Some(answers) = &policy.answers else {
        let reason = "you may not run commands on answers here";
        let suggestion = format!("leave out `{ANSWER}`");
        return Err(denial("no-answers", reason, suggestion));
    };
    let Err(shown) = answers.find(*label) else {
        return Ok(());
    };
    let suggestion = match shown.as_slice() {
        [] => "wait until you are shown one".to_owned(),
        labels => format!("name one of these: {}", join_with_commas(labels)),
    };
    let reason = "you have not been shown an answer of this name that changes the user's paths";
    Err(denial("unknown-answer", reason, suggestion))
}

/// Lints a program for what it must not do.
fn admit_program(
    policy: &GatePolicy,
    permissions: &PathPermissionManager,
    call: &ToolCall,
) -> Result<(), Denial> {
    let ToolCall::ExecuteCode { code, .. } = call else {
        return Ok(());
    };
    let denial = |rule, reason| Denial {
        subject: DeniedSubject::Program,
        rule,
        reason,
    };
    let Some(programs) = &policy.programs else {
        return Err(denial("no-programs", "you may not run programs".to_owned()));
    };
    programs
        .lint_program(code, permissions, policy.command_offering())
        .map_err(|refusal| denial("program", refusal.to_string()))
}

/// Checks that the agent keeps a plan, and that it is not too long.
fn admit_plan(policy: &GatePolicy, call: &ToolCall) -> Result<(), Denial> {
    let ToolCall::UpdatePlan { plan } = call else {
        return Ok(());
    };
    let denial = |rule, reason, suggestion: &str| Denial {
        subject: DeniedSubject::Call {
            subject: call.name().to_owned(),
            suggestion: suggestion.to_owned(),
        },
        rule,
        reason,
    };
    let Some(entries_max) = policy.plan_entries_max else {
        let reason = "you keep no plan here".to_owned();
        return Err(denial("no-plan", reason, "work without it"));
    };
    let count = plan.entries.len();
    if count > entries_max {
        let reason = format!("the plan has {count} entries, and at most {entries_max} are kept");
        return Err(denial("plan-too-long", reason, "plan in larger steps"));
    }
    Ok(())
}

/// Checks that the config opens the host of the page that a call reads.
fn admit_page(policy: &GatePolicy, call: &ToolCall) -> Result<(), Denial> {
    let Some(url) = call.page() else {
        return Ok(());
    };
    let denial = |rule, reason, suggestion: &str| Denial {
        subject: DeniedSubject::Call {
            subject: single_line(url.as_str(), URL_CHARS_MAX),
            suggestion: suggestion.to_owned(),
        },
        rule,
        reason,
    };
    let Some(pages) = &policy.pages else {
        let reason = "you may not read pages of the Web".to_owned();
        return Err(denial("no-pages", reason, "work with your other tools"));
    };
    if !pages.allows(url) {
        let reason = format!(
            "`{}` is none of the hosts that are open",
            url.host().as_str()
        );
        return Err(denial("closed-host", reason, "read a page of an open host"));
    }
    Ok(())
}

/// Checks that the agent may use this tool of its vendor.
fn admit_vendor_tool(policy: &GatePolicy, call: &ToolCall) -> Result<(), Denial> {
    let ToolCall::AskVendor { tool, .. } = call else {
        return Ok(());
    };
    if policy.vendor_tools.contains(tool) {
        return Ok(());
    }
    Err(Denial {
        subject: DeniedSubject::Call {
            subject: call.name().to_owned(),
            suggestion: "work with your other tools".to_owned(),
        },
        rule: "no-vendor-tool",
        reason: format!("the config does not enable it (`{}`)", tool.key()),
    })
}

/// Checks that the agent may have media of this kind made.
fn admit_media(policy: &GatePolicy, call: &ToolCall) -> Result<(), Denial> {
    let ToolCall::GenerateMedia { order, .. } = call else {
        return Ok(());
    };
    if policy.media.contains(&order.kind) {
        return Ok(());
    }
    Err(Denial {
        subject: DeniedSubject::Call {
            subject: call.name().to_owned(),
            suggestion: "work with your other tools".to_owned(),
        },
        rule: "no-media",
        reason: format!("the config does not enable it (`{}`)", order.kind.key()),
    })
}

/// Checks that the agent may have subagents.
fn admit_subagents(policy: &GatePolicy, call: &ToolCall) -> Result<(), Denial> {
    if !matches!(call, ToolCall::SpawnSubagents { .. }) || policy.subagents.is_some() {
        return Ok(());
    }
    Err(Denial {
        subject: DeniedSubject::Call {
            subject: call.name().to_owned(),
            suggestion: "do the work yourself".to_owned(),
        },
        rule: "no-subagents",
        reason: "you may not start subagents".to_owned(),
    })
}

/// Checks that the server tool may be called in this phase.
fn admit_server(policy: &GatePolicy, call: &ToolCall) -> Result<(), Denial> {
    let ToolCall::CallServer(call) = call else {
        return Ok(());
    };
    let denial = |rule, reason: &str, suggestion: &str| Denial {
        subject: DeniedSubject::Call {
            subject: call.full_name.clone(),
            suggestion: suggestion.to_owned(),
        },
        rule,
        reason: reason.to_owned(),
    };
    let Some(servers) = &policy.servers else {
        let reason = "you may not use servers";
        return Err(denial("no-servers", reason, "work with your other tools"));
    };
    let is_deferred = servers.side_effect_policy() == SideEffectPolicy::Deferred
        && call.outside == OutsideEffects::Some;
    if is_deferred {
        return Err(denial(
            "planning",
            "it may change something outside your directories, and agents only plan now",
            "say in your answer what is to be called in the final phase, with which arguments",
        ));
    }
    Ok(())
}
