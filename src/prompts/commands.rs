//! Texts for models about the commands that they may run.

use std::fmt::Write as _;

use crate::permissions::grant::Phase;
use crate::sandbox_policy::NetworkPolicy;
use crate::text::join_with_commas;

/// The abilities of an agent's commands, as described to its model.
#[derive(Clone, Copy, Debug)]
pub struct CommandAccess<'a> {
    /// Their network access.
    pub network: &'a NetworkPolicy,
    /// Their isolation.
    pub isolation: IsolationKind,
}

/// Isolation of commands, as far as it matters to the model that writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationKind {
    /// A sandbox with its own `/tmp` and loopback (levels `overlay` and `namespaces`).
    PrivateNamespaces,
    /// A sandbox that shares both with the host, and denies access to them (level `landlock`).
    SharedWithHost,
    /// The agent's own container, which lasts.
    Container,
    /// None.
    Unsandboxed,
}

/// Appends what the system message of `phase` says about commands.
pub fn describe_commands(out: &mut String, access: &CommandAccess<'_>, phase: Phase) {
    let network = match (access.isolation, access.network) {
        (IsolationKind::Unsandboxed, _) | (_, NetworkPolicy::On) => "with network".to_owned(),
        (_, NetworkPolicy::Off) => "without network".to_owned(),
        (_, NetworkPolicy::Domains(domains)) => {
            format!("with network only to {}", join_with_commas(domains))
        }
    };
    let isolation_text = match access.isolation {
        IsolationKind::PrivateNamespaces
        | IsolationKind::SharedWithHost
        | IsolationKind::Container => "and can read and write what you can",
        IsolationKind::Unsandboxed => "and nothing holds them: keep to the paths above yourself",
    };
    let temporary_directory = match access.isolation {
        IsolationKind::PrivateNamespaces | IsolationKind::Container => "`/tmp`",
        IsolationKind::SharedWithHost => "`$TMPDIR` (never `/tmp`)",
        IsolationKind::Unsandboxed => "`$TMPDIR`",
    };
    let _ = writeln!(
        out,
        "Commands run in bash, {network}, {isolation_text}; {temporary_directory} and `$HOME` are your \
         commands' own and last as long as the run."
    );
    if access.isolation == IsolationKind::PrivateNamespaces && *access.network != NetworkPolicy::On
    {
        out.push_str(
            "Each command has a loopback of its own: start a server and its client in one \
             command.\n",
        );
    }
    if access.isolation == IsolationKind::SharedWithHost && phase != Phase::Coordination {
        out.push_str(
            "Commands find a copy of the paths that you may write at another path, and start \
             there: use relative paths.\n",
        );
    }
    if phase == Phase::Final {
        out.push_str(match access.isolation {
            IsolationKind::PrivateNamespaces
            | IsolationKind::Container
            | IsolationKind::SharedWithHost => {
                "What you and your commands change where you may write is delivered when you \
                 are done, except protected names (`.git`, `.env`, `node_modules` and the like).\n"
            }
            IsolationKind::Unsandboxed => "",
        });
    }
    out.push_str(
        "If you ran commands, say in your answer what they showed: what passed, what failed, and \
         what that means. Name the files that you made by their paths; do not paste their contents.\n",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the text before the last sentence, which is always the same.
    #[track_caller]
    fn check(isolation: IsolationKind, network: &NetworkPolicy, phase: Phase, expected: &str) {
        let mut text = String::new();
        describe_commands(&mut text, &CommandAccess { network, isolation }, phase);
        let (main_part, last) = text.split_at(text.rfind("If you ran").unwrap());
        assert!(last.ends_with("do not paste their contents.\n"));
        assert_eq!(main_part, expected);
    }

    #[test]
    fn the_prompt_describes_what_commands_can_access() {
        let loopback = "Each command has a loopback of its own: start a server and its client in \
                        one command.\n";
        let apart = "Commands run in bash, without network, and can read and write what you can; \
                     `/tmp` and `$HOME` are your commands' own and last as long as the run.\n";
        let closed = format!("{apart}{loopback}");
        check(
            IsolationKind::PrivateNamespaces,
            &NetworkPolicy::Off,
            Phase::Coordination,
            &closed,
        );
        let open = apart.replace("without network", "with network");
        check(
            IsolationKind::PrivateNamespaces,
            &NetworkPolicy::On,
            Phase::Coordination,
            &open,
        );
        check(
            IsolationKind::Container,
            &NetworkPolicy::Off,
            Phase::Coordination,
            apart,
        );
        let narrow = apart.replace("`/tmp` and", "`$TMPDIR` (never `/tmp`) and");
        check(
            IsolationKind::SharedWithHost,
            &NetworkPolicy::Off,
            Phase::Coordination,
            &narrow,
        );
    }

    #[test]
    fn the_prompt_promises_no_isolation_without_a_sandbox() {
        let loose = "Commands run in bash, with network, and nothing holds them: keep to the paths \
                     above yourself; `$TMPDIR` and `$HOME` are your commands' own and last as long \
                     as the run.\n";
        check(
            IsolationKind::Unsandboxed,
            &NetworkPolicy::Off,
            Phase::Final,
            loose,
        );
    }

    #[test]
    fn the_final_prompt_explains_how_changes_are_delivered() {
        let description = |isolation| {
            let (mut text, network) = (String::new(), &NetworkPolicy::On);
            describe_commands(
                &mut text,
                &CommandAccess { network, isolation },
                Phase::Final,
            );
            text
        };
        assert!(
            description(IsolationKind::PrivateNamespaces)
                .contains("is delivered when you are done")
        );
        assert!(description(IsolationKind::SharedWithHost).contains("at another path"));
    }
}
