//! The section of keys that are sent in requests under any name.

section! {
    /// Keys that go into every request as they are, whatever they are called.
    pub static EXTRA_BODY = "agents[].backend.extra_body", PassedOn;
}
