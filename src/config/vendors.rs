//! Owns the table of backend types: which wire each speaks, where, with which key.

/// How a vendor is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Chat Completions over HTTP.
    ChatCompletions,
    /// Replies from a file; no network.
    Scripted,
    /// Known to exist, not served by this version.
    Unserved,
}

/// One backend type.
#[derive(Debug)]
pub struct Vendor {
    /// The name after `type:`.
    pub name: &'static str,
    /// How it is spoken to.
    pub wire: Wire,
    /// Environment variables that may hold the key, in the order in which they are asked.
    pub key_variables: &'static [&'static str],
    /// The model that is used when the config names none.
    pub default_model: Option<&'static str>,
    /// The endpoint that is used when the config names none.
    pub base_url: Option<&'static str>,
}
