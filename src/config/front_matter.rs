//! The front matter of Markdown files: YAML between two lines `---` at the beginning, as skills and
//! notes have it. The files come from projects and agents, so that its size is bounded.

use crate::config::yaml::{self, YamlNode, YamlValue};

/// Maximum size of a front matter, in bytes.
pub const FRONT_MATTER_BYTES_MAX: usize = 16 * 1024;

/// The line that begins and ends a front matter.
const FENCE: &str = "---";

/// A Markdown file, split into its front matter and the text after it.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontMatter<'t> {
    fields: Option<YamlNode>,
    /// The text after the front matter; all of it if there is none.
    pub body: &'t str,
}

impl<'t> FrontMatter<'t> {
    /// Splits `text`. A text that does not begin with `---` has no front matter.
    ///
    /// # Errors
    /// The front matter has no end, is too large, or is not a mapping in YAML; the error says
    /// which.
    pub fn parse(text: &'t str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.split_inclusive('\n');
        let first_line = lines.next().unwrap_or_default();
        if first_line.trim_end() != FENCE {
            return Ok(Self {
                fields: None,
                body: text,
            });
        }
        let mut end = first_line.len();
        for line in lines {
            let yaml = text.get(first_line.len()..end).unwrap_or_default();
            end = end.saturating_add(line.len());
            if line.trim_end() == FENCE {
                return Ok(Self {
                    fields: parse_fields(yaml)?,
                    body: text.get(end..).unwrap_or_default(),
                });
            }
            if end > FRONT_MATTER_BYTES_MAX {
                return Err(format!(
                    "its front matter has more than {FRONT_MATTER_BYTES_MAX} bytes"
                ));
            }
        }
        Err(format!("its front matter has no end: a line `{FENCE}`"))
    }

    /// Returns the text of a field, trimmed; `None` if it is missing, empty or no scalar.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.fields.as_ref()?.entry(key)?.value.value {
            YamlValue::Scalar(scalar) => Some(scalar.text.trim()).filter(|text| !text.is_empty()),
            YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => None,
        }
    }

    /// Returns the texts of a field that is a list, trimmed; a single text is a list of one. `None`
    /// if something else is in it.
    pub fn texts(&self, key: &str) -> Option<Vec<&str>> {
        let Some(entry) = self.fields.as_ref().and_then(|fields| fields.entry(key)) else {
            return Some(Vec::new());
        };
        match &entry.value.value {
            YamlValue::Null => Some(Vec::new()),
            YamlValue::List(items) => items.iter().map(scalar_text).collect(),
            YamlValue::Scalar(scalar) => Some(vec![scalar.text.trim()]),
            YamlValue::Mapping(_) => None,
        }
    }

    /// Returns the first field that is not one of `known_fields`.
    pub fn unknown_field(&self, known_fields: &[&str]) -> Option<&str> {
        let fields = self.fields.as_ref()?.entries().iter();
        let mut names = fields.map(|entry| entry.key.as_str());
        names.find(|name| !known_fields.contains(name))
    }
}

fn scalar_text(node: &YamlNode) -> Option<&str> {
    match &node.value {
        YamlValue::Scalar(scalar) => Some(scalar.text.trim()),
        YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => None,
    }
}

fn parse_fields(text: &str) -> Result<Option<YamlNode>, String> {
    let node = yaml::parse(text).or_else(|error| {
        yaml::parse(&quote_values(text))
            .map_err(|_| format!("its front matter is not YAML: {}", error.message))
    })?;
    match node.value {
        YamlValue::Mapping(_) => Ok(Some(node)),
        YamlValue::Null => Ok(None),
        YamlValue::Scalar(_) | YamlValue::List(_) => {
            Err("its front matter is not a mapping".to_owned())
        }
    }
}

/// Quotes the values of the lines `key: value`: many published files have a colon in an unquoted one.
fn quote_values(text: &str) -> String {
    let quote_value = |line: &str| match line.split_once(": ") {
        Some((key, value))
            if !line.starts_with([' ', '#', '-'])
                && !value
                    .trim_start()
                    .starts_with(['"', '\'', '[', '{', '|', '>', '&', '*']) =>
        {
            format!("{key}: '{}'\n", value.trim().replace('\'', "''"))
        }
        Some(_) | None => format!("{line}\n"),
    };
    text.lines().map(quote_value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_body_are_split() {
        let text =
            "---\r\nname: pdf\r\ndescription: >\r\n  two\r\n  lines\r\nn: 1\r\n---\r\nbody\n";
        let parsed = FrontMatter::parse(text).unwrap();
        assert_eq!(parsed.text("name"), Some("pdf"));
        assert_eq!(parsed.text("description"), Some("two lines"));
        assert_eq!(parsed.text("n"), Some("1"));
        assert_eq!(parsed.text("other"), None);
        assert_eq!(parsed.texts("name"), Some(vec!["pdf"]));
        assert_eq!(parsed.unknown_field(&["name", "description"]), Some("n"));
        assert_eq!(parsed.body, "body\n");
        let lists = FrontMatter::parse("---\na: [x, ' y ']\nb: [[x]]\nc:\n---\n").unwrap();
        assert_eq!(lists.texts("a"), Some(vec!["x", "y"]));
        assert_eq!(lists.texts("b"), None);
        assert_eq!(lists.texts("c"), Some(Vec::new()));
        assert_eq!(lists.texts("d"), Some(Vec::new()));
        let plain = FrontMatter::parse("# title\n---\n").unwrap();
        assert_eq!((plain.text("name"), plain.body), (None, "# title\n---\n"));
        assert_eq!(FrontMatter::parse("---\n---\nx").unwrap().body, "x");
    }

    #[test]
    fn a_colon_in_an_unquoted_value_is_text() {
        let text = "---\nname: x\ndescription: Two axes: it's both\nlist: [a, b]\n---\n";
        let front_matter = FrontMatter::parse(text).unwrap();
        assert_eq!(
            front_matter.text("description"),
            Some("Two axes: it's both")
        );
        assert_eq!(front_matter.texts("list"), Some(vec!["a", "b"]));
    }

    #[test]
    fn hostile_front_matter_is_refused() {
        let bomb = "a: &a [x, x, x, x, x, x, x, x]\n\
                    b: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n\
                    c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n\
                    d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\n\
                    e: &e [*d, *d, *d, *d, *d, *d, *d, *d]\n";
        for (text, cause) in [
            ("---\nname: x\n".to_owned(), "no end"),
            ("---\n- x\n---\n".to_owned(), "not a mapping"),
            ("---\na: [\n---\n".to_owned(), "not YAML"),
            ("---\na: 1\na: 2\n---\n".to_owned(), "not YAML"),
            (format!("---\n{bomb}---\n"), "not YAML"),
            (format!("---\n{}---\n", "# x\n".repeat(9_000)), "more than"),
        ] {
            let error = FrontMatter::parse(&text).unwrap_err();
            assert!(error.contains(cause), "{error}");
        }
    }
}
