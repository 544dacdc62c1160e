//! Limits of runs in requests and replies: what the page asks for is read as the flags of a run
//! are, up to what a config may ask for, and a refusal names the limit that is wrong.

use std::ops::RangeInclusive;

use serde_json::{Map, Number, Value, json};

use crate::cli::args::{LimitArguments, RunArguments};
use crate::cli::model_prices::require_prices;
use crate::cli::web::reply::{ApiError, ApiResult};
use crate::config::Config;
use crate::config::keys::limits::{CALLS_MAX, DOLLARS_MAX, SECONDS_MAX, TOKENS_MAX};
use crate::config::keys::workflow::ITERATION_LIMIT_MAX;
use crate::spending::limits::BudgetLimits;
use crate::spending::models::ModelList;
use crate::spending::money::Money;

// The keys of the limits in a config.
const COST: &str = "max_cost_usd";
const TOKENS: &str = "max_tokens_total";
const TOOL_CALLS: &str = "max_tool_calls";
const SECONDS: &str = "orchestrator_timeout_seconds";
const ITERATIONS: &str = "max_iterations";
/// The keys of all limits.
const NAMES: [&str; 5] = [COST, TOKENS, TOOL_CALLS, SECONDS, ITERATIONS];

/// The limits that a request gives; those that are missing stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestedLimits {
    cost: Option<Money>,
    tokens: Option<u64>,
    tool_calls: Option<u64>,
    seconds: Option<u64>,
    iterations: Option<u32>,
}

impl RequestedLimits {
    /// Reads the limits in the `fields` of a request, each of which is a number or the text of one.
    ///
    /// # Errors
    /// A limit is neither, or out of range: `field` of the reply names it. Or a field is not known.
    pub(super) fn parse(fields: &Map<String, Value>) -> ApiResult<Self> {
        if !fields.keys().all(|name| NAMES.contains(&name.as_str())) {
            let error = ApiError::invalid("`limits` has a field that is not known");
            return Err(error.with_hint(format!("the limits are {}", NAMES.join(", "))));
        }
        let iterations = read_count(fields, ITERATIONS, &(1..=ITERATION_LIMIT_MAX))?;
        Ok(Self {
            cost: read_cost(fields)?,
            tokens: read_count(fields, TOKENS, &(1..=TOKENS_MAX))?,
            tool_calls: read_count(fields, TOOL_CALLS, &(0..=CALLS_MAX))?,
            seconds: read_count(fields, SECONDS, &(1..=SECONDS_MAX))?,
            iterations: iterations.and_then(|count| u32::try_from(count).ok()),
        })
    }

    /// Requires that the limits can be enforced for a run of `config`.
    ///
    /// # Errors
    /// The price of a model is not known, or the run has no iterations; `field` of the reply names
    /// the limit.
    pub(super) fn require_effect(self, config: &Config, models: &ModelList) -> ApiResult<()> {
        if self.iterations.is_some() && !config.has_iterations() {
            let message = "only a pipeline with `until` has iterations";
            return Err(with_field(ApiError::invalid(message), ITERATIONS));
        }
        if self.cost.is_none() {
            return Ok(());
        }
        // Prices are required only of a config that limits the cost.
        let mut limited_config = config.clone();
        limited_config.limits.cost = self.cost;
        require_prices(&limited_config, models).map_err(|error| with_field(error.into(), COST))
    }

    /// Sets these limits as flags; others stay.
    pub(super) fn apply_to(self, flags: &mut RunArguments) {
        let requested = LimitArguments {
            cost: self.cost,
            tokens: self.tokens,
            tool_calls: self.tool_calls,
            iterations: self.iterations,
        };
        flags.limits = requested.or(flags.limits);
        flags.orchestrator_timeout = self.seconds.or(flags.orchestrator_timeout);
    }
}

/// Returns the limits of the budget in force, as the page reads them.
pub(super) fn limits_json(limits: &BudgetLimits) -> Value {
    json!({
        COST: limits.cost.map(|cost| cost.to_string()),
        TOKENS: limits.tokens,
        TOOL_CALLS: limits.tool_calls,
    })
}

fn read_cost(fields: &Map<String, Value>) -> ApiResult<Option<Money>> {
    let Some(text) = typed_text(fields, COST) else {
        return Ok(None);
    };
    let cost_max = Money::from_dollars(&DOLLARS_MAX.to_string());
    let cost = Money::from_dollars(&text);
    match cost.filter(|cost| cost_max.is_some_and(|cost_max| *cost <= cost_max)) {
        Some(cost) => Ok(Some(cost)),
        None => Err(unexpected_value(
            COST,
            &format!("US dollars, such as 0.50, and at most {DOLLARS_MAX}"),
        )),
    }
}

fn read_count(
    fields: &Map<String, Value>,
    name: &str,
    range: &RangeInclusive<i64>,
) -> ApiResult<Option<u64>> {
    let Some(text) = typed_text(fields, name) else {
        return Ok(None);
    };
    let number = text.parse::<i64>().ok();
    let count = number.filter(|number| range.contains(number));
    match count.and_then(|count| u64::try_from(count).ok()) {
        Some(count) => Ok(Some(count)),
        None => Err(unexpected_value(
            name,
            &format!("a whole number from {} to {}", range.start(), range.end()),
        )),
    }
}

/// Returns a limit as it would be typed; `None` if it is not given. What is neither text nor a
/// number becomes empty text, so that it is refused as a mistyped limit is.
fn typed_text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    match fields.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number_text(number)),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Some(String::new()),
    }
}

/// Writes a number without an exponent, which no limit accepts, and to twelve decimals, because
/// `Money` counts picodollars. `2.0` becomes `2`, which a count accepts.
fn number_text(number: &Number) -> String {
    let is_whole = number.is_u64() || number.is_i64();
    match number.as_f64() {
        Some(decimal) if !is_whole => {
            let text = format!("{decimal:.12}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        Some(_) | None => number.to_string(),
    }
}

fn unexpected_value(name: &str, expected: &str) -> ApiError {
    let error = ApiError::invalid(format!("`{name}`: expected {expected}"));
    with_field(error, name)
}

fn with_field(error: ApiError, name: &str) -> ApiError {
    error.with_details(json!({ "field": name }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the flags of these limits, or the reply to them.
    fn parse(limits: &Value) -> std::result::Result<String, String> {
        let read = RequestedLimits::parse(limits.as_object().unwrap())
            .map_err(|error| format!("{error:?}"))?;
        let mut flags = RunArguments::default();
        read.apply_to(&mut flags);
        Ok(flags.limit_words().join(" "))
    }

    #[test]
    fn limits_are_numbers_or_what_a_person_types() {
        for (limits, words) in [
            (json!({}), ""),
            (json!({"max_cost_usd": null}), ""),
            (json!({"max_cost_usd": " 0.50 "}), "--max-cost-usd 0.5"),
            (json!({"max_cost_usd": 0.1}), "--max-cost-usd 0.1"),
            (json!({"max_cost_usd": 1e-7}), "--max-cost-usd 0.0000001"),
            (json!({"max_cost_usd": 0}), "--max-cost-usd 0"),
            (
                json!({"max_tokens_total": "900", "max_tool_calls": 0}),
                "--max-tokens-total 900 --max-tool-calls 0",
            ),
            (
                json!({"orchestrator_timeout_seconds": 60, "max_iterations": 2.0}),
                "--max-iterations 2 --orchestrator-timeout 60",
            ),
        ] {
            assert_eq!(parse(&limits).as_deref(), Ok(words), "{limits}");
        }
    }

    #[test]
    fn other_values_are_refused_with_the_name_of_their_field() {
        for name in NAMES {
            for value in [
                json!(-1),
                json!("-1"),
                json!("NaN"),
                json!("1e3"),
                json!("0x10"),
                json!(""),
                json!("1,5"),
                json!("1 2"),
                json!(1e300),
                json!(u64::MAX),
                json!("99999999999999999999999999"),
                json!("8000000000000000000"),
                json!(true),
                json!([1]),
                json!({"is": 1}),
            ] {
                let refused = parse(&json!({ name: value })).unwrap_err();
                let field = format!("\"field\": String(\"{name}\")");
                assert!(
                    refused.contains(&field) && refused.contains("400"),
                    "{name} {value}: {refused}"
                );
            }
        }
        for (name, value) in [
            (COST, json!("1000000.01")),
            (TOKENS, json!(0)),
            (TOKENS, json!(1.5)),
            (TOOL_CALLS, json!(1_000_001)),
            (SECONDS, json!(0)),
            (ITERATIONS, json!(1001)),
        ] {
            assert!(parse(&json!({ name: value })).is_err(), "{name} {value}");
        }
        let unknown = parse(&json!({"timeout": 1})).unwrap_err();
        assert!(
            unknown.contains("orchestrator_timeout_seconds"),
            "{unknown}"
        );
    }
}
