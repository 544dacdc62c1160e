//! Implements `massgen models`: lists the known models as plain columns or as JSON.

use serde_json::{Value, json};

use crate::cli::args::ModelsArguments;
use crate::cli::environment;
use crate::cli::model_prices::model_list;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::config::team::key_hint;
use crate::config::vendors::{KeyRequirement, find_vendor};
use crate::dotenv::ConfigVariables;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::spending::models::{KnownModel, ModelRowOrigin, table};
use crate::spending::money::Money;
use crate::spending::price::TokenRates;
use crate::text::{list_names, truncate};
use crate::world::diagnostics::probe::terminal::stdout_size;

/// Placeholder for an unknown figure.
const UNKNOWN: &str = "-";
/// Number of columns.
const COLUMNS: usize = 10;
/// Column titles.
const TITLES: [&str; COLUMNS] = [
    "VENDOR", "MODEL", "CONTEXT", "REPLY", "INPUT", "CACHED", "WRITE", "OUTPUT", "FROM", "USABLE",
];
/// The columns without numbers, which are aligned to the left.
const TEXT_COLUMNS: [&str; 4] = ["VENDOR", "MODEL", "FROM", "USABLE"];

/// The columns on a terminal that is too narrow for all.
const NARROW_COLUMNS: [&str; 5] = ["VENDOR", "MODEL", "INPUT", "OUTPUT", "USABLE"];

/// Lists the models that match the pattern. If there are none, the exit status is 1.
pub(crate) fn list(
    host: &Host,
    arguments: &ModelsArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let known_models = model_list(host, arguments.models.as_deref(), output)?;
    let pattern = arguments
        .pattern
        .as_deref()
        .unwrap_or_default()
        .to_lowercase();
    let matches_pattern = |text: &str| text.to_lowercase().contains(&pattern);
    let variables = environment::load(host).host.config_variables();
    let is_usable = |row: &KnownModel| obstacle(row, &variables).is_none();
    let mut rows: Vec<&KnownModel> = known_models
        .rows()
        .iter()
        .filter(|row| {
            matches_pattern(&row.name) || row.vendor.as_deref().is_some_and(matches_pattern)
        })
        .filter(|row| !arguments.usable || is_usable(row))
        .collect();
    rows.sort_by_key(|row| !is_usable(row));
    match ReportFormat::from(arguments.json) {
        ReportFormat::Json => output.result(&format!("{:#}\n", to_json(&rows, &variables)))?,
        ReportFormat::Text => print_columns(&rows, &variables, output)?,
    }
    if rows.is_empty() {
        let kind = if arguments.usable { "usable" } else { "known" };
        let suffix = match pattern.as_str() {
            "" => format!("; {}", key_hint()),
            pattern => format!(" matches `{pattern}`"),
        };
        output.note(&format!("no {kind} model{suffix}"));
        return Ok(ExitStatus::Failure);
    }
    Ok(ExitStatus::Success)
}

/// Returns why a model cannot be used now; `None` if its vendor needs no key, or the key is set.
pub(crate) fn obstacle(row: &KnownModel, variables: &ConfigVariables) -> Option<String> {
    let Some(vendor) = row.vendor.as_deref().and_then(find_vendor) else {
        return Some("name its vendor with `--backend`".to_owned());
    };
    if !vendor.is_supported() {
        return Some(format!("`type: {}` is not supported", vendor.name));
    }
    let has_key = |name: &&str| variables.get_non_empty(name).is_some();
    let is_key_set = vendor.key_variables.iter().any(has_key);
    let needs_key =
        vendor.key_requirement == KeyRequirement::Required && !vendor.key_variables.is_empty();
    (needs_key && !is_key_set)
        .then(|| format!("{} is not set", list_names(vendor.key_variables, "or")))
}

fn to_json(rows: &[&KnownModel], variables: &ConfigVariables) -> Value {
    let rates = |rates: &TokenRates| {
        json!({
            "input": per_million(rates.input),
            "cached_input": per_million(rates.cached),
            "cache_write": per_million(rates.cache_write),
            "output": per_million(rates.output),
        })
    };
    let model = |row: &&KnownModel| {
        let long_requests = row.price.long_request_rates.iter().map(|(above, long_rates)| {
            json!({ "above_input_tokens": above, "usd_per_million_tokens": rates(long_rates) })
        });
        json!({
            "vendor": row.vendor,
            "name": row.name,
            "context_tokens": row.context_tokens,
            "output_tokens_max": row.output_tokens_max,
            "usd_per_million_tokens": rates(&row.price.rates),
            "long_requests": long_requests.collect::<Vec<_>>(),
            "from": row_origin(row),
            "usable": obstacle(row, variables).is_none(),
            "obstacle": obstacle(row, variables),
        })
    };
    json!({
        "table_taken": table::table_date(),
        "models": rows.iter().map(model).collect::<Vec<_>>(),
    })
}

/// Prints the titles and the rows to standard output, one on a line. A terminal that is too narrow
/// for all columns shows the most important ones.
fn print_columns(
    rows: &[&KnownModel],
    variables: &ConfigVariables,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let cells: Vec<[String; COLUMNS]> = rows.iter().flat_map(|row| cells(row, variables)).collect();
    let titles = TITLES.map(str::to_owned);
    let widths: Vec<usize> = (0..COLUMNS)
        .map(|column| {
            let rows = cells.iter().chain([&titles]);
            let lengths = rows.filter_map(|row| row.get(column).map(String::len));
            lengths.max().unwrap_or_default()
        })
        .collect();
    output.note(&format!(
        "US dollars per million tokens; prices of {}",
        table::table_date()
    ));
    let terminal_width = stdout_size().map(|size| usize::from(size.columns));
    let full_width = widths.iter().map(|width| width.saturating_add(2)).sum();
    let is_narrow = terminal_width.is_some_and(|width| width < full_width);
    let lines = std::iter::once(&titles).chain(&cells).map(|row| {
        let line = format_line(row, &widths, is_narrow);
        let shown_line = truncate(&line, terminal_width.unwrap_or(usize::MAX));
        shown_line + "\n"
    });
    output.result(&lines.collect::<String>())
}

fn format_line(row: &[String; COLUMNS], widths: &[usize], is_narrow: bool) -> String {
    let cells = row.iter().zip(widths).zip(TITLES);
    let shown_cells = cells.filter(|(_, title)| !is_narrow || NARROW_COLUMNS.contains(title));
    let padded_cells = shown_cells.map(|((cell, width), title)| {
        if TEXT_COLUMNS.contains(&title) {
            format!("{cell:<width$}")
        } else {
            format!("{cell:>width$}")
        }
    });
    let line = padded_cells.collect::<Vec<_>>().join("  ");
    line.trim_end().to_owned()
}

/// Returns a model's own row, and one for each tier of longer requests.
fn cells(row: &KnownModel, variables: &ConfigVariables) -> Vec<[String; COLUMNS]> {
    let obstacle = obstacle(row, variables).map(|reason| format!("no: {reason}"));
    let usable = obstacle.unwrap_or_else(|| "yes".to_owned());
    let number =
        |tokens: Option<u64>| tokens.map_or(UNKNOWN.to_owned(), |tokens| tokens.to_string());
    let cells = |context: String, reply: String, rates: &TokenRates| {
        [
            row.vendor.clone().unwrap_or(UNKNOWN.to_owned()),
            row.name.clone(),
            context,
            reply,
            per_million(rates.input).to_string(),
            per_million(rates.cached).to_string(),
            per_million(rates.cache_write).to_string(),
            per_million(rates.output).to_string(),
            row_origin(row).to_owned(),
            usable.clone(),
        ]
    };
    let (context, reply) = (row.context_tokens, row.output_tokens_max);
    let own_cells = cells(number(context), number(reply), &row.price.rates);
    let long_request_cells = row
        .price
        .long_request_rates
        .iter()
        .map(|(above, rates)| cells(format!(">{above}"), number(reply), rates));
    std::iter::once(own_cells)
        .chain(long_request_cells)
        .collect()
}

fn per_million(token: Money) -> Money {
    token.saturating_mul(1_000_000)
}

fn row_origin(row: &KnownModel) -> &'static str {
    match row.origin {
        ModelRowOrigin::Table => "table",
        ModelRowOrigin::User => "yours",
    }
}
