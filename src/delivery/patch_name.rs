//! Names of files in patches, quoted as git does: a name is foreign text, and what it contains must
//! not look like further lines of the patch.

use std::os::unix::ffi::OsStrExt;

use crate::path::RelPath;

/// Returns `prefix` and `path` as git writes them in a patch: in quotes, with C escapes, if there
/// is anything but plain ASCII.
pub fn quote_patch_name(prefix: &str, path: &RelPath) -> String {
    let path = path.as_path().as_os_str().as_bytes();
    let bytes = prefix.bytes().chain(path.iter().copied());
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    let mut quoted_name = String::with_capacity(path.len().saturating_add(prefix.len()));
    let mut needs_quotes = false;
    for byte in bytes {
        if is_plain(byte) {
            quoted_name.push(char::from(byte));
        } else {
            needs_quotes = true;
            quoted_name.push_str(&escape(byte));
        }
    }
    if needs_quotes {
        format!("\"{quoted_name}\"")
    } else {
        quoted_name
    }
}

/// Returns the C escape of a byte.
fn escape(byte: u8) -> String {
    match byte {
        0x07 => "\\a".to_owned(),
        0x08 => "\\b".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        0x0b => "\\v".to_owned(),
        0x0c => "\\f".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'"' => "\\\"".to_owned(),
        b'\\' => "\\\\".to_owned(),
        _ => format!("\\{byte:03o}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_git_does() {
        for (name, expected) in [
            ("src/a b.txt", "a/src/a b.txt"),
            (
                "q\n--- /dev/null\n+++ b/x",
                r#""a/q\n--- /dev/null\n+++ b/x""#,
            ),
            ("a\tb\"c\\d", r#""a/a\tb\"c\\d""#),
            ("é\u{202e}", r#""a/\303\251\342\200\256""#),
            ("\u{1}\u{7f}\r", r#""a/\001\177\r""#),
        ] {
            let path = RelPath::new(name).unwrap();
            assert_eq!(quote_patch_name("a/", &path), expected, "{name:?}");
        }
    }
}
