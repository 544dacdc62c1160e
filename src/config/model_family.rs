//! The makers of models, as the names of their models show them, and the messages about a name that
//! shows no maker, or that is probably misspelled.

use crate::config::backend::BackendConfig;
use crate::config::diagnostic::quote;
use crate::config::keys::nearest;
use crate::config::vendors::{self, Vendor};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::spending::models::{KnownModel, ModelList, ModelQuery, PricingVendor};
use crate::text::{list_names, quote_word};

/// The models of one maker.
pub(super) struct ModelFamily {
    /// The backend type named after the maker; it has the key and a default model.
    pub(super) maker: &'static str,
    /// The prefixes of its models' names.
    prefixes: &'static [&'static str],
    /// The backend type for another server that the user's environment names in place of the
    /// maker's, if such servers speak an older API of the maker than its own.
    pub(super) older_api: Option<&'static str>,
}

/// The families, in the order of preference for a team.
pub(super) const FAMILIES: &[ModelFamily] = &[
    ModelFamily {
        maker: "openai",
        prefixes: &["gpt-", "chatgpt-", "o1", "o3", "o4-"],
        older_api: Some("chatcompletion"),
    },
    ModelFamily {
        maker: "claude",
        prefixes: &["claude-"],
        older_api: None,
    },
    ModelFamily {
        maker: "gemini",
        prefixes: &["gemini-"],
        older_api: None,
    },
    ModelFamily {
        maker: "grok",
        prefixes: &["grok-"],
        older_api: None,
    },
    ModelFamily {
        maker: "zai",
        prefixes: &["glm-"],
        older_api: None,
    },
];

/// Makers of models whose names do not show the maker. Their servers have no models of others.
const OTHER_MAKERS: &[&str] = &["deepseek", "mistral", "moonshot", "qwen"];

/// What to do about a model whose name shows no maker.
const BACKEND_HINT: &str =
    "add `--backend TYPE`, or `--base-url URL` for a server that speaks Chat Completions";

impl ModelFamily {
    fn has_model(&self, model: &str) -> bool {
        self.prefixes.iter().any(|prefix| model.starts_with(prefix))
    }

    /// Returns the backend type of its models.
    pub(super) fn backend_type(&self, env: &ConfigVariables) -> &'static str {
        match self.older_api {
            Some(older_api) if names_other_server(self.maker, env) => older_api,
            Some(_) | None => self.maker,
        }
    }
}

/// Returns the family of a model, if its name shows it.
pub(super) fn find_family(model: &str) -> Option<&'static ModelFamily> {
    FAMILIES.iter().find(|family| family.has_model(model))
}

/// Returns whether the user has exported an endpoint of a backend type that is not the maker's own.
fn names_other_server(backend_type: &str, env: &ConfigVariables) -> bool {
    let other_server = || {
        let vendor = vendors::find_vendor(backend_type)?;
        let variable = vendor.base_url_variable?;
        let endpoint = env.get_non_empty(variable)?.trim();
        let own_url = vendor.base_url?;
        let is_other = !endpoint.is_empty() && endpoint.trim_end_matches('/') != own_url;
        Some(is_other && env.is_exported(variable))
    };
    other_server().unwrap_or(false)
}

/// Returns whether `backend` asks the server of the maker after whom its type is named, where only
/// that maker's models are.
fn asks_maker(backend: &BackendConfig, env: &ConfigVariables) -> bool {
    let name = backend.vendor.name;
    let is_maker =
        OTHER_MAKERS.contains(&name) || FAMILIES.iter().any(|family| family.maker == name);
    let own_url = backend.vendor.base_url.map(|url| url.trim_end_matches('/'));
    let endpoint = backend.base_url.as_deref();
    let is_own = endpoint.is_none_or(|url| Some(url.trim_end_matches('/')) == own_url);
    is_maker && is_own && !names_other_server(name, env)
}

/// Returns the maker that the name of a model shows, if `backend` asks the server of another one.
pub fn find_foreign_maker(backend: &BackendConfig, env: &ConfigVariables) -> Option<&'static str> {
    let family = find_family(&backend.model).filter(|_| asks_maker(backend, env))?;
    (family.maker != backend.vendor.name).then_some(family.maker)
}

/// Returns the warning about a model that was changed in a session, and whose name shows another
/// maker than the one whose server `backend` asks.
pub fn foreign_model_warning(backend: &BackendConfig, env: &ConfigVariables) -> Option<String> {
    let maker = find_foreign_maker(backend, env)?;
    Some(format!(
        "{} is a model of `{maker}`, and the backend type stays `{}`: set `type: {maker}` in the \
         config, or start massgen with `-m {}`",
        quote(&backend.model),
        backend.vendor.name,
        quote_word(&backend.model)
    ))
}

/// Returns the warning about a model of the command line whose name shows another maker than
/// `--backend`.
pub fn contradicting_backend_warning(
    backend: &BackendConfig,
    env: &ConfigVariables,
) -> Option<String> {
    let maker = find_foreign_maker(backend, env)?;
    Some(format!(
        "{} is a model of `{maker}`, but `--backend` is `{}`: omit `--backend`, or name `{maker}`",
        quote(&backend.model),
        backend.vendor.name
    ))
}

/// Returns the warning about a model that is not in `list`, and whose name is nearly that of a
/// known one of the same maker.
pub fn misspelling_warning(
    backend: &BackendConfig,
    env: &ConfigVariables,
    list: &ModelList,
) -> Option<String> {
    let model = backend.model.as_str();
    let family = find_family(model)
        .filter(|family| family.maker == backend.vendor.name && asks_maker(backend, env))?;
    let known_model = list.find(&ModelQuery {
        backend: family.maker,
        pricing_vendor: PricingVendor::Vendor(family.maker),
        model,
    });
    if known_model.is_some() || list.rows().iter().any(|row| row.name == model) {
        return None;
    }
    let nearest = nearest_model(list, model)?;
    Some(format!(
        "{} is not a model that massgen knows (did you mean `{nearest}`?)",
        quote(model)
    ))
}

/// Returns the known model of a family that `model` probably means: a few of its letters differ, or
/// its beginning is missing. Other digits are another version and not a misspelling.
fn nearest_model<'a>(list: &'a ModelList, model: &str) -> Option<&'a str> {
    let digits = |name: &str| -> String { name.chars().filter(char::is_ascii_digit).collect() };
    let model_digits = digits(model);
    let names = list.rows().iter().map(|row| row.name.as_str());
    let names: Vec<&str> = names
        .filter(|name| find_family(name).is_some() && digits(name) == model_digits)
        .collect();
    let ends_with_model = |name: &&&str| {
        let start = name.strip_suffix(model);
        start.is_some_and(|start| start.ends_with('-'))
    };
    let whole_name = names.iter().find(ends_with_model).copied();
    whole_name.or_else(|| nearest(model, names.iter().copied()))
}

/// Refuses several models in one value.
///
/// # Errors
/// A value has a comma.
pub fn reject_model_lists(models: &[String]) -> Result<()> {
    let Some(model_list) = models.iter().find(|model| model.contains(',')) else {
        return Ok(());
    };
    let names = models.iter().flat_map(|model| model.split(','));
    let names = names.map(str::trim).filter(|name| !name.is_empty());
    let flags: Vec<String> = names
        .map(|name| format!("-m {}", quote_word(name)))
        .collect();
    let message = format!("{} is not the name of one model", quote(model_list));
    let flags = if flags.is_empty() {
        "-m MODEL -m MODEL".to_owned()
    } else {
        flags.join(" ")
    };
    Err(Error::new(ErrorKind::Usage, message)
        .with_hint(format!("repeat the option for each model: {flags}")))
}

/// Returns whether `--backend` takes the name of this vendor.
fn is_backend_type(name: &str) -> bool {
    vendors::find_vendor(name).is_some_and(Vendor::is_http)
}

/// Returns the error that a model's name does not show its maker, or that there is no model. Its
/// hints name the vendors of the model in `list`, or a model with a similar name.
pub(super) fn unknown_model_error(model: Option<&str>, list: &ModelList) -> Error {
    let usage_error = |message: &str| Error::new(ErrorKind::Usage, message);
    let Some(model) = model else {
        return usage_error("neither a model nor a backend type is given").with_hint(BACKEND_HINT);
    };
    let message = format!(
        "cannot derive the backend from the model name {}",
        quote(model)
    );
    let error = usage_error(&message);
    let rows = list.rows().iter();
    let rows = rows.filter(|row| row.name.eq_ignore_ascii_case(model));
    let rows: Vec<&KnownModel> = rows.collect();
    let mut vendors: Vec<&str> = Vec::new();
    for vendor in rows.iter().filter_map(|row| row.vendor.as_deref()) {
        if is_backend_type(vendor) && !vendors.contains(&vendor) {
            vendors.push(vendor);
        }
    }
    let name_after_path = model.rsplit_once('/').map(|(_, name)| name);
    let similar_model = name_after_path
        .filter(|name| find_family(name).is_some())
        .or_else(|| nearest_model(list, model))
        // A row without a vendor is a model that the user has named.
        .filter(|_| rows.is_empty());
    match (vendors.as_slice(), similar_model) {
        ([vendor], _) => error.with_hint(format!("add `--backend {vendor}`")),
        ([_, ..], _) => error.with_hint(format!(
            "add `--backend` with {}",
            list_names(&vendors, "or")
        )),
        ([], Some(model)) => error
            .with_hint(format!("did you mean `-m {}`?", quote_word(model)))
            .with_hint(BACKEND_HINT),
        ([], None) => error.with_hint(BACKEND_HINT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spending::models::ModelRowOrigin;
    use crate::spending::price::ModelPrice;

    /// Returns a row of the user's list.
    fn own_row(name: &str, vendor: Option<&str>) -> KnownModel {
        KnownModel {
            vendor: vendor.map(str::to_owned),
            name: name.to_owned(),
            context_tokens: None,
            output_tokens_max: None,
            price: ModelPrice::default(),
            origin: ModelRowOrigin::User,
        }
    }

    #[track_caller]
    fn check(model: &str, expected: &[&str]) {
        check_with(&[], model, expected);
    }

    #[track_caller]
    fn check_with(own: &[KnownModel], model: &str, expected: &[&str]) {
        let list = ModelList::with_user_rows(own.to_vec());
        let error = unknown_model_error(Some(model), &list);
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert_eq!(error.hints(), expected, "{model}");
    }

    #[test]
    fn a_name_without_a_maker_suggests_a_model_or_a_seller() {
        check("gtp-5", &["did you mean `-m gpt-5`?", BACKEND_HINT]);
        check("gpt5", &["did you mean `-m gpt-5`?", BACKEND_HINT]);
        check(
            "sonnet-4-5",
            &["did you mean `-m claude-sonnet-4-5`?", BACKEND_HINT],
        );
        check(
            "anthropic/claude-sonnet-4-5",
            &["did you mean `-m claude-sonnet-4-5`?", BACKEND_HINT],
        );
        check("kimi-k2.5", &["add `--backend moonshot`"]);
        // Its seller is no backend type.
        check("deepseek-chat", &[BACKEND_HINT]);
        check("qwen3:8b", &[BACKEND_HINT]);
        check("", &[BACKEND_HINT]);
    }

    #[test]
    fn models_of_the_users_list_are_known() {
        let own = [
            own_row("gpt5", None),
            own_row("house-1", Some("groq")),
            own_row("kimi-k2.5", Some("moonshot")),
            own_row("house-2", Some("house")),
            own_row("house-3", Some("house")),
            own_row("house-3", Some("groq")),
            own_row("claude-house-1", None),
        ];
        check_with(&own, "gpt5", &[BACKEND_HINT]);
        check_with(&own, "house-1", &["add `--backend groq`"]);
        check_with(&own, "kimi-k2.5", &["add `--backend moonshot`"]);
        check_with(&own, "house-2", &[BACKEND_HINT]);
        check_with(&own, "house-3", &["add `--backend groq`"]);
        check_with(
            &own,
            "claud-house-1",
            &["did you mean `-m claude-house-1`?", BACKEND_HINT],
        );
    }

    #[test]
    fn several_models_in_one_value_are_shown_as_several_options() {
        let reject = |models: &[&str]| {
            let models: Vec<String> = models.iter().map(|model| (*model).to_owned()).collect();
            reject_model_lists(&models)
        };
        assert!(reject(&["gpt-5", "claude-sonnet-4-5"]).is_ok());
        let cases = [
            (
                &["gpt-5,claude-sonnet-4-5"][..],
                "-m gpt-5 -m claude-sonnet-4-5",
            ),
            (&["a", "b, c d,"], "-m a -m b -m 'c d'"),
            (&[","], "-m MODEL -m MODEL"),
        ];
        for (models, flags) in cases {
            let error = reject(models).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert_eq!(
                error.hints(),
                [format!("repeat the option for each model: {flags}")]
            );
        }
    }
}
