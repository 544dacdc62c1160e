//! Forms that MCP servers ask the user to fill in (elicitation): their fields, the question for
//! each, and the parsed answers. All text in a form is untrusted.

use serde_json::{Map, Value};

use crate::text::{escape_line, list_names, single_line};

/// The maximum number of fields in a form.
const FIELDS_MAX: usize = 16;
/// The maximum number of choices of a field.
const CHOICES_MAX: usize = 32;
/// The longest part of a name, a description or a choice that is shown, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// A form. It has at least one field.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitationForm(Vec<FormField>);

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    name: String,
    description: String,
    kind: FormFieldKind,
    when_omitted: OmittedFieldMeaning,
}

/// The type of a field's value.
#[derive(Clone, Debug, PartialEq)]
enum FormFieldKind {
    Text,
    Integer,
    Number,
    YesOrNo,
    OneOf(Vec<String>),
    SomeOf(Vec<String>),
}

/// The meaning of an empty answer.
#[derive(Clone, Debug, PartialEq)]
enum OmittedFieldMeaning {
    /// Nothing is sent to the server.
    Declines,
    /// The field is omitted.
    Omits,
    /// This default is sent.
    Default(Value),
}

impl ElicitationForm {
    /// Parses a schema into a form, with the fields of `order` first. Returns `None` if it cannot
    /// be asked, because it has no fields, too many, or one of an unknown type.
    pub fn parse(schema: &Value, order: &[String]) -> Option<Self> {
        let properties = schema.get("properties")?.as_object()?;
        if properties.is_empty() || properties.len() > FIELDS_MAX {
            return None;
        }
        let required_names = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            let mut names = required_names.into_iter().flatten();
            names.any(|required| required == name)
        };
        let other_names = properties.keys().filter(|name| !order.contains(name));
        let names = order.iter().chain(other_names);
        let fields = names
            .filter_map(|name| Some((name, properties.get(name)?)))
            .map(|(name, schema)| FormField::parse(name, schema, is_required(name)));
        fields.collect::<Option<Vec<FormField>>>().map(Self)
    }

    /// Returns its fields.
    pub fn fields(&self) -> &[FormField] {
        &self.0
    }
}

impl FormField {
    fn parse(name: &str, schema: &Value, is_required: bool) -> Option<Self> {
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let description = text("description").or(text("title")).unwrap_or_default();
        let kind = FormFieldKind::parse(schema)?;
        let when_omitted = match schema.get("default").filter(|value| !value.is_null()) {
            Some(default) => OmittedFieldMeaning::Default(default.clone()),
            None if is_required => OmittedFieldMeaning::Declines,
            None => OmittedFieldMeaning::Omits,
        };
        Some(Self {
            name: name.to_owned(),
            description: display_text(description),
            kind,
            when_omitted,
        })
    }

    /// Returns the question for the user.
    pub fn question(&self) -> String {
        let name = display_text(&self.name);
        let description = match self.description.as_str() {
            "" => String::new(),
            description => format!(": {description}"),
        };
        format!("`{name}`{description} ({})", self.kind.describe_expected())
    }

    /// Describes what an empty answer means, and no answer.
    pub fn describe_default(&self) -> String {
        let default = match &self.when_omitted {
            OmittedFieldMeaning::Declines => return "Enter alone: decline".to_owned(),
            OmittedFieldMeaning::Omits => "it is left out".to_owned(),
            OmittedFieldMeaning::Default(default) => {
                let default = default.as_str().map_or(default.to_string(), str::to_owned);
                display_text(&default)
            }
        };
        format!("Enter alone: {default}; no answer: decline")
    }

    /// Adds the user's answer to `answers`. The error gives what is expected, as the end of a
    /// sentence; an error of `None` means that the user declines.
    pub fn fill(&self, text: &str, answers: &mut Map<String, Value>) -> Result<(), Option<String>> {
        let value = match (text.trim(), &self.when_omitted) {
            ("", OmittedFieldMeaning::Default(default)) => Some(default.clone()),
            ("", OmittedFieldMeaning::Omits) => None,
            ("", OmittedFieldMeaning::Declines) => return Err(None),
            (text, _) => {
                let value = self.kind.parse_answer(text);
                Some(value.ok_or_else(|| Some(self.kind.describe_expected()))?)
            }
        };
        answers.extend(value.map(|value| (self.name.clone(), value)));
        Ok(())
    }
}

impl FormFieldKind {
    fn parse(schema: &Value) -> Option<Self> {
        let kind = schema.get("type").and_then(Value::as_str);
        match (kind, choices(schema)) {
            (Some("string") | None, Some(choices)) => {
                limit_choices(choices).map(FormFieldKind::OneOf)
            }
            (Some("string"), None) => Some(FormFieldKind::Text),
            (Some("integer"), _) => Some(FormFieldKind::Integer),
            (Some("number"), _) => Some(FormFieldKind::Number),
            (Some("boolean"), _) => Some(FormFieldKind::YesOrNo),
            (Some("array"), _) => {
                let choices = schema.get("items").and_then(choices)?;
                limit_choices(choices).map(FormFieldKind::SomeOf)
            }
            _ => None,
        }
    }

    /// Describes the expected answer, as part of a sentence.
    fn describe_expected(&self) -> String {
        let list = |choices: &[String], word: &str| {
            let display_texts: Vec<String> =
                choices.iter().map(|choice| display_text(choice)).collect();
            let names: Vec<&str> = display_texts.iter().map(String::as_str).collect();
            list_names(&names, word)
        };
        match self {
            FormFieldKind::Text => "a text".to_owned(),
            FormFieldKind::Integer => "a whole number".to_owned(),
            FormFieldKind::Number => "a number".to_owned(),
            FormFieldKind::YesOrNo => "yes or no".to_owned(),
            FormFieldKind::OneOf(choices) => list(choices, "or"),
            FormFieldKind::SomeOf(choices) => {
                format!("some of {}, with commas", list(choices, "and"))
            }
        }
    }

    fn parse_answer(&self, text: &str) -> Option<Value> {
        let find_choice = |choices: &[String], text: &str| {
            let mut choices = choices.iter();
            choices.find(|choice| *choice == text).cloned()
        };
        match self {
            FormFieldKind::Text => Some(Value::from(text)),
            FormFieldKind::Integer => text.parse::<i64>().ok().map(Value::from),
            FormFieldKind::Number => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                number.map(Value::from)
            }
            FormFieldKind::YesOrNo => match text.to_lowercase().as_str() {
                "yes" | "y" | "true" => Some(Value::from(true)),
                "no" | "n" | "false" => Some(Value::from(false)),
                _ => None,
            },
            FormFieldKind::OneOf(choices) => find_choice(choices, text).map(Value::from),
            FormFieldKind::SomeOf(choices) => {
                let parts = text.split(',').map(str::trim);
                let chosen_values = parts.map(|part| find_choice(choices, part));
                chosen_values
                    .collect::<Option<Vec<String>>>()
                    .map(Value::from)
            }
        }
    }
}

/// Returns the choices that a schema lists, as the server expects them.
fn choices(schema: &Value) -> Option<Vec<String>> {
    let texts = |list: &Value, key: Option<&str>| {
        let texts = list.as_array()?.iter().map(|entry| {
            let text = key.map_or(Some(entry), |key| entry.get(key))?;
            text.as_str().map(str::to_owned)
        });
        texts.collect::<Option<Vec<String>>>()
    };
    let titled_choices = schema.get("oneOf").or(schema.get("anyOf"));
    match schema.get("enum") {
        Some(list) => texts(list, None),
        None => texts(titled_choices?, Some("const")),
    }
}

fn limit_choices(choices: Vec<String>) -> Option<Vec<String>> {
    let is_bounded = !choices.is_empty() && choices.len() <= CHOICES_MAX;
    is_bounded.then_some(choices)
}

fn display_text(text: &str) -> String {
    escape_line(&single_line(text, TEXT_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(properties: &Value, required: &[&str]) -> Option<ElicitationForm> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        ElicitationForm::parse(&schema, &[])
    }

    #[track_caller]
    fn check(schema: &Value, text: &str, expected: Result<Value, &str>) {
        let form = form(&json!({"a": schema}), &["a"]).unwrap();
        let mut answers = Map::new();
        let result = form.fields()[0].fill(text, &mut answers);
        let actual = match result {
            Ok(()) => Ok(answers["a"].clone()),
            Err(expected_answer) => Err(expected_answer.unwrap()),
        };
        assert_eq!(actual, expected.map_err(str::to_owned), "{schema} {text}");
    }

    #[test]
    fn typed_answers_become_values_of_the_field() {
        let text = json!({"type": "string"});
        check(&text, " ann ", Ok(json!("ann")));
        let whole = json!({"type": "integer"});
        check(&whole, "12", Ok(json!(12)));
        check(&whole, "1.5", Err("a whole number"));
        let number = json!({"type": "number"});
        check(&number, "1.5", Ok(json!(1.5)));
        check(&number, "inf", Err("a number"));
        let flag = json!({"type": "boolean"});
        check(&flag, "Yes", Ok(json!(true)));
        check(&flag, "perhaps", Err("yes or no"));
        let one = json!({"type": "string", "enum": ["red", "blue"]});
        check(&one, "red", Ok(json!("red")));
        check(&one, "green", Err("`red` or `blue`"));
        let titled = json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]});
        check(&titled, "r", Ok(json!("r")));
        let some = json!({"type": "array", "items": {"type": "string", "enum": ["x", "y"]}});
        check(&some, "x, y", Ok(json!(["x", "y"])));
        check(&some, "x, z", Err("some of `x` and `y`, with commas"));
    }

    #[test]
    fn an_empty_answer_means_what_the_field_says() {
        let fields = json!({
            "a": {"type": "string", "description": "who\u{1b}[2J"},
            "b": {"type": "integer", "default": 3},
            "c": {"type": "string"},
        });
        let form = form(&fields, &["a"]).unwrap();
        let fields = form.fields();
        assert_eq!(fields[0].question(), "`a`: who\\u{1b}[2J (a text)");
        let mut answers = Map::new();
        assert_eq!(fields[0].fill("", &mut answers), Err(None));
        for field in &fields[1..] {
            field.fill(" ", &mut answers).unwrap();
        }
        assert_eq!(Value::Object(answers), json!({"b": 3}));
        let defaults: Vec<String> = fields.iter().map(FormField::describe_default).collect();
        let expected = [
            "decline",
            "3; no answer: decline",
            "it is left out; no answer: decline",
        ];
        assert_eq!(
            defaults,
            expected.map(|default| format!("Enter alone: {default}"))
        );
    }

    #[test]
    fn unsupported_elicitation_schemas_make_no_form() {
        let text = json!({"type": "string"});
        assert!(form(&json!({"a": text}), &[]).is_some());
        assert_eq!(form(&json!({}), &[]), None);
        assert_eq!(form(&json!({"a": {"type": "object"}}), &[]), None);
        let many: Map<String, Value> = (0..17).map(|n| (format!("f{n}"), text.clone())).collect();
        assert_eq!(form(&Value::Object(many), &[]), None);
        let choices: Vec<String> = (0..33).map(|n| n.to_string()).collect();
        let many = json!({"a": {"type": "string", "enum": choices}});
        assert_eq!(form(&many, &[]), None);
    }
}
