//! Owns the foreign servers of tools that a config names (`mcp_servers`). Where nothing is written,
//! the defaults are the closed ones.

use core::net::IpAddr;
use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

use crate::call_rules::{About, CallRule, CallRules};
use crate::config::command_line::Variable;
use crate::config::secrets::is_secret;
use crate::confinement::network::Network;
use crate::confinement::public::is_public;
use crate::path::AbsPath;
use crate::permissions::path_rules::Ruling;
use crate::tools::served::{ServerName, ServerRules};

/// How long a call may take where the config does not say it, in seconds.
pub const CALL_SECONDS_DEFAULT: u64 = 120;

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// What the user says about its tools, its name among it.
    pub rules: ServerRules,
    /// How it is reached.
    pub link: Link,
    /// How long one call may take, in seconds (`timeout_seconds`).
    pub call_seconds: u64,
}

impl ServerConfig {
    /// Whether one connection serves all agents that have this server.
    pub fn is_shared(&self) -> bool {
        match &self.link {
            Link::Remote(_) => true,
            Link::Program(program) => program.instances == Instances::One,
        }
    }

    /// What the config says of its single tools (`tools`), as rules.
    pub fn call_rules(&self) -> CallRules {
        let server = self.name();
        let rule = |(tool, ruling): (&String, &Ruling)| {
            Some(CallRule {
                ruling: *ruling,
                about: About::Tool(self.rules.full_name_of(tool)?),
                written: format!("mcp({server}/{tool})"),
            })
        };
        CallRules::new(self.rules.ruled.iter().filter_map(rule).collect())
    }

    /// Its name.
    pub fn name(&self) -> &ServerName {
        &self.rules.server
    }

    /// What of it must reach no record: headers, variables that others were filled into, and those
    /// whose names say so. `own` is massgen's environment.
    pub fn secrets(&self, own: &BTreeMap<String, String>) -> Vec<SecretString> {
        let copy = |secret: &SecretString| SecretString::from(secret.expose_secret());
        match &self.link {
            Link::Remote(remote) => {
                let client = remote.sign_in.client.as_ref();
                let secret = client.and_then(|client| client.secret.as_ref());
                remote.headers.values().chain(secret).map(copy).collect()
            }
            Link::Program(program) => {
                let secret = |(name, value): (&String, &Variable)| match value {
                    Variable::Filled(secret) => Some(copy(secret)),
                    Variable::Written(text) if is_secret(name) => Some(text.as_str().into()),
                    Variable::Passed if is_secret(name) => Some(own.get(name)?.as_str().into()),
                    Variable::Passed | Variable::Written(_) => None,
                };
                program.env.iter().filter_map(secret).collect()
            }
        }
    }
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Link {
    /// A program that massgen starts for an agent, in the agent's sandbox (`type: stdio`).
    Program(ServerProgram),
    /// A server on the network (`type: streamable-http`).
    Remote(RemoteServer),
}

/// A server that is a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerProgram {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The directory that it begins in; the agent's workspace without one.
    pub cwd: Option<AbsPath>,
    /// Variables besides those that every command has.
    pub env: BTreeMap<String, Variable>,
    /// What it reaches of the network.
    pub network: Network,
    /// Who has an instance.
    pub instances: Instances,
}

/// How many instances of a program there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instances {
    /// Each agent has its own.
    #[default]
    PerAgent,
    /// All agents with this server share one, which may do what all of them may (`shared`).
    One,
}

/// What stands in the arguments of a program for the directory that it begins in.
pub const CWD_OF_SERVER: &str = "${cwd}";

/// A server on the network.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    /// Where it is.
    pub url: Url,
    /// What every request carries besides.
    pub headers: BTreeMap<String, SecretString>,
    /// Which addresses that are not public it may have.
    pub addresses: Addresses,
    /// How massgen signs in there, if the server wants that.
    pub sign_in: SignIn,
}

/// How massgen signs in at a server that wants to know who asks (`oauth`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SignIn {
    /// What massgen is known as; without it, massgen registers itself.
    pub client: Option<OauthClient>,
    /// What is asked for; without any, what the server says.
    pub scopes: Vec<String>,
}

/// What an authorization server knows massgen as.
#[derive(Clone, Debug)]
pub struct OauthClient {
    /// Its name there (`client_id`).
    pub id: String,
    /// What proves it (`client_secret`).
    pub secret: Option<SecretString>,
}

impl PartialEq for RemoteServer {
    fn eq(&self, other: &Self) -> bool {
        let headers = |server: &Self| -> Vec<(String, String)> {
            let headers = server.headers.iter();
            let copy = |(name, value): (&String, &SecretString)| {
                (name.clone(), value.expose_secret().to_owned())
            };
            headers.map(copy).collect()
        };
        self.url == other.url
            && self.addresses == other.addresses
            && self.sign_in == other.sign_in
            && headers(self) == headers(other)
    }
}

impl PartialEq for OauthClient {
    fn eq(&self, other: &Self) -> bool {
        let secret = |client: &Self| {
            let secret = client.secret.as_ref();
            secret.map(|secret| secret.expose_secret().to_owned())
        };
        self.id == other.id && secret(self) == secret(other)
    }
}

/// Which addresses that are not public a server on the network may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Those of this machine (`allow_localhost`).
    pub this_machine: Allowed,
    /// Those of private networks (`allow_private_ips`).
    pub private: Allowed,
}

/// Whether something is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allowed {
    /// It is not.
    #[default]
    No,
    /// It is.
    Yes,
}

impl Addresses {
    /// Why a server may not have an address; `None` if it may.
    pub fn fault_of(self, address: IpAddr) -> Option<&'static str> {
        let address = address.to_canonical();
        if is_public(address) {
            return None;
        }
        let is_this_machine = address.is_loopback() || address.is_unspecified();
        match (is_this_machine, self.this_machine, self.private) {
            (true, Allowed::Yes, _) => None,
            (true, Allowed::No, _) => Some("`url` leads to this machine"),
            (false, _, Allowed::Yes) if is_private(address) => None,
            (false, _, _) => Some("`url` leads into a private network"),
        }
    }

    /// Why `url` may not be connected to, as far as it says so itself. Names are looked up when it is.
    pub fn fault_of_url(self, url: &Url) -> Option<&'static str> {
        match url.host() {
            None => Some("`url` names no server"),
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                let is_local = name == "localhost" || name.ends_with(".localhost");
                let is_closed = is_local && self.this_machine == Allowed::No;
                is_closed.then_some("`url` leads to this machine")
            }
            Some(Host::Ipv4(address)) => self.fault_of(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => self.fault_of(IpAddr::V6(address)),
        }
    }
}

/// Whether an address belongs to a private network; what serves a cloud's metadata does not.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    }
}
