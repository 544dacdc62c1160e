//! OpenTelemetry's names for vendors and finish reasons, as far as it defines them:
//! <https://opentelemetry.io/docs/specs/semconv/registry/attributes/gen-ai/>. It must never access
//! the outside world.

use std::collections::BTreeMap;
use std::sync::Arc;

use url::Url;

use crate::config::vendors::{Vendor, is_within};
use crate::config::{BackendConfig, Config};
use crate::event::StopReason;
use crate::id::AgentId;

/// Provider names by host, for backend types that can be used with other vendors' hosts.
const PROVIDERS_BY_HOST: &[(&str, &str)] = &[
    ("anthropic.com", "anthropic"),
    ("azure.com", "azure.ai.openai"),
    ("deepseek.com", "deepseek"),
    ("googleapis.com", "gcp.gemini"),
    ("groq.com", "groq"),
    ("mistral.ai", "mistral_ai"),
    ("moonshot.ai", "moonshot_ai"),
    ("moonshot.cn", "moonshot_ai"),
    ("openai.com", "openai"),
    ("perplexity.ai", "perplexity"),
    ("x.ai", "x_ai"),
];

/// Provider names of backend types that differ from massgen's names.
const PROVIDERS_BY_BACKEND: &[(&str, &str)] = &[
    ("azure_openai", "azure.ai.openai"),
    ("chatcompletion", "openai"),
    ("claude", "anthropic"),
    ("gemini", "gcp.gemini"),
    ("grok", "x_ai"),
    ("moonshot", "moonshot_ai"),
];

/// Provider of each model of each agent (`gen_ai.provider.name`).
#[derive(Clone, Debug, Default)]
pub struct ProviderNames {
    names: BTreeMap<(AgentId, Arc<str>), &'static str>,
}

impl ProviderNames {
    /// Determines the providers for a team.
    pub fn from_config(config: &Config) -> Self {
        let mut names = BTreeMap::new();
        for agent in &config.agents {
            let own_backend = std::iter::once(&agent.backend);
            for backend in own_backend.chain(&agent.backend.fallback) {
                let model = Arc::from(backend.model.as_str());
                names.insert((agent.id.clone(), model), provider_name(backend));
            }
        }
        Self { names }
    }

    /// Returns the provider of `model` of `agent`.
    pub(crate) fn name(&self, agent: &AgentId, model: &Arc<str>) -> Option<&'static str> {
        self.names.get(&(agent.clone(), Arc::clone(model))).copied()
    }
}

fn provider_name(backend: &BackendConfig) -> &'static str {
    let base_url = backend.base_url.as_deref();
    let host = base_url
        .or(backend.vendor.base_url)
        .and_then(|url| Some(Url::parse(url).ok()?.host_str()?.to_owned()));
    let known_host = PROVIDERS_BY_HOST
        .iter()
        .find(|(domain, _)| host.as_deref().is_some_and(|host| is_within(host, domain)));
    known_host.map_or_else(|| vendor_provider_name(backend.vendor), |(_, name)| name)
}

fn vendor_provider_name(vendor: &'static Vendor) -> &'static str {
    let known_type = PROVIDERS_BY_BACKEND
        .iter()
        .find(|(name, _)| *name == vendor.name);
    known_type.map_or(vendor.name, |(_, name)| name)
}

/// Returns the reason why a reply ended (`gen_ai.response.finish_reasons`).
pub(crate) fn finish_reason(stop: StopReason, has_calls: bool) -> &'static str {
    match (stop, has_calls) {
        (StopReason::Done, true) => "tool_call",
        (StopReason::Done, false) => "stop",
        (StopReason::Length, _) => "length",
        (StopReason::Filtered, _) => "content_filter",
        (StopReason::Paused, _) => "pause",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::machine_policy::MachinePolicy;
    use crate::config::team::{TeamOptions, WorkspaceMode, team_from_options};
    use crate::dotenv::ConfigVariables;
    use crate::spending::models::ModelList;

    #[track_caller]
    fn check(backend: &str, base_url: Option<&str>, expected: &str) {
        let options = TeamOptions {
            models: &["m".to_owned()],
            backend: Some(backend),
            base_url,
            system_message: None,
        };
        let known = ModelList::with_user_rows(Vec::new());
        let config = team_from_options(
            &options,
            &ConfigVariables::default(),
            &known,
            WorkspaceMode::None,
            &MachinePolicy::default(),
        )
        .unwrap();
        let name = ProviderNames::from_config(&config).name(&config.agents[0].id, &Arc::from("m"));
        assert_eq!(name, Some(expected), "{backend} {base_url:?}");
    }

    #[test]
    fn vendors_have_the_names_of_the_conventions() {
        check("chatcompletion", None, "openai");
        check(
            "chatcompletion",
            Some("https://api.anthropic.com/v1"),
            "anthropic",
        );
        check("chatcompletion", Some("http://localhost:1/v1"), "openai");
        check("grok", None, "x_ai");
        check("groq", None, "groq");
        check("openrouter", None, "openrouter");
        check("ollama", None, "ollama");
        check("azure_openai", None, "azure.ai.openai");
    }
}
