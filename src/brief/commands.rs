//! Owns what a model is told about the commands that it may run.

use std::fmt::Write as _;

use crate::confinement::network::Network;
use crate::permissions::grant::Phase;
use crate::wording::joined;

/// What the commands of an agent may do, as it is told.
#[derive(Clone, Copy, Debug)]
pub struct Shell<'a> {
    /// What they reach of the network.
    pub network: &'a Network,
    /// What holds them.
    pub held: Held,
}

/// What holds commands, as far as it makes a difference to who writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// A sandbox with a `/tmp` and a loopback of its own (tiers A and B).
    Apart,
    /// A sandbox that shares both with the machine, and closes them (tier C).
    Narrowly,
    /// A container of the agent's own, which lasts.
    Contained,
    /// Nothing.
    Loosely,
}

/// Tells about commands in the system message of `phase`.
pub(super) fn commands(out: &mut String, shell: &Shell<'_>, phase: Phase) {
    let network = match (shell.held, shell.network) {
        (Held::Loosely, _) | (_, Network::On) => "with network".to_owned(),
        (_, Network::Off) => "without network".to_owned(),
        (_, Network::Domains(domains)) => format!("with network only to {}", joined(domains)),
    };
    let reach = match shell.held {
        Held::Apart | Held::Narrowly | Held::Contained => "and can read and write what you can",
        Held::Loosely => "and nothing holds them: keep to the paths above yourself",
    };
    let temporary = match shell.held {
        Held::Apart | Held::Contained => "`/tmp`",
        Held::Narrowly => "`$TMPDIR` (never `/tmp`)",
        Held::Loosely => "`$TMPDIR`",
    };
    let _ = writeln!(
        out,
        "Commands run in bash, {network}, {reach}; {temporary} and `$HOME` are your commands' own \
         and last as long as the run."
    );
    if shell.held == Held::Apart && *shell.network != Network::On {
        out.push_str(
            "Each command has a loopback of its own: start a server and its client in one \
             command.\n",
        );
    }
    if phase == Phase::Final {
        out.push_str(match shell.held {
            Held::Apart | Held::Contained => {
                "What you and your commands change where you may write is delivered when you \
                 are done, except protected names (`.git`, `.env`, `node_modules` and the like).\n"
            }
            Held::Narrowly => {
                "Commands cannot write the user's paths: deliver with the file tools.\n"
            }
            Held::Loosely => "",
        });
    }
    out.push_str(
        "If you ran commands, say in your answer what they showed: what passed, what failed, and \
         what that means.\n",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told beside the last sentence, which is always the same.
    #[track_caller]
    fn check(held: Held, network: &Network, phase: Phase, expected: &str) {
        let mut told = String::new();
        commands(&mut told, &Shell { network, held }, phase);
        let (told, last) = told.split_at(told.rfind("If you ran").unwrap());
        assert!(last.ends_with("what that means.\n"));
        assert_eq!(told, expected);
    }

    #[test]
    fn an_agent_hears_what_its_commands_have() {
        let loopback = "Each command has a loopback of its own: start a server and its client in \
                        one command.\n";
        let apart = "Commands run in bash, without network, and can read and write what you can; \
                     `/tmp` and `$HOME` are your commands' own and last as long as the run.\n";
        let closed = format!("{apart}{loopback}");
        check(Held::Apart, &Network::Off, Phase::Coordination, &closed);
        let open = apart.replace("without network", "with network");
        check(Held::Apart, &Network::On, Phase::Coordination, &open);
        check(Held::Contained, &Network::Off, Phase::Coordination, apart);
        let narrow = apart.replace("`/tmp` and", "`$TMPDIR` (never `/tmp`) and");
        check(Held::Narrowly, &Network::Off, Phase::Coordination, &narrow);
    }

    #[test]
    fn nothing_is_promised_that_nothing_holds() {
        let loose = "Commands run in bash, with network, and nothing holds them: keep to the paths \
                     above yourself; `$TMPDIR` and `$HOME` are your commands' own and last as long \
                     as the run.\n";
        check(Held::Loosely, &Network::Off, Phase::Final, loose);
    }

    #[test]
    fn in_the_final_phase_an_agent_hears_how_changes_are_delivered() {
        let told = |held| {
            let (mut told, network) = (String::new(), &Network::On);
            commands(&mut told, &Shell { network, held }, Phase::Final);
            told
        };
        assert!(told(Held::Apart).contains("is delivered when you are done"));
        assert!(told(Held::Narrowly).contains("deliver with the file tools"));
    }
}
