//! Paths outside every grant that are opened so that the user's own toolchains work: for each
//! toolchain that `PATH` or its variable names, the narrowest directories that it needs, read-only.
//! Settings and credentials, which are often next to them, stay closed.

use std::collections::{BTreeMap, BTreeSet};

use crate::path::AbsPath;

/// The toolchains of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserToolchains {
    /// The paths that they are read from, shallower before deeper. They need not exist.
    pub paths: Vec<AbsPath>,
    /// The variables that point to the toolchains, since `HOME` is another directory in a sandbox.
    pub variables: BTreeMap<String, String>,
}

/// A toolchain, according to its own documentation.
struct KnownToolchain {
    /// Its location, below the user's home unless absolute.
    home_path: &'static str,
    /// The variable that names another location; without it the toolchain looks in `HOME`.
    variable: Option<&'static str>,
    /// It is in use if a directory of `PATH` is one of these or below one. Relative to the user's
    /// home unless absolute.
    named_by: &'static [&'static str],
    /// The directories below its location that are opened.
    opened: &'static [&'static str],
}

const WHOLE: &[&str] = &[""];

/// The known toolchains. Any other directory in `PATH` is opened on its own.
const TOOLCHAINS: &[KnownToolchain] = &[
    known_toolchain(
        ".cargo",
        Some("CARGO_HOME"),
        &[".cargo/bin"],
        &["bin", "git", "registry"],
    ),
    known_toolchain(".rustup", Some("RUSTUP_HOME"), &[".cargo/bin"], WHOLE),
    known_toolchain(".pyenv", Some("PYENV_ROOT"), &[".pyenv"], WHOLE),
    known_toolchain(".nvm", Some("NVM_DIR"), &[".nvm"], WHOLE),
    known_toolchain(".volta", Some("VOLTA_HOME"), &[".volta"], WHOLE),
    known_toolchain(
        ".local/share/fnm",
        Some("FNM_DIR"),
        &[".local/share/fnm"],
        WHOLE,
    ),
    known_toolchain(
        ".local/share/pnpm",
        Some("PNPM_HOME"),
        &[".local/share/pnpm"],
        WHOLE,
    ),
    known_toolchain(".npm-global", None, &[".npm-global"], WHOLE),
    known_toolchain(".bun", Some("BUN_INSTALL"), &[".bun/bin"], &["bin"]),
    known_toolchain(".deno", Some("DENO_INSTALL_ROOT"), &[".deno/bin"], &["bin"]),
    known_toolchain(".sdkman", Some("SDKMAN_DIR"), &[".sdkman"], &["candidates"]),
    known_toolchain("go", Some("GOPATH"), &["go/bin"], &["bin", "pkg/mod"]),
    known_toolchain(".rbenv", Some("RBENV_ROOT"), &[".rbenv"], WHOLE),
    known_toolchain(".asdf", Some("ASDF_DATA_DIR"), &[".asdf"], WHOLE),
    known_toolchain(
        ".local/share/mise",
        Some("MISE_DATA_DIR"),
        &[".local/share/mise"],
        WHOLE,
    ),
    known_toolchain(".ghcup", None, &[".ghcup"], WHOLE),
    known_toolchain("miniconda3", None, &["miniconda3"], WHOLE),
    known_toolchain("miniforge3", None, &["miniforge3"], WHOLE),
    known_toolchain("anaconda3", None, &["anaconda3"], WHOLE),
    known_toolchain(
        ".local",
        Some("PYTHONUSERBASE"),
        &[".local/bin"],
        &["bin", "lib", "pipx/venvs", "share/pipx/venvs", "share/uv"],
    ),
    known_toolchain(
        "/home/linuxbrew/.linuxbrew",
        None,
        &["/home/linuxbrew/.linuxbrew"],
        WHOLE,
    ),
    known_toolchain(
        "/nix",
        None,
        &["/nix", "/run/current-system", ".nix-profile"],
        &["store", "var/nix/profiles"],
    ),
];

/// Variables that name a toolchain without a usual location.
const NAMING: &[&str] = &["JAVA_HOME", "GOROOT", "VIRTUAL_ENV"];

/// System directories that every sandbox opens anyway.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"];

/// The minimum depth of an opened path: a whole `/home` or `/data` is not a toolchain.
const DEPTH_MIN: usize = 2;

const fn known_toolchain(
    home_path: &'static str,
    variable: Option<&'static str>,
    named_by: &'static [&'static str],
    opened: &'static [&'static str],
) -> KnownToolchain {
    KnownToolchain {
        home_path,
        variable,
        named_by,
        opened,
    }
}

impl UserToolchains {
    /// Finds the toolchains that `env` names, the environment of a user with this home.
    pub fn from_environment(env: &BTreeMap<String, String>, home: Option<&AbsPath>) -> Self {
        let path = env.get("PATH").map(String::as_str).unwrap_or_default();
        let directories: Vec<AbsPath> = path.split(':').filter_map(AbsPath::new).collect();
        let value = |name: &str| env.get(name).and_then(AbsPath::new);
        let below_home = |path: &str| match home {
            Some(home) => Some(home.join(path)),
            None => AbsPath::new(path),
        };
        let is_in_use = |toolchain: &KnownToolchain| {
            let mut names = toolchain.named_by.iter().copied().filter_map(below_home);
            names.any(|name| directories.iter().any(|dir| dir.is_within(&name)))
        };
        let mut paths: BTreeSet<AbsPath> = NAMING.iter().copied().filter_map(value).collect();
        let mut variables = BTreeMap::new();
        for toolchain in TOOLCHAINS {
            let default_path = || below_home(toolchain.home_path).filter(|_| is_in_use(toolchain));
            let Some(path) = toolchain.variable.and_then(value).or_else(default_path) else {
                continue;
            };
            paths.extend(toolchain.opened.iter().map(|below| path.join(below)));
            let variable = toolchain.variable.map(str::to_owned);
            variables.extend(variable.map(|variable| (variable, path.to_string())));
        }
        let naming_variables = NAMING
            .iter()
            .filter_map(|name| Some((*name, env.get(*name)?)));
        variables.extend(naming_variables.map(|(name, value)| (name.to_owned(), value.clone())));
        paths.extend(directories);
        let paths = paths.into_iter().filter(|path| is_openable(path, home));
        Self {
            paths: outermost_paths(paths),
            variables,
        }
    }
}

impl UserToolchains {
    /// Returns whether programs in a sandbox can read what is installed at `path`: in the system,
    /// or in one of the toolchains.
    pub fn opens(&self, path: &AbsPath) -> bool {
        let is_system = SYSTEM.iter().any(|dir| path.as_path().starts_with(dir));
        is_system || self.paths.iter().any(|opened| path.is_within(opened))
    }
}

/// Returns whether a path may be opened as a toolchain. System directories are open anyway, and the
/// user's home and its parents never are.
fn is_openable(path: &AbsPath, home: Option<&AbsPath>) -> bool {
    let names = path.as_path().components().count().saturating_sub(1);
    let is_system = |dir: &str| path.as_path().starts_with(dir);
    names >= DEPTH_MIN
        && !SYSTEM.iter().any(|dir| is_system(dir))
        && !home.is_some_and(|home| home.is_within(path))
}

/// Leaves out paths inside another of them. The input is sorted shallower before deeper.
fn outermost_paths(paths: impl Iterator<Item = AbsPath>) -> Vec<AbsPath> {
    let mut outer_paths: Vec<AbsPath> = Vec::new();
    for path in paths {
        if !outer_paths.iter().any(|around| path.is_within(around)) {
            outer_paths.push(path);
        }
    }
    outer_paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(env: &[(&str, &str)], paths: &[&str], variables: &[(&str, &str)]) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let env = env.iter().map(owned).collect();
        let found = UserToolchains::from_environment(&env, AbsPath::new("/home/u").as_ref());
        let texts: Vec<String> = found.paths.iter().map(ToString::to_string).collect();
        assert_eq!(texts, paths);
        assert_eq!(found.variables, variables.iter().map(owned).collect());
    }

    #[test]
    fn what_is_installed_is_open_in_the_system_and_in_toolchains() {
        let opens = |env: &[(&str, &str)], path: &str| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let env = env.iter().map(owned).collect();
            let found = UserToolchains::from_environment(&env, AbsPath::new("/home/u").as_ref());
            found.opens(&AbsPath::new(path).unwrap())
        };
        let package = "/home/u/p/.venv/lib/python3.12/site-packages/massgen";
        let path = ("PATH", "/home/u/p/.venv/bin:/usr/bin");
        assert!(!opens(&[path], package));
        assert!(opens(&[path, ("VIRTUAL_ENV", "/home/u/p/.venv")], package));
        let user = "/home/u/.local/lib/python3.12/site-packages/massgen";
        assert!(!opens(&[("PATH", "/usr/bin")], user));
        assert!(opens(&[("PATH", "/home/u/.local/bin:/usr/bin")], user));
        assert!(opens(&[], "/usr/lib/python3/dist-packages/massgen"));
    }

    #[test]
    fn the_system_needs_nothing_more() {
        check(
            &[("PATH", "/usr/local/bin:/usr/bin:/bin:/opt/x/bin")],
            &[],
            &[],
        );
        check(&[], &[], &[]);
    }

    #[test]
    fn a_toolchain_is_opened_without_its_credentials() {
        check(
            &[("PATH", "/home/u/.cargo/bin:/usr/bin")],
            &[
                "/home/u/.cargo/bin",
                "/home/u/.cargo/git",
                "/home/u/.cargo/registry",
                "/home/u/.rustup",
            ],
            &[
                ("CARGO_HOME", "/home/u/.cargo"),
                ("RUSTUP_HOME", "/home/u/.rustup"),
            ],
        );
    }

    #[test]
    fn a_toolchain_that_its_variable_names_is_found_there() {
        check(
            &[
                ("PATH", "/usr/local/cargo/bin:/usr/bin"),
                ("RUSTUP_HOME", "/usr/local/rustup"),
                ("JAVA_HOME", "/srv/jdk/21"),
                ("VIRTUAL_ENV", "/home/u/data/.venv"),
            ],
            &["/home/u/data/.venv", "/srv/jdk/21"],
            &[
                ("JAVA_HOME", "/srv/jdk/21"),
                ("RUSTUP_HOME", "/usr/local/rustup"),
                ("VIRTUAL_ENV", "/home/u/data/.venv"),
            ],
        );
    }

    #[test]
    fn shims_need_all_that_they_lead_to() {
        check(
            &[("PATH", "/home/u/.pyenv/shims:/home/u/.pyenv/bin")],
            &["/home/u/.pyenv"],
            &[("PYENV_ROOT", "/home/u/.pyenv")],
        );
    }

    #[test]
    fn another_directory_of_path_is_opened_by_itself() {
        check(
            &[("PATH", "/home/u/bin:/srv/tools/bin")],
            &["/home/u/bin", "/srv/tools/bin"],
            &[],
        );
    }

    #[test]
    fn directories_that_contain_the_home_are_no_toolchains() {
        check(
            &[("PATH", "/:/home:/home/u:/home/u/..:relative::/data")],
            &[],
            &[],
        );
        check(
            &[("JAVA_HOME", "/home/u")],
            &[],
            &[("JAVA_HOME", "/home/u")],
        );
    }
}
