//! Arguments of `massgen mcp`: massgen as an MCP server for other agents, and sign-in at MCP
//! servers.

use std::net::SocketAddr;

use clap::{Args, Subcommand};
use url::Url;

use crate::cli::args::gate_calls::CallerArguments;
use crate::cli::help::{
    INSTALL_EXAMPLES, LOGIN_EXAMPLES, LOGOUT_EXAMPLES, ORCHESTRATE_EXAMPLES, SERVE_EXAMPLES,
    UNINSTALL_EXAMPLES, WORKFLOW_EXAMPLES,
};

/// Commands for MCP servers.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum McpCommand {
    /// Serve the tools for files and commands of one agent, restricted to its grants, on
    /// standard input and output or over HTTP.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArguments),
    /// Serve runs of a team: another agent submits a task and gets the winning answer.
    #[command(after_help = ORCHESTRATE_EXAMPLES)]
    Orchestrate(OrchestrateArguments),
    /// Install the packages of the MCP servers of a config that `npx`, `uvx` and the like would
    /// download, so that they run without network access.
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(InstallArguments),
    /// List the installed packages of MCP servers.
    List,
    /// Remove an installed package of MCP servers.
    #[command(after_help = UNINSTALL_EXAMPLES)]
    Uninstall(UninstallArguments),
    /// Sign in to an MCP server of a config, in your browser.
    Login(LoginArguments),
    /// Delete the stored credentials for an MCP server.
    Logout(LogoutArguments),
    /// Connect an external agent with its run. Runs start this themselves.
    #[command(after_help = WORKFLOW_EXAMPLES)]
    Workflow(WorkflowArguments),
}

// Arguments of `massgen mcp install`.
#[derive(Args, Debug)]
pub(crate) struct InstallArguments {
    /// Names of the servers in `mcp_servers`. Default: all whose command downloads a package.
    #[arg(value_name = "SERVER")]
    pub servers: Vec<String>,
    /// The config. Default: the config that a run would use.
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
    /// Install the newest matching version again, even if one is installed.
    #[arg(long)]
    pub update: bool,
    /// Registry of the packages. Default: that of npm, or of Python.
    #[arg(long, value_name = "URL")]
    pub registry: Option<Url>,
}

// Arguments of `massgen mcp uninstall`.
#[derive(Args, Debug)]
pub(crate) struct UninstallArguments {
    /// The package, as the config writes it or by its name.
    #[arg(value_name = "PACKAGE", required = true)]
    pub packages: Vec<String>,
}

// Arguments of `massgen mcp workflow`.
#[derive(Args, Debug)]
pub(crate) struct WorkflowArguments {
    /// Socket of the run (required).
    #[arg(long, value_name = "SOCKET", required = true)]
    pub socket: String,
}

// Arguments of `massgen mcp serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// The agent on whose behalf calls are made.
    #[command(flatten)]
    pub caller: CallerArguments,
    /// The transport.
    #[command(flatten)]
    pub transport: TransportArguments,
}

// Arguments of `massgen mcp orchestrate`.
#[derive(Args, Debug)]
pub(crate) struct OrchestrateArguments {
    /// Config of the team: a YAML file, or `@examples/NAME` for a built-in one. It is read
    /// once, and no caller can change it.
    #[arg(short, long, value_name = "FILE")]
    pub config: String,
    /// Let callers apply what a run did not deliver. Default: only if `delivery` in the config
    /// is `auto`.
    #[arg(long)]
    pub allow_apply: bool,
    /// Maximum number of parallel runs, at most 8. Default: 1.
    #[arg(long, value_name = "COUNT", default_value_t = 1, hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..=8))]
    pub parallel: u32,
    /// Unix socket of a program that answers approval requests. Default: deny.
    #[arg(long, value_name = "SOCKET")]
    pub approval_socket: Option<String>,
    /// File with model prices. Default: `~/.massgen/models.yaml`, if it exists.
    #[arg(long, value_name = "FILE")]
    pub models: Option<String>,
    /// The transport.
    #[command(flatten)]
    pub transport: TransportArguments,
}

// The transport of a server.
#[derive(Args, Debug)]
pub(crate) struct TransportArguments {
    /// Serve over HTTP on this loopback address instead of standard input and output. Default
    /// address: 127.0.0.1 with a free port.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    pub http: Option<SocketAddr>,
    /// File with the bearer token. Default: generate a new one and print it once on standard
    /// error.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<String>,
    /// Also accept requests from other machines that use this host name. Default: only this
    /// machine.
    #[arg(long, value_name = "NAME", requires = "http")]
    pub allowed_host: Vec<String>,
}

// Arguments of `massgen mcp login`.
#[derive(Args, Debug)]
#[command(after_help = LOGIN_EXAMPLES)]
pub(crate) struct LoginArguments {
    /// The server.
    #[command(flatten)]
    pub server: NamedServer,
    /// Do not open a browser: print the address to open, on any machine.
    #[arg(long)]
    pub no_browser: bool,
    /// Request this scope instead of those of the config or the server. Scopes that were granted
    /// before are always requested again.
    #[arg(long, value_name = "SCOPE")]
    pub scope: Vec<String>,
    /// Loopback port for the browser's redirect. Default: a free port.
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub port: u16,
}

// Arguments of `massgen mcp logout`.
#[derive(Args, Debug)]
#[command(after_help = LOGOUT_EXAMPLES)]
pub(crate) struct LogoutArguments {
    /// The server.
    #[command(flatten)]
    pub server: NamedServer,
}

// A remote MCP server of a config.
#[derive(Args, Debug)]
pub(crate) struct NamedServer {
    /// Name of the server in `mcp_servers`.
    #[arg(value_name = "SERVER")]
    pub name: String,
    /// The config. Default: the config that a run would use.
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
}
