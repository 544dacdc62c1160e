//! Arguments of the commands that inspect and revert pipelines of roles.

use clap::{Args, Subcommand};

use crate::cli::help::{
    BRANCHES_EXAMPLES, LOG_EXAMPLES, RESET_EXAMPLES, REVERT_EXAMPLES, ROLES_EXAMPLES,
};
use crate::roles::RoleName;
use crate::world::store::naming::LAST;

/// What can be done with a pipeline of roles.
#[derive(Debug, Subcommand)]
pub(crate) enum PipelineCommand {
    /// Prints what the roles of a pipeline may do, and where.
    #[command(after_help = ROLES_EXAMPLES)]
    Roles(RolesArguments),
    /// Lists the branches of a pipeline of roles, with where their files are.
    #[command(after_help = BRANCHES_EXAMPLES)]
    Branches(PipelineArguments),
    /// Lists what the roles of a pipeline have done, the newest first.
    #[command(after_help = LOG_EXAMPLES)]
    Log(PipelineArguments),
    /// Takes all work of a role out of what the roles of a pipeline share.
    #[command(after_help = REVERT_EXAMPLES)]
    Revert(RoleArguments),
    /// Has a role of a pipeline start afresh, with nothing of its own left.
    #[command(after_help = RESET_EXAMPLES)]
    Reset(RoleArguments),
}

/// Whose roles are shown.
#[derive(Args, Debug, Default)]
pub(crate) struct RolesArguments {
    /// The config of the pipeline. Default: the roles that every config has.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<String>,
    /// Prints JSON, one object on a line. Default: a table.
    #[arg(long)]
    pub json: bool,
}

/// Which pipeline is shown.
#[derive(Args, Debug)]
pub(crate) struct PipelineArguments {
    /// The pipeline: its name, the beginning of it, or `last`. Default: the last one.
    #[arg(value_name = "RUN", default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// Prints JSON, one object on a line. Default: a table.
    #[arg(long)]
    pub json: bool,
}

/// Which role of which pipeline is meant.
#[derive(Args, Debug)]
pub(crate) struct RoleArguments {
    /// The pipeline: its name, the beginning of it, or `last`. Default: the last one.
    #[arg(value_name = "RUN", default_value = LAST, hide_default_value = true)]
    pub run: String,
    /// The role.
    #[arg(long, value_name = "ROLE", value_parser = RoleName::parse)]
    pub role: RoleName,
}

impl Default for PipelineArguments {
    fn default() -> Self {
        Self {
            run: LAST.to_owned(),
            json: false,
        }
    }
}
