//! Owns amounts of money. They are whole numbers, so that sums are exact.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many parts a dollar has.
const PARTS_PER_DOLLAR: u64 = 1_000_000_000_000;

/// An amount in US dollars. Its parts are so small that a price of one millionth of a dollar for a
/// million tokens is a whole number for one token; at most 18 million dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

impl Money {
    /// An amount in millionths of a millionth of a dollar.
    pub const fn from_picodollars(parts: u64) -> Self {
        Self(parts)
    }

    /// Both amounts together, or the greatest amount that there is.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Dollars with all their decimals but the zeros at the end, for example `0.00125`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.0 / PARTS_PER_DOLLAR;
        let decimals = format!("{:012}", self.0 % PARTS_PER_DOLLAR);
        match decimals.trim_end_matches('0') {
            "" => write!(f, "{dollars}"),
            decimals => write!(f, "{dollars}.{decimals}"),
        }
    }
}

/// A number of dollars.
impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let dollars: f64 = self
            .to_string()
            .parse()
            .map_err(serde::ser::Error::custom)?;
        serializer.serialize_f64(dollars)
    }
}

/// A number of dollars, to the nearest part.
impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        let written = format!("{dollars:.12}");
        let digits = written.replacen('.', "", 1);
        digits.parse().map(Self).map_err(serde::de::Error::custom)
    }
}
