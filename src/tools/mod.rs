//! Owns the tools as models know them: each call as a type, which paths it touches and how.
//! Pure: a [`call::ToolCall`] says what a model asked for and nothing about whether it may.

pub mod arguments;
pub mod call;
pub mod error;
pub mod foreign;
pub mod hook;
pub mod image;
pub mod input;
pub mod menu;
pub mod parse;
pub mod request;
pub mod served;
pub mod spec;
pub mod twins;
pub mod workflow;

#[cfg(test)]
mod tests;
