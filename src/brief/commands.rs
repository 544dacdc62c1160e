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
    /// What becomes of what they write below the write paths.
    pub writes: UserPaths,
}

/// What becomes of what commands write below the user's write paths, in the final phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPaths {
    /// It is delivered when the command has ended.
    Delivered,
    /// Nothing can be written there.
    ReadOnly,
}

/// Tells about commands in the system message of `phase`.
pub(super) fn commands(out: &mut String, shell: &Shell<'_>, phase: Phase) {
    let network = match shell.network {
        Network::Off => "without network".to_owned(),
        Network::On => "with network".to_owned(),
        Network::Domains(domains) => format!("with network only to {}", joined(domains)),
    };
    let _ = writeln!(
        out,
        "Commands run in bash, {network}, and can read and write what you can; `/tmp` and `$HOME` \
         are your own."
    );
    if phase == Phase::Final {
        out.push_str(match shell.writes {
            UserPaths::Delivered => {
                "What a command changes where you may write is delivered when it has ended, \
                 except protected names (`.git`, `.env`, `node_modules` and the like).\n"
            }
            UserPaths::ReadOnly => {
                "Commands cannot write the user's paths: deliver with the file tools.\n"
            }
        });
    }
    out.push_str(
        "If you ran commands, say in your answer what they showed: what passed, what failed, and \
         what that means.\n",
    );
}
