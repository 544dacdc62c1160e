//! The policy of a machine: what its administrator allows, whatever the config, the flags and the
//! environment of a user say. Users can only tighten it. Nothing here reads the file.

use core::net::IpAddr;
use std::fmt;

use url::{Host, Url};

use crate::config::agent::PermissionsConfig;
use crate::config::vendors::{Vendor, VendorConnection};
use crate::error::{Error, ErrorKind};
use crate::permissions::domains::{DomainPattern, HostName};
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::spending::limits::BudgetLimits;

/// The file with the policy of the machine. No variable and no flag names another one.
pub const MACHINE_POLICY_PATH: &str = "/etc/massgen/policy.yaml";

/// What the administrator of a machine allows; by default, everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachinePolicy {
    /// The types of backends that may be used; `None` allows all. `scripted`, which reaches no
    /// model, is always allowed.
    pub vendors: Option<Vec<&'static str>>,
    /// The hosts of endpoints that may be used; `None` allows all.
    pub hosts: Option<Vec<EndpointHost>>,
    /// The weakest level of the sandbox that may be used; `None` allows all, and none.
    pub min_sandbox_level: Option<SandboxLevel>,
    /// The limits that no run exceeds.
    pub limits: BudgetLimits,
    /// Rules about calls that apply to every agent.
    pub permissions: PermissionsConfig,
}

/// Hosts of endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointHost {
    /// A host, or all below it.
    Name(DomainPattern),
    /// An address.
    Address(IpAddr),
}

/// Why a policy refuses something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRefusal {
    /// What is refused.
    pub message: String,
    /// What the policy allows.
    pub hint: String,
}

impl PolicyRefusal {
    /// Returns it as the error of a command.
    pub fn into_error(self) -> Error {
        Error::new(ErrorKind::Config, self.message).with_hint(self.hint)
    }
}

impl EndpointHost {
    /// Parses an address, `example.org`, or `.example.org` for all hosts below it.
    pub fn parse(text: &str) -> Option<Self> {
        let address = text.parse().map(Self::Address).ok();
        address.or_else(|| DomainPattern::parse(text).map(Self::Name))
    }

    /// Returns whether the host of `url` is among them.
    fn matches(&self, url: &Url) -> bool {
        match (self, url.host()) {
            (Self::Name(pattern), Some(Host::Domain(name))) => {
                HostName::parse(name).is_some_and(|name| pattern.matches(&name))
            }
            (Self::Address(address), Some(Host::Ipv4(host))) => *address == host,
            (Self::Address(address), Some(Host::Ipv6(host))) => *address == host,
            (Self::Name(_) | Self::Address(_), _) => false,
        }
    }
}

impl fmt::Display for EndpointHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(pattern) => pattern.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl MachinePolicy {
    /// Returns why models of `vendor` may not be used, if so.
    pub fn refuse_vendor(&self, vendor: &Vendor) -> Option<PolicyRefusal> {
        let is_named = |names: &Vec<&'static str>| names.contains(&vendor.name);
        let message = match vendor.connection {
            VendorConnection::Scripted => return None,
            // It finds its endpoint by itself.
            VendorConnection::ExternalAgent(_) if self.hosts.is_some() => {
                let is_allowed = self.vendors.as_ref().is_some_and(is_named);
                (!is_allowed).then(|| {
                    let name = vendor.name;
                    format!("`type: {name}` is not allowed on this machine: its program reaches other hosts")
                })
            }
            VendorConnection::ExternalAgent(_)
            | VendorConnection::Http(_)
            | VendorConnection::Unsupported => {
                let is_allowed = self.vendors.as_ref().is_none_or(is_named);
                (!is_allowed)
                    .then(|| format!("`type: {}` is not allowed on this machine", vendor.name))
            }
        };
        let names = self.vendors.iter().flatten();
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        Some(refusal(message?, &names))
    }

    /// Returns why the endpoint at `url` may not be used, if so.
    pub fn refuse_endpoint(&self, url: &Url) -> Option<PolicyRefusal> {
        let hosts = self.hosts.as_ref()?;
        if hosts.iter().any(|host| host.matches(url)) {
            return None;
        }
        let host = url.host_str().unwrap_or_default();
        let names: Vec<String> = hosts.iter().map(|host| format!("`{host}`")).collect();
        let message = format!("the host `{host}` is not allowed on this machine");
        Some(refusal(message, &names))
    }

    /// Returns why `choice` may not be made, if so.
    pub fn refuse_level(&self, choice: SandboxLevelChoice) -> Option<PolicyRefusal> {
        match (choice, self.min_sandbox_level) {
            (SandboxLevelChoice::Only(level), Some(min)) if level > min => Some(refusal(
                format!("the sandbox level `{level}` is not allowed on this machine"),
                &[format!("`{min}` and what is stronger")],
            )),
            (SandboxLevelChoice::Only(_) | SandboxLevelChoice::Auto, _) => None,
        }
    }

    /// Describes what it sets; `None` if that is nothing.
    pub fn describe(&self) -> Option<String> {
        let settings = [
            self.vendors
                .as_deref()
                .map(|names| listed("vendors", names)),
            self.hosts.as_deref().map(|hosts| listed("hosts", hosts)),
            self.min_sandbox_level
                .map(|level| format!("sandbox level {level} or stronger")),
            (self.limits != BudgetLimits::default()).then(|| format!("at most {}", self.limits)),
        ];
        let rules = self.permissions.rules.iter().map(ToString::to_string);
        let texts: Vec<String> = settings.into_iter().flatten().chain(rules).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

fn refusal(message: String, allowed: &[String]) -> PolicyRefusal {
    let allowed = match allowed {
        [] => "none".to_owned(),
        names => names.join(", "),
    };
    let hint = format!("`{MACHINE_POLICY_PATH}` allows {allowed}");
    PolicyRefusal { message, hint }
}

fn listed(noun: &str, items: &[impl ToString]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => format!("{noun} none"),
        texts => format!("{noun} {}", texts.join(", ")),
    }
}
