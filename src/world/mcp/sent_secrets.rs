//! Secrets that were sent to a server or its authorization server, to be redacted from what they
//! send back. Others use the redactor; the secrets cannot be read from here.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::world::store::redact::Redactor;

/// The secrets that were sent so far. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct SentSecrets(Arc<Mutex<Redactor>>);

impl SentSecrets {
    /// Adds a secret.
    pub(super) fn insert(&self, secret: &str) {
        let mut secrets = self.0.lock();
        secrets.insert(secret);
    }

    /// Returns a redactor for the secrets so far.
    pub(super) fn redactor(&self) -> Redactor {
        let secrets = self.0.lock();
        secrets.clone()
    }
}
