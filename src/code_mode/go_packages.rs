//! The packages that Go programs may import, and which of their members are closed. A package is
//! listed if data work needs it and nothing in it opens files, starts processes, reaches the
//! network or bypasses the type system; single members that do are closed.

use crate::code_mode::PACKAGE;

/// The packages, each with its closed members.
pub(super) const PACKAGES: &[(&str, &[&str])] = &[
    ("bufio", &[]),
    ("bytes", &[]),
    ("cmp", &[]),
    ("container/heap", &[]),
    ("container/list", &[]),
    ("container/ring", &[]),
    ("context", &[]),
    ("crypto/md5", &[]),
    ("crypto/sha1", &[]),
    ("crypto/sha256", &[]),
    ("crypto/sha512", &[]),
    ("encoding/base64", &[]),
    ("encoding/binary", &[]),
    ("encoding/csv", &[]),
    ("encoding/hex", &[]),
    ("encoding/json", &[]),
    ("encoding/xml", &[]),
    ("errors", &[]),
    // They read standard input, which the program uses to communicate with massgen.
    ("fmt", &["Scan", "Scanf", "Scanln"]),
    ("hash/crc32", &[]),
    ("hash/fnv", &[]),
    ("html", &[]),
    ("html/template", FROM_FILES),
    ("io", &[]),
    ("iter", &[]),
    ("maps", &[]),
    ("math", &[]),
    ("math/big", &[]),
    ("math/bits", &[]),
    ("math/cmplx", &[]),
    ("math/rand", &[]),
    ("net/url", &[]),
    ("path", &[]),
    ("regexp", &[]),
    ("slices", &[]),
    ("sort", &[]),
    ("strconv", &[]),
    ("strings", &[]),
    ("sync", &[]),
    ("sync/atomic", &[]),
    ("text/tabwriter", &[]),
    ("text/template", FROM_FILES),
    ("time", &[]),
    ("unicode", &[]),
    ("unicode/utf16", &[]),
    ("unicode/utf8", &[]),
    (PACKAGE, &[]),
];

/// Functions and methods of templates that read files.
pub(super) const FROM_FILES: &[&str] = &["ParseFS", "ParseFiles", "ParseGlob"];

/// Returns the closed members of a package; `None` if programs may not import it.
pub(super) fn closed_members(path: &str) -> Option<&'static [&'static str]> {
    let found = PACKAGES.iter().find(|(listed, _)| *listed == path);
    found.map(|(_, closed)| *closed)
}
