//! The pages that a vendor's search names next to the text of a reply, as lines at the text's end.

use serde_json::Value;

use crate::backend::ModelRequest;
use crate::text::single_line;

/// Maximum number of pages that are listed.
const SOURCES_MAX: usize = 20;
/// Maximum length of a title, in characters.
const TITLE_CHARS_MAX: usize = 200;
/// Maximum length of an address, in characters. A longer one is left out: a part of it is useless.
const URL_CHARS_MAX: usize = 2000;

/// The pages that a reply names.
#[derive(Debug, Default)]
pub(super) struct SourceList(Vec<String>);

impl SourceList {
    /// Returns an empty list for a request with tools of the vendor, `vendor_tools`, and no others;
    /// the text of other replies stays as it is.
    pub(super) fn for_request(request: &ModelRequest<'_>, vendor_tools: &[Value]) -> Option<Self> {
        (request.tools.is_empty() && !vendor_tools.is_empty()).then(Self::default)
    }

    /// Adds a page, unless the list already contains it or is full.
    pub(super) fn add(&mut self, title: &str, url: &str) {
        let url = url.trim();
        if url.is_empty() || url.chars().count() > URL_CHARS_MAX || self.0.len() >= SOURCES_MAX {
            return;
        }
        let title = single_line(title.trim(), TITLE_CHARS_MAX);
        let line = if title.is_empty() {
            format!("- {url}")
        } else {
            format!("- {title}: {url}")
        };
        if !self.0.contains(&line) {
            self.0.push(line);
        }
    }

    /// Returns the text that lists the pages and ends the reply; `None` without any.
    pub(super) fn take_text(&mut self) -> Option<String> {
        let lines = std::mem::take(&mut self.0);
        (!lines.is_empty()).then(|| format!("\n\nSources:\n{}", lines.join("\n")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_listed_once_and_within_limits() {
        let mut sources = SourceList::default();
        assert_eq!(sources.take_text(), None);
        for title in ["A\nb", "A\nb", ""] {
            sources.add(title, " https://example.org/a ");
        }
        sources.add("without an address", "");
        sources.add("long", &"x".repeat(URL_CHARS_MAX + 1));
        let text = sources.take_text().unwrap();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.ends_with("\n- https://example.org/a"), "{text}");
        for number in 0..SOURCES_MAX + 5 {
            sources.add("", &number.to_string());
        }
        assert_eq!(
            sources.take_text().unwrap().lines().count(),
            SOURCES_MAX + 3
        );
    }
}
