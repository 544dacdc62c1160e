//! Owns `docs/config.md`, the reference of all keys. It is made from the table of keys, so that it
//! cannot differ from what is checked.

use std::fmt::Write;

use crate::config::keys::{Key, SECTIONS, Section, Status};
use crate::config::vendors::{VENDORS, Vendor};

/// The part of the reference that is about the file as a whole.
const INTRODUCTION: &str = include_str!("reference_introduction.md");

/// The whole reference as Markdown.
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for section in SECTIONS {
        section_reference(&mut out, section);
    }
    vendor_reference(&mut out);
    out
}

fn section_reference(out: &mut String, section: &Section) {
    let title = match section.path {
        "" => "## The top of the file".to_owned(),
        path => format!("## `{path}`"),
    };
    push(out, format_args!("\n{title}\n\n{}\n", section.doc));
    let of = |wanted: &'static [Status]| {
        let keys = section.keys.iter();
        keys.filter(move |key| wanted.contains(&key.status))
    };
    let mut served = of(&[Status::Required, Status::Served]).peekable();
    if served.peek().is_some() {
        push(
            out,
            format_args!("\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n"),
        );
    }
    for key in served {
        let default = match (key.status, key.default) {
            (Status::Required, _) => "required".to_owned(),
            (_, Some(default)) => format!("`{default}`"),
            (_, None) => String::new(),
        };
        let (names, shape) = (names(key), key.shape.describe());
        push(
            out,
            format_args!("| {names} | {shape} | {default} | {} |\n", key.doc),
        );
    }
    let groups = [
        (
            Status::Passed,
            "These go to the model's API as they are:",
            "Meaning",
        ),
        (
            Status::Unserved,
            "These keys of MassGen's are accepted with a warning, and not acted on:",
            "What happens instead",
        ),
        (Status::Refused, "These are errors:", "What to do"),
    ];
    for (status, title, column) in groups {
        let rows: Vec<&Key> = section
            .keys
            .iter()
            .filter(|key| key.status == status)
            .collect();
        if rows.is_empty() {
            continue;
        }
        push(
            out,
            format_args!("\n{title}\n\n| Keys | {column} |\n|---|---|\n"),
        );
        for key in rows {
            push(out, format_args!("| {} | {} |\n", names(key), key.doc));
        }
    }
}

fn vendor_reference(out: &mut String) {
    push(
        out,
        format_args!(
            "\n## Backend types\n\n| `type` | Endpoint | Key | Default model |\n|---|---|---|---|\n"
        ),
    );
    let (served, others): (Vec<&Vendor>, Vec<&Vendor>) =
        VENDORS.iter().partition(|vendor| vendor.is_served());
    for vendor in served {
        let code = |text: &str| format!("`{text}`");
        let endpoint = vendor.base_url.or(vendor.base_url_variable).map(code);
        let keys: Vec<String> = vendor.key_variables.iter().map(|name| code(name)).collect();
        push(
            out,
            format_args!(
                "| `{}` | {} | {} | {} |\n",
                vendor.name,
                endpoint.unwrap_or_default(),
                keys.join(" or "),
                vendor.default_model.map(code).unwrap_or_default(),
            ),
        );
    }
    push(
        out,
        format_args!(
            "\nThese types are known and not served yet:\n\n| `type` | What to do |\n|---|---|\n"
        ),
    );
    for vendor in others {
        let instead = vendor.instead.unwrap_or_default();
        push(out, format_args!("| `{}` | {instead} |\n", vendor.name));
    }
}

fn names(key: &Key) -> String {
    let names: Vec<String> = key.names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Writing to a text cannot fail.
fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _: std::fmt::Result = out.write_fmt(arguments);
}
