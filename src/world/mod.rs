//! Owns all side effects. `sys` is private, so no module outside can reach the disk around it; an
//! agent's calls reach it only through [`gate`] and then [`exec`].

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the place that the others are sent to"
)]
mod sys;
pub mod locate;
pub mod gate;
pub mod exec;
pub mod http;
