//! The keys of a backend that go into every request: which of them the vendor's API supports, and
//! warnings about the others.

use serde_json::{Map, Value as Json};

use crate::config::BackendConfig;
use crate::config::api_parameters::unsent_reason;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue, join_key};
use crate::config::diagnostic::{Diagnostic, Span};
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
                    let value = parameter(section, entry);
                    let place = (join_key(&view.path, key), &entry.key_span);
                    parameters.extend(
                        value
                            .filter(|value| self.is_sent(key, value, (vendor, model), place))
                            .map(|value| (key.clone(), value)),
                    );
                }
                Some(_) if key == backend::EXTRA_BODY.name() => {
                    let extra = entry.value.entries().iter();
                    let extra = extra.map(|entry| (entry.key.clone(), entry.value.to_json()));
                    parameters.extend(extra);
                }
                Some(
                    KeyStatus::Required
                    | KeyStatus::Served
                    | KeyStatus::Unserved(_)
                    | KeyStatus::Refused,
                ) => {}
            }
        }
        parameters
    }

    /// Returns the parameters of the first model that are sent to another model of the same vendor.
    pub(super) fn fallback_parameters(
        &mut self,
        first: &BackendConfig,
        other: &TextValue<'_>,
    ) -> Map<String, Json> {
        let asked = (first.vendor, other.written.trim());
        let mut parameters = first.parameters.clone();
        parameters.retain(|key, value| {
            // A parameter that is sent although the API lacks it comes from `extra_body`.
            let is_forced = unsent_reason(key, first.vendor, &first.model).is_some();
            let place = (other.path.clone(), other.span);
            is_forced || self.is_sent(key, value, asked, place)
        });
        parameters
    }

    /// Returns whether a parameter is sent to a model; warns if not.
    fn is_sent(
        &mut self,
        key: &str,
        value: &Json,
        (vendor, model): (&Vendor, &str),
        (path, span): (String, &Span),
    ) -> bool {
        let instead = unsent_reason(key, vendor, model);
        if let Some(instead) = instead.filter(|_| !value.is_null()) {
            let message = format!("`{key}` is not sent to `{}`: {instead}", vendor.name);
            self.findings
                .push(Diagnostic::warning(path, message).with_span(span));
        }
        instead.is_none()
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
