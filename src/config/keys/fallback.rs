//! The keys of a fallback model.

use crate::config::keys::backend;

section! {
    /// A model that is asked when the one before it cannot continue: its key is bad, it is unknown,
    /// overloaded for too long, or the conversation is too long for it. Keys of the model's API are
    /// written as in `backend`.
    pub static FALLBACK = "agents[].backend.fallback[]", PassedOnUnlessOfBackend;
    row backend::TYPE
        .with_doc("Which vendor is asked; the same as in `backend` if it is not there.")
        .make_optional().row();
    row backend::MODEL.with_doc("The model's name at the vendor.").make_required().row();
    row backend::BASE_URL.row();
    row backend::API_KEY.with_doc("The key, instead of the vendor's variable.").row();
    row backend::IMAGE_INPUT.row();
    row backend::REASONING_ECHO.row();
    row backend::REPLIES.row();
    row backend::SCRIPT.row();
    row backend::EXTRA_BODY.row();
}
