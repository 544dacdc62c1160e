//! The keys of a fallback model.

use crate::config::keys::{KeySection, UnknownKeys, backend};

/// A model that is used when the agent's own fails.
pub static FALLBACK: KeySection = KeySection {
    path: "agents[].backend.fallback[]",
    doc: "A model that is asked when the one before it cannot continue: its key is bad, it is unknown, \
          overloaded for too long, or the conversation is too long for it. Keys of the model's API \
          are written as in `backend`.",
    unknown_keys: UnknownKeys::PassedOnUnlessOfBackend,
    keys: &[
        backend::TYPE
            .with_doc("Which vendor is asked; the same as in `backend` if it is not there.")
            .make_optional()
            .row(),
        backend::MODEL
            .with_doc("The model's name at the vendor.")
            .make_required()
            .row(),
        backend::BASE_URL.row(),
        backend::API_KEY
            .with_doc("The key, instead of the vendor's variable.")
            .row(),
        backend::IMAGE_INPUT.row(),
        backend::REASONING_ECHO.row(),
        backend::REPLIES.row(),
        backend::SCRIPT.row(),
        backend::EXTRA_BODY.row(),
    ],
};
