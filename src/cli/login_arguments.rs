//! Arguments of `massgen mcp login` and `massgen mcp logout`.

use clap::Args;

use crate::cli::help::{LOGIN_EXAMPLES, LOGOUT_EXAMPLES};

/// Where somebody signs in.
#[derive(Args, Debug)]
#[command(after_help = LOGIN_EXAMPLES)]
pub(crate) struct LoginArguments {
    /// Which server.
    #[command(flatten)]
    pub server: NamedServer,
    /// Opens no browser: you open the address that is printed, on whatever machine.
    #[arg(long)]
    pub no_browser: bool,
    /// Asks for this right in place of those of the config, or of the server.
    #[arg(long, value_name = "SCOPE")]
    pub scope: Vec<String>,
    /// The port on loopback that the browser comes back to. Default: a free one.
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub port: u16,
}

/// Where somebody is not to be signed in any more.
#[derive(Args, Debug)]
#[command(after_help = LOGOUT_EXAMPLES)]
pub(crate) struct LogoutArguments {
    /// Which server.
    #[command(flatten)]
    pub server: NamedServer,
}

/// A server on the network that a config names.
#[derive(Args, Debug)]
pub(crate) struct NamedServer {
    /// Its name in `mcp_servers`.
    #[arg(value_name = "SERVER")]
    pub name: String,
    /// The config. Default: the one that a run would find.
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,
}
