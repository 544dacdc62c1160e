//! Bearer token of an HTTP server: a secret that clients must send. Only its digest is kept, so
//! that the time of a comparison does not reveal how much of a guess is right.

use std::fmt;

use hyper::header::{AUTHORIZATION, HeaderMap};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};

/// Minimum length of a token, in bytes.
const TOKEN_BYTES_MIN: usize = 16;
/// Maximum length of a token file, in bytes.
pub(crate) const TOKEN_BYTES_MAX: u64 = 4096;
/// Prefix of the token in the header.
const SCHEME: &str = "bearer ";

/// Token that requests are checked against.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BearerToken([u8; 32]);

impl BearerToken {
    /// Parses the token in the user's file; surrounding whitespace is ignored.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let token = text.trim();
        let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.len() < TOKEN_BYTES_MIN || !is_plain {
            let message = format!(
                "the token file contains no token: expected at least {TOKEN_BYTES_MIN} printable \
                 characters without spaces"
            );
            return Err(Error::new(ErrorKind::Config, message)
                .with_hint("create one: `openssl rand -hex 32 > token; chmod 600 token`"));
        }
        Ok(Self(digest(token)))
    }

    /// Generates a new random token, and returns it with its text.
    pub(crate) fn random() -> (Self, String) {
        let text = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        (Self(digest(&text)), text)
    }

    /// Returns whether a request with these headers carries the token.
    pub(crate) fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        let Some((scheme, token)) = value
            .to_str()
            .ok()
            .and_then(|value| value.split_at_checked(SCHEME.len()))
        else {
            return false;
        };
        scheme.eq_ignore_ascii_case(SCHEME) && digest(token.trim()) == self.0
    }
}

/// Hides the digest too.
impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    #[track_caller]
    fn check(headers: &[&str], expected: bool) {
        let token = BearerToken::parse(TOKEN).unwrap();
        let mut map = HeaderMap::new();
        for value in headers {
            map.append(AUTHORIZATION, value.parse().unwrap());
        }
        assert_eq!(token.is_authorized(&map), expected, "{headers:?}");
    }

    #[test]
    fn only_the_token_is_admitted() {
        check(&["Bearer 0123456789abcdef"], true);
        check(&["bearer  0123456789abcdef"], true);
        check(&[], false);
        check(&["Bearer 0123456789abcdeg"], false);
        check(&["Bearer 0123456789abcde"], false);
        check(&["Bearer "], false);
        check(&["Basic 0123456789abcdef"], false);
        check(&["0123456789abcdef"], false);
        check(&["Bearer 0123456789abcdef", "Bearer x"], false);
    }

    #[test]
    fn a_file_without_a_token_is_an_error() {
        assert!(BearerToken::parse(" 0123456789abcdef\n").is_ok());
        for text in ["", "\n", "short", "0123456789 abcdef", "0123456789abcdé"] {
            assert!(BearerToken::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn no_two_new_ones_are_the_same() {
        let ((one, text), (other, _)) = (BearerToken::random(), BearerToken::random());
        assert!(one != other && one == BearerToken::parse(&text).unwrap());
    }
}
