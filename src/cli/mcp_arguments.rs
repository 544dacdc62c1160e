//! Arguments of `massgen mcp`: massgen as an MCP server for other agents, and sign-in at MCP
//! servers.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

use crate::cli::args::CallerArguments;
use crate::cli::help::{ORCHESTRATE_EXAMPLES, SERVE_EXAMPLES, WORKFLOW_EXAMPLES};
use crate::cli::login_arguments::{LoginArguments, LogoutArguments};

/// What is done about servers of the Model Context Protocol.
#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Offers the guarded tools for files and commands of one agent, on standard input and output or
    /// on HTTP.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArguments),
    /// Offers whole runs of a team: another agent gives a task, and gets the answer that won.
    #[command(after_help = ORCHESTRATE_EXAMPLES)]
    Orchestrate(OrchestrateArguments),
    /// Signs you in at a server on the network that a config names, in your browser.
    Login(LoginArguments),
    /// Forgets how you are signed in at a server.
    Logout(LogoutArguments),
    /// Passes on between an agent that is a program and the run that it takes part in. Runs start it
    /// themselves.
    #[command(after_help = WORKFLOW_EXAMPLES)]
    Workflow(WorkflowArguments),
}

/// Which run is passed on to.
#[derive(Args, Debug)]
pub(crate) struct WorkflowArguments {
    /// The socket of the run. Default: none, it must be given.
    #[arg(long, value_name = "SOCKET", required = true)]
    pub socket: String,
}

/// Whose tools are offered.
#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// For whom calls are carried out.
    #[command(flatten)]
    pub caller: CallerArguments,
    /// How they are offered.
    #[command(flatten)]
    pub way: TransportArguments,
}

/// Who conducts runs for other agents.
#[derive(Args, Debug)]
pub(crate) struct OrchestrateArguments {
    /// The team of all runs: a YAML file, or `@examples/NAME` for one that is built in. It is read once,
    /// and no caller changes it.
    #[arg(short, long, value_name = "FILE")]
    pub config: String,
    /// Lets callers apply what a run did not deliver. Default: they may only where `delivery` in the
    /// config is `auto`.
    #[arg(long)]
    pub allow_apply: bool,
    /// How many runs may go on at the same time, at most 8. Default: 1.
    #[arg(long, value_name = "COUNT", default_value_t = 1, hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..=8))]
    pub parallel: u32,
    /// Asks the program that listens at this socket about calls that `permissions` has asked. Default:
    /// such calls are denied.
    #[arg(long, value_name = "SOCKET")]
    pub ask_file: Option<String>,
    /// The file of what models cost. Default: `~/.massgen/models.yaml`, if it is there.
    #[arg(long, value_name = "FILE")]
    pub models: Option<String>,
    /// How they are offered.
    #[command(flatten)]
    pub way: TransportArguments,
}

/// On which way clients come to a server.
#[derive(Args, Debug)]
pub(crate) struct TransportArguments {
    /// Serves on HTTP, at an address on loopback, in place of standard input and output. Default, if
    /// no address is given: 127.0.0.1 and a free port.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    pub http: Option<SocketAddr>,
    /// The file that holds the bearer token. Default: a new one, which is printed once on standard
    /// error.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<String>,
    /// Serves other machines too, which reach this one by this name. Default: only this machine.
    #[arg(long, value_name = "NAME", requires = "http")]
    pub reached_as: Vec<String>,
}
