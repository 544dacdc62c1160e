//! Arguments of `massgen mcp login` and `massgen mcp logout`.

use clap::Args;

use crate::cli::help::{LOGIN_EXAMPLES, LOGOUT_EXAMPLES};

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
