//! Finds where the characters in the output of commands begin and end.

/// Length of the longest UTF-8 character, in bytes.
const CHARACTER_BYTES_MAX: usize = 4;

/// Returns the length of `bytes` without an incomplete character at the end.
pub(in crate::world) fn complete_characters_len(bytes: &[u8]) -> usize {
    let checked_bytes = bytes.len().min(CHARACTER_BYTES_MAX.saturating_sub(1));
    for distance in 1..=checked_bytes {
        let index = bytes.len().saturating_sub(distance);
        let Some(byte) = bytes.get(index) else { break };
        if !is_continuation(*byte) {
            return if character_len(*byte) > distance {
                index
            } else {
                bytes.len()
            };
        }
    }
    bytes.len()
}

/// Returns the number of bytes at the start that continue a character begun earlier.
pub(in crate::world) fn character_tail_len(bytes: &[u8]) -> usize {
    let first_bytes = bytes.iter().take(CHARACTER_BYTES_MAX.saturating_sub(1));
    first_bytes
        .take_while(|byte| is_continuation(**byte))
        .count()
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

/// Returns the length of the character that begins with `byte`; 1 if none does.
fn character_len(byte: u8) -> usize {
    match byte {
        0b1100_0000..=0b1101_1111 => 2,
        0b1110_0000..=0b1110_1111 => 3,
        0b1111_0000..=0b1111_0111 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_cut() {
        let check = |bytes: &[u8], whole: usize, tail: usize| {
            assert_eq!(complete_characters_len(bytes), whole, "{bytes:?}");
            assert_eq!(character_tail_len(bytes), tail, "{bytes:?}");
        };
        check("aü".as_bytes(), 3, 0);
        check(&"aü".as_bytes()[..2], 1, 0);
        check(&"ü".as_bytes()[1..], 1, 1);
        check(&"a🦀".as_bytes()[..4], 1, 0);
        check(&"🦀".as_bytes()[1..], 3, 3);
        check("🦀".as_bytes(), 4, 0);
        check(b"\xe9", 0, 0);
        check(b"\x80\x80\x80\x80\x80", 5, 3);
        check(b"", 0, 0);
    }
}
