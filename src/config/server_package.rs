//! The packages that the command of a server would download. `npx`, `bunx`, `uvx`, `uv tool run`
//! and `pipx run` name them, and a program in one of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Flags of the package runners that do not affect which package is meant.
const IGNORED_FLAGS: &[&str] = &["-y", "--yes", "-q", "--quiet", "--bun"];
/// The file name endings of local packages of each registry.
const NPM_FILE_ENDINGS: &[&str] = &[".tgz", ".tar.gz"];
const PYTHON_FILE_ENDINGS: &[&str] = &[".whl"];
/// The characters that end the name of a Python package: a version or extras follow.
const PYTHON_NAME_ENDS: &[char] = &['@', '=', '[', '~', '<', '>', '!'];
/// The longest package, as the command gives it, in bytes.
const PACKAGE_BYTES_MAX: usize = 300;

/// The kind of registry that a package comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageRegistry {
    /// Packages of Node.js.
    Npm,
    /// Packages of Python.
    Python,
}

impl fmt::Display for PackageRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PackageRegistry::Npm => "npm",
            PackageRegistry::Python => "python",
        })
    }
}

/// Returns the domains from which packages come.
pub fn registry_domains(registry: PackageRegistry) -> &'static [&'static str] {
    match registry {
        PackageRegistry::Npm => &["registry.npmjs.org"],
        PackageRegistry::Python => &["pypi.org", "files.pythonhosted.org"],
    }
}

/// The packages of a server, its program in them, and the program's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPackage {
    /// Their registry.
    pub registry: PackageRegistry,
    /// The packages as the command gives them, such as `@scope/name@1.2.3`; never empty.
    pub packages: Vec<String>,
    /// The program; `None` for the only one of the package, or the one with its name.
    pub program: Option<String>,
    /// The program's arguments.
    pub arguments: Vec<String>,
}

impl ServerPackage {
    /// Parses the package that a command would download. Returns `None` if the command downloads
    /// none, or has options or a source that massgen does not know.
    pub fn parse(command: &[String]) -> Option<Self> {
        let (program, words) = command.split_first()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let package = match (program.rsplit('/').next()?, words.as_slice()) {
            ("npx" | "bunx", words) => npm_package(words),
            ("uvx", words) | ("uv", ["tool", "run", words @ ..]) => python_package(words, "--from"),
            ("pipx", ["run", words @ ..]) => python_package(words, "--spec"),
            _ => None,
        };
        package.filter(ServerPackage::is_installable)
    }

    /// Returns what distinguishes it from other installed packages: the registry and the packages.
    pub fn key(&self) -> String {
        format!("{} {}", self.registry, self.packages.join(" "))
    }

    /// Returns the packages for a message.
    pub fn describe(&self) -> String {
        self.packages.join(" ")
    }

    /// Returns whether massgen can install it: each package is a name in the registry or a local
    /// file, and the program is a plain name.
    fn is_installable(&self) -> bool {
        let file_endings = match self.registry {
            PackageRegistry::Npm => NPM_FILE_ENDINGS,
            PackageRegistry::Python => PYTHON_FILE_ENDINGS,
        };
        let is_registry_name = |package: &String| match self.registry {
            PackageRegistry::Npm => is_npm_name(package),
            PackageRegistry::Python => is_python_name(package),
        };
        let is_file = |package: &String| is_local_file(package, file_endings);
        let is_plain_name = |name: &String| {
            let mut bytes = name.bytes();
            !name.starts_with(['.', '-']) && bytes.all(|byte| is_word_byte(byte) || byte == b'.')
        };
        self.program.as_ref().is_none_or(is_plain_name)
            && self.packages.iter().all(|package| {
                package.len() <= PACKAGE_BYTES_MAX
                    && (is_file(package) || is_registry_name(package))
            })
    }
}

fn npm_package(words: &[&str]) -> Option<ServerPackage> {
    let parsed = PackageArguments::parse(words, &["-p", "--package"], &[])?;
    let (program, arguments) = parsed.command.split_first()?;
    let (packages, program) = match parsed.packages.as_slice() {
        [] => (vec![(*program).to_owned()], None),
        packages => (packages.to_vec(), Some((*program).to_owned())),
    };
    Some(ServerPackage {
        registry: PackageRegistry::Npm,
        packages,
        program,
        arguments: to_strings(arguments),
    })
}

fn python_package(words: &[&str], flag: &str) -> Option<ServerPackage> {
    let parsed = PackageArguments::parse(words, &[flag], &["--with"])?;
    let (command, arguments) = parsed.command.split_first()?;
    let program = command.split(PYTHON_NAME_ENDS).next().unwrap_or(command);
    let main_package = match parsed.packages.as_slice() {
        [] => (*command).to_owned(),
        [package] => package.clone(),
        // Only one package can have the program.
        _ => return None,
    };
    let packages = std::iter::once(main_package).chain(parsed.extra_packages);
    Some(ServerPackage {
        registry: PackageRegistry::Python,
        packages: packages.collect(),
        program: Some(program.to_owned()),
        arguments: to_strings(arguments),
    })
}

/// The arguments of a package runner.
struct PackageArguments<'a> {
    packages: Vec<String>,
    extra_packages: Vec<String>,
    /// The command that it runs.
    command: &'a [&'a str],
}

impl<'a> PackageArguments<'a> {
    /// Parses arguments with these flags for packages and for extra packages; `None` if there is
    /// any other flag, or one without its value.
    fn parse(
        words: &'a [&'a str],
        package_flags: &[&str],
        extra_package_flags: &[&str],
    ) -> Option<Self> {
        let mut arguments = Self {
            packages: Vec::new(),
            extra_packages: Vec::new(),
            command: words,
        };
        while let [word, rest @ ..] = arguments.command {
            if *word == "--" {
                arguments.command = rest;
                break;
            }
            if !word.starts_with('-') {
                break;
            }
            arguments.command = rest;
            if IGNORED_FLAGS.contains(word) {
                continue;
            }
            let (flag, value) = if let Some(pair) = word.split_once('=') {
                pair
            } else {
                let (value, rest) = rest.split_first()?;
                arguments.command = rest;
                (*word, *value)
            };
            let packages = if package_flags.contains(&flag) {
                &mut arguments.packages
            } else if extra_package_flags.contains(&flag) {
                &mut arguments.extra_packages
            } else {
                return None;
            };
            packages.push(value.to_owned());
        }
        Some(arguments)
    }
}

fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns whether `package` is the absolute path of a file with one of these endings.
fn is_local_file(package: &str, endings: &[&str]) -> bool {
    package.starts_with('/')
        && endings.iter().any(|ending| package.ends_with(ending))
        && !package.contains("/../")
        && !package.chars().any(char::is_control)
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Returns whether `package` is `NAME` or `NAME@VERSION` of npm. Addresses, directories and aliases
/// contain a slash or colon elsewhere.
fn is_npm_name(package: &str) -> bool {
    let (scope, rest) = match package.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, rest)) => (Some(scope), rest),
            None => return false,
        },
        None => (None, package),
    };
    let (name, version) = rest.split_once('@').unwrap_or((rest, "latest"));
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        !name.is_empty()
            && !name.starts_with(['.', '-'])
            && bytes.all(|byte| is_word_byte(byte) || matches!(byte, b'.' | b'~'))
    };
    scope.is_none_or(is_name) && is_name(name) && is_version(version)
}

/// Returns whether `package` is `NAME`, `NAME[EXTRA]`, `NAME==VERSION` or `NAME@VERSION`.
fn is_python_name(package: &str) -> bool {
    let end = package.find(['=', '@', '~', '>', '<', '!']);
    let (name, rest) = package.split_at(end.unwrap_or(package.len()));
    let (name, extras) = match name.split_once('[') {
        Some((name, extras)) => match extras.strip_suffix(']') {
            Some(extras) => (name, extras),
            None => return false,
        },
        None => (name, ""),
    };
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && bytes.all(|byte| is_word_byte(byte) || byte == b'.')
    };
    let version = ["==", "~=", ">=", "@"]
        .iter()
        .find_map(|sign| rest.strip_prefix(sign));
    is_name(name)
        && (extras.is_empty() || extras.split(',').all(is_name))
        && (rest.is_empty() || version.is_some_and(is_version))
}

fn is_version(version: &str) -> bool {
    let mut bytes = version.bytes();
    !version.is_empty()
        && !version.starts_with('-')
        && bytes.all(|byte| is_word_byte(byte) || matches!(byte, b'.' | b'+' | b'^' | b'~' | b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: Option<&str>) {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let actual = ServerPackage::parse(&words).map(|package| {
            let program = package.program.as_deref().unwrap_or("-");
            format!(
                "{} > {program} {}",
                package.key(),
                package.arguments.join(" ")
            )
        });
        assert_eq!(actual.as_deref(), expected, "{command}");
    }

    #[test]
    fn the_package_of_a_command_is_found() {
        check(
            "npx -y @fak111/weather-mcp",
            Some("npm @fak111/weather-mcp > - "),
        );
        check(
            "npx mcp-discord --config x",
            Some("npm mcp-discord > - --config x"),
        );
        check(
            "/usr/bin/npx --yes @playwright/mcp@latest --browser=chrome",
            Some("npm @playwright/mcp@latest > - --browser=chrome"),
        );
        check(
            "npx -y -p a@1.0.0 --package=b -- cmd -x",
            Some("npm a@1.0.0 b > cmd -x"),
        );
        check("npx /srv/a-1.0.0.tgz", Some("npm /srv/a-1.0.0.tgz > - "));
        check("bunx --bun a@^1.2", Some("npm a@^1.2 > - "));
        check(
            "uvx logfire-mcp@latest",
            Some("python logfire-mcp@latest > logfire-mcp "),
        );
        check(
            "uvx --from a[cli]==1.2 --with b tool --x",
            Some("python a[cli]==1.2 b > tool --x"),
        );
        check("uv tool run ruff", Some("python ruff > ruff "));
        check(
            "pipx run --spec /srv/a-1-py3-none-any.whl a",
            Some("python /srv/a-1-py3-none-any.whl > a "),
        );
    }

    #[test]
    fn commands_without_a_plain_package_name_no_package() {
        for command in [
            "node server.js",
            "npx",
            "npx -y",
            "npx -c x",
            "npx ./server.tgz",
            "npx ../server",
            "npx /srv/server",
            "npx /srv/../a.tgz",
            "npx git+https://a.example/b",
            "npx https://a.example/b.tgz",
            "npx owner/repository",
            "npx a@npm:b",
            "npx a@file:/x.tgz",
            "npx --registry=https://a.example b",
            "npx -p a -- ../x",
            "npx -p a -- -x",
            "npx @scope",
            "uvx --python 3.9 a",
            "uvx --from git+https://a.example/b a",
            "uvx --from /srv/a.tar.gz a",
            "uvx a;b",
            "uv run a",
            "pipx install a",
        ] {
            check(command, None);
        }
    }
}
