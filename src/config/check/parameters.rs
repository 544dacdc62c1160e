//! Checks the keys of a backend that go into every request, and warns about those that the vendor's
//! API does not support.

use serde_json::{Map, Value as Json};

use crate::config::BackendConfig;
use crate::config::api_parameters::unsent_reason;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, join_key};
use crate::config::diagnostic::Span;
use crate::config::keys::{KeySection, KeyStatus, ValueShape, backend};
use crate::config::vendors::Vendor;
use crate::config::yaml::{YamlEntry, YamlValue};

impl ConfigChecker<'_> {
    /// Returns the keys of a section that go into every request.
    pub(super) fn parameters(
        &mut self,
        view: &MappingView<'_>,
        section: &KeySection,
        vendor: &Vendor,
        model: &str,
    ) -> Map<String, Json> {
        let mut parameters = Map::new();
        for entry in view.node.entries() {
            let key = &entry.key;
            match section.find(key).map(|key| key.status) {
                None | Some(KeyStatus::PassedOn) => {
                    let Some(value) = parameter(section, entry) else {
                        continue;
                    };
                    match unsent_reason(key, vendor, model) {
                        None => {
                            parameters.insert(key.clone(), value);
                        }
                        Some(_) if value.is_null() => {}
                        Some(reason) => {
                            let path = join_key(&view.path, key);
                            self.warn_unsent(key, reason, vendor, path, &entry.key_span);
                        }
                    }
                }
                Some(_) if key == backend::EXTRA_BODY.name() => {
                    let extra_parameters = entry
                        .value
                        .entries()
                        .iter()
                        .map(|entry| (entry.key.clone(), entry.value.to_json()));
                    parameters.extend(extra_parameters);
                }
                Some(
                    KeyStatus::Required
                    | KeyStatus::Supported
                    | KeyStatus::Unsupported(_)
                    | KeyStatus::Refused,
                ) => {}
            }
        }
        parameters
    }

    /// Returns the parameters of `primary` that are also sent to its fallback model of the same
    /// vendor.
    pub(super) fn fallback_parameters(
        &mut self,
        primary: &BackendConfig,
        fallback: &TextValue<'_>,
    ) -> Map<String, Json> {
        let (vendor, model) = (primary.vendor, fallback.value.trim());
        let mut parameters = primary.parameters.clone();
        parameters.retain(|key, value| {
            // A parameter that is sent although the API lacks it comes from `extra_body`.
            if unsent_reason(key, vendor, &primary.model).is_some() {
                return true;
            }
            let Some(reason) = unsent_reason(key, vendor, model) else {
                return true;
            };
            if !value.is_null() {
                self.warn_unsent(key, reason, vendor, fallback.path.clone(), fallback.span);
            }
            false
        });
        parameters
    }

    /// Warns that a parameter is not sent to a model.
    fn warn_unsent(&mut self, key: &str, reason: &str, vendor: &Vendor, path: String, span: &Span) {
        let message = format!("`{key}` is not sent to `{}`: {reason}", vendor.name);
        self.add_warning((path, span), message);
    }
}

/// Returns the value of an API key of the backend. A flag with its default value is omitted.
fn parameter(section: &KeySection, entry: &YamlEntry) -> Option<Json> {
    let key = section.find(&entry.key);
    let Some(key) = key.filter(|key| matches!(key.shape, ValueShape::Flag)) else {
        return Some(entry.value.to_json());
    };
    let YamlValue::Scalar(scalar) = &entry.value.value else {
        return None;
    };
    let flag = scalar.as_flag()?;
    (key.default != Some(if flag { "true" } else { "false" })).then_some(Json::Bool(flag))
}
