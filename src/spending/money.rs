//! Amounts of money in US dollars. They are whole numbers of picodollars (millionths of a millionth
//! of a dollar), so that sums are exact.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The number of picodollars in a dollar.
const PICODOLLARS_PER_DOLLAR: u64 = 1_000_000_000_000;
/// The number of decimals of a dollar.
const DECIMALS: usize = 12;
/// The number of picodollars in a ten-thousandth of a dollar, to which displayed amounts are
/// rounded.
const PICODOLLARS_PER_TEN_THOUSANDTH: u64 = PICODOLLARS_PER_DOLLAR / 10_000;

/// An amount in picodollars, so that a price of one millionth of a dollar for a million tokens is a
/// whole number for one token. The maximum is 18 million dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Creates an amount from picodollars.
    pub const fn from_picodollars(picodollars: u64) -> Self {
        Self(picodollars)
    }

    /// Returns the amount in picodollars.
    pub const fn picodollars(self) -> u64 {
        self.0
    }

    /// Parses dollars as a plain decimal number such as `0.25`; `None` for anything else, for more
    /// than 12 decimals and for more than the maximum.
    pub fn from_dollars(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_complete = !whole.is_empty() && decimals.is_empty() != text.contains('.');
        if !is_complete || !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS {
            return None;
        }
        let dollars: u64 = whole.parse().ok()?;
        let fraction: u64 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
        let picodollars = dollars.checked_mul(PICODOLLARS_PER_DOLLAR)?;
        picodollars.checked_add(fraction).map(Self)
    }

    /// Returns the price of one token, from dollars for a million of them; `None` if that is not an
    /// amount.
    pub fn per_token(dollars_per_million: &str) -> Option<Self> {
        let Self(picodollars) = Self::from_dollars(dollars_per_million)?;
        let million = 1_000_000;
        (picodollars % million == 0).then(|| Self(picodollars / million))
    }

    /// Returns the sum, or the maximum amount.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero if `other` is more.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns one of `count` equal shares, rounded down.
    #[must_use]
    pub fn divided_by(self, count: u32) -> Self {
        Self(self.0.checked_div(u64::from(count)).unwrap_or(self.0))
    }

    /// Returns the product, or the maximum amount.
    #[must_use]
    pub fn saturating_mul(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// Returns the amount for display: rounded up to four decimals.
    #[must_use]
    pub fn round_up(self) -> Self {
        let ten_thousandths = self.0.div_ceil(PICODOLLARS_PER_TEN_THOUSANDTH);
        Self(ten_thousandths.saturating_mul(PICODOLLARS_PER_TEN_THOUSANDTH))
    }
}

/// Prints dollars with all their decimals except trailing zeros, for example `0.00125`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.0 / PICODOLLARS_PER_DOLLAR;
        let decimals = format!("{:0DECIMALS$}", self.0 % PICODOLLARS_PER_DOLLAR);
        match decimals.trim_end_matches('0') {
            "" => f.pad(&dollars.to_string()),
            decimals => f.pad(&format!("{dollars}.{decimals}")),
        }
    }
}

/// Writes a number of dollars.
impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dollars: f64 = self
            .to_string()
            .parse()
            .map_err(serde::ser::Error::custom)?;
        serializer.serialize_f64(dollars)
    }
}

/// Reads a number of dollars, to the nearest picodollar.
impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        let decimal = format!("{dollars:.DECIMALS$}");
        let picodollars = decimal.replacen('.', "", 1);
        picodollars
            .parse()
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Money {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Money".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        let money = Money::from_dollars(text);
        assert_eq!(money, expected.map(Money::from_picodollars), "{text}");
    }

    #[test]
    fn dollars_are_plain_decimal_numbers() {
        check("0", Some(0));
        check("1.25", Some(1_250_000_000_000));
        check("007.50", Some(7_500_000_000_000));
        check("0.000000000001", Some(1));
        check("18446744", Some(18_446_744_000_000_000_000));
        for refused in [
            "", ".", ".5", "1.", "-1", "+1", "1e3", "1,5", "1_000", "NaN", "inf", " 1", "1.2.3",
        ] {
            check(refused, None);
        }
        check("0.0000000000001", None);
        check("18446745", None);
        check("99999999999999999999", None);
    }

    #[test]
    fn a_token_costs_a_whole_number_of_picodollars() {
        let price = |text| Money::per_token(text).map(Money::picodollars);
        assert_eq!(price("1.25"), Some(1_250_000));
        assert_eq!(price("0.003625"), Some(3_625));
        assert_eq!(price("0.000001"), Some(1));
        assert_eq!(price("0.0000001"), None);
        let million = Money::per_token("0.1").unwrap().saturating_mul(1_000_000);
        assert_eq!(million.to_string(), "0.1");
    }

    #[test]
    fn amounts_never_wrap_and_never_look_like_nothing() {
        let most = Money::from_picodollars(u64::MAX);
        assert_eq!(most.saturating_add(most), most);
        assert_eq!(most.saturating_mul(3), most);
        let shown = |picodollars| Money::from_picodollars(picodollars).round_up().to_string();
        assert_eq!(shown(0), "0");
        assert_eq!(shown(1), "0.0001");
        assert_eq!(shown(123_456_789_012), "0.1235");
    }
}
