//! Sizes in a config: `2g`, `512m`, or a number of bytes.

/// Parses a size into bytes. `k`, `m`, `g` and `t` are powers of 1024, in either case, with an
/// optional `b` after them.
pub fn bytes(size: &str) -> Option<u64> {
    let lowercase = size.trim().to_ascii_lowercase();
    let text = lowercase.strip_suffix('b').unwrap_or(&lowercase);
    let units = [('k', 10), ('m', 20), ('g', 30), ('t', 40)];
    let unit = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(*unit)?, *shift)));
    let (number, shift) = unit.unwrap_or((text, 0));
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| is_number)?;
    number.checked_mul(1_u64.checked_shl(shift)?)
}

/// Formats a size with the largest unit that divides it.
pub fn describe(bytes: u64) -> String {
    let units = [("t", 40), ("g", 30), ("m", 20), ("k", 10)];
    let fits = |shift: u32| bytes >> shift > 0 && (bytes >> shift) << shift == bytes;
    match units.iter().find(|(_, shift)| fits(*shift)) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(size: &str, expected: Option<u64>) {
        assert_eq!(bytes(size), expected, "{size}");
    }

    #[test]
    fn sizes_have_units_of_1024() {
        check("2g", Some(2 << 30));
        check("512M", Some(512 << 20));
        check("64kb", Some(64 << 10));
        check("1T", Some(1 << 40));
        check("100", Some(100));
        check("100b", Some(100));
        for text in [
            "",
            "g",
            "-1",
            "+1",
            "1.5g",
            "1 g",
            "two",
            "99999999999999t",
            "1gg",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn sizes_are_shown_with_the_unit_that_fits() {
        for (size, expected) in [
            (2 << 30, "2g"),
            (1536 << 20, "1536m"),
            (1000, "1000"),
            (0, "0"),
        ] {
            assert_eq!(describe(size), expected);
        }
    }
}
