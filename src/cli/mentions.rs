//! Owns `massgen explain prompt`, and what the user is told about the mentions of a prompt.

use std::fmt::Write as _;

use crate::cli::output::{Form, Output};
use crate::error::Result;
use crate::host::Host;
use crate::path::AbsPath;
use crate::prompt::{self, Found, Mention, ParsedPrompt, Reach};
use crate::world::files::look;

/// Finds the mentions in `text`, which the user typed in `base`.
pub(crate) fn parse(text: &str, base: &AbsPath, host: &Host) -> ParsedPrompt {
    prompt::parse(text, base, host.home.as_ref(), &look)
}

/// What the user should know about the mentions of a prompt.
pub(crate) fn warnings(prompt: &ParsedPrompt) -> Vec<String> {
    let missing = prompt.missing.iter().map(|mention| {
        let path = &mention.path;
        match mention.found {
            Found::Unreadable => format!("`{path}` is mentioned and cannot be read"),
            Found::Missing | Found::File | Found::Directory => {
                format!("`{path}` is mentioned and does not exist")
            }
        }
    });
    missing.chain(prompt.suggestions.iter().cloned()).collect()
}

/// Prints which paths `text` opens and what the agents read of it.
pub(crate) fn explain(
    text: &str,
    base: Option<&str>,
    form: Form,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<()> {
    let base = base.map_or_else(|| host.cwd.clone(), |base| host.cwd.join(base));
    let parsed = parse(text, &base, host);
    match form {
        Form::Json => output.result(&format!("{}\n", prompt::to_json(&parsed))),
        Form::Text => output.result(&for_people(&parsed)),
    }
}

fn for_people(prompt: &ParsedPrompt) -> String {
    let mut text = String::new();
    for mention in &prompt.mentions {
        let note = match mention.reach {
            Reach::Inside => "",
            Reach::Outside => "  (outside the base directory)",
            Reach::Broad => "  (opens far more than a project)",
        };
        let Mention {
            permission, path, ..
        } = mention;
        push(&mut text, &format!("{permission:<7} {path}{note}"));
    }
    for warning in warnings(prompt) {
        push(&mut text, &format!("note    {warning}"));
    }
    if text.is_empty() {
        push(&mut text, "the prompt mentions no path");
    }
    push(&mut text, "");
    push(&mut text, "the agents read:");
    push(&mut text, &prompt.cleaned_prompt);
    text
}

fn push(text: &mut String, line: &str) {
    // Writing to a `String` cannot fail.
    writeln!(text, "{line}").unwrap_or_default();
}
