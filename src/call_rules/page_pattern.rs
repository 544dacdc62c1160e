//! A pattern of `read_url(…)` rules: a domain, or an address in which `*` matches any string.

use crate::call_rules::matches_wildcard;
use crate::permissions::domains::DomainPattern;
use crate::tools::page_url::PageUrl;

/// The prefix of a domain in rules of Claude Code.
const DOMAIN_PREFIX: &str = "domain:";

/// A pattern that pages are matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PagePattern {
    /// All pages of these hosts.
    Domain(DomainPattern),
    /// Pages whose address matches, with or without its scheme.
    Address(String),
}

impl PagePattern {
    /// Parses `example.org`, `.example.org` and `*.example.org`, as in `command_line_network`, or
    /// an address with wildcards, such as `example.org/docs/*`. The error gives the cause as the
    /// end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix(DOMAIN_PREFIX).unwrap_or(text).trim();
        if let Some(domain) = DomainPattern::parse(text) {
            return Ok(Self::Domain(domain));
        }
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err("expected a domain, or an address with `*`".to_owned());
        }
        Ok(Self::Address(text.trim_end_matches('/').to_owned()))
    }

    /// Returns whether the pattern matches the page.
    pub fn matches(&self, page: &PageUrl) -> bool {
        match self {
            Self::Domain(domain) => domain.matches(page.host()),
            Self::Address(pattern) => {
                let url = page.as_str();
                let (_, address) = url.split_once("://").unwrap_or(("", url));
                [url, address].into_iter().any(|text| {
                    matches_wildcard(pattern, text)
                        || matches_wildcard(pattern, text.trim_end_matches('/'))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_domain_or_an_address() {
        #[track_caller]
        fn check(pattern: &str, page: &str, expected: bool) {
            let pattern = PagePattern::parse(pattern).unwrap();
            let page = PageUrl::parse(page).unwrap();
            assert_eq!(pattern.matches(&page), expected, "{pattern:?} {page}");
        }
        check("*", "https://example.org/a", true);
        check("example.org", "https://example.org/a", true);
        check("domain:example.org", "http://EXAMPLE.org:8080", true);
        check("example.org", "https://a.example.org/", false);
        check("*.example.org", "https://a.example.org/", true);
        check(".example.org", "https://badexample.org/", false);
        check("https://example.org", "https://example.org/", true);
        check("https://example.org/", "http://example.org/", false);
        check("example.org/docs/*", "https://example.org/docs/a?b", true);
        check("example.org/docs/*", "https://example.org/other", false);
        check("*evil*", "https://an-evil.net/", true);
        for bad in ["", "a b", "domain:"] {
            assert!(PagePattern::parse(bad).is_err(), "{bad:?}");
        }
    }
}
