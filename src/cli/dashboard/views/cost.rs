//! What was used: the requests of each agent to each model in each phase, the sums, and the limits.

use crate::cli::cell_text::{clean_line, format_count, pad};
use crate::cli::dashboard::scene::Scene;
use crate::cli::output::{StyledLine, TextStyle};
use crate::spending::totals::{RequestTotals, SpendingPhase, UsageKey};

/// Width of a column of names, and of one of numbers.
const NAME_WIDTH: usize = 18;
const NUMBER_WIDTH: usize = 10;
/// What the columns count.
const COLUMN_NOTE: &str =
    " read, cached and written are tokens; in the phase final, the winner presents";

/// Returns the lines of the usage.
pub(in crate::cli::dashboard) fn lines(scene: &Scene<'_>) -> Vec<StyledLine> {
    let titles = ["requests", "read", "cached", "written", "cost"];
    let names = format!(
        " {}{}{}",
        pad("agent", NAME_WIDTH),
        pad("model", NAME_WIDTH),
        pad("phase", NUMBER_WIDTH)
    );
    let titles: String = titles.iter().map(|title| align_right(title)).collect();
    let mut lines = vec![vec![(TextStyle::Faint, format!("{names}{titles}"))]];
    let mut entries: Vec<(&UsageKey, &RequestTotals)> = scene.run.usage().entries().collect();
    entries.sort_by_key(|(key, _)| scene.agent_position(&key.agent));
    for (key, totals) in entries {
        let phase = match key.phase {
            SpendingPhase::Coordination => "work",
            SpendingPhase::Selection => "select",
            SpendingPhase::Final => "final",
        };
        let model = pad(&clean_line(&key.model), NAME_WIDTH);
        lines.push(vec![
            (
                TextStyle::AgentName,
                format!(" {}", pad(key.agent.as_str(), NAME_WIDTH)),
            ),
            (
                TextStyle::Plain,
                format!(
                    "{model}{}{}",
                    pad(phase, NUMBER_WIDTH),
                    number_columns(totals)
                ),
            ),
        ]);
    }
    let run_totals = scene.run.usage().run();
    let width = NAME_WIDTH.saturating_mul(2).saturating_add(NUMBER_WIDTH);
    lines.push(vec![(
        TextStyle::Strong,
        format!(" {}{}", pad("all", width), number_columns(&run_totals)),
    )]);
    lines.push(Vec::new());
    let calls = scene.tool_calls();
    lines.extend(calls.map(|calls| vec![(TextStyle::Plain, format!(" tool calls: {calls}"))]));
    lines.extend(limit_lines(scene));
    lines.push(vec![(TextStyle::Faint, COLUMN_NOTE.to_owned())]);
    lines
}

fn limit_lines(scene: &Scene<'_>) -> Vec<StyledLine> {
    let limits = scene.limits;
    let cost = limits.cost.map(|max| format!(" limit: ${max}"));
    let tokens = limits.tokens.map(|max| format!(" limit: {max} tokens"));
    let calls = limits
        .tool_calls
        .map(|max| format!(" limit: {max} tool calls"));
    let texts = [cost, tokens, calls].into_iter().flatten();
    texts.map(|text| vec![(TextStyle::Faint, text)]).collect()
}

/// Returns the columns of numbers, each as wide as its title.
fn number_columns(totals: &RequestTotals) -> String {
    let usage = &totals.usage;
    let cost = match (totals.cost_usd, totals.cost_is_complete) {
        (None, _) => "unknown".to_owned(),
        (Some(cost), true) => format!("${}", cost.round_up()),
        (Some(cost), false) => format!(">${}", cost.round_up()),
    };
    let counts = [
        totals.requests,
        usage.input_tokens,
        usage.cached_tokens,
        usage.output_tokens,
    ];
    let count_texts: String = counts
        .iter()
        .map(|count| align_right(&format_count(*count)))
        .collect();
    format!("{count_texts}{}", align_right(&cost))
}

fn align_right(text: &str) -> String {
    format!("{text:>NUMBER_WIDTH$}")
}
