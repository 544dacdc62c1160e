//! Diagnostics about a config: findings with their locations in the text, rendered as lines for a
//! person and as JSON for scripts.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Origin as SourceOrigin, Renderer, Snippet};
use serde_json::{Value, json};

use crate::text::{escape_name, truncate};

/// The longest line that is shown with its finding, in bytes; of longer lines only the location is
/// shown.
const LINE_BYTES_MAX: usize = 240;
/// The longest part of the user's text that a message quotes, in characters.
const QUOTE_CHARS_MAX: usize = 60;

/// A range of bytes in the text of a config.
pub type Span = Range<usize>;

/// Whether a finding prevents the config from being run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The config cannot be run.
    Error,
    /// The config can be run, but something in it will not happen as written.
    Warning,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the config can still be run.
    pub severity: Severity,
    /// What is wrong: lower case, no final period, the thing in backticks.
    pub message: String,
    /// The path of the key in the YAML, such as `agents[0].backend.type`; empty for the whole file.
    pub key: String,
    /// Its location in the text, if it has one.
    pub span: Option<Span>,
    /// What is expected there, shown under the line.
    pub expected: Option<String>,
    /// The suggested next step.
    pub suggestion: Option<String>,
    /// The number of further places with the same finding.
    pub repeats: usize,
}

impl Diagnostic {
    /// Creates a finding that prevents the config from being run.
    pub fn error(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            key: key.into(),
            span: None,
            expected: None,
            suggestion: None,
            repeats: 0,
        }
    }

    /// Creates a warning.
    pub fn warning(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(key, message)
        }
    }

    /// Adds the location.
    #[must_use]
    pub fn with_span(mut self, span: &Span) -> Self {
        self.span = Some(span.clone());
        self
    }

    /// Adds what is expected there.
    #[must_use]
    pub fn with_expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Adds the suggested next step.
    #[must_use]
    pub fn with_suggestion(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// Returns the line and column of a byte of `text`, both from 1; the column counts characters.
pub(super) fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let text_before = text.get(..byte).unwrap_or(text);
    let line = text_before.matches('\n').count().saturating_add(1);
    let start = text_before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = text_before.get(start..).unwrap_or("").chars().count();
    (line, column.saturating_add(1))
}

/// The text that findings refer to, under the name by which the user knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSource {
    name: String,
    text: String,
}

impl ConfigSource {
    /// Creates a source with a name.
    pub fn new(name: impl Into<String>, text: String) -> Self {
        Self {
            name: name.into(),
            text,
        }
    }

    /// Returns the text, without keys.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the line that contains `span`, and the span within it; `None` if the line is too
    /// long to show.
    fn line_of(&self, span: &Span) -> Option<(&str, Span)> {
        let text_before = self.text.get(..span.start)?;
        let start = text_before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text.get(start..)?.lines().next().unwrap_or("");
        let span_start = span.start.checked_sub(start)?;
        let span_end = span.end.saturating_sub(start).clamp(span_start, line.len());
        (line.len() <= LINE_BYTES_MAX).then_some((line, span_start..span_end))
    }
}

/// Quotes the user's own text for messages: short, in backticks, without control characters.
pub fn quote(text: &str) -> String {
    let shown_text = escape_name(&truncate(text, QUOTE_CHARS_MAX));
    format!("`{shown_text}`")
}

/// Renders all findings for a person, errors and warnings in the order given, each with its line.
pub fn render(source: &ConfigSource, diagnostics: &[Diagnostic]) -> String {
    let renderer = Renderer::plain().decor_style(DecorStyle::Ascii);
    let texts: Vec<String> = diagnostics
        .iter()
        .map(|diagnostic| renderer.render(&[report(source, diagnostic)]))
        .collect();
    texts.join("\n\n")
}

/// Renders each finding in one line, for the start of a run.
pub fn render_lines(source: &ConfigSource, diagnostics: &[Diagnostic]) -> Vec<String> {
    let line = |diagnostic: &Diagnostic| {
        let position = diagnostic.span.as_ref().map(|span| {
            let (line, column) = line_and_column(&source.text, span.start);
            format!(":{line}:{column}")
        });
        let repeats = match diagnostic.repeats {
            0 => String::new(),
            count => format!(" (and in {count} more places)"),
        };
        let position = position.unwrap_or_default();
        format!("{}{position}: {}{repeats}", source.name, diagnostic.message)
    };
    diagnostics.iter().map(line).collect()
}

/// Returns the result of a check for scripts.
pub fn to_json(source: &ConfigSource, diagnostics: &[Diagnostic]) -> Value {
    let with_severity = |severity| {
        let selected = diagnostics
            .iter()
            .filter(move |diagnostic| diagnostic.severity == severity);
        selected
            .map(|diagnostic| diagnostic_json(source, diagnostic))
            .collect::<Vec<Value>>()
    };
    let errors = with_severity(Severity::Error);
    let warnings = with_severity(Severity::Warning);
    json!({
        "valid": errors.is_empty(),
        "error_count": errors.len(),
        "warning_count": warnings.len(),
        "errors": errors,
        "warnings": warnings,
    })
}

fn diagnostic_json(source: &ConfigSource, diagnostic: &Diagnostic) -> Value {
    let position = diagnostic
        .span
        .as_ref()
        .map(|span| line_and_column(&source.text, span.start));
    json!({
        "message": diagnostic.message,
        "location": if diagnostic.key.is_empty() { "root" } else { &diagnostic.key },
        "expected": diagnostic.expected,
        "suggestion": diagnostic.suggestion,
        "repeats": diagnostic.repeats,
        "file": source.name,
        "line": position.map(|(line, _)| line),
        "column": position.map(|(_, column)| column),
    })
}

/// Returns a finding in the form that the renderer takes.
fn report<'a>(source: &'a ConfigSource, diagnostic: &'a Diagnostic) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(diagnostic.message.as_str());
    let snippet = diagnostic.span.as_ref().and_then(|span| {
        let (line, span_in_line) = source.line_of(span)?;
        let annotation = AnnotationKind::Primary.span(span_in_line);
        let snippet = Snippet::source(line)
            .line_start(line_and_column(&source.text, span.start).0)
            .path(source.name.as_str());
        Some(snippet.annotation(annotation.label(diagnostic.expected.as_deref())))
    });
    let group = match snippet {
        Some(snippet) => title.element(snippet),
        None => title.element(origin(source, diagnostic)),
    };
    let group = match diagnostic.key.as_str() {
        "" => group,
        key => group.element(Level::NOTE.with_name("key").message(key)),
    };
    let group = match &diagnostic.suggestion {
        Some(text) => group.element(Level::HELP.with_name("hint").message(text.as_str())),
        None => group,
    };
    match diagnostic.repeats {
        0 => group,
        count => group.element(Level::NOTE.message(format!("the same in {count} more places"))),
    }
}

/// Returns the location of a finding whose line is not shown.
fn origin<'a>(source: &'a ConfigSource, diagnostic: &Diagnostic) -> SourceOrigin<'a> {
    let origin = SourceOrigin::path(source.name.as_str());
    match &diagnostic.span {
        Some(span) => {
            let (line, column) = line_and_column(&source.text, span.start);
            origin.line(line).char_column(column)
        }
        None => origin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (ConfigSource, Vec<Diagnostic>) {
        let text = "agent:\n  id: ä\n  backend: {type: grokk}\nui: {display_type: rich}\n";
        let span_of = |part: &str| {
            let start = text.find(part).unwrap();
            start..start + part.len()
        };
        let diagnostics = vec![
            Diagnostic::error("agent.backend.type", "unknown backend type `grokk`")
                .with_span(&span_of("grokk"))
                .with_expected("expected `grok` or `groq`")
                .with_suggestion("did you mean `grok`?"),
            Diagnostic::warning("ui.display_type", "`display_type` is not supported")
                .with_span(&span_of("display_type")),
            Diagnostic::error("", "the file is too large"),
        ];
        (ConfigSource::new("team.yaml", text.to_owned()), diagnostics)
    }

    #[test]
    fn a_person_sees_the_line_and_the_suggestion() {
        let (source, diagnostics) = sample();
        insta::assert_snapshot!(render(&source, &diagnostics), @r#"
error: unknown backend type `grokk`
 --> team.yaml:3:19
  |
3 |   backend: {type: grokk}
  |                   ^^^^^ expected `grok` or `groq`
  |
  = key: agent.backend.type
  = hint: did you mean `grok`?

warning: `display_type` is not supported
 --> team.yaml:4:6
  |
4 | ui: {display_type: rich}
  |      ^^^^^^^^^^^^
  |
  = key: ui.display_type

error: the file is too large
--> team.yaml
"#);
    }

    #[test]
    fn a_script_gets_the_same_as_json() {
        let (source, diagnostics) = sample();
        insta::assert_json_snapshot!(to_json(&source, &diagnostics), @r#"
{
  "valid": false,
  "error_count": 2,
  "warning_count": 1,
  "errors": [
    {
      "message": "unknown backend type `grokk`",
      "location": "agent.backend.type",
      "expected": "expected `grok` or `groq`",
      "suggestion": "did you mean `grok`?",
      "repeats": 0,
      "file": "team.yaml",
      "line": 3,
      "column": 19
    },
    {
      "message": "the file is too large",
      "location": "root",
      "expected": null,
      "suggestion": null,
      "repeats": 0,
      "file": "team.yaml",
      "line": null,
      "column": null
    }
  ],
  "warnings": [
    {
      "message": "`display_type` is not supported",
      "location": "ui.display_type",
      "expected": null,
      "suggestion": null,
      "repeats": 0,
      "file": "team.yaml",
      "line": 4,
      "column": 6
    }
  ]
}
"#);
    }

    #[test]
    fn only_part_of_a_long_line_is_shown() {
        let text = format!("a: b\nkey: {}", "x".repeat(500));
        let source = ConfigSource::new("f", text);
        let diagnostic = Diagnostic::error("key", "too long").with_span(&(10..510));
        insta::assert_snapshot!(render(&source, &[diagnostic]), @r#"
error: too long
--> f:2:6
 = key: key
"#);
    }

    #[test]
    fn quotes_are_short_and_harmless() {
        assert_eq!(quote("a\u{1b}[31mb\n"), "`a\\u{1b}[31mb\\n`");
        assert_eq!(quote(&"x".repeat(61)), format!("`{}…`", "x".repeat(60)));
    }

    #[test]
    fn spans_at_the_edges_are_no_fault() {
        let source = ConfigSource::new("f", "a: ü\n".to_owned());
        for span in [0..0, 3..5, 5..5, 6..6, 90..99, 4..5, 3..90] {
            let diagnostic = Diagnostic::error("a", "wrong").with_span(&span);
            assert!(render(&source, &[diagnostic]).contains("wrong"));
        }
    }
}
