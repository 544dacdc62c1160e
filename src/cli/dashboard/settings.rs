//! Whether a run is shown on the dashboard, and how that looks. By default it is shown there if a
//! person watches several agents on a terminal that can be drawn on, and nothing asks for lines.

use std::collections::BTreeMap;

use crate::cli::args::RunArguments;
use crate::cli::command_line::usage_error;
use crate::cli::dashboard::theme::{CharacterSet, Theme};
use crate::cli::output::{ColourChoice, SCREEN_READER};
use crate::config::{Config, DashboardMode};
use crate::error::Result;
use crate::spending::limits::BudgetLimits;
use crate::world::diagnostics::probe::terminal::TerminalSize;

/// The smallest terminal on which the dashboard opens without `--dashboard`.
const SIZE_MIN: TerminalSize = TerminalSize {
    columns: 60,
    rows: 16,
};
/// The smallest number of agents for which the dashboard opens, unless the config or `--dashboard`
/// always opens it.
const AGENTS_MIN: usize = 2;
/// Variables that ask for lines when they are set.
const PLAIN_VARIABLES: [&str; 3] = ["CI", "MASSGEN_PLAIN", SCREEN_READER];

/// How the dashboard is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DashboardSettings {
    /// Its look.
    pub(crate) theme: Theme,
    /// The limits of the run.
    pub(crate) limits: BudgetLimits,
}

/// The facts that decide whether the dashboard opens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DisplayFacts<'f> {
    /// The config of the run.
    pub(crate) config: &'f Config,
    /// The environment of the process.
    pub(crate) env: &'f BTreeMap<String, String>,
    /// The size of the terminal on which a person watches the run, if one does.
    pub(crate) size: Option<TerminalSize>,
}

/// Returns how the dashboard is opened; `None` if the run is shown otherwise.
pub(crate) fn select_dashboard(
    facts: &DisplayFacts<'_>,
    arguments: &RunArguments,
) -> Result<Option<DashboardSettings>> {
    let is_possible = facts.size.is_some() && !arguments.automation;
    let opens = match (arguments.display.dashboard, facts.config.dashboard) {
        (true, _) if is_possible => true,
        (true, _) => {
            return Err(usage_error(
                "`--dashboard` needs a terminal as standard input and standard error",
            )
            .with_hint("leave it out to show the run as lines"));
        }
        (false, DashboardMode::Never) => false,
        (false, setting) => is_possible && opens_by_itself(facts, arguments, setting),
    };
    Ok(opens.then(|| DashboardSettings {
        theme: theme(facts.env),
        limits: facts.config.limits,
    }))
}

/// Returns the look that fits the environment `env`.
pub(crate) fn theme(env: &BTreeMap<String, String>) -> Theme {
    Theme {
        colours: if has_colours(env) {
            ColourChoice::Terminals
        } else {
            ColourChoice::Never
        },
        characters: CharacterSet::from_env(env),
    }
}

fn has_colours(env: &BTreeMap<String, String>) -> bool {
    let terminal = env.get("TERM").map(String::as_str).unwrap_or_default();
    let is_colourless = terminal == "dumb" || terminal.ends_with("-mono");
    !is_set(env, "NO_COLOR") && !is_colourless
}

fn opens_by_itself(
    facts: &DisplayFacts<'_>,
    arguments: &RunArguments,
    setting: DashboardMode,
) -> bool {
    let is_plain = arguments.display.plain
        || arguments.display.quiet
        || arguments.display.screen_reader
        || asks_for_lines(facts.env);
    let is_team = facts.config.agents.len() >= AGENTS_MIN || setting == DashboardMode::Always;
    !is_plain && is_large(facts.size) && is_team
}

/// Returns whether the environment asks for lines, or names a terminal that cannot be drawn on.
pub(super) fn asks_for_lines(env: &BTreeMap<String, String>) -> bool {
    let terminal = env.get("TERM").map(String::as_str).unwrap_or_default();
    matches!(terminal, "" | "dumb") || PLAIN_VARIABLES.iter().any(|name| is_set(env, name))
}

/// Returns whether a terminal of this size has room for the dashboard.
pub(super) fn is_large(size: Option<TerminalSize>) -> bool {
    size.is_some_and(|size| size.columns >= SIZE_MIN.columns && size.rows >= SIZE_MIN.rows)
}

fn is_set(env: &BTreeMap<String, String>, name: &str) -> bool {
    env.get(name).is_some_and(|value| !value.is_empty())
}
