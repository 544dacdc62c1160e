//! The MCP servers of a config (`mcp_servers`). The defaults are the strictest settings.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

use crate::call_rules::{CallMatcher, CallRule, CallRules};
use crate::config::command_line::{EnvVariable, Privilege, variable_secrets};
use crate::config::custom_tools::ProgramInterface;
use crate::config::server_package::ServerPackage;
use crate::config::vendors::{is_local_name, is_this_machine};
use crate::dotenv::ConfigVariables;
use crate::path::AbsPath;
use crate::permissions::path_rules::RuleAction;
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::public::{is_in_networks, is_public};
use crate::tools::served::{ServedToolRules, ServerName};

/// The default timeout of a call, in seconds.
pub const CALL_SECONDS_DEFAULT: u64 = 120;
/// Words by which a failure may concern the network.
const NETWORK_WORDS: &[&str] = &["network", "connect", "resolve", "enotfound", "eai_again"];

/// An MCP server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// The user's rules for its tools, including its name.
    pub rules: ServedToolRules,
    /// Its transport.
    pub transport: ServerTransport,
    /// The timeout of a call, in seconds (`timeout_seconds`).
    pub call_seconds: u64,
    /// Whether agents can work without it.
    pub need: ServerNeed,
}

impl ServerConfig {
    /// Returns whether all agents with this server share one connection.
    pub fn is_shared(&self) -> bool {
        match &self.transport {
            ServerTransport::Remote(_) => true,
            ServerTransport::Program(program) => program.instances == InstanceSharing::One,
        }
    }

    /// Returns the config's settings for single tools (`tools`) as rules.
    pub fn call_rules(&self) -> CallRules {
        let server = self.name();
        let rule = |(tool, action): (&String, &RuleAction)| {
            Some(CallRule {
                action: *action,
                matcher: CallMatcher::Tool(self.rules.full_name_of(tool)?),
                written: format!("mcp({server}/{tool})"),
            })
        };
        CallRules::new(self.rules.tool_rules.iter().filter_map(rule).collect())
    }

    /// Returns how massgen uses it, if it is a program.
    pub fn program_interface(&self) -> Option<&ProgramInterface> {
        match &self.transport {
            ServerTransport::Remote(_) => None,
            ServerTransport::Program(program) => Some(&program.interface),
        }
    }

    /// Returns what to append to a failure that may be about the network, if the program has none:
    /// the key that opens one.
    pub fn closed_network_note(&self, failure: &str) -> &'static str {
        let is_closed = match &self.transport {
            ServerTransport::Program(program) => {
                program.run_in == ProgramPlace::Sandbox && program.network == NetworkPolicy::Off
            }
            ServerTransport::Remote(_) => false,
        };
        let failure = failure.to_lowercase();
        if is_closed && NETWORK_WORDS.iter().any(|word| failure.contains(word)) {
            "; it has no network, which `network` in its entry of the config opens"
        } else {
            ""
        }
    }

    /// Returns the image that the config names for its container.
    pub fn container_image(&self) -> Option<&str> {
        match &self.transport {
            ServerTransport::Program(program) => match &program.run_in {
                ProgramPlace::Container { image } => image.as_deref(),
                ProgramPlace::Sandbox => None,
            },
            ServerTransport::Remote(_) => None,
        }
    }

    /// Returns the full names of the user's own tools that it has, as far as the config names them.
    pub fn custom_tools(&self) -> Vec<String> {
        let interface = self.program_interface();
        interface.map_or_else(Vec::new, ProgramInterface::tool_names)
    }

    /// Returns its name.
    pub fn name(&self) -> &ServerName {
        &self.rules.server
    }

    /// Returns the values that must not appear in any record: headers, the secret of `oauth`,
    /// expanded variables, and those whose names indicate a secret. Inherited values are looked up
    /// in `variables`.
    pub fn secrets(&self, variables: &ConfigVariables) -> Vec<SecretString> {
        let copy = |secret: &SecretString| SecretString::from(secret.expose_secret());
        match &self.transport {
            ServerTransport::Remote(remote) => {
                let client_secret = remote.oauth.secret().map(copy);
                let header_values = remote.header_values().into_iter();
                header_values.chain(client_secret).collect()
            }
            ServerTransport::Program(program) => {
                variable_secrets(&program.env, variables).collect()
            }
        }
    }
}

/// Whether agents can work without a server that does not start or does not list its tools
/// (`required`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerNeed {
    /// They continue without its tools.
    #[default]
    Optional,
    /// The run ends.
    Required,
}

/// The transport of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerTransport {
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
    /// How massgen uses it.
    pub interface: ProgramInterface,
    /// Where it runs.
    pub run_in: ProgramPlace,
    /// The working directory.
    pub directory: ServerDirectory,
    /// Variables in addition to those that every command has.
    pub env: BTreeMap<String, EnvVariable>,
    /// Its network access.
    pub network: NetworkPolicy,
    /// Which agents share an instance.
    pub instances: InstanceSharing,
    /// The package that the command would download, if it is one that can be installed.
    pub package: Option<PackageRequest>,
}

impl ServerProgram {
    /// Returns whether it has more access than the agent's commands.
    pub fn is_privileged(&self) -> bool {
        Privilege::of(&self.env, &self.network) == Privilege::Privileged
    }
}

/// Where the program of a server runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProgramPlace {
    /// In massgen's sandbox on this machine.
    #[default]
    Sandbox,
    /// In a container of its own, on the engine of the agent's commands (`run_in: container`).
    Container {
        /// The image; `None` for that of the commands.
        image: Option<String>,
    },
}

/// The package of a server, and how the user installs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageRequest {
    /// The package.
    pub package: ServerPackage,
    /// The command that installs it.
    pub install_command: String,
}

/// The directory in which a program starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerDirectory {
    /// The agent's workspace, or a private directory for a program that is shared or privileged.
    #[default]
    Workspace,
    /// An empty directory that no agent sees, for an agent without a workspace.
    Private,
    /// The one that the config names.
    Named(AbsPath),
}

/// Which agents share an instance of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstanceSharing {
    /// Each agent has its own.
    #[default]
    PerAgent,
    /// All agents with this server share one instance, which may read what all of them may read,
    /// and writes nothing (`shared`).
    One,
}

/// The placeholder for the working directory in the arguments of a program.
pub const CWD_PLACEHOLDER: &str = "${cwd}";

/// A server on the network.
#[derive(Clone, Debug)]
pub struct RemoteServer {
    /// Its URL.
    pub url: Url,
    /// Headers that are added to every request.
    pub headers: BTreeMap<String, SecretString>,
    /// Which non-public addresses it may have.
    pub addresses: AddressPolicy,
    /// How massgen signs in, if the server requires it.
    pub oauth: OauthConfig,
}

/// Parts of the names of headers that hold the client's credentials.
const CREDENTIAL_HEADER_PARTS: &[&str] = &[
    "auth",
    "cookie",
    "credential",
    "key",
    "password",
    "secret",
    "session",
    "token",
];

impl RemoteServer {
    /// Returns all values in `headers`, with and without their authentication scheme.
    pub fn header_values(&self) -> Vec<SecretString> {
        self.headers.values().flat_map(header_secrets).collect()
    }

    /// Returns the values of the headers that hold credentials, judging by their names.
    pub fn credentials(&self) -> Vec<SecretString> {
        let is_credential = |name: &str| {
            let name = name.to_ascii_lowercase();
            CREDENTIAL_HEADER_PARTS
                .iter()
                .any(|part| name.contains(part))
        };
        let headers = self.headers.iter();
        let credential_headers = headers.filter(|(name, _)| is_credential(name));
        credential_headers
            .flat_map(|(_, value)| header_secrets(value))
            .collect()
    }
}

/// Returns the value of a header, the credentials after an authentication scheme such as `Bearer
/// …`, and the decoded `Basic …` pair and its password.
fn header_secrets(value: &SecretString) -> Vec<SecretString> {
    let value = value.expose_secret();
    let mut secrets = vec![SecretString::from(value)];
    let Some((scheme, credentials)) = value.trim().split_once(char::is_whitespace) else {
        return secrets;
    };
    secrets.push(SecretString::from(credentials));
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    let decoded_credentials = is_basic.then(|| BASE64.decode(credentials.trim()).ok());
    let user_and_password = decoded_credentials
        .flatten()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(user_and_password) = user_and_password {
        let password = user_and_password
            .split_once(':')
            .map(|(_, password)| password);
        secrets.extend(password.map(SecretString::from));
        secrets.push(SecretString::from(user_and_password));
    }
    secrets
}

/// How massgen gets a token for a server that requires one (`oauth`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OauthConfig {
    /// The registered client with which the user signs in; `None` makes massgen register itself.
    pub client: Option<OauthClient>,
    /// The only authorization server that may be used (`issuer`). If it is `None`, the server names
    /// one, which gets the config's secret only if it has the same origin as the server.
    pub issuer: Option<Url>,
    /// The requested scopes; if empty, those that the server names.
    pub scopes: Vec<String>,
}

impl OauthConfig {
    /// Returns its secret, if it has one.
    fn secret(&self) -> Option<&SecretString> {
        self.client.as_ref()?.secret.as_ref()
    }
}

/// Returns whether `url` can identify an authorization server: it is encrypted, except on this
/// machine, and has no user, query or fragment (RFC 8414, section 2).
pub(crate) fn is_issuer(url: &Url) -> bool {
    let is_secure = url.scheme() == "https" || (url.scheme() == "http" && is_this_machine(url));
    let has_user = !url.username().is_empty() || url.password().is_some();
    is_secure && !has_user && url.query().is_none() && url.fragment().is_none()
}

/// The client that massgen is registered as at an authorization server.
#[derive(Clone, Debug)]
pub struct OauthClient {
    /// Its id (`client_id`).
    pub id: String,
    /// Its secret (`client_secret`).
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
            && self.oauth == other.oauth
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

/// What is wrong with a URL that points to this machine.
pub const URL_TO_THIS_MACHINE: &str = "`url` points to this machine";
/// What is wrong with a URL that points into a private network.
pub const URL_INTO_PRIVATE_NETWORK: &str = "`url` points into a private network";
/// What is wrong with a URL that points to where clouds have metadata services. Nothing allows it.
pub const URL_TO_METADATA_SERVICE: &str =
    "`url` points to a link-local address or a cloud's metadata service";
/// What is wrong with a URL that points to another address that is not public. Nothing allows it.
pub const URL_TO_RESERVED_ADDRESS: &str = "`url` points to a reserved address";

/// Which non-public addresses a remote server may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Addresses of this machine (`allow_localhost`).
    pub this_machine: AddressAllowance,
    /// Addresses of private networks (`allow_private_ips`).
    pub private: AddressAllowance,
}

/// Whether something is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressAllowance {
    /// Not allowed.
    #[default]
    No,
    /// Allowed.
    Yes,
}

impl AddressPolicy {
    /// Returns why a server may not have an address; `None` if it may.
    pub fn address_problem(self, address: IpAddr) -> Option<&'static str> {
        let address = address.to_canonical();
        if is_public(address) {
            return None;
        }
        let (allowance, problem) = if address.is_loopback() || address.is_unspecified() {
            (self.this_machine, URL_TO_THIS_MACHINE)
        } else if may_be_metadata_service(address) {
            (AddressAllowance::No, URL_TO_METADATA_SERVICE)
        } else if is_private(address) {
            (self.private, URL_INTO_PRIVATE_NETWORK)
        } else {
            (AddressAllowance::No, URL_TO_RESERVED_ADDRESS)
        };
        (allowance == AddressAllowance::No).then_some(problem)
    }

    /// Returns why `url` may not be connected to, judging by the URL alone. Host names are resolved
    /// and checked on connection.
    pub fn url_problem(self, url: &Url) -> Option<&'static str> {
        match url.host() {
            None => Some("`url` has no host"),
            Some(Host::Domain(name)) => {
                let is_local = is_local_name(name.trim_end_matches('.'));
                let is_refused = is_local && self.this_machine == AddressAllowance::No;
                is_refused.then_some(URL_TO_THIS_MACHINE)
            }
            Some(Host::Ipv4(address)) => self.address_problem(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => self.address_problem(IpAddr::V6(address)),
        }
    }
}

/// Cloud metadata services in private IPv6 networks, as an address and a prefix length in bits.
const METADATA_V6: &[(Ipv6Addr, u32)] = &[
    // AWS, including the service that issues credentials to containers (`fd00:ec2::23`).
    (Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0), 32),
    // Google Cloud.
    (Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128),
    // Scaleway.
    (Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), 128),
    // Linode.
    (Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1), 128),
    // Alibaba Cloud.
    (Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0x100, 0x200), 128),
];

/// Cloud metadata services outside of the link-local addresses, in IPv4.
const METADATA_V4: &[Ipv4Addr] = &[
    // Alibaba Cloud.
    Ipv4Addr::new(100, 100, 100, 200),
    // Azure.
    Ipv4Addr::new(168, 63, 129, 16),
    // Oracle Cloud.
    Ipv4Addr::new(192, 0, 0, 192),
];

/// Returns whether an address that is not public is link-local or that of a metadata service.
fn may_be_metadata_service(address: IpAddr) -> bool {
    let is_metadata_v4 =
        |address: Ipv4Addr| address.is_link_local() || METADATA_V4.contains(&address);
    match address {
        IpAddr::V4(address) => is_metadata_v4(address),
        IpAddr::V6(address) => {
            // The network may translate to IPv4 (NAT64), with the IPv4 address at the end. Oracle
            // Cloud has its metadata service at such an address.
            let [.., a, b, c, d] = address.octets();
            address.is_unicast_link_local()
                || is_in_networks(address, METADATA_V6)
                || is_metadata_v4(Ipv4Addr::new(a, b, c, d))
        }
    }
}

/// Returns whether an address is in a private network.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether `host` is allowed where private addresses and this machine are.
    #[track_caller]
    fn check(host: &str, is_allowed: bool) {
        let addresses = AddressPolicy {
            this_machine: AddressAllowance::Yes,
            private: AddressAllowance::Yes,
        };
        let url = Url::parse(&format!("http://{host}/")).unwrap();
        let problem = addresses.url_problem(&url);
        assert_eq!(problem.is_none(), is_allowed, "{host}: {problem:?}");
        let address = match url.host().unwrap() {
            Host::Ipv4(address) => IpAddr::V4(address),
            Host::Ipv6(address) => IpAddr::V6(address),
            Host::Domain(name) => panic!("{name} is looked up"),
        };
        assert_eq!(addresses.address_problem(address), problem, "{host}");
        // What nothing allows is reported as such, not as a problem that a key would remove.
        let default_problem = AddressPolicy::default().address_problem(address);
        let is_allowable = matches!(
            default_problem,
            Some(URL_TO_THIS_MACHINE | URL_INTO_PRIVATE_NETWORK)
        );
        assert!(default_problem.is_some(), "{host} is not public");
        assert_eq!(is_allowable, is_allowed, "{host}: {default_problem:?}");
    }

    #[test]
    fn metadata_is_closed_in_every_spelling_where_private_networks_are_open() {
        for private in [
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "0xc0a80101",
            "[::ffff:10.1.2.3]",
            "[fd00::1]",
            "[fd12:3456:789a::1]",
            "[fd00:42::43]",
            "[fd20:ce::253]",
            "[fd00:64::10.1.2.3]",
            "127.0.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            check(private, true);
        }
        for metadata in [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.42.42",
            "2852039166",
            "0xa9fea9fe",
            "0xa9.0xfe.0xa9.0xfe",
            "0251.0376.0251.0376",
            "169.254.43518",
            "169.254.169.254.",
            "%31%36%39.254.169.254",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "[fe80::1]",
            "[fe80::a9fe:a9fe]",
            "[::ffff:169.254.169.254]",
            "[::ffff:a9fe:a9fe]",
            "[0:0:0:0:0:ffff:169.254.169.254]",
            "[::169.254.169.254]",
            "[::ffff:0:169.254.169.254]",
            "[64:ff9b::169.254.169.254]",
            "[64:ff9b:1::169.254.169.254]",
            "[2002:a9fe:a9fe::1]",
            "[2001:0:a9fe:a9fe::1]",
            "[fd00:64::169.254.169.254]",
            "[fd00:64::100.100.100.200]",
            "[fd00:64::168.63.129.16]",
            "[fd00:64::192.0.0.192]",
            "[fd00:ec2::254]",
            "[FD00:0EC2:0:0::0254]",
            "[fd00:ec2::23]",
            "[fd20:ce::254]",
            "[fd00:c1::a9fe:a9fe]",
            "[fd00:42::42]",
            "[fd00:a9fe:a9fe::1]",
            "[fd00:100::100:200]",
        ] {
            check(metadata, false);
        }
    }
}
