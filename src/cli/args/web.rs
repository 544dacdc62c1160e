//! Arguments of `massgen web`.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

// Arguments of `massgen web`.
#[derive(Args, Debug)]
pub(crate) struct WebArguments {
    /// Config of a team: a YAML file, or `@examples/NAME` for a built-in one; may be repeated. The
    /// page chooses among them and cannot change them. Default: the team that a run would use.
    #[arg(short, long, value_name = "FILE")]
    pub config: Vec<String>,
    /// Port on this machine. Default: a free one.
    #[arg(long, value_name = "PORT", conflicts_with = "http")]
    pub port: Option<u16>,
    /// Do not open a browser; only print the link. Default: open it if there is a screen.
    #[arg(long)]
    pub no_browser: bool,
    /// Only show: the page starts, answers, applies and reverts nothing. Default: off.
    #[arg(long)]
    pub read_only: bool,
    /// Maximum number of parallel runs that the page starts, at most 8. Default: 4.
    #[arg(long, value_name = "COUNT", default_value_t = 4, hide_default_value = true,
        value_parser = clap::value_parser!(u32).range(1..=8))]
    pub parallel: u32,
    /// File with model prices. Default: `~/.massgen/models.yaml`, if it exists.
    #[arg(long, value_name = "FILE")]
    pub models: Option<String>,
    /// Listen on this address. One that other machines reach needs `--allowed-host` and
    /// `--token-file`. Default: 127.0.0.1.
    #[arg(long, value_name = "ADDR:PORT")]
    pub http: Option<SocketAddr>,
    /// File with a bearer token that is accepted too. Default: only links are accepted.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<String>,
    /// Also accept requests that use this host name. Default: only those of this machine.
    #[arg(long, value_name = "NAME")]
    pub allowed_host: Vec<String>,
}

impl WebArguments {
    /// Returns the address to listen on.
    pub(crate) fn address(&self) -> SocketAddr {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port.unwrap_or_default()));
        self.http.unwrap_or(loopback)
    }
}
