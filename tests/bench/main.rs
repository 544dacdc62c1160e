//! Benchmarks: `cargo bench -- SUBJECT` measures one subject and prints its figures.

#![expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unchecked_time_subtraction,
    clippy::unwrap_used,
    reason = "a measurement makes its own files, ends if that fails, and prints what it finds"
)]

mod attempts;
mod browse;
mod commands;
mod decisions;
mod delivery;
mod measured;
mod pipelines;
mod room;
mod sessions;
mod snapshot;
mod whole_runs;
mod wires;

use std::env;
use std::process::ExitCode;

/// What can be measured. Benchmarks of `divan` are chosen by their module's name.
const SUBJECTS: [(&str, fn()); 10] = [
    ("attempts", attempts::measure),
    ("browse", browse::measure),
    ("commands", commands::measure),
    ("decisions", divan::main),
    ("delivery", delivery::measure),
    ("pipelines", pipelines::measure),
    ("sessions", divan::main),
    ("snapshot", snapshot::measure),
    ("whole_runs", whole_runs::measure),
    ("wires", wires::measure),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --all-targets` starts benchmarks without this argument.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let chosen = SUBJECTS
        .iter()
        .find(|(name, _)| arguments.first().is_some_and(|first| first == name));
    if let Some((_, measure)) = chosen {
        measure();
        return ExitCode::SUCCESS;
    }
    let names = SUBJECTS.map(|(name, _)| name).join(", ");
    eprintln!("error: expected one of {names}\nhint: cargo bench -- commands");
    ExitCode::FAILURE
}
