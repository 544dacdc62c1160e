//! Converts the request parameters of a config to those of the Messages API.

use serde_json::{Map, Value, json};

use crate::backend::remote::endpoint::BETAS;

/// Maximum length of a reply if the config sets none: the API requires a number, and every model
/// since Claude 4 accepts this one.
/// <https://platform.claude.com/docs/en/about-claude/models/overview>
const MAX_TOKENS_DEFAULT: u32 = 32_000;
/// Keys that a config cannot set: the conversation depends on them.
const RESERVED_KEYS: &[&str] = &["model", "messages", "system", "tools", "stream"];
/// Keys that are not parameters of the API; each is read where it is needed.
const SWITCHES: &[&str] = &[CACHING, CACHE_TTL, WEB_SEARCH, CODE_EXECUTION, STRICT_TOOLS];
/// Key that enables the vendor's prompt cache.
const CACHING: &str = "prompt_caching";
/// Key that sets the lifetime of cache entries: `5m`, which is the default, or `1h`.
const CACHE_TTL: &str = "cache_ttl";
/// Key that allows the model to search the web.
const WEB_SEARCH: &str = "enable_web_search";
/// Key that allows the model to run programs on the vendor's servers.
const CODE_EXECUTION: &str = "enable_code_execution";
/// Key that makes arguments conform to the schemas of tools.
const STRICT_TOOLS: &str = "enable_strict_tool_use";
/// Keys that have another name in this API; a config may use either.
const RENAMED: &[&str] = &[
    "max_completion_tokens",
    "parallel_tool_calls",
    "reasoning_effort",
    "response_format",
    "stop",
    "user",
];

/// The request parameters of a config.
#[derive(Debug)]
pub(super) struct MessagesParameters {
    /// The parameters that every request carries.
    pub(super) parameters: Map<String, Value>,
    /// The server tools, which the vendor runs.
    pub(super) server_tools: Vec<Value>,
    /// The value of the mark at the end of content to be cached, if there is to be one.
    pub(super) cache: Option<Value>,
    /// Whether the user's tools are strict.
    pub(super) has_strict_tools: bool,
}

impl MessagesParameters {
    /// Converts the keys of a config. A key that is null is omitted.
    pub(super) fn from_config(config: &Map<String, Value>) -> Self {
        let set_values = || config.iter().filter(|(_, value)| !value.is_null());
        let is_own = |name: &str| {
            let lists = [RESERVED_KEYS, SWITCHES, RENAMED, BETAS];
            !lists.iter().any(|list| list.contains(&name))
        };
        let own_parameters = set_values().filter(|(name, _)| is_own(name));
        let mut parameters: Map<String, Value> = own_parameters
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for (name, value) in set_values() {
            set_renamed(&mut parameters, name, value);
        }
        let max_tokens = parameters.entry("max_tokens");
        max_tokens.or_insert_with(|| MAX_TOKENS_DEFAULT.into());
        Self {
            parameters,
            server_tools: server_tools(config),
            cache: cache_control(config),
            has_strict_tools: config.get(STRICT_TOOLS) == Some(&Value::Bool(true)),
        }
    }
}

/// Sets the parameter that another vendor's key stands for, unless the config has that too.
fn set_renamed(parameters: &mut Map<String, Value>, name: &str, value: &Value) {
    let value = value.clone();
    let (object_name, key, value) = match (name, value) {
        ("max_completion_tokens", value) => (None, "max_tokens", value),
        ("stop", text @ Value::String(_)) => (None, "stop_sequences", json!([text])),
        ("stop", list) => (None, "stop_sequences", list),
        ("user", name) => (Some("metadata"), "user_id", name),
        ("reasoning_effort", effort) => (Some("output_config"), "effort", effort),
        ("response_format", format) => match output_format(&format) {
            Some(format) => (Some("output_config"), "format", format),
            None => return,
        },
        ("parallel_tool_calls", Value::Bool(false)) => {
            let one_by_one = json!({"type": "auto", "disable_parallel_tool_use": true});
            (None, "tool_choice", one_by_one)
        }
        _ => return,
    };
    let object = match object_name {
        None => Some(parameters),
        Some(object_name) => parameters
            .entry(object_name)
            .or_insert_with(|| json!({}))
            .as_object_mut(),
    };
    if let Some(object) = object {
        object.entry(key).or_insert(value);
    }
}

/// Returns the format of replies that a `response_format` asks for, as this API writes it; `None`
/// for text. The vendor refuses what it does not have.
/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>
fn output_format(response_format: &Value) -> Option<Value> {
    let schema = response_format
        .pointer("/json_schema/schema")
        .or_else(|| response_format.get("schema"));
    match schema {
        Some(schema) => Some(json!({"type": "json_schema", "schema": schema})),
        None if response_format.get("type") == Some(&json!("text")) => None,
        None => Some(response_format.clone()),
    }
}

/// Returns the server tools. The versions are those that every current model supports without
/// further settings. Later versions of the web search let the model filter its results by program,
/// which small models cannot.
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool>
fn server_tools(config: &Map<String, Value>) -> Vec<Value> {
    let tools = [
        (WEB_SEARCH, "web_search_20250305", "web_search"),
        (CODE_EXECUTION, "code_execution_20250825", "code_execution"),
    ];
    let wanted_tools = tools
        .into_iter()
        .filter(|(key, ..)| config.get(*key) == Some(&Value::Bool(true)));
    wanted_tools
        .map(|(_, version, name)| json!({"type": version, "name": name}))
        .collect()
}

fn cache_control(config: &Map<String, Value>) -> Option<Value> {
    if config.get(CACHING) == Some(&Value::Bool(false)) {
        return None;
    }
    let ttl = config.get(CACHE_TTL).filter(|ttl| !ttl.is_null());
    Some(match ttl {
        Some(ttl) => json!({"type": "ephemeral", "ttl": ttl}),
        None => json!({"type": "ephemeral"}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(config: &Value, expected: &Value) {
        let settings = MessagesParameters::from_config(config.as_object().unwrap());
        let parameters = Value::Object(settings.parameters);
        assert_eq!(parameters, *expected, "{config}");
    }

    #[test]
    fn keys_go_through_under_the_names_of_the_api() {
        check(&json!({}), &json!({"max_tokens": 32_000}));
        check(&json!({"max_tokens": null}), &json!({"max_tokens": 32_000}));
        check(&json!({"max_tokens": 9}), &json!({"max_tokens": 9}));
        check(
            &json!({"max_completion_tokens": 9}),
            &json!({"max_tokens": 9}),
        );
        check(
            &json!({"max_completion_tokens": 9, "max_tokens": 8}),
            &json!({"max_tokens": 8}),
        );
        let thinking = json!({"type": "enabled", "budget_tokens": 1024});
        check(
            &json!({"thinking": thinking, "top_k": 5, "new_parameter": [1], "model": "m"}),
            &json!({"thinking": thinking, "top_k": 5, "new_parameter": [1], "max_tokens": 32_000}),
        );
        check(
            &json!({"stop": "END", "user": "ada", "max_tokens": 9, "reasoning_effort": "low"}),
            &json!({
                "max_tokens": 9, "stop_sequences": ["END"], "metadata": {"user_id": "ada"},
                "output_config": {"effort": "low"},
            }),
        );
        check(
            &json!({"stop": ["A", "B"], "max_tokens": 9, "parallel_tool_calls": false}),
            &json!({
                "max_tokens": 9, "stop_sequences": ["A", "B"],
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            }),
        );
        check(
            &json!({"parallel_tool_calls": true, "max_tokens": 9}),
            &json!({"max_tokens": 9}),
        );
    }

    #[test]
    fn a_response_format_becomes_an_output_format() {
        let schema = json!({"type": "object", "properties": {}});
        let with = |format: &Value| json!({"response_format": format, "max_tokens": 9});
        let format = json!({"type": "json_schema", "schema": schema});
        let expected = json!({"output_config": {"format": format}, "max_tokens": 9});
        let named = json!({"name": "n", "schema": schema, "strict": true});
        let wrapped = json!({"type": "json_schema", "json_schema": named});
        check(&with(&wrapped), &expected);
        check(&with(&format), &expected);
        let none = json!({"max_tokens": 9});
        check(&with(&json!({"type": "text"})), &none);
        let object = json!({"type": "json_object"});
        let unchanged = json!({"output_config": {"format": object}, "max_tokens": 9});
        check(&with(&object), &unchanged);
        let mut both = with(&wrapped);
        both["reasoning_effort"] = json!("low");
        check(
            &both,
            &json!({"output_config": {"effort": "low", "format": format}, "max_tokens": 9}),
        );
    }

    #[test]
    fn the_apis_own_parameter_takes_precedence() {
        check(
            &json!({
                "reasoning_effort": "low", "output_config": {"effort": "max", "format": {}},
                "user": "ada", "metadata": {"team": "a"}, "max_tokens": 9,
            }),
            &json!({
                "output_config": {"effort": "max", "format": {}},
                "metadata": {"team": "a", "user_id": "ada"}, "max_tokens": 9,
            }),
        );
    }

    #[test]
    fn switches_are_no_parameters() {
        #[track_caller]
        fn check_switches(config: &Value, tools: &[&str], cache: Option<&Value>) {
            let settings = MessagesParameters::from_config(config.as_object().unwrap());
            let names = settings.server_tools.iter().map(|tool| &tool["name"]);
            assert_eq!(names.collect::<Vec<_>>(), tools, "{config}");
            assert_eq!(settings.cache.as_ref(), cache, "{config}");
            assert_eq!(settings.parameters.len(), 1, "{config}");
        }

        let marked = json!({"type": "ephemeral"});
        check_switches(&json!({"betas": ["b"]}), &[], Some(&marked));
        check_switches(&json!({"prompt_caching": true}), &[], Some(&marked));
        check_switches(&json!({"cache_ttl": null}), &[], Some(&marked));
        check_switches(&json!({"prompt_caching": false}), &[], None);
        check_switches(
            &json!({"cache_ttl": "1h", "enable_web_search": false}),
            &[],
            Some(&json!({"type": "ephemeral", "ttl": "1h"})),
        );
        check_switches(
            &json!({"enable_web_search": true, "enable_code_execution": true}),
            &["web_search", "code_execution"],
            Some(&marked),
        );
    }
}
