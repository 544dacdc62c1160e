//! The clock: reads the time, measures durations, and formats moments for records and names. No
//! other module reads the time.

use std::time::{Duration, Instant};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// A moment in the user's time zone. To measure a duration, use a [`Stopwatch`]: this clock can be
/// set.
#[derive(Clone, Debug)]
pub struct LocalDateTime {
    timestamp: Timestamp,
    zone: TimeZone,
}

/// Returns the present moment.
pub fn now() -> LocalDateTime {
    LocalDateTime::new(Timestamp::now())
}

impl LocalDateTime {
    fn new(timestamp: Timestamp) -> Self {
        Self {
            timestamp,
            zone: TimeZone::system(),
        }
    }

    fn to_zoned(&self) -> Zoned {
        self.timestamp.to_zoned(self.zone.clone())
    }

    /// Formats the moment for records: `2026-11-02T14:03:22.123456+01:00`.
    pub fn iso_format(&self) -> String {
        self.to_zoned()
            .strftime("%Y-%m-%dT%H:%M:%S.%6f%:z")
            .to_string()
    }

    /// Parses the output of [`LocalDateTime::iso_format`], or another moment in RFC 3339, into the
    /// user's time zone.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self::new)
    }

    /// Converts seconds since the Unix epoch to the user's time zone; `None` if they are out of the
    /// calendar's range.
    pub fn from_unix_seconds(seconds: i64) -> Option<Self> {
        Timestamp::from_second(seconds).ok().map(Self::new)
    }

    /// Formats the local time for lists that people read: `2026-11-02 14:03:22`.
    pub fn list_format(&self) -> String {
        self.to_zoned().strftime("%Y-%m-%d %H:%M:%S").to_string()
    }

    /// Returns the time that has passed since `earlier`; zero if `earlier` is later.
    pub fn since(&self, earlier: &Self) -> Duration {
        let difference = self.timestamp.duration_since(earlier.timestamp);
        Duration::try_from(difference).unwrap_or_default()
    }

    /// Formats the moment in UTC for the event log (RFC 3339): `2026-11-02T13:03:22.123456Z`.
    pub fn utc_format(&self) -> String {
        format!("{:.6}", self.timestamp)
    }

    /// Formats the local time for names of logs and records: `20261102_140322_123456`.
    pub fn name_format(&self) -> String {
        self.to_zoned().strftime("%Y%m%d_%H%M%S_%6f").to_string()
    }

    /// Formats the local time for names of sessions: `20261102_140322`.
    pub fn short_name_format(&self) -> String {
        self.to_zoned().strftime("%Y%m%d_%H%M%S").to_string()
    }

    /// Returns the whole nanoseconds since the Unix epoch; 0 for a clock set before it.
    pub fn unix_nanoseconds(&self) -> u64 {
        u64::try_from(self.timestamp.as_nanosecond()).unwrap_or_default()
    }
}

/// Returns the local time one microsecond after that of a name, which consists of its `second` (as in
/// [`LocalDateTime::short_name_format`]) and a `microsecond`, in the form of
/// [`LocalDateTime::name_format`]. `None` if it is not a time.
pub fn next_name_time(second: &str, microsecond: u32) -> Option<String> {
    let second = DateTime::strptime("%Y%m%d_%H%M%S", second).ok()?;
    let microseconds = i64::from(microsecond).checked_add(1)?;
    let next = second.checked_add(Span::new().try_microseconds(microseconds).ok()?);
    Some(next.ok()?.strftime("%Y%m%d_%H%M%S_%6f").to_string())
}

/// Measures durations with a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts measuring.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Converts a duration to milliseconds, the unit in events.
pub fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use jiff::Zoned;

    use super::LocalDateTime;

    #[test]
    fn a_moment_is_written_in_its_own_zone() {
        let zoned = "2026-11-02T14:03:22.000456789+01:00[Europe/Paris]";
        let zoned: Zoned = zoned.parse().unwrap();
        let moment = LocalDateTime {
            timestamp: zoned.timestamp(),
            zone: zoned.time_zone().clone(),
        };
        assert_eq!(moment.iso_format(), "2026-11-02T14:03:22.000456+01:00");
        assert_eq!(moment.utc_format(), "2026-11-02T13:03:22.000456Z");
        assert_eq!(moment.name_format(), "20261102_140322_000456");
        assert_eq!(moment.short_name_format(), "20261102_140322");
        assert_eq!(moment.unix_nanoseconds(), 1_793_624_602_000_456_789);
    }
}
