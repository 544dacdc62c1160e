//! The retention of a project's runs and sessions, as set in a config or on the command line.

/// One day, in seconds.
pub const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;
/// One hour, in seconds.
const HOUR_SECONDS: u64 = 60 * 60;

/// What may be removed; nothing if there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionConfig {
    /// How long something unused is kept, in seconds.
    pub unused_seconds: Option<u64>,
    /// The maximum size of everything together, in bytes.
    pub bytes: Option<u64>,
}

impl RetentionConfig {
    /// Returns whether anything may be removed.
    pub fn is_limited(&self) -> bool {
        self.unused_seconds.is_some() || self.bytes.is_some()
    }
}

/// Parses a duration, such as `30d`, `12h` or `2w`, into seconds.
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
        for text in [
            "",
            "d",
            "30",
            "-1d",
            "+1d",
            "1.5d",
            "99999999999999999999d",
            "30 d",
        ] {
            check(text, None);
        }
    }
}
