//! Owns what a run uses up: tokens as vendors count them, what models cost, and how much of both may
//! be used. It must never ask anybody: prices are those of its table and of the user's file.

pub mod books;
pub mod ledger;
pub mod limits;
pub mod models;
pub mod money;
pub mod price;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tokens as the vendor counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens of the request, all of them.
    pub input_tokens: u64,
    /// Tokens of the request that came from the vendor's cache; part of `input_tokens`.
    pub cached_tokens: u64,
    /// Tokens of the request that were put into the vendor's cache; part of `input_tokens`.
    pub cache_write_tokens: u64,
    /// Tokens of the reply, all of them.
    pub output_tokens: u64,
    /// Tokens of the reply that were reasoning; part of `output_tokens`.
    pub reasoning_tokens: u64,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cache_write_tokens: self
                .cache_write_tokens
                .saturating_add(other.cache_write_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
        }
    }

    /// What was added to `earlier`, which a count that goes on began with. One that is smaller has begun
    /// anew.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let less = || {
            Some(Self {
                input_tokens: self.input_tokens.checked_sub(earlier.input_tokens)?,
                cached_tokens: self.cached_tokens.checked_sub(earlier.cached_tokens)?,
                cache_write_tokens: self
                    .cache_write_tokens
                    .checked_sub(earlier.cache_write_tokens)?,
                output_tokens: self.output_tokens.checked_sub(earlier.output_tokens)?,
                reasoning_tokens: self
                    .reasoning_tokens
                    .checked_sub(earlier.reasoning_tokens)?,
            })
        };
        less().unwrap_or(self)
    }

    /// Tokens of request and reply.
    pub fn total_tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}
