//! The price of a model, and from it the cost of one request.

use crate::spending::TokenUsage;
use crate::spending::money::Money;

/// Prices of one token, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenRates {
    /// A token of the request that was not cached.
    pub input: Money,
    /// A token of the request that came from the vendor's cache.
    pub cached: Money,
    /// A token of the request that was written to the vendor's cache.
    pub cache_write: Money,
    /// A token of the reply, including reasoning.
    pub output: Money,
}

/// The price of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelPrice {
    /// The prices of its tokens in most requests.
    pub rates: TokenRates,
    /// The prices of all tokens of a request that has more input tokens than this number, in
    /// ascending order of the numbers.
    pub long_request_rates: Vec<(u64, TokenRates)>,
}

impl ModelPrice {
    /// Returns whether all tokens are free.
    pub fn is_free(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the cost of a request with this `usage`.
    pub fn cost(&self, usage: &TokenUsage) -> Money {
        let mut reached_rates = self
            .long_request_rates
            .iter()
            .rev()
            .filter(|(threshold, _)| usage.input_tokens > *threshold);
        let rates = reached_rates.next().map_or(&self.rates, |(_, rates)| rates);
        let cached_tokens = usage.cached_tokens.min(usage.input_tokens);
        let uncached_tokens = usage.input_tokens.saturating_sub(cached_tokens);
        let cache_write_tokens = usage.cache_write_tokens.min(uncached_tokens);
        let plain_tokens = uncached_tokens.saturating_sub(cache_write_tokens);
        [
            rates.input.saturating_mul(plain_tokens),
            rates.cached.saturating_mul(cached_tokens),
            rates.cache_write.saturating_mul(cache_write_tokens),
            rates.output.saturating_mul(usage.output_tokens),
        ]
        .into_iter()
        .fold(Money::ZERO, Money::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(input: &str, cached: &str, cache_write: &str, output: &str) -> TokenRates {
        let token = |text| Money::per_token(text).unwrap();
        TokenRates {
            input: token(input),
            cached: token(cached),
            cache_write: token(cache_write),
            output: token(output),
        }
    }

    /// `usage` is input, cached, cache writes, output.
    #[track_caller]
    fn check(price: &ModelPrice, usage: [u64; 4], expected: &str) {
        let [
            input_tokens,
            cached_tokens,
            cache_write_tokens,
            output_tokens,
        ] = usage;
        let usage = TokenUsage {
            input_tokens,
            cached_tokens,
            cache_write_tokens,
            output_tokens,
            reasoning_tokens: output_tokens,
        };
        assert_eq!(price.cost(&usage).to_string(), expected, "{usage:?}");
    }

    #[test]
    fn every_token_is_paid_once_at_its_own_rate() {
        let price = ModelPrice {
            rates: rates("3", "0.3", "3.75", "15"),
            long_request_rates: vec![
                (200_000, rates("6", "0.6", "7.5", "22.5")),
                (400_000, rates("12", "1.2", "15", "45")),
            ],
        };
        check(&price, [0, 0, 0, 0], "0");
        check(&price, [1_000_000, 0, 0, 0], "12");
        check(&price, [100_000, 0, 0, 0], "0.3");
        check(&price, [100_000, 100_000, 0, 0], "0.03");
        check(&price, [100_000, 40_000, 50_000, 1_000], "0.2445");
        check(&price, [200_000, 0, 0, 1_000], "0.615");
        check(&price, [200_001, 0, 0, 1_000], "1.222506");
        check(&price, [7, 0, 0, 1], "0.000036");
    }

    #[test]
    fn parts_that_exceed_the_whole_are_not_paid_twice() {
        let price = ModelPrice {
            rates: rates("3", "0.3", "3.75", "15"),
            long_request_rates: Vec::new(),
        };
        check(&price, [100, 500, 500, 0], "0.00003");
        check(&price, [100, 60, 500, 0], "0.000168");
        check(&price, [u64::MAX, 0, 0, u64::MAX], "18446744.073709551615");
    }
}
