//! Paths outside every grant that are opened so that the user's own toolchains work: for each
//! toolchain that `PATH` or its variable names, the narrowest directories that it needs, read-only.
//! Settings and credentials, which are often next to them, stay closed.

use std::collections::{BTreeMap, BTreeSet};

use crate::path::AbsPath;

/// The toolchains of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserToolchains {
    /// The paths that they are read from, none of them inside another. They need not exist.
    pub paths: Vec<AbsPath>,
    /// The variables that point to the toolchains, since `HOME` is another directory in a sandbox.
    pub variables: BTreeMap<String, String>,
}

/// A toolchain, according to its own documentation.
struct KnownToolchain {
    /// Its usual location, below the user's home unless absolute.
    usual_path: &'static str,
    /// The variable that names another location; without it the toolchain looks in `HOME`.
    variable: Option<&'static str>,
    /// If a directory of `PATH` is one of these or below one, the toolchain is in use. Below the
    /// user's home unless absolute.
    search_directories: &'static [&'static str],
    /// The directories below its location that are opened; an empty name opens all of it.
    opened_directories: &'static [&'static str],
}

/// Opens everything below the location of a toolchain.
const WHOLE_LOCATION: &[&str] = &[""];

/// The known toolchains. Any other directory in `PATH` is opened on its own.
const TOOLCHAINS: &[KnownToolchain] = &[
    known_toolchain(
        ".cargo",
        Some("CARGO_HOME"),
        &[".cargo/bin"],
        &["bin", "git", "registry"],
    ),
    known_toolchain(
        ".rustup",
        Some("RUSTUP_HOME"),
        &[".cargo/bin"],
        WHOLE_LOCATION,
    ),
    known_toolchain(".pyenv", Some("PYENV_ROOT"), &[".pyenv"], WHOLE_LOCATION),
    known_toolchain(".nvm", Some("NVM_DIR"), &[".nvm"], WHOLE_LOCATION),
    known_toolchain(".volta", Some("VOLTA_HOME"), &[".volta"], WHOLE_LOCATION),
    known_toolchain(
        ".local/share/fnm",
        Some("FNM_DIR"),
        &[".local/share/fnm"],
        WHOLE_LOCATION,
    ),
    known_toolchain(
        ".local/share/pnpm",
        Some("PNPM_HOME"),
        &[".local/share/pnpm"],
        WHOLE_LOCATION,
    ),
    known_toolchain(".npm-global", None, &[".npm-global"], WHOLE_LOCATION),
    known_toolchain(".bun", Some("BUN_INSTALL"), &[".bun/bin"], &["bin"]),
    known_toolchain(".deno", Some("DENO_INSTALL_ROOT"), &[".deno/bin"], &["bin"]),
    known_toolchain(".sdkman", Some("SDKMAN_DIR"), &[".sdkman"], &["candidates"]),
    known_toolchain("go", Some("GOPATH"), &["go/bin"], &["bin", "pkg/mod"]),
    known_toolchain(".rbenv", Some("RBENV_ROOT"), &[".rbenv"], WHOLE_LOCATION),
    known_toolchain(".asdf", Some("ASDF_DATA_DIR"), &[".asdf"], WHOLE_LOCATION),
    known_toolchain(
        ".local/share/mise",
        Some("MISE_DATA_DIR"),
        &[".local/share/mise"],
        WHOLE_LOCATION,
    ),
    known_toolchain(".ghcup", None, &[".ghcup"], WHOLE_LOCATION),
    known_toolchain("miniconda3", None, &["miniconda3"], WHOLE_LOCATION),
    known_toolchain("miniforge3", None, &["miniforge3"], WHOLE_LOCATION),
    known_toolchain("anaconda3", None, &["anaconda3"], WHOLE_LOCATION),
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
        WHOLE_LOCATION,
    ),
    known_toolchain(
        "/nix",
        None,
        &["/nix", "/run/current-system", ".nix-profile"],
        &["store", "var/nix/profiles"],
    ),
];

/// Variables that name the location of a toolchain without a usual one.
const LOCATION_VARIABLES: &[&str] = &["JAVA_HOME", "GOROOT", "VIRTUAL_ENV"];

/// System directories that every sandbox opens anyway.
const SYSTEM_DIRECTORIES: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"];

/// The minimum number of names in an opened path: a whole `/home` or `/data` is not a toolchain.
const DEPTH_MIN: usize = 2;

const fn known_toolchain(
    usual_path: &'static str,
    variable: Option<&'static str>,
    search_directories: &'static [&'static str],
    opened_directories: &'static [&'static str],
) -> KnownToolchain {
    KnownToolchain {
        usual_path,
        variable,
        search_directories,
        opened_directories,
    }
}

impl UserToolchains {
    /// Finds the toolchains that `env` names, the environment of a user with this home.
    pub fn from_environment(env: &BTreeMap<String, String>, home: Option<&AbsPath>) -> Self {
        let path = env.get("PATH").map(String::as_str).unwrap_or_default();
        let path_directories: Vec<AbsPath> = path.split(':').filter_map(AbsPath::new).collect();
        let path_in_variable = |name: &str| env.get(name).and_then(AbsPath::new);
        // Without a home, only absolute paths can be resolved.
        let below_home = |path: &str| match home {
            Some(home) => Some(home.join(path)),
            None => AbsPath::new(path),
        };
        let is_in_use = |toolchain: &KnownToolchain| {
            let search_directories = toolchain.search_directories.iter().copied();
            let is_in_path =
                |search_dir: &AbsPath| path_directories.iter().any(|dir| dir.is_within(search_dir));
            search_directories
                .filter_map(below_home)
                .any(|search_dir| is_in_path(&search_dir))
        };
        let mut paths: BTreeSet<AbsPath> = LOCATION_VARIABLES
            .iter()
            .copied()
            .filter_map(path_in_variable)
            .collect();
        let mut variables = BTreeMap::new();
        for toolchain in TOOLCHAINS {
            let usual_path = || below_home(toolchain.usual_path).filter(|_| is_in_use(toolchain));
            let named_path = toolchain.variable.and_then(path_in_variable);
            let Some(path) = named_path.or_else(usual_path) else {
                continue;
            };
            let opened_directories = toolchain.opened_directories.iter();
            paths.extend(opened_directories.map(|dir| path.join(dir)));
            let variable = toolchain.variable.map(str::to_owned);
            variables.extend(variable.map(|variable| (variable, path.to_string())));
        }
        let location_variables = LOCATION_VARIABLES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), env.get(*name)?.clone())));
        variables.extend(location_variables);
        paths.extend(path_directories);
        let paths = paths.into_iter().filter(|path| is_openable(path, home));
        Self {
            paths: outermost_paths(paths),
            variables,
        }
    }

    /// Returns whether programs in a sandbox can read what is installed at `path`: in the system,
    /// or in one of the toolchains.
    pub fn opens(&self, path: &AbsPath) -> bool {
        is_in_system(path) || self.paths.iter().any(|root| path.is_within(root))
    }
}

/// Returns whether a path is in a directory that every sandbox opens.
fn is_in_system(path: &AbsPath) -> bool {
    SYSTEM_DIRECTORIES
        .iter()
        .any(|dir| path.as_path().starts_with(dir))
}

/// Returns whether a path may be opened as a toolchain. System directories are open anyway, and the
/// user's home and its parents never are.
fn is_openable(path: &AbsPath, home: Option<&AbsPath>) -> bool {
    let depth = path.as_path().components().count().saturating_sub(1);
    depth >= DEPTH_MIN && !is_in_system(path) && !home.is_some_and(|home| home.is_within(path))
}

/// Leaves out paths inside another of them. In the input, each directory comes before the paths
/// inside it.
fn outermost_paths(paths: impl Iterator<Item = AbsPath>) -> Vec<AbsPath> {
    let mut outer_paths: Vec<AbsPath> = Vec::new();
    for path in paths {
        if !outer_paths.iter().any(|outer| path.is_within(outer)) {
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
        let toolchains = UserToolchains::from_environment(&env, AbsPath::new("/home/u").as_ref());
        let texts: Vec<String> = toolchains.paths.iter().map(ToString::to_string).collect();
        assert_eq!(texts, paths);
        assert_eq!(toolchains.variables, variables.iter().map(owned).collect());
    }

    #[test]
    fn what_is_installed_is_open_in_the_system_and_in_toolchains() {
        let opens = |env: &[(&str, &str)], path: &str| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let env = env.iter().map(owned).collect();
            let toolchains =
                UserToolchains::from_environment(&env, AbsPath::new("/home/u").as_ref());
            toolchains.opens(&AbsPath::new(path).unwrap())
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
