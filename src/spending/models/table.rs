//! Parses the table in the binary. A comment at its top documents the format; malformed rows are
//! skipped, and the tests ensure that there are none.

use std::num::ParseIntError;

use crate::spending::models::{KnownModel, ModelRowOrigin};
use crate::spending::money::Money;
use crate::spending::price::{ModelPrice, TokenRates};

const TABLE: &str = include_str!("models.txt");
/// Prefix of the comment with the date of the prices.
const DATE_PREFIX: &str = "# taken: ";
/// First field of a line with the prices of long requests to the model in the row above it.
const LONG_REQUEST_MARK: &str = ">";
/// Placeholder for an unknown number; for the price of cached tokens, that of other input holds.
const UNKNOWN: &str = "-";

/// Returns the date of the table's prices, as `2026-01-31`.
pub fn table_date() -> &'static str {
    let mut lines = TABLE.lines();
    lines
        .find_map(|line| line.strip_prefix(DATE_PREFIX))
        .unwrap_or_default()
}

/// Returns the rows of the table.
pub(super) fn rows() -> Vec<KnownModel> {
    let mut rows: Vec<KnownModel> = Vec::new();
    for fields in lines() {
        if let [LONG_REQUEST_MARK, threshold, prices @ ..] = fields.as_slice() {
            let long_request_rates = threshold.parse().ok().zip(parse_rates(prices));
            if let Some(row) = rows.last_mut() {
                row.price.long_request_rates.extend(long_request_rates);
            }
        } else {
            rows.extend(parse_row(&fields));
        }
    }
    rows
}

/// Returns the fields of each line that has any.
fn lines() -> impl Iterator<Item = Vec<&'static str>> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split_whitespace().collect())
        .filter(|fields: &Vec<_>| !fields.is_empty())
}

fn parse_row(fields: &[&str]) -> Option<KnownModel> {
    let [vendor, name, context, output, prices @ ..] = fields else {
        return None;
    };
    Some(KnownModel {
        vendor: Some((*vendor).to_owned()),
        name: (*name).to_owned(),
        context_tokens: parse_tokens(context).ok()?,
        output_tokens_max: parse_tokens(output).ok()?,
        price: ModelPrice {
            rates: parse_rates(prices)?,
            long_request_rates: Vec::new(),
        },
        origin: ModelRowOrigin::Table,
    })
}

/// Parses a number of tokens, or the placeholder.
fn parse_tokens(field: &str) -> Result<Option<u64>, ParseIntError> {
    match field {
        UNKNOWN => Ok(None),
        field => field.parse().map(Some),
    }
}

/// Parses the prices of a million tokens.
fn parse_rates(prices: &[&str]) -> Option<TokenRates> {
    let [input, cached, cache_write, output] = prices else {
        return None;
    };
    let input = Money::per_token(input)?;
    let or_input = |price: &str| match price {
        UNKNOWN => Some(input),
        price => Money::per_token(price),
    };
    Some(TokenRates {
        input,
        cached: or_input(cached)?,
        cache_write: or_input(cache_write)?,
        output: Money::per_token(output)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_row() {
        let is_long_request = |fields: &Vec<&str>| fields[0] == LONG_REQUEST_MARK;
        let (long_requests, models): (Vec<_>, Vec<_>) = lines().partition(is_long_request);
        let rows = rows();
        assert!(models.len() >= 100, "only {} models", models.len());
        assert_eq!(rows.len(), models.len());
        let tiers: usize = rows
            .iter()
            .map(|row| row.price.long_request_rates.len())
            .sum();
        assert_eq!(tiers, long_requests.len());
        for row in &rows {
            assert!(
                row.price.long_request_rates.is_sorted_by(|a, b| a.0 < b.0),
                "{row:?}"
            );
            let rates = row.price.rates;
            assert!(rates.cached <= rates.input, "{row:?}");
            assert!(rates.input <= rates.output, "{row:?}");
            let (context, output) = (row.context_tokens, row.output_tokens_max);
            assert!(output.is_none() || output <= context, "{row:?}");
        }
    }

    #[test]
    fn models_of_the_table_are_unique() {
        let rows = rows();
        let mut names: Vec<_> = rows.iter().map(|row| (&row.vendor, &row.name)).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_date_of_the_table_is_known() {
        let day: Vec<usize> = table_date().split('-').map(str::len).collect();
        assert_eq!(day, [4, 2, 2]);
    }
}
