//! Implements `massgen explain path`: what is allowed for one path, by which grant and rule, and
//! what would change it.

use std::fmt;

use serde::Serialize;

use crate::cli::explain::{AgentGates, GRANTED};
use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{GrantKind, Permission, Phase};
use crate::permissions::protected::is_env_name;
use crate::permissions::rules::{ASKED_BY_CONFIG, DENIED_BY_CONFIG};
use crate::text::escape_name;
use crate::tools::call::{FinalSymlink, RequestedAccess, UserPath};
use crate::world::access::verdict::PathVerdict;

/// The rule for a path that no grant covers.
const OUTSIDE_GRANTS: &str = "outside-grants";

/// The decisions about one path, for one agent in one phase.
#[derive(Debug, Serialize)]
struct PathDecision {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    phase: Phase,
    path: String,
    read: AccessDecision,
    write: AccessDecision,
}

/// The decision about one access.
#[derive(Debug, Serialize)]
struct AccessDecision {
    decision: &'static str,
    rule: &'static str,
    reason: String,
    grant: Option<String>,
    /// What the user could change to allow the access.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<String>,
}

/// The decisions about one path, for every requested agent and phase.
#[derive(Debug)]
pub struct PathReport(Vec<PathDecision>);

impl PathReport {
    /// Decides whether `path`, relative to `cwd` unless it is absolute, may be read and written in
    /// `phase`, or if that is `None` in the phases of a run.
    pub fn new(
        agents: &[AgentGates],
        phase: Option<Phase>,
        path: &str,
        cwd: &AbsPath,
    ) -> Result<Self> {
        let absolute_path = cwd.as_path().join(path);
        let path = UserPath::parse(absolute_path.to_string_lossy()).map_err(|error| {
            Error::new(ErrorKind::Usage, format!("`{path}` is not a path")).with_source(error)
        })?;
        let mut decisions = Vec::new();
        for gates in agents {
            let run_phases = vec![gates.working_phase, Phase::Final];
            for phase in phase.map_or(run_phases, |phase| vec![phase]) {
                decisions.push(path_decision(gates, phase, &path));
            }
        }
        Ok(Self(decisions))
    }

    /// Returns one line of JSON: a list with one object for each agent and phase.
    pub fn to_json(&self) -> String {
        // Strings can always be serialized to JSON.
        serde_json::to_string(&self.0).unwrap_or_default() + "\n"
    }
}

impl fmt::Display for PathReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last_path = None;
        for decision in &self.0 {
            let agent = decision.agent.as_deref().unwrap_or("the agent");
            if last_path.replace(&decision.path) != Some(&decision.path) {
                writeln!(f, "{}", escape_name(&decision.path))?;
            }
            writeln!(f, "{agent}, {} phase:", decision.phase)?;
            for (access, access_decision) in [("read", &decision.read), ("write", &decision.write)]
            {
                let AccessDecision {
                    decision,
                    rule,
                    reason,
                    ..
                } = access_decision;
                writeln!(f, "  {access:5} {decision:5} {rule}: {reason}")?;
                if let Some(change) = &access_decision.change {
                    writeln!(f, "              to change this: {change}")?;
                }
            }
        }
        Ok(())
    }
}

fn path_decision(gates: &AgentGates, phase: Phase, path: &UserPath) -> PathDecision {
    let verdict = |permission| {
        gates.gate(phase).verdict(&RequestedAccess {
            path,
            permission,
            link: FinalSymlink::Followed,
        })
    };
    let (read, write) = (verdict(Permission::Read), verdict(Permission::Write));
    let basis = if gates.gate(phase).is_guarded() {
        AccessBasis::FolderGuard
    } else {
        AccessBasis::Grants
    };
    let real_path = read.real.as_ref().map(ToString::to_string);
    PathDecision {
        agent: gates.agent.as_ref().map(ToString::to_string),
        phase,
        path: real_path.unwrap_or_else(|| path.as_str().to_owned()),
        read: AccessDecision::from_verdict(read, basis),
        write: AccessDecision::from_verdict(write, basis),
    }
}

/// What an agent's access follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessBasis {
    /// Context paths and mentions.
    Grants,
    /// The lists of its folder guard only.
    FolderGuard,
}

impl AccessDecision {
    fn from_verdict(verdict: PathVerdict, basis: AccessBasis) -> Self {
        let permission = verdict.requested;
        let root = verdict.grant.map(|(root, kind)| (root.to_string(), kind));
        let grant = root.as_ref().map(|(root, _)| root.clone());
        let real_path = verdict.real.as_ref();
        let is_env = real_path.is_some_and(|path| path.name().is_some_and(is_env_name));
        // Agents never write to skills.
        let is_skill = matches!(root, Some((_, GrantKind::Skill)));
        let grant_name = root.map_or_else(String::new, |(root, kind)| {
            format!("{kind} `{}`", escape_name(&root))
        });
        match verdict.refusal {
            None => Self {
                decision: "allow",
                rule: GRANTED,
                reason: granted_reason(&grant_name, &verdict.other_spelling_grants),
                grant,
                change: None,
            },
            Some(refusal) => Self {
                decision: if refusal.rule == ASKED_BY_CONFIG {
                    "ask"
                } else {
                    "deny"
                },
                rule: refusal.rule,
                change: suggest_change(refusal.rule, permission, basis, &grant_name)
                    .map(|change| match refusal.rule {
                        "hidden-path" if is_env => format!(
                            "it is hidden by default: list `.env` in `unprotected` of {grant_name}, or \
                             open the file by itself"
                        ),
                        _ => change,
                    })
                    .filter(|_| !is_skill || permission == Permission::Read),
                reason: match refusal.rule {
                    // The gate's own message is for the agent, and names the agent's directories.
                    OUTSIDE_GRANTS => "not inside any path that is open to the agent".to_owned(),
                    _ => refusal.reason,
                },
                grant,
            },
        }
    }
}

/// Returns which grant allows an access, and which others have to.
fn granted_reason(grant_name: &str, nested_grants: &[(RealPath, GrantKind)]) -> String {
    let other_grants: Vec<String> = nested_grants
        .iter()
        .map(|(root, kind)| format!("{kind} `{}`", escape_name(&root.to_string())))
        .collect();
    if other_grants.is_empty() {
        return format!("granted by {grant_name}");
    }
    format!(
        "granted by {grant_name}, and by {}, which must agree because a case-insensitive file system may treat the path as one inside it",
        other_grants.join(", ")
    )
}

/// Returns what the user could do to allow the access; `None` if nothing helps.
fn suggest_change(
    rule: &str,
    permission: Permission,
    basis: AccessBasis,
    grant: &str,
) -> Option<String> {
    let lacks_grant = matches!(rule, OUTSIDE_GRANTS | "granted-permission");
    if basis == AccessBasis::FolderGuard && lacks_grant {
        let list = match permission {
            Permission::Read => "`read` or `write`",
            Permission::Write => "`write`",
        };
        return Some(format!("add its directory to {list} of `folder_guard`"));
    }
    Some(match rule {
        OUTSIDE_GRANTS => "add it to `orchestrator.context_paths`, or mention it in the prompt as \
                             `@PATH`, or `@PATH:w` for writing"
            .to_owned(),
        "coordination-phase" if basis == AccessBasis::FolderGuard => {
            "the final agent may write, if `folder_guard` lists the directory in `write`".to_owned()
        }
        "coordination-phase" => "the final agent may write, if the path was given with \
                                 `permission: write`"
            .to_owned(),
        "granted-permission" => format!("set `permission: write` on {grant}"),
        "protected-path" => format!("remove it from `protected_paths` of {grant}"),
        "protected-name" => format!("add the name to `unprotected` of {grant}"),
        "hidden-path" => format!("remove it from `hidden_paths` of {grant}"),
        DENIED_BY_CONFIG | ASKED_BY_CONFIG => "change the rule in `permissions`".to_owned(),
        "parent-names" => "write the path without `..`".to_owned(),
        _ => return None,
    })
}
