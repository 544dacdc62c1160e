//! Owns what is kept of a project's runs and sessions, as a config or the command line gives it.

use std::time::Duration;

/// One day.
pub const DAY: Duration = Duration::from_hours(24);

/// What may be removed; nothing without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// How long something is kept that is not used.
    pub unused_for: Option<Duration>,
    /// How many bytes all of it may take up.
    pub bytes: Option<u64>,
}

impl Retention {
    /// Whether anything may be removed at all.
    pub fn is_limited(&self) -> bool {
        self.unused_for.is_some() || self.bytes.is_some()
    }
}

/// A time as it is typed: `30d`, `12h` or `2w`.
pub fn age(text: &str) -> Option<Duration> {
    let units = [("h", 1_u64), ("d", 24), ("w", 24 * 7)];
    let (number, hours) = units
        .iter()
        .find_map(|(unit, hours)| Some((text.strip_suffix(unit)?, *hours)))?;
    let number: u64 = number.parse().ok()?;
    number.checked_mul(hours).map(Duration::from_hours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, hours: Option<u64>) {
        assert_eq!(age(text), hours.map(Duration::from_hours), "{text}");
    }

    #[test]
    fn an_age_has_a_unit() {
        check("12h", Some(12));
        check("30d", Some(30 * 24));
        check("2w", Some(14 * 24));
        for bad in [
            "",
            "d",
            "30",
            "-1d",
            "1.5d",
            "99999999999999999999d",
            "30 d",
        ] {
            check(bad, None);
        }
    }
}
