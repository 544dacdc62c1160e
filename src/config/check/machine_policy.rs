//! Reads the policy of a machine, and applies it to what a config sets.

use crate::config::agent::PermissionsConfig;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{FindingPlace, MappingView, join_key};
use crate::config::keys::{limits, machine_policy};
use crate::config::machine_policy::{MACHINE_POLICY_PATH, MachinePolicy, is_endpoint_host};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::error::Error;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;
use crate::spending::limits::BudgetLimits;

impl ConfigChecker<'_> {
    /// Reads the policy of a machine.
    pub(super) fn machine_policy(&mut self, tree: &YamlNode) -> MachinePolicy {
        self.refuse_missing_values(tree, "");
        let root = MappingView {
            node: tree,
            path: String::new(),
        };
        let vendors = root.get(&machine_policy::VENDORS).map(|_| {
            let texts = root.texts(&machine_policy::VENDORS).into_iter();
            let vendors = texts.filter_map(|text| self.vendor(&text));
            vendors.map(|vendor| vendor.name.to_owned()).collect()
        });
        let hosts = root.get(&machine_policy::HOSTS).map(|_| {
            let texts = root.texts(&machine_policy::HOSTS).into_iter();
            let hosts = texts.filter(|text| {
                let is_host = is_endpoint_host(text.value);
                if !is_host {
                    let hint = "write `example.org` for one host, `.example.org` for all below it";
                    self.refuse_value(text, "a host name or an address", hint);
                }
                is_host
            });
            hosts.map(|text| text.value.to_owned()).collect()
        });
        let level = root.word(&machine_policy::MIN_SANDBOX_LEVEL);
        let min_sandbox_level = match level.and_then(|level| level.parse().ok()) {
            Some(SandboxLevelChoice::Only(level)) => Some(level),
            Some(SandboxLevelChoice::Auto) | None => None,
        };
        let view = root.section_or_empty(&machine_policy::LIMITS);
        MachinePolicy {
            vendors,
            hosts,
            min_sandbox_level,
            limits: self.budget(&view),
            permissions: self.permissions(&[&root], &PermissionsConfig::default()),
        }
    }

    /// Adds an error for each key without a value: elsewhere it means the default, which here allows
    /// everything.
    fn refuse_missing_values(&mut self, node: &YamlNode, path: &str) {
        for entry in node.entries() {
            let path = join_key(path, &entry.key);
            if entry.value.value == YamlValue::Null {
                let message = format!("`{path}` has no value");
                self.refuse(
                    (path, &entry.key_span),
                    message,
                    "write one, or remove the key",
                );
            } else {
                self.refuse_missing_values(&entry.value, &path);
            }
        }
    }

    /// Adds what the policy of the machine refuses.
    pub(super) fn refuse_by_policy<'p>(
        &mut self,
        place: impl Into<FindingPlace<'p>>,
        refusal: Option<Error>,
    ) {
        if let Some(error) = refusal {
            self.refuse(place, error.to_string(), error.hints().concat());
        }
    }

    /// Returns the limits of the run, lowered to those of the machine.
    pub(super) fn limits_of_run(&mut self, root: &MappingView<'_>) -> BudgetLimits {
        let max = self.context.policy.limits;
        let (lowered, is_lowered) = self.limits(root).lowered_to(max);
        if is_lowered {
            let message = format!("this machine allows less, which applies: {lowered}");
            let hint = format!("the limits are in `{MACHINE_POLICY_PATH}`");
            self.warn(root.at(&limits::KEY), message, hint);
        }
        lowered
    }
}
