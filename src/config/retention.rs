//! Owns what is kept of a project's runs and sessions, as a config or the command line gives it.

/// One day, in seconds.
pub const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;
/// One hour, in seconds.
const HOUR_SECONDS: u64 = 60 * 60;

/// What may be removed; nothing without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionConfig {
    /// How long something is kept that is not used, in seconds.
    pub unused_seconds: Option<u64>,
    /// How many bytes all of it may take up.
    pub bytes: Option<u64>,
}

impl RetentionConfig {
    /// Whether anything may be removed at all.
    pub fn is_limited(&self) -> bool {
        self.unused_seconds.is_some() || self.bytes.is_some()
    }
}

/// The seconds of a time as it is typed: `30d`, `12h` or `2w`.
pub fn seconds(text: &str) -> Option<u64> {
    let units = [
        ("h", HOUR_SECONDS),
        ("d", DAY_SECONDS),
        ("w", 7 * DAY_SECONDS),
    ];
    let (number, unit) = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)))?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_number)?;
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(seconds(text), expected, "{text}");
    }

    #[test]
    fn an_age_has_a_unit() {
        check("12h", Some(43_200));
        check("30d", Some(2_592_000));
        check("2w", Some(1_209_600));
        for bad in [
            "",
            "d",
            "30",
            "-1d",
            "+1d",
            "1.5d",
            "99999999999999999999d",
            "30 d",
        ] {
            check(bad, None);
        }
    }
}
