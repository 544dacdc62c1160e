//! Owns the names that no agent may write in a context path, at any depth and whenever they are
//! made. Everything here is a comparison of names; nothing looks at the disk.

use std::ffi::OsStr;
use std::path::Path;

use crate::path::RelPath;

/// The protected names. A name with `/` protects that sequence of directories.
pub const PROTECTED: &[&str] = &[
    ".massgen",
    ".env",
    ".git",
    "node_modules",
    "__pycache__",
    ".venv",
    "venv",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".DS_Store",
    "massgen_logs",
    ".hg",
    ".svn",
    ".envrc",
    ".vscode",
    ".idea",
    ".mcp.json",
    ".claude",
    ".cursor",
    ".codex",
    ".gemini",
    ".husky",
    ".github/hooks",
    ".gitmodules",
];

/// Files that look like `.env.NAME` and hold no secrets by convention.
const ENV_SAMPLES: &[&str] = &[".env.example", ".env.sample", ".env.template"];

/// Names that hold secrets by convention; a context path with one of them is worth a word.
const SECRETS: &[&str] = &[
    ".env",
    ".npmrc",
    ".netrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "credentials.json",
    "secrets.yaml",
    "secrets.yml",
];

/// The first protected name on the way from a context path's root down to `rel`, as it stands in
/// [`PROTECTED`]; `unprotected` lists the names that the context path has taken out.
pub fn protected_name(rel: &RelPath, unprotected: &[String]) -> Option<&'static str> {
    let mut previous = String::new();
    for name in rel.names() {
        let folded = fold(name);
        let open = |found: &&str| {
            unprotected
                .iter()
                .any(|name| name.eq_ignore_ascii_case(found))
        };
        if let Some(found) = listed(&previous, &folded).filter(|found| !open(found)) {
            return Some(found);
        }
        previous = folded;
    }
    None
}

/// Whether a file of this name holds secrets by convention (`.env*`, private keys, `.npmrc`, …).
pub fn looks_secret(name: &OsStr) -> bool {
    let folded = fold(name);
    let is_env = folded.starts_with(".env.") && !ENV_SAMPLES.contains(&folded.as_str());
    let extension = Path::new(&folded).extension().and_then(OsStr::to_str);
    let is_key = matches!(extension, Some("pem" | "key"));
    is_env || is_key || SECRETS.contains(&folded.as_str())
}

fn listed(previous: &str, folded: &str) -> Option<&'static str> {
    let dotenv = folded.starts_with(".env.") && !ENV_SAMPLES.contains(&folded);
    PROTECTED
        .iter()
        .copied()
        .find(|entry| match entry.split_once('/') {
            Some((parent, child)) => {
                parent.eq_ignore_ascii_case(previous) && child.eq_ignore_ascii_case(folded)
            }
            None => entry.eq_ignore_ascii_case(folded) || (*entry == ".env" && dotenv),
        })
}

/// The name as a file system that ignores case, zero-width characters or trailing dots and blanks
/// would see it. HFS+ and NTFS take `.g\u{200c}it` and `.git.` for `.git` (CVE-2014-9390).
fn fold(name: &OsStr) -> String {
    let ignorable = |c: &char| {
        matches!(*c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let visible: String = name
        .to_string_lossy()
        .chars()
        .filter(|c| !ignorable(c))
        .collect();
    visible.trim_end_matches([' ', '.']).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rel: &str, unprotected: &[&str], expected: Option<&str>) {
        let rel = RelPath::new(rel).unwrap();
        let open: Vec<String> = unprotected.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(protected_name(&rel, &open), expected, "{rel}");
    }

    #[test]
    fn names_are_protected_at_any_depth_and_in_any_disguise() {
        check(".git", &[], Some(".git"));
        check(".git/config", &[], Some(".git"));
        check("a/b/.git/hooks/x", &[], Some(".git"));
        check(".GIT/config", &[], Some(".git"));
        check(".git./config", &[], Some(".git"));
        check(".git /config", &[], Some(".git"));
        check(".g\u{200c}it/config", &[], Some(".git"));
        check(".DS_STORE", &[], Some(".DS_Store"));
        check(".env.local", &[], Some(".env"));
        check(".github/hooks/x", &[], Some(".github/hooks"));
        check(".git/x", &[".git"], None);
        check(".git/.env", &[".git"], Some(".env"));
    }

    #[test]
    fn names_that_only_resemble_protected_ones_stay_open() {
        check("", &[], None);
        check("src/main.rs", &[], None);
        check(".gitignore", &[], None);
        check(".github/workflows/ci.yml", &[], None);
        check("hooks/x", &[], None);
        check("docs/node_modules.md", &[], None);
        check(".env.example", &[], None);
        check("environment", &[], None);
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for name in [
            ".env",
            ".env.local",
            "server.pem",
            "id_rsa",
            ".npmrc",
            "TLS.KEY",
        ] {
            assert!(looks_secret(OsStr::new(name)), "{name}");
        }
        for name in [".env.example", "main.rs", "keyboard.txt", "id_rsa.pub"] {
            assert!(!looks_secret(OsStr::new(name)), "{name}");
        }
    }
}
