//! One-time codes in the links that the server prints. A page exchanges its code for a token, which
//! is in no address and no history of a browser. Only the digests of codes are kept.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::world::io::clock::Stopwatch;

/// Time for which a code is accepted.
pub(crate) const CODE_TIME_MAX: Duration = Duration::from_mins(1);
/// Maximum number of codes that are accepted at the same time; the oldest is forgotten first.
const CODES_MAX: usize = 16;

/// The codes that are accepted.
#[derive(Debug, Default)]
pub(crate) struct LinkCodes(Mutex<Vec<LinkCode>>);

#[derive(Debug)]
struct LinkCode {
    digest: [u8; 32],
    age: Stopwatch,
}

impl LinkCodes {
    /// Creates a code and returns its text.
    pub(crate) fn create(&self) -> String {
        let text = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| code.age.elapsed() < CODE_TIME_MAX);
        if codes.len() == CODES_MAX {
            codes.remove(0);
        }
        codes.push(LinkCode {
            digest: Sha256::digest(text.as_bytes()).into(),
            age: Stopwatch::start(),
        });
        text
    }

    /// Returns whether `code` is accepted; it is not accepted again.
    pub(crate) fn redeem(&self, code: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(code.as_bytes()).into();
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| code.age.elapsed() < CODE_TIME_MAX);
        let position = codes.iter().position(|code| code.digest == digest);
        position.map(|index| codes.remove(index)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_accepted_once() {
        let codes = LinkCodes::default();
        let (one, other) = (codes.create(), codes.create());
        assert!(!codes.redeem("") && !codes.redeem(&format!("{one}0")));
        assert!(codes.redeem(&one) && codes.redeem(&other));
        assert!(!codes.redeem(&one));
    }

    #[test]
    fn only_the_last_codes_are_accepted() {
        let codes = LinkCodes::default();
        let all: Vec<String> = (0..=CODES_MAX).map(|_| codes.create()).collect();
        assert!(!codes.redeem(&all[0]) && codes.redeem(&all[1]));
    }
}
