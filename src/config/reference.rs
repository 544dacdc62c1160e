//! Generates `docs/config.md`, the reference of all keys, from the tables of keys, parameters and
//! backend types, so that it always matches the checks.

use std::fmt::Write;

use crate::config::api_parameters::API_PARAMETERS;
use crate::config::check::{AGENTS_MAX, KEYS_MAX, PATHS_MAX};
use crate::config::keys::{ConfigKey, IgnoredEffect, KeySection, KeyStatus, SECTIONS, ValueShape};
use crate::config::vendors::{VENDORS, Vendor};
use crate::config::yaml::{ALIASES_MAX, CONFIG_BYTES_MAX, DEPTH_MAX, NODES_MAX};

/// The part of the reference about the file as a whole.
const INTRODUCTION: &str = include_str!("reference_introduction.md");

/// Returns the whole reference as Markdown.
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    limits(&mut out);
    for section in SECTIONS {
        section_reference(&mut out, section);
    }
    parameters_reference(&mut out);
    vendor_reference(&mut out);
    foreign_values_reference(&mut out);
    out
}

fn limits(out: &mut String) {
    let rows = [
        ("bytes of a file", CONFIG_BYTES_MAX),
        ("values of a file, aliases expanded", NODES_MAX),
        ("aliases", ALIASES_MAX),
        ("levels of nesting", DEPTH_MAX),
        ("keys of a mapping", KEYS_MAX),
        ("agents", AGENTS_MAX),
        ("paths of a list", PATHS_MAX),
    ];
    push(out, format_args!("\n## Limits\n\n"));
    table(out, &["At most", ""]);
    for (name, max) in rows {
        push(out, format_args!("| {name} | {max} |\n"));
    }
}

fn section_reference(out: &mut String, section: &KeySection) {
    let title = match section.path {
        "" => "The top of the file".to_owned(),
        path => format!("`{path}`"),
    };
    push(out, format_args!("\n## {title}\n\n{}\n", section.doc));
    let with_status = |statuses: &'static [KeyStatus]| -> Vec<&ConfigKey> {
        let keys = section.keys.iter();
        keys.filter(|key| statuses.contains(&key.status)).collect()
    };
    let supported_keys = with_status(&[KeyStatus::Required, KeyStatus::Supported]);
    if !supported_keys.is_empty() {
        push(out, format_args!("\n"));
        table(out, &["Key", "Value", "Default", "Meaning"]);
    }
    for key in supported_keys {
        let default = if key.status == KeyStatus::Required {
            "required".to_owned()
        } else {
            key.default.map(code).unwrap_or_default()
        };
        let (names, shape) = (names(key), linked_shape(&key.shape));
        push(
            out,
            format_args!("| {names} | {shape} | {default} | {} |\n", key.doc),
        );
    }
    let passed_keys = with_status(&[KeyStatus::PassedOn]);
    if !passed_keys.is_empty() {
        push(
            out,
            format_args!("\nThese are sent to the model's API, under its own names:\n\n"),
        );
        table(out, &["Keys", "Value", "Meaning"]);
    }
    for key in passed_keys {
        let (names, shape) = (names(key), linked_shape(&key.shape));
        push(out, format_args!("| {names} | {shape} | {} |\n", key.doc));
    }
    unsupported_reference(out, section);
    let refused_keys = with_status(&[KeyStatus::Refused]);
    if !refused_keys.is_empty() {
        push(out, format_args!("\nThese are errors:\n\n"));
        table(out, &["Keys", "Why, and what to do"]);
    }
    for key in refused_keys {
        push(out, format_args!("| {} | {} |\n", names(key), key.doc));
    }
}

/// Writes the keys that massgen does not act on: those that are errors, those that get a warning,
/// and those that are accepted.
fn unsupported_reference(out: &mut String, section: &KeySection) {
    let keys_with_effect = |is_selected: fn(IgnoredEffect) -> bool| -> Vec<&ConfigKey> {
        let is_listed = |key: &&ConfigKey| matches!(key.status, KeyStatus::Unsupported(effect) if is_selected(effect));
        section.keys.iter().filter(is_listed).collect()
    };
    let restricting_keys = keys_with_effect(|effect| {
        !matches!(effect, IgnoredEffect::Convenience | IgnoredEffect::Nothing)
    });
    if !restricting_keys.is_empty() {
        push(
            out,
            format_args!(
                "\nThese keys of MassGen restrict a run and are not supported: they are \
                 errors.\n\n"
            ),
        );
        table(out, &["Keys", "What to do instead", "No error for"]);
    }
    for key in restricting_keys {
        let allowed_words =
            if let KeyStatus::Unsupported(IgnoredEffect::RestrictsAs(words)) = key.status {
                let words: Vec<String> = words.iter().copied().map(code).collect();
                format!("all but {}", words.join(", "))
            } else {
                key.default.map_or_else(|| code("false"), code)
            };
        push(
            out,
            format_args!("| {} | {} | {allowed_words} |\n", names(key), key.doc),
        );
    }
    let harmless_keys = keys_with_effect(|effect| effect == IgnoredEffect::Nothing);
    if !harmless_keys.is_empty() {
        push(
            out,
            format_args!("\nThese keys of MassGen are accepted and change nothing:\n\n"),
        );
        table(out, &["Keys", "Why"]);
    }
    for key in harmless_keys {
        push(out, format_args!("| {} | {} |\n", names(key), key.doc));
    }
    let convenience_keys = keys_with_effect(|effect| effect == IgnoredEffect::Convenience);
    if !convenience_keys.is_empty() {
        push(
            out,
            format_args!("\nThese keys of MassGen are not supported and get a warning:\n\n"),
        );
        table(out, &["Keys", "What happens instead", "No warning for"]);
    }
    for key in convenience_keys {
        let default = key.default.map(code).unwrap_or_default();
        push(
            out,
            format_args!("| {} | {} | {default} |\n", names(key), key.doc),
        );
    }
}

fn parameters_reference(out: &mut String) {
    push(
        out,
        format_args!(
            "\n## Parameters that not every API has\n\nOther APIs do not receive them, and a \
             warning says so.\n\n"
        ),
    );
    table(out, &["Keys", "Sent by", "Elsewhere"]);
    for row in API_PARAMETERS {
        let keys: Vec<String> = row.keys.iter().copied().map(code).collect();
        let apis: Vec<&str> = row.apis.iter().map(|api| api.describe()).collect();
        push(
            out,
            format_args!(
                "| {} | {} | {} |\n",
                keys.join(", "),
                apis.join(", "),
                row.consequence
            ),
        );
    }
}

fn vendor_reference(out: &mut String) {
    push(
        out,
        format_args!(
            "\n## Backend types\n\n`chatcompletion` uses the API key for the host of its \
             `base_url`. A server on your own machine needs no key.\n\n"
        ),
    );
    table(out, &["`type`", "Endpoint", "Key", "Default model"]);
    let (supported_vendors, unsupported_vendors): (Vec<&Vendor>, Vec<&Vendor>) =
        VENDORS.iter().partition(|vendor| vendor.is_supported());
    for vendor in supported_vendors {
        let name = code(vendor.name);
        let endpoint = vendor.base_url.or(vendor.base_url_variable).map(code);
        let endpoint = endpoint.unwrap_or_default();
        let keys: Vec<String> = vendor.key_variables.iter().copied().map(code).collect();
        let keys = keys.join(" or ");
        let model = vendor.default_model.map(code).unwrap_or_default();
        push(
            out,
            format_args!("| {name} | {endpoint} | {keys} | {model} |\n"),
        );
    }
    push(
        out,
        format_args!("\nThese types are known but not supported yet:\n\n"),
    );
    table(out, &["`type`", "What to do"]);
    for vendor in unsupported_vendors {
        let alternative = vendor.alternative.unwrap_or_default();
        push(
            out,
            format_args!("| {} | {alternative} |\n", code(vendor.name)),
        );
    }
}

/// Writes the values of MassGen that massgen reads as values of its own.
fn foreign_values_reference(out: &mut String) {
    push(
        out,
        format_args!(
            "\n## Values of MassGen\n\nThese values of MassGen are read as others, with a \
             warning.\n\n"
        ),
    );
    table(out, &["Section", "Value", "Read as", "What happens"]);
    for section in SECTIONS {
        for key in section.keys {
            let name = key.names.first().copied().unwrap_or_default();
            for value in key.foreign_values {
                let row = [
                    code(section.path),
                    code(&format!("{name}: {}", value.massgen_value)),
                    code(value.read_as),
                    value.doc.to_owned(),
                ];
                push(out, format_args!("| {} |\n", row.join(" | ")));
            }
        }
    }
}

/// Returns the shape of a value, with a link to its section.
fn linked_shape(shape: &ValueShape) -> String {
    let link = |text: &str, section: &KeySection| format!("[{text}](#{})", anchor(section));
    match shape {
        ValueShape::Mapping(section) => link("a mapping", section),
        ValueShape::List(ValueShape::Mapping(section)) => {
            format!("a list of {}", link("mappings", section))
        }
        ValueShape::List(ValueShape::TextOr(section)) => {
            format!("a list of strings or {}", link("mappings", section))
        }
        ValueShape::TextOr(section) => format!("a string or {}", link("a mapping", section)),
        ValueShape::Named(section) => {
            format!(
                "a list of {}, or a mapping of names to them",
                link("mappings", section)
            )
        }
        ValueShape::Any
        | ValueShape::Verbatim
        | ValueShape::Text
        | ValueShape::Flag
        | ValueShape::Integer(..)
        | ValueShape::Number(..)
        | ValueShape::OneOf(_)
        | ValueShape::OneOfOrList(_)
        | ValueShape::Size(..)
        | ValueShape::Names
        | ValueShape::List(_) => shape.describe(),
    }
}

/// Returns the anchor that GitHub generates for a section's heading.
fn anchor(section: &KeySection) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || *c == '_';
    let letters: String = section.path.chars().filter(is_kept).collect();
    letters.to_lowercase()
}

fn names(key: &ConfigKey) -> String {
    let names: Vec<String> = key.names.iter().copied().map(code).collect();
    names.join(", ")
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn table(out: &mut String, columns: &[&str]) {
    push(out, format_args!("| {} |\n", columns.join(" | ")));
    push(out, format_args!("|{}\n", "---|".repeat(columns.len())));
}

/// Appends text; writing to a string cannot fail.
fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _: std::fmt::Result = out.write_fmt(arguments);
}
