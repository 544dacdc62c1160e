//! The policy of a machine: what its administrator allows, whatever the config, the flags and the
//! environment of a user say. Users can only tighten it. Nothing here reads the file.

use core::net::IpAddr;

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
    pub vendors: Option<Vec<String>>,
    /// The hosts of endpoints that may be used; `None` allows all.
    pub hosts: Option<Vec<String>>,
    /// The weakest level of the sandbox that may be used; `None` allows all, and none.
    pub min_sandbox_level: Option<SandboxLevel>,
    /// The limits that no run exceeds.
    pub limits: BudgetLimits,
    /// Rules about calls that apply to every agent.
    pub permissions: PermissionsConfig,
}

/// Returns whether `text` can be one of the hosts of a policy: an address, `example.org`, or
/// `.example.org` for all hosts below it.
pub fn is_endpoint_host(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || DomainPattern::parse(text).is_some()
}

impl MachinePolicy {
    /// Returns the error that models of `vendor`, or the endpoint at `url`, may not be used, if so.
    pub fn refuse_model(&self, vendor: &Vendor, url: Option<&Url>) -> Option<Error> {
        let vendors = self.vendors.as_deref();
        let is_named = vendors.map(|names| names.contains(&vendor.name.to_owned()));
        let is_allowed = match vendor.connection {
            VendorConnection::Scripted => true,
            // Its program finds its endpoint by itself.
            VendorConnection::ExternalAgent(_) => is_named.unwrap_or(self.hosts.is_none()),
            VendorConnection::Http(_) | VendorConnection::Unsupported => is_named.unwrap_or(true),
        };
        if !is_allowed {
            let unnamed =
                ["`hosts`, and no external agent that `vendors` does not name".to_owned()];
            return Some(refusal(
                &format!("`type: {}`", vendor.name),
                vendors.unwrap_or(&unnamed),
            ));
        }
        let (url, hosts) = (url?, self.hosts.as_deref()?);
        let is_allowed = match url.host() {
            Some(Host::Domain(name)) => {
                let name = HostName::parse(name);
                let patterns = hosts.iter().filter_map(|host| DomainPattern::parse(host));
                name.is_some_and(|name| patterns.into_iter().any(|host| host.matches(&name)))
            }
            Some(Host::Ipv4(address)) => has_address(hosts, address.into()),
            Some(Host::Ipv6(address)) => has_address(hosts, address.into()),
            None => false,
        };
        let host = url.host_str().unwrap_or_default();
        (!is_allowed).then(|| refusal(&format!("the host `{host}`"), hosts))
    }

    /// Returns the error that `choice` may not be made, if so.
    pub fn refuse_level(&self, choice: SandboxLevelChoice) -> Option<Error> {
        match (choice, self.min_sandbox_level) {
            (SandboxLevelChoice::Only(level), Some(min)) if level > min => Some(refusal(
                &format!("the sandbox level `{level}`"),
                &[format!("{min} and stronger ones")],
            )),
            (SandboxLevelChoice::Only(_) | SandboxLevelChoice::Auto, _) => None,
        }
    }

    /// Describes what it sets; `None` if that is nothing.
    pub fn describe(&self) -> Option<String> {
        let listed = |noun: &str, names: Option<&[String]>| {
            names.map(|names| format!("{noun} {}", list_or_none(names)))
        };
        let settings = [
            listed("vendors", self.vendors.as_deref()),
            listed("hosts", self.hosts.as_deref()),
            self.min_sandbox_level
                .map(|level| format!("sandbox level {level} or stronger")),
            (self.limits != BudgetLimits::default()).then(|| format!("at most {}", self.limits)),
        ];
        let rules = self.permissions.rules.iter().map(ToString::to_string);
        let texts: Vec<String> = settings.into_iter().flatten().chain(rules).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

fn has_address(hosts: &[String], address: IpAddr) -> bool {
    hosts.iter().any(|host| host.parse() == Ok(address))
}

fn refusal(subject: &str, allowed: &[String]) -> Error {
    let message = format!("{subject} is not allowed on this machine");
    let hint = format!("`{MACHINE_POLICY_PATH}` allows {}", list_or_none(allowed));
    Error::new(ErrorKind::Config, message).with_hint(hint)
}

fn list_or_none(texts: &[String]) -> String {
    match texts {
        [] => "none".to_owned(),
        texts => texts.join(", "),
    }
}
