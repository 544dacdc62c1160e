//! Arguments of `massgen init`.

use clap::Args;

use crate::cli::args::{CwdContext, backend_types};

// Arguments of `massgen init`. What is given is not asked for.
#[derive(Args, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct InitArguments {
    /// Model of an agent; repeat it for a team of several agents. Default: on a terminal, ask which
    /// of the models that are found take part; with `--yes`, the first three of them.
    #[arg(short, long, value_name = "MODEL")]
    pub model: Vec<String>,
    /// Backend type of the agents, or `claude_code`, `codex` or `gemini_cli` for an installed
    /// program. Default: derived from the model name.
    #[arg(short, long, value_name = "TYPE", value_parser = backend_types(),
        hide_possible_values = true)]
    pub backend: Option<String>,
    /// API endpoint of the agents. Default: the endpoint of the backend.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Directory that the agents may read. Default: this directory.
    #[arg(long, value_name = "DIR")]
    pub path: Option<String>,
    /// Open no directory. Default: off.
    #[arg(long, conflicts_with_all = ["path", "access"])]
    pub no_path: bool,
    /// Access to the directory: `ro` to read, `rw` to let the winner write too. Default: `ro`.
    #[arg(long, value_name = "ACCESS")]
    pub access: Option<CwdContext>,
    /// Let the agents run commands in the sandbox. Default: on.
    #[arg(long)]
    pub commands: bool,
    /// Do not let the agents run commands. Default: off.
    #[arg(long, conflicts_with = "commands")]
    pub no_commands: bool,
    /// File to write, below this directory. Default: `.massgen/config.yaml`, which runs find by
    /// themselves; `team.yaml` for a team that only a config with a name may describe.
    #[arg(short, long, value_name = "FILE", conflicts_with = "print")]
    pub output: Option<String>,
    /// Ask nothing, and take the defaults. Default: ask on the terminal.
    #[arg(short, long)]
    pub yes: bool,
    /// Replace the file if it exists. Default: ask on the terminal; with `--yes`, leave it.
    #[arg(long, conflicts_with = "print")]
    pub force: bool,
    /// Only print the config: ask nothing, and write nothing. Default: off.
    #[arg(long, alias = "dry-run")]
    pub print: bool,
}
