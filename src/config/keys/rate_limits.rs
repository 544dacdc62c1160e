//! The keys of a rate limit.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Integer, Text};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys};

/// The highest rate limit of requests or tokens per minute.
const RATE_MAX: i64 = 1_000_000_000_000;

pub(crate) const TYPE: TypedKey<Text> = TypedKey::optional(
    &["type"],
    shape::text(),
    "The backend type that it applies to. Default: all.",
    Harmless,
);

pub(crate) const MODEL: TypedKey<Text> = TypedKey::optional(
    &["model"],
    shape::text(),
    "The model that it applies to. Default: all.",
    Harmless,
);

pub(crate) const REQUESTS_PER_MINUTE: TypedKey<Integer> = TypedKey::optional(
    &["requests_per_minute", "rpm"],
    shape::integer(1, RATE_MAX),
    "Requests per minute.",
    Harmless,
);

pub(crate) const TOKENS_PER_MINUTE: TypedKey<Integer> = TypedKey::optional(
    &["tokens_per_minute", "tpm"],
    shape::integer(1, RATE_MAX),
    "Tokens of requests and replies per minute.",
    Harmless,
);

/// The rate limit of models.
pub static RATE_LIMIT: KeySection = KeySection {
    path: "rate_limits[]",
    doc: "Rate limit of matching models, for all agents of a run together. A request that would \
          exceed it waits. Tokens are estimated until the vendor reports them.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        TYPE.row(),
        MODEL.row(),
        REQUESTS_PER_MINUTE.row(),
        TOKENS_PER_MINUTE.row(),
    ],
};
