//! Maps the request parameters of a config to the fields of Google's API. Keys that are not listed
//! are fields already.

use serde_json::{Map, Value, json};

use crate::config::vendors::GeminiGeneration;

/// Keys that a config cannot set: the conversation depends on them.
const RESERVED_KEYS: &[&str] = &[
    "model",
    "contents",
    "messages",
    "systemInstruction",
    "system_instruction",
    "tools",
    "stream",
    "n",
];
/// Keys, and the `generationConfig` fields that they set.
const GENERATION_FIELDS: &[(&str, &str)] = &[
    ("frequency_penalty", "frequencyPenalty"),
    ("max_completion_tokens", "maxOutputTokens"),
    ("max_output_tokens", "maxOutputTokens"),
    ("max_tokens", "maxOutputTokens"),
    ("media_resolution", "mediaResolution"),
    ("presence_penalty", "presencePenalty"),
    ("response_json_schema", "responseJsonSchema"),
    ("response_mime_type", "responseMimeType"),
    ("response_schema", "responseSchema"),
    ("seed", "seed"),
    ("stop", STOP),
    ("stop_sequences", STOP),
    ("temperature", "temperature"),
    ("thinking_config", THINKING),
    ("top_k", "topK"),
    ("top_p", "topP"),
];
/// Keys, and the `thinkingConfig` fields that they set.
const THINKING_FIELDS: &[(&str, &str)] = &[
    ("budget_tokens", BUDGET),
    ("include_thoughts", "includeThoughts"),
    ("thinking_budget", BUDGET),
    ("thinking_level", "thinkingLevel"),
];
/// Fields that several keys set.
const STOP: &str = "stopSequences";
const THINKING: &str = "thinkingConfig";
const BUDGET: &str = "thinkingBudget";
/// Effort levels, and the thinking budgets in tokens of models before Gemini 3:
/// <https://ai.google.dev/gemini-api/docs/openai#thinking>.
const EFFORT_TOKENS: &[(&str, u64)] = &[
    ("none", 0),
    ("minimal", 1_024),
    ("low", 1_024),
    ("medium", 8_192),
    ("high", 24_576),
];

/// The request parameters of a config, as every request carries them.
#[derive(Debug, Default)]
pub(super) struct GenerateContentParameters {
    /// Fields of the body, including `generationConfig`.
    pub(super) body: Map<String, Value>,
    /// Tools that Google runs itself.
    pub(super) tools: Vec<Value>,
    /// How the model chooses tools; for requests with massgen's tools.
    pub(super) tool_config: Map<String, Value>,
}

impl GenerateContentParameters {
    /// Converts the parameters for a model of this generation. One that is null is omitted.
    pub(super) fn new(parameters: &Map<String, Value>, model_generation: GeminiGeneration) -> Self {
        let mut converted = Self::default();
        let mut generation = Map::new();
        let mut thinking = Map::new();
        if model_generation == GeminiGeneration::Current {
            // Without it nothing arrives while the model thinks.
            thinking.insert("includeThoughts".to_owned(), json!(true));
        }
        for (name, value) in parameters {
            if value.is_null() || RESERVED_KEYS.contains(&name.as_str()) {
                continue;
            }
            match (name.as_str(), value) {
                ("reasoning_effort", Value::String(word)) => {
                    thinking.extend([effort(word, model_generation)]);
                }
                ("thinking", Value::Object(fields)) => thinking.extend(thinking_fields(fields)),
                ("generation_config" | "generationConfig", Value::Object(fields)) => {
                    for (name, value) in fields {
                        let field = field(GENERATION_FIELDS, name).unwrap_or(name);
                        set_generation_field(&mut generation, &mut thinking, field, value);
                    }
                }
                ("tool_config" | "toolConfig", Value::Object(fields)) => {
                    converted.tool_config.extend(fields.clone());
                }
                ("enable_web_search", Value::Bool(true)) => {
                    converted.tools.push(json!({"googleSearch": {}}));
                }
                ("enable_code_execution", Value::Bool(true)) => {
                    converted.tools.push(json!({"codeExecution": {}}));
                }
                (name, value) => match field(GENERATION_FIELDS, name) {
                    Some(field) => {
                        set_generation_field(&mut generation, &mut thinking, field, value);
                    }
                    None => {
                        converted.body.insert(name.to_owned(), value.clone());
                    }
                },
            }
        }
        if !thinking.is_empty() {
            generation.insert(THINKING.to_owned(), thinking.into());
        }
        if !generation.is_empty() {
            let name = "generationConfig".to_owned();
            converted.body.insert(name, generation.into());
        }
        converted
    }
}

/// Sets a field of `generationConfig`.
fn set_generation_field(
    generation: &mut Map<String, Value>,
    thinking: &mut Map<String, Value>,
    field: &str,
    value: &Value,
) {
    let value = match (field, value) {
        (THINKING, Value::Object(fields)) => return thinking.extend(thinking_fields(fields)),
        (STOP, Value::String(text)) => json!([text]),
        (_, value) => value.clone(),
    };
    generation.insert(field.to_owned(), value);
}

/// Returns the effort as a level, or as a number of tokens.
fn effort(word: &str, model_generation: GeminiGeneration) -> (String, Value) {
    let tokens = EFFORT_TOKENS.iter().find(|(name, _)| *name == word);
    match (model_generation, tokens) {
        (GeminiGeneration::Early, Some((_, tokens))) => (BUDGET.to_owned(), json!(tokens)),
        (GeminiGeneration::Early, None) | (GeminiGeneration::Current, _) => {
            ("thinkingLevel".to_owned(), json!(word))
        }
    }
}

/// Returns the `thinkingConfig` fields; they may be written as for other vendors, as in
/// `{type: enabled, budget_tokens: 2048}`.
fn thinking_fields(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut thinking = Map::new();
    for (name, value) in fields {
        match (name.as_str(), value.as_str()) {
            ("type", Some("disabled")) => thinking.insert(BUDGET.to_owned(), json!(0)),
            ("type", _) => None,
            (name, _) => {
                let field = field(THINKING_FIELDS, name).unwrap_or(name);
                thinking.insert(field.to_owned(), value.clone())
            }
        };
    }
    thinking
}

/// Returns the field that a key sets. Keys can also be the names of fields.
fn field(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    let is_named = |(key, field): &&(&str, &'static str)| *key == name || *field == name;
    table.iter().find(is_named).map(|(_, field)| *field)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the conversion of a config's parameters: the body, Google's tools, the tool config.
    #[track_caller]
    fn check(model_generation: GeminiGeneration, parameters: &Value, expected: &Value) {
        let converted =
            GenerateContentParameters::new(parameters.as_object().unwrap(), model_generation);
        let actual = json!([converted.body, converted.tools, converted.tool_config]);
        assert_eq!(actual.to_string(), expected.to_string(), "{parameters}");
    }

    #[test]
    fn every_key_sets_the_field_that_the_api_has_for_it() {
        let generation = |fields: Value| json!([{"generationConfig": fields}, [], {}]);
        let early = |parameters: Value, fields: Value| {
            check(GeminiGeneration::Early, &parameters, &generation(fields));
        };
        early(
            json!({"temperature": 0.5, "top_p": 0.9, "top_k": 40, "max_tokens": 100, "seed": 7}),
            json!({"temperature": 0.5, "topP": 0.9, "topK": 40, "maxOutputTokens": 100, "seed": 7}),
        );
        early(
            json!({"presence_penalty": 1, "frequency_penalty": 2, "max_completion_tokens": 9}),
            json!({"presencePenalty": 1, "frequencyPenalty": 2, "maxOutputTokens": 9}),
        );
        early(json!({"stop": "END"}), json!({"stopSequences": ["END"]}));
        early(
            json!({"stop": ["a", "b"]}),
            json!({"stopSequences": ["a", "b"]}),
        );
        early(
            json!({"topP": 0.9, "response_mime_type": "application/json"}),
            json!({"topP": 0.9, "responseMimeType": "application/json"}),
        );
        early(
            json!({"generation_config": {"top_p": 0.1, "speechConfig": {}}, "temperature": 1}),
            json!({"topP": 0.1, "speechConfig": {}, "temperature": 1}),
        );
    }

    #[test]
    fn effort_is_a_level_or_a_number_of_tokens() {
        let thinking =
            |fields: Value| json!([{"generationConfig": {"thinkingConfig": fields}}, [], {}]);
        let early = |parameters: Value, fields: Value| {
            check(GeminiGeneration::Early, &parameters, &thinking(fields));
        };
        early(
            json!({"reasoning_effort": "medium"}),
            json!({"thinkingBudget": 8192}),
        );
        early(
            json!({"thinking": {"type": "enabled", "budget_tokens": 2048}}),
            json!({"thinkingBudget": 2048}),
        );
        early(
            json!({"thinking": {"type": "disabled"}}),
            json!({"thinkingBudget": 0}),
        );
        early(
            json!({"generation_config": {"thinking_config": {"include_thoughts": true}}}),
            json!({"includeThoughts": true}),
        );
        let current = |parameters: Value, fields: Value| {
            check(GeminiGeneration::Current, &parameters, &thinking(fields));
        };
        current(json!({}), json!({"includeThoughts": true}));
        current(
            json!({"reasoning_effort": "low"}),
            json!({"includeThoughts": true, "thinkingLevel": "low"}),
        );
        current(
            json!({"thinking": {"includeThoughts": false}}),
            json!({"includeThoughts": false}),
        );
    }

    #[test]
    fn googles_tools_are_requested_and_unknown_keys_are_sent_unchanged() {
        let safety = json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]);
        check(
            GeminiGeneration::Early,
            &json!({
                "enable_web_search": true, "enable_code_execution": true, "seed": null,
                "safety_settings": safety, "service_tier": "flex", "model": "other", "tools": [],
                "contents": [], "tool_config": {"functionCallingConfig": {"mode": "ANY"}},
            }),
            &json!([
                {"safety_settings": safety, "service_tier": "flex"},
                [{"googleSearch": {}}, {"codeExecution": {}}],
                {"functionCallingConfig": {"mode": "ANY"}},
            ]),
        );
    }
}
