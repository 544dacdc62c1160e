//! Bearer tokens of an HTTP server: secrets that clients must send. Only their digests are kept, so
//! that the time of a comparison does not reveal how much of a guess is right.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::http::request::Parts;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::cli::http::listener::HttpConnection;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::world::io::files::read_secret;

/// Minimum length of a token, in bytes.
const TOKEN_BYTES_MIN: usize = 16;
/// Maximum length of a token file, in bytes.
const TOKEN_BYTES_MAX: u64 = 4096;
/// Prefix of the token in the header.
const SCHEME: &str = "bearer ";
/// Maximum number of tokens that count at the same time; the oldest is forgotten first.
const TOKENS_MAX: usize = 64;

/// Token that requests are checked against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BearerToken([u8; 32]);

/// The tokens that a server accepts. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct BearerTokens(Arc<Mutex<Vec<BearerToken>>>);

impl BearerTokens {
    /// Accepts `token` too.
    pub(crate) fn insert(&self, token: BearerToken) {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() == TOKENS_MAX {
            tokens.remove(0);
        }
        tokens.push(token);
    }

    /// Returns the token that a request carries, if it is accepted. The connection of the request
    /// is authorized then.
    pub(crate) fn authorize(&self, request: &Parts) -> Option<BearerToken> {
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known_tokens = tokens.iter();
        let token = known_tokens.find(|token| token.is_authorized(&request.headers))?;
        if let Some(connection) = request.extensions.get::<Arc<HttpConnection>>() {
            connection.authorize();
        }
        Some(*token)
    }
}

impl From<BearerToken> for BearerTokens {
    fn from(token: BearerToken) -> Self {
        Self(Arc::new(Mutex::new(vec![token])))
    }
}

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

    /// Reads the token in the user's `file`, which only the user may read.
    pub(crate) fn read_file(file: &str, host: &Host) -> Result<Self> {
        let bytes = read_secret(&host.cwd.join(file), TOKEN_BYTES_MAX)?.ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                format!("token file `{file}` does not exist"),
            )
            .with_hint("create one: `openssl rand -hex 32 > token; chmod 600 token`")
        })?;
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Generates a new random token, and returns it with its text.
    pub(crate) fn random() -> (Self, String) {
        let text = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        (Self(digest(&text)), text)
    }

    /// Returns whether a request with these headers carries the token.
    fn is_authorized(&self, headers: &HeaderMap) -> bool {
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
        f.write_str("BearerToken")
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
