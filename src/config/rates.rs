//! Rate limits of vendors: how the YAML and the command line write them, and which models each
//! applies to.

use crate::config::vendors::{self, Vendor};

/// A rate limit for the models it applies to, shared by all agents of a run.
#[derive(Clone, Debug)]
pub struct RateLimit {
    /// The vendor it applies to; `None` for all.
    pub vendor: Option<&'static Vendor>,
    /// The model it applies to; `None` for all of the vendor.
    pub model: Option<String>,
    /// Requests per minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens of requests and replies per minute.
    pub tokens_per_minute: Option<u64>,
}

impl RateLimit {
    /// Parses `[TYPE[/MODEL]=]NUMBER[rpm|tpm]`, as written on the command line.
    ///
    /// # Errors
    /// The cause, as one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, amount) = match text.split_once('=') {
            Some((name, amount)) => (Some(name), amount),
            None => (None, text),
        };
        // Without a unit, the number is one of requests.
        let (number, is_tokens) = match amount.strip_suffix("tpm") {
            Some(tokens) => (tokens, true),
            None => (amount.strip_suffix("rpm").unwrap_or(amount), false),
        };
        let rate: u64 = match number.parse() {
            Ok(0) | Err(_) => {
                return Err(
                    "expected requests per minute, as in `claude=50`, or tokens per minute, as in \
                     `claude=30000tpm`"
                        .to_owned(),
                );
            }
            Ok(rate) => rate,
        };
        let (vendor, model) = match name {
            None => (None, None),
            Some(name) => {
                let (vendor, model) = match name.split_once('/') {
                    Some((vendor, model)) => (vendor, Some(model.to_owned())),
                    None => (name, None),
                };
                let unknown_type = || format!("unknown backend type `{vendor}`");
                let vendor = vendors::find_vendor(vendor).ok_or_else(unknown_type)?;
                (Some(vendor), model)
            }
        };
        Ok(Self {
            vendor,
            model,
            requests_per_minute: (!is_tokens).then_some(rate),
            tokens_per_minute: is_tokens.then_some(rate),
        })
    }

    /// Returns whether it applies to this model of this vendor.
    pub fn applies_to(&self, vendor: &Vendor, model: &str) -> bool {
        self.vendor
            .is_none_or(|required| required.name == vendor.name)
            && self
                .model
                .as_deref()
                .is_none_or(|required| required == model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let read = match RateLimit::parse(text) {
            Err(reason) => reason,
            Ok(limit) => format!(
                "{} {} {:?} {:?}",
                limit.vendor.map_or("any", |vendor| vendor.name),
                limit.model.as_deref().unwrap_or("any"),
                limit.requests_per_minute,
                limit.tokens_per_minute
            ),
        };
        assert!(read.contains(expected), "{text}: {read}");
    }

    #[test]
    fn a_limit_is_typed_as_a_name_and_a_number() {
        check("60", "any any Some(60) None");
        check("60rpm", "any any Some(60) None");
        check("90000tpm", "any any None Some(90000)");
        check("grok=5", "grok any Some(5) None");
        check("openrouter/z/m=9tpm", "openrouter z/m None Some(9)");
        check("grok=", "expected requests per minute");
        check("grok=0", "expected requests per minute");
        check("=5", "unknown backend type ``");
        check("nobody=5", "unknown backend type `nobody`");
    }
}
