//! The address of a page that `fetch_url` may be asked for: HTTP or HTTPS, a host name and no
//! credentials. IP addresses are rejected, because the config opens domains.

use std::fmt;

use url::Url;

use crate::permissions::domains::HostName;

/// The longest address of a page, in bytes.
pub const PAGE_URL_BYTES_MAX: usize = 2048;

/// The address of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageUrl {
    url: Url,
    host: HostName,
}

impl PageUrl {
    /// Parses an address; a fragment is dropped, because servers never see it. The error gives the
    /// cause as the end of a sentence about the address.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > PAGE_URL_BYTES_MAX {
            return Err("is longer than 2048 bytes");
        }
        let mut url = Url::parse(text.trim()).map_err(|_| "is not a complete URL")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("is neither http nor https");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("holds a user name or a password");
        }
        let host = url
            .host_str()
            .and_then(HostName::parse)
            .ok_or("names no host, or an address instead of a name")?;
        url.set_fragment(None);
        Ok(Self { url, host })
    }

    /// Returns the host.
    pub fn host(&self) -> &HostName {
        &self.host
    }

    /// Returns the address.
    pub fn as_url(&self) -> &Url {
        &self.url
    }

    /// Returns the last segment of its path; `None` if the path ends with a slash.
    pub fn file_name(&self) -> Option<&str> {
        let name = self.url.path_segments()?.next_back()?;
        (!name.is_empty()).then_some(name)
    }

    /// Returns the address as text.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }
}

impl fmt::Display for PageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_the_end_of_its_path() {
        for (text, expected) in [
            ("https://example.org/a/b.pdf?page=1", Some("b.pdf")),
            ("https://example.org/a/", None),
            ("https://example.org", None),
        ] {
            let url = PageUrl::parse(text).unwrap();
            assert_eq!(url.file_name(), expected, "{text}");
        }
    }

    #[test]
    fn only_whole_addresses_of_named_hosts_are_taken() {
        #[track_caller]
        fn check(text: &str, expected: Result<&str, &str>) {
            let parsed = PageUrl::parse(text);
            let parsed = parsed
                .as_ref()
                .map(PageUrl::as_str)
                .map_err(|reason| *reason);
            assert_eq!(parsed, expected, "{text}");
        }
        check("https://Example.org/a?b#c", Ok("https://example.org/a?b"));
        check(
            "http://a.example.org:8080",
            Ok("http://a.example.org:8080/"),
        );
        check("example.org", Err("is not a complete URL"));
        check("file:///etc/passwd", Err("is neither http nor https"));
        check(
            "https://user:x@example.org",
            Err("holds a user name or a password"),
        );
        let address = Err("names no host, or an address instead of a name");
        for text in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::1]/",
            "http://169.254.169.254/latest",
            "http://example.org./",
        ] {
            check(text, address);
        }
        let long = format!("https://example.org/{}", "x".repeat(PAGE_URL_BYTES_MAX));
        check(&long, Err("is longer than 2048 bytes"));
    }
}
