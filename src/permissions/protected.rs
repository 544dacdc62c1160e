//! Rules about names: those that no agent may write in a context path, at any depth and no matter
//! when they are created, unless the config excepts them; those that a delivery marks, because they
//! instruct agents or run later; those that hold secrets by convention;
//! and how names are folded before they are compared. Nothing here accesses the disk.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;

use crate::path::{AbsPath, RelPath};
use crate::text::name_spelling::usual_space;

/// The protected names. A name with `/` protects that sequence of path components.
pub const PROTECTED_NAMES: &[&str] = &[
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
    ".sl",
    "_darcs",
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
    ".jj",
    ".cargo/config",
    ".cargo/config.toml",
];

/// Why a delivery marks a name that agents may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMark {
    /// Agents that work in the project later read it as instructions.
    InstructsAgents,
    /// A program other than a build that the user starts runs it, or what it names: an editor that
    /// opens the directory, a package manager, a debugger, or a server that builds the project.
    RunsLater,
}

impl fmt::Display for NameMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameMark::InstructsAgents => "instructs later agents",
            NameMark::RunsLater => "runs later",
        })
    }
}

/// The names that a delivery marks. They are written like [`PROTECTED_NAMES`]; `*` at the beginning
/// stands for any text. Ordinary build files (`Makefile`, `package.json`, `conftest.py`) are neither
/// protected nor marked: to build a project is to run what it contains.
pub const MARKED_NAMES: &[(NameMark, &[&str])] = &[
    (
        NameMark::InstructsAgents,
        &[
            "AGENTS.md",
            "AGENTS.override.md",
            "CLAUDE.md",
            "CLAUDE.local.md",
            "GEMINI.md",
            "QWEN.md",
            "SKILL.md",
            ".agent",
            ".agents",
            ".cursorrules",
            ".windsurfrules",
            ".windsurf",
            ".clinerules",
            ".roo",
            ".roorules",
            ".junie",
            ".kiro",
            ".goosehints",
            ".github/copilot-instructions.md",
            ".github/instructions",
            ".github/prompts",
            ".github/agents",
            ".github/skills",
        ],
    ),
    (
        NameMark::RunsLater,
        &[
            ".github/workflows",
            ".github/actions",
            ".gitlab-ci.yml",
            ".circleci",
            ".buildkite",
            ".woodpecker",
            ".woodpecker.yml",
            ".drone.yml",
            ".travis.yml",
            ".cirrus.yml",
            ".appveyor.yml",
            "appveyor.yml",
            "Jenkinsfile",
            "azure-pipelines.yml",
            "bitbucket-pipelines.yml",
            ".devcontainer",
            ".devcontainer.json",
            ".gitpod.yml",
            "*.code-workspace",
            ".zed",
            ".fleet",
            ".exrc",
            ".nvimrc",
            ".nvim.lua",
            ".dir-locals.el",
            ".dir-locals-2.el",
            ".vimrc",
            ".ghci",
            ".ocamlinit",
            ".octaverc",
            ".RData",
            ".Renviron",
            ".iex.exs",
            ".perldb",
            ".pylintrc",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".yarn",
            ".pnpmfile.cjs",
            ".mise.toml",
            "mise.toml",
            ".mise",
            ".tool-versions",
            ".pre-commit-config.yaml",
            ".githooks",
            "lefthook.yml",
            ".lefthook.yml",
            ".gitattributes",
            "opencode.json",
            "opencode.jsonc",
            ".opencode",
            ".crush.json",
            "crush.json",
            ".aider.conf.yml",
            ".bazelrc",
            "rust-toolchain",
            "rust-toolchain.toml",
            ".gdbinit",
            ".lldbinit",
            ".pdbrc",
            ".Rprofile",
            ".irbrc",
            ".pryrc",
            ".profile",
            ".bash_profile",
            ".bashrc",
            ".zshenv",
            ".zshrc",
        ],
    ),
];

/// Returns the mark of a path, if a name in it has one.
pub fn mark_of(path: &AbsPath) -> Option<NameMark> {
    let mut parent = Cow::Borrowed("");
    for component in path.as_path() {
        let name = fold_name(component);
        let is_marked = |entry: &str| match entry.strip_prefix('*') {
            Some(end) => name.ends_with(end),
            None => matches_entry(entry, &parent, &name),
        };
        let mut marks = MARKED_NAMES.iter();
        if let Some((mark, _)) = marks.find(|(_, names)| names.iter().any(|entry| is_marked(entry)))
        {
            return Some(*mark);
        }
        parent = name;
    }
    None
}

/// Names of the form `.env.NAME` that hold no secrets by convention.
const ENV_SAMPLES: &[&str] = &[".env.example", ".env.sample", ".env.template"];

/// Names that hold secrets by convention; the user is warned about a context path that has one.
const SECRET_NAMES: &[&str] = &[
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

/// Returns the first protected name between a context path's root and `rel`, as spelled in
/// [`PROTECTED_NAMES`]. `unprotected` lists the names that the context path removes from that list.
pub fn protected_name(rel: &RelPath, unprotected: &[String]) -> Option<&'static str> {
    let is_unprotected = |entry: &&str| {
        unprotected
            .iter()
            .any(|name| name.eq_ignore_ascii_case(entry))
    };
    let mut parent = Cow::Borrowed("");
    for name in rel.names() {
        let folded_name = fold_name(name);
        let entry = protected_entry(&parent, &folded_name).filter(|entry| !is_unprotected(entry));
        if entry.is_some() {
            return entry;
        }
        parent = folded_name;
    }
    None
}

/// Returns whether `rel` is `directory` or below it, in any spelling that some file system treats
/// as the same.
pub fn is_within_folded(rel: &RelPath, directory: &RelPath) -> bool {
    take_folded(&mut rel.names(), directory.names())
}

/// Takes from `names` as many names as `expected` has, until one differs. Returns whether they are
/// the same in any spelling.
pub(crate) fn take_folded<'a>(
    names: &mut impl Iterator<Item = &'a OsStr>,
    mut expected: impl Iterator<Item = &'a OsStr>,
) -> bool {
    expected.all(|expected_name| {
        names
            .next()
            .is_some_and(|name| fold_name(name) == fold_name(expected_name))
    })
}

/// The protected name of files with variables.
pub const ENV_NAME: &str = ".env";

/// Returns whether a file of this name holds secrets by convention (`.env`, private keys,
/// `.npmrc`, …).
pub fn looks_secret(name: &OsStr) -> bool {
    let folded_name = fold_name(name);
    let extension = Path::new(folded_name.as_ref())
        .extension()
        .and_then(OsStr::to_str);
    let is_key = matches!(extension, Some("pem" | "key"));
    is_env_file(&folded_name) || is_key || SECRET_NAMES.contains(&folded_name.as_ref())
}

/// Returns whether a file of this name holds variables by convention, and so keys: `.env`, or
/// `.env.NAME` unless that is a sample.
pub fn is_env_name(name: &OsStr) -> bool {
    let folded_name = fold_name(name);
    folded_name == ENV_NAME || is_env_file(&folded_name)
}

/// Returns whether a folded name is `.env.NAME` and holds secrets by convention.
fn is_env_file(folded_name: &str) -> bool {
    folded_name.starts_with(".env.") && !ENV_SAMPLES.contains(&folded_name)
}

/// Returns the entry of [`PROTECTED_NAMES`] that `name` in the directory `parent` matches.
fn protected_entry(parent: &str, name: &str) -> Option<&'static str> {
    let is_env = is_env_file(name);
    let matches = |entry: &&str| (is_env && *entry == ".env") || matches_entry(entry, parent, name);
    PROTECTED_NAMES.iter().copied().find(matches)
}

/// Returns whether `name` in the directory `parent` is `entry`, in any spelling.
fn matches_entry(entry: &str, parent: &str, name: &str) -> bool {
    entry.eq_ignore_ascii_case(name)
        || (name.contains('~') && is_short_name(name, entry))
        || equals_joined(entry, parent, name)
}

/// Returns whether `entry` is `parent/name`. Most entries already differ in length.
fn equals_joined(entry: &str, parent: &str, name: &str) -> bool {
    let length = parent.len().saturating_add(name.len()).saturating_add(1);
    entry.len() == length
        && entry.split_once('/').is_some_and(|(first, second)| {
            first.eq_ignore_ascii_case(parent) && second.eq_ignore_ascii_case(name)
        })
}

/// Returns the name as people and other file systems see it: they ignore case, the Unicode form,
/// default-ignorable characters, trailing dots and blanks, and everything after a colon. ext4 with `casefold`, HFS+ and NTFS
/// treat `.g\u{200c}it`, `.\u{17f}vn`, `.cargo/con\u{fb01}g`, `.git.` and `.git::$DATA` as
/// protected names (CVE-2014-9390, CVE-2019-1352).
pub(crate) fn fold_name(name: &OsStr) -> Cow<'_, str> {
    let name = name.to_string_lossy();
    let is_plain = |b: u8| b.is_ascii() && !b.is_ascii_uppercase() && b != b':';
    if name.bytes().all(is_plain) && !name.ends_with([' ', '.']) {
        return name;
    }
    let before_stream = match name.split_once(':') {
        Some((before, _)) if !before.is_empty() => before,
        _ => &name,
    };
    let characters = before_stream.nfd().filter(|c| !is_ignorable(*c));
    // Names that differ only in case or by a ligature have the same capitals.
    let capitals = characters.flat_map(|c| c.to_lowercase().flat_map(char::to_uppercase));
    let small_letters = capitals.flat_map(char::to_lowercase);
    let mut folded_name: String = small_letters.map(usual_space).nfc().collect();
    folded_name.truncate(folded_name.trim_end_matches([' ', '.']).len());
    Cow::Owned(folded_name)
}

/// Returns whether a character has the Unicode property `Default_Ignorable_Code_Point`.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The maximum number of letters of a name that a short name keeps.
const SHORT_NAME_LETTERS_MAX: usize = 6;

/// Returns whether a folded name is a short name that Windows may have given to `entry`, such as
/// `git~1` for `.git`, which opens the same file (CVE-2019-1353).
fn is_short_name(folded_name: &str, entry: &str) -> bool {
    let Some((stem, number_and_extension)) = folded_name.split_once('~') else {
        return false;
    };
    let entry_stem = entry.trim_start_matches('.').split('.').next();
    let expected: String = entry_stem
        .unwrap_or_default()
        .chars()
        .take(SHORT_NAME_LETTERS_MAX)
        .collect();
    let number = number_and_extension.split('.').next().unwrap_or_default();
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    is_number && stem.eq_ignore_ascii_case(&expected)
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
        check(".gi\u{fe0f}t/config", &[], Some(".git"));
        check(".g\u{34f}it/config", &[], Some(".git"));
        check(".en\u{e0100}v", &[], Some(".env"));
        check(".v\u{17f}code/tasks.json", &[], Some(".vscode"));
        check(".ma\u{df}gen", &[], Some(".massgen"));
        check(".DS_\u{fb06}ore", &[], Some(".DS_Store"));
        check(".github/hook\u{17f}/x", &[], Some(".github/hooks"));
        check(".ma\u{1e9e}gen", &[], Some(".massgen"));
        check(".cargo/con\u{fb01}g", &[], Some(".cargo/config"));
        check(".ru\u{fb00}_cache/x", &[], Some(".ruff_cache"));
        check(".g\u{3164}it", &[], Some(".git"));
        check(".g\u{1d173}it/config", &[], Some(".git"));
        check(".git::$INDEX_ALLOCATION/config", &[], Some(".git"));
        check(".env:stream", &[], Some(".env"));
        check("GIT~1/config", &[], Some(".git"));
        check("MASSGE~12", &[], Some(".massgen"));
        check("MCP~1.JSO", &[], Some(".mcp.json"));
        check(".env.local", &[], Some(".env"));
        check(".github/hooks/x", &[], Some(".github/hooks"));
        check("a/.jj/repo/store", &[], Some(".jj"));
        check(".cargo/config.toml", &[], Some(".cargo/config.toml"));
        check("a/.cargo/config", &[], Some(".cargo/config"));
        check(".git/x", &[".git"], None);
        check(".git/.env", &[".git"], Some(".env"));
    }

    #[test]
    fn names_that_instruct_agents_or_run_later_are_marked_in_any_directory_and_spelling() {
        use NameMark::{InstructsAgents, RunsLater};
        for (path, expected) in [
            ("/p/AGENTS.md", Some(InstructsAgents)),
            ("/p/sub/agents.MD", Some(InstructsAgents)),
            ("/p/.agents/skills/x/run.sh", Some(InstructsAgents)),
            ("/p/skills/x/SKILL.md", Some(InstructsAgents)),
            ("/p/.github/copilot-instructions.md", Some(InstructsAgents)),
            ("/p/.github/workflows/ci.yml", Some(RunsLater)),
            ("/p/.GitHub/work\u{200c}flows/ci.yml", Some(RunsLater)),
            ("/p/a.code-workspace", Some(RunsLater)),
            ("/p/.zed/settings.json", Some(RunsLater)),
            ("/p/.mise.toml", Some(RunsLater)),
            ("/p/opencode.json", Some(RunsLater)),
            ("/p/.npmrc", Some(RunsLater)),
            ("/p/.github/README.md", None),
            ("/p/workflows/ci.yml", None),
            ("/p/package.json", None),
            ("/p/Makefile", None),
            ("/p/src/main.rs", None),
        ] {
            assert_eq!(mark_of(&AbsPath::new(path).unwrap()), expected, "{path}");
        }
    }

    #[test]
    fn no_name_is_both_protected_and_marked() {
        for name in MARKED_NAMES.iter().flat_map(|(_, names)| *names) {
            check(name.trim_start_matches('*'), &[], None);
        }
    }

    #[test]
    fn every_ignorable_character_is_known() {
        let property = regex::Regex::new(r"^\p{Default_Ignorable_Code_Point}$").unwrap();
        for c in '\0'..=char::MAX {
            let expected = property.is_match(c.encode_utf8(&mut [0; 4]));
            assert_eq!(is_ignorable(c), expected, "{:x}", u32::from(c));
        }
    }

    #[test]
    fn names_that_differ_in_case_or_form_alone_are_the_same() {
        for (one, other) in [
            ("\u{3a3}", "\u{3c2}"),
            ("\u{b5}", "\u{3bc}"),
            ("stra\u{df}e", "STRASSE"),
            ("\u{212a}ey", "key"),
            ("\u{fb04}", "FFL"),
            ("priv\u{e9}", "PRIVE\u{301}"),
            ("a\u{a0}b", "a b"),
        ] {
            assert_eq!(
                fold_name(OsStr::new(one)),
                fold_name(OsStr::new(other)),
                "{one}"
            );
        }
        assert_ne!(fold_name(OsStr::new("\u{e9}")), fold_name(OsStr::new("e")));
    }

    #[test]
    fn names_that_only_resemble_protected_ones_stay_open() {
        check("", &[], None);
        check("src/main.rs", &[], None);
        check(".gitignore", &[], None);
        check(".github/workflows/ci.yml", &[], None);
        check("hooks/x", &[], None);
        check(".cargo/registry/config.json", &[], None);
        check("config.toml", &[], None);
        check("docs/node_modules.md", &[], None);
        check(".env.example", &[], None);
        check("environment", &[], None);
        check("git~", &[], None);
        check("git~x", &[], None);
        check("digit~1", &[], None);
        check(":git", &[], None);
        check("a:.git", &[], None);
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
