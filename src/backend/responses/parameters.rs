//! Converts the request parameters of a config to those of the Responses API. Keys that the
//! API does not know under any name pass through unchanged.

use serde_json::{Map, Value, json};

/// Keys that a config cannot set: the conversation depends on them, or they belong in the URL.
const RESERVED_KEYS: &[&str] = &[
    "api_version",
    "conversation",
    "input",
    "instructions",
    "messages",
    "model",
    "n",
    "previous_response_id",
    "stream",
    "tools",
];
/// Chat Completions names of parameters, and their places in this API. If two names share a place,
/// the first counts, and the API's own name before both.
const RENAMED: &[(&str, &[&str])] = &[
    ("max_completion_tokens", &["max_output_tokens"]),
    ("max_tokens", &["max_output_tokens"]),
    ("reasoning_effort", &["reasoning", "effort"]),
    ("verbosity", &["text", "verbosity"]),
    ("response_format", &["text", "format"]),
];
/// Parameters that have no effect in a request without tools.
const ONLY_WITH_TOOLS: &[&str] = &["tool_choice", "parallel_tool_calls"];
/// Config keys that enable the vendor's built-in tools.
const WEB_SEARCH: &str = "enable_web_search";
const CODE_INTERPRETER: &str = "enable_code_interpreter";
/// Fields that a reply contains only on request, and that must be sent back.
const ENCRYPTED_REASONING: &str = "reasoning.encrypted_content";
const CODE_OUTPUTS: &str = "code_interpreter_call.outputs";

/// Storage of replies at the vendor, so that later requests can refer to their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyStorage {
    /// It stores them.
    Stored,
    /// It stores nothing: every request must hold all that it refers to.
    None,
}

/// Where a request holds the system message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SystemPlace {
    /// In `instructions`.
    Instructions,
    /// In the first item of `input`, as xAI's examples have it; not all of its models take
    /// `instructions`.
    Input,
}

/// The request parameters of a config, as every request carries them.
#[derive(Debug)]
pub(super) struct ResponsesParameters {
    fields: Map<String, Value>,
    /// The vendor's built-in tools that the model is offered.
    pub(super) tools: Vec<Value>,
    /// Whether replies are stored.
    pub(super) storage: ReplyStorage,
    /// Where the system message is.
    pub(super) system: SystemPlace,
}

impl ResponsesParameters {
    /// Converts the parameters of `config` for requests to `model`. Nothing is stored unless the
    /// config says so; a parameter that is null is omitted.
    pub(super) fn from_config(model: &str, config: &Map<String, Value>) -> Self {
        let mut fields = Map::new();
        fields.insert("store".to_owned(), json!(false));
        let include = reply_includes(model, config);
        if !include.is_empty() {
            fields.insert("include".to_owned(), include.into());
        }
        for (name, value) in config {
            if value.is_null() {
                fields.shift_remove(name);
            } else if is_copied(name) {
                fields.insert(name.clone(), value.clone());
            }
        }
        for (name, key_path) in RENAMED {
            if let Some(value) = non_null(config, name) {
                set_if_absent(&mut fields, key_path, value);
            }
        }
        Self {
            storage: match fields.get("store") {
                // Without the field, which a null removes, the vendor stores replies.
                Some(Value::Bool(true)) | None => ReplyStorage::Stored,
                Some(_) => ReplyStorage::None,
            },
            tools: built_in_tools(config),
            system: SystemPlace::Instructions,
            fields,
        }
    }

    /// Returns the parameters for a vendor whose system message is elsewhere.
    #[must_use]
    pub(super) fn with_system(self, system: SystemPlace) -> Self {
        Self { system, ..self }
    }

    /// Returns the fields of a request that offers this many tools.
    pub(super) fn fields(&self, tools: usize) -> impl Iterator<Item = (&String, &Value)> {
        let is_sent = move |name: &str| tools > 0 || !ONLY_WITH_TOOLS.contains(&name);
        self.fields.iter().filter(move |(name, _)| is_sent(name))
    }
}

/// Returns whether a key is copied as it is: it is neither reserved nor converted.
fn is_copied(name: &str) -> bool {
    let is_special = RESERVED_KEYS.contains(&name)
        || matches!(name, "include" | WEB_SEARCH | CODE_INTERPRETER)
        || RENAMED.iter().any(|(renamed, _)| *renamed == name);
    !is_special
}

/// Returns the value of a key that is not null.
fn non_null<'c>(config: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    config.get(name).filter(|value| !value.is_null())
}

fn is_on(config: &Map<String, Value>, name: &str) -> bool {
    non_null(config, name) == Some(&Value::Bool(true))
}

/// Returns the `include` list: what must be sent back in later requests, and what the config asks
/// for.
fn reply_includes(model: &str, config: &Map<String, Value>) -> Vec<Value> {
    let mut include = Vec::new();
    if is_reasoning_model(model, config) {
        include.push(json!(ENCRYPTED_REASONING));
    }
    if is_on(config, CODE_INTERPRETER) {
        include.push(json!(CODE_OUTPUTS));
    }
    let configured = config.get("include").and_then(Value::as_array);
    for item in configured.into_iter().flatten() {
        if !include.contains(item) {
            include.push(item.clone());
        }
    }
    include
}

/// Returns whether the model reasons, as far as its name shows. A model that does not reason
/// rejects every request for its reasoning, so a model with an unknown name is asked for it only if
/// the config says that it reasons.
fn is_reasoning_model(model: &str, config: &Map<String, Value>) -> bool {
    let is_configured =
        ["reasoning", "reasoning_effort"].map(|name| non_null(config, name).is_some());
    is_configured.contains(&true) || is_reasoning_name(model)
}

/// Returns whether the name is one of OpenAI's reasoning models: `o3`, `gpt-5-mini`,
/// `codex-mini-latest`, but not `gpt-4.1` or `gpt-5-chat-latest`.
fn is_reasoning_name(model: &str) -> bool {
    let (_, name) = model.rsplit_once('/').unwrap_or(("", model));
    if let Some(version) = name.strip_prefix("gpt-") {
        let major: u32 = version
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or_default()
            .parse()
            .unwrap_or_default();
        return major >= 5 && !version.contains("-chat");
    }
    let of_o_series = name.strip_prefix('o');
    name.starts_with("codex-")
        || of_o_series.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn built_in_tools(config: &Map<String, Value>) -> Vec<Value> {
    let tools = [
        (WEB_SEARCH, json!({"type": "web_search"})),
        (
            CODE_INTERPRETER,
            json!({"type": "code_interpreter", "container": {"type": "auto"}}),
        ),
    ];
    let offered_tools = tools.into_iter().filter(|(name, _)| is_on(config, name));
    offered_tools.map(|(_, tool)| tool).collect()
}

/// Sets the value at `key_path`, unless there is one already.
fn set_if_absent(fields: &mut Map<String, Value>, key_path: &[&str], value: &Value) {
    let [name, inner @ ..] = key_path else {
        return;
    };
    if inner.is_empty() {
        fields.entry(*name).or_insert_with(|| unwrap_format(value));
    } else if let Value::Object(object) = fields.entry(*name).or_insert_with(|| json!({})) {
        set_if_absent(object, inner, value);
    }
}

/// Returns a response format without the wrapper that Chat Completions require around its schema.
fn unwrap_format(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(format) = value.as_object_mut()
        && let Some(Value::Object(schema)) = format.shift_remove("json_schema")
    {
        format.extend(schema);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the fields of a request with tools and the vendor's tools, for a model that does not
    /// reason.
    #[track_caller]
    fn check(config: Value, fields: &Value, tools: &Value) {
        let Value::Object(config) = config else {
            panic!("{config}");
        };
        let parameters = ResponsesParameters::from_config("gpt-4.1", &config);
        let sent: Map<String, Value> = parameters
            .fields(1)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        assert_eq!(Value::Object(sent), *fields, "{config:?}");
        assert_eq!(Value::Array(parameters.tools), *tools, "{config:?}");
    }

    #[test]
    fn names_of_chat_completions_are_translated() {
        let format = json!({"type": "json_schema", "name": "n", "schema": {}, "strict": true});
        check(
            json!({
                "max_tokens": 9, "max_completion_tokens": 7, "verbosity": "low",
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {}, "strict": true},
                },
            }),
            &json!({
                "store": false,
                "max_output_tokens": 7,
                "text": {"verbosity": "low", "format": format},
            }),
            &json!([]),
        );
        check(
            json!({"reasoning_effort": "high", "reasoning": {"summary": "auto"}}),
            &json!({
                "store": false,
                "include": ["reasoning.encrypted_content"],
                "reasoning": {"summary": "auto", "effort": "high"},
            }),
            &json!([]),
        );
    }

    #[test]
    fn the_names_of_the_api_count_before_others() {
        check(
            json!({
                "max_tokens": 9, "max_output_tokens": 3,
                "verbosity": "low", "text": {"verbosity": "high"},
            }),
            &json!({"store": false, "max_output_tokens": 3, "text": {"verbosity": "high"}}),
            &json!([]),
        );
    }

    #[test]
    fn null_leaves_out_and_unknown_keys_go_through() {
        check(
            json!({
                "store": null, "temperature": null, "max_tokens": null,
                "prompt_cache_key": "k", "input": "mine", "previous_response_id": "resp_1",
            }),
            &json!({"prompt_cache_key": "k"}),
            &json!([]),
        );
        check(
            json!({"include": null, "enable_code_interpreter": true}),
            &json!({"store": false}),
            &json!([{"type": "code_interpreter", "container": {"type": "auto"}}]),
        );
    }

    #[test]
    fn include_parameter_holds_required_and_requested_items() {
        check(
            json!({
                "reasoning_effort": "low", "enable_web_search": true,
                "enable_code_interpreter": true,
                "include": ["web_search_call.action.sources", "reasoning.encrypted_content"],
            }),
            &json!({
                "store": false,
                "include": [
                    "reasoning.encrypted_content",
                    "code_interpreter_call.outputs",
                    "web_search_call.action.sources",
                ],
                "reasoning": {"effort": "low"},
            }),
            &json!([
                {"type": "web_search"},
                {"type": "code_interpreter", "container": {"type": "auto"}},
            ]),
        );
        check(
            json!({"enable_web_search": false, "enable_code_interpreter": "yes"}),
            &json!({"store": false}),
            &json!([]),
        );
    }

    #[test]
    fn only_models_that_reason_are_asked_for_their_reasoning() {
        for (model, expected) in [
            ("o1", true),
            ("o3-mini-2025-01-31", true),
            ("gpt-5", true),
            ("gpt-5.1-codex-max", true),
            ("gpt-10-nano", true),
            ("openai/gpt-5-mini", true),
            ("codex-mini-latest", true),
            ("gpt-5-chat-latest", false),
            ("gpt-4.1-mini", false),
            ("gpt-4o", false),
            ("gpt-oss-120b", false),
            ("chatgpt-4o-latest", false),
            ("omni-moderation", false),
            ("my-deployment", false),
            ("", false),
        ] {
            assert_eq!(is_reasoning_name(model), expected, "{model}");
        }
    }

    #[test]
    fn replies_are_kept_where_the_config_or_the_vendor_says_so() {
        for (config, expected) in [
            (json!({}), ReplyStorage::None),
            (json!({"store": false}), ReplyStorage::None),
            (json!({"store": true}), ReplyStorage::Stored),
            // The vendor stores replies by default.
            (json!({"store": null}), ReplyStorage::Stored),
        ] {
            let config = config.as_object().unwrap();
            assert_eq!(
                ResponsesParameters::from_config("m", config).storage,
                expected,
                "{config:?}"
            );
        }
    }
}
