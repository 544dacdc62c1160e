//! Owns what commands may reach of the network.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the user allows (`command_line_network`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing but the sandbox's own loopback.
    #[default]
    Off,
    /// All that massgen itself reaches.
    On,
    /// Hosts of these domains, through a proxy that resolves and checks names.
    Domains(Vec<Domain>),
}

/// A host name, or with a leading dot all names below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain(String);

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the sandbox is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// No network.
    None,
    /// The machine's network.
    Host,
    /// Only massgen's proxy. In tiers A and B the sandbox opens a listener on its own loopback and
    /// hands it to massgen, which answers there; in tier C it may connect to this port of the
    /// machine's loopback.
    Proxy {
        /// The port of the proxy, on 127.0.0.1 of the sandbox or of the machine.
        port: u16,
    },
}
