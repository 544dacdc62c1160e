//! The network access of commands.

use serde::{Deserialize, Serialize};

use crate::permissions::domains::{DomainPattern, HostName};

/// The network access that the user allows (`command_line_network`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkPolicy {
    /// Only the sandbox's own loopback.
    #[default]
    Off,
    /// Everything that massgen itself can reach.
    On,
    /// Hosts of these domains, through a proxy that resolves and checks names.
    Domains(Vec<DomainPattern>),
}

impl NetworkPolicy {
    /// Returns whether it allows this host.
    pub fn allows(&self, host: &HostName) -> bool {
        match self {
            NetworkPolicy::Off => false,
            NetworkPolicy::On => true,
            NetworkPolicy::Domains(domains) => domains.iter().any(|domain| domain.matches(host)),
        }
    }
}

/// The network access that the sandbox is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkAccess {
    /// No network.
    None,
    /// The machine's network.
    Host,
    /// Only massgen's proxy. At levels `overlay` and `namespaces` the sandbox opens a listening
    /// socket on its own loopback and passes it to massgen, which serves it; at level `landlock`
    /// the process may connect to this port of the machine's loopback.
    Proxy {
        /// The port of the proxy, on 127.0.0.1 of the sandbox or of the machine.
        port: u16,
    },
}
