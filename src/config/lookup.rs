//! Where massgen looks for configs and `.env` files, as paths, and which variables no file sets.

use crate::config::storage_path::STATE_DIR;
use crate::dotenv::DotenvAuthor;
use crate::path::AbsPath;

/// The name of a config file if the user gives none.
const CONFIG_NAME: &str = "config.yaml";
/// The config that runs use without `--config`, relative to the directory in which massgen is
/// started.
pub const FOUND_CONFIG: &str = ".massgen/config.yaml";
/// The name of a file with variables.
const ENV_NAME: &str = ".env";
/// The extensions of files that massgen reads as configs.
const CONFIG_EXTENSIONS: &[&str] = &[".yaml", ".yml", ".json"];
/// The prefix of a `--config` argument that names a built-in example instead of a file.
pub const EXAMPLE_PREFIX: &str = "@examples/";

/// Returns the files to try for `--config ARGUMENT`, or without it; the first that exists is used.
/// After them come the built-in examples of that name. An argument that starts with
/// [`EXAMPLE_PREFIX`] has no files.
pub fn config_candidates(
    argument: Option<&str>,
    base: &AbsPath,
    home: Option<&AbsPath>,
) -> Vec<AbsPath> {
    let Some(argument) = argument else {
        let directories = config_directories(base, home).into_iter();
        return directories
            .map(|directory| directory.join(CONFIG_NAME))
            .collect();
    };
    if argument.is_empty() || argument.starts_with(EXAMPLE_PREFIX) {
        return Vec::new();
    }
    let mut names = vec![argument.to_owned()];
    let mut extensions = CONFIG_EXTENSIONS.iter();
    if !extensions.any(|extension| argument.ends_with(extension)) {
        names.push(format!("{argument}.yaml"));
    }
    if let Some(home) = home
        && argument.starts_with("~/")
    {
        let names_below = names.iter().filter_map(|name| name.strip_prefix("~/"));
        return names_below.map(|name| home.join(name)).collect();
    }
    // `./team` and `/x/team` say where the file is; `team` and `a/team` may be in other places too.
    let says_where = argument.starts_with(['/', '.']);
    let other_directories = if says_where {
        Vec::new()
    } else {
        config_directories(base, home)
    };
    let directories = std::iter::once(base.clone()).chain(other_directories);
    directories
        .flat_map(|directory| {
            names
                .iter()
                .map(move |name| directory.join(name))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the directories whose configs the user can name without a path.
pub fn config_directories(base: &AbsPath, home: Option<&AbsPath>) -> Vec<AbsPath> {
    let home_directories = home.into_iter().flat_map(|home| {
        [
            home.join(STATE_DIR).join("configs"),
            home.join(".config").join("massgen"),
        ]
    });
    std::iter::once(base.join(STATE_DIR))
        .chain(home_directories)
        .collect()
}

/// A `.env` file that is read if it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotenvLocation {
    /// The file.
    pub file: AbsPath,
    /// Its author.
    pub author: DotenvAuthor,
}

/// Returns the `.env` files to read. The first file that sets a variable wins. Only the one in the
/// state directory of the home directory is trusted as the user's: the current directory may be
/// anyone's project, and the executable may be inside one.
pub fn dotenv_locations(
    base: &AbsPath,
    home: Option<&AbsPath>,
    executable_dir: Option<&AbsPath>,
) -> Vec<DotenvLocation> {
    let user_dir = home.map(|home| home.join(STATE_DIR));
    let location = |dir: &AbsPath, author| DotenvLocation {
        file: dir.join(ENV_NAME),
        author,
    };
    // Each file is read once, and the user's own file keeps its author.
    let is_other_dir = |dir: &&AbsPath| user_dir.as_ref() != Some(*dir);
    let base_dir = Some(base).filter(is_other_dir);
    let executable_dir = executable_dir.filter(is_other_dir);
    let executable_dir = executable_dir.filter(|dir| *dir != base);
    let locations = [
        base_dir.map(|dir| location(dir, DotenvAuthor::Stranger)),
        user_dir
            .as_ref()
            .map(|dir| location(dir, DotenvAuthor::User)),
        executable_dir.map(|dir| location(dir, DotenvAuthor::Stranger)),
    ];
    locations.into_iter().flatten().collect()
}

/// Returns whether `name` is read only from the process's own environment. The destination of
/// telemetry and the container engine are the user's choice, never a file's.
pub fn is_process_only(name: &str) -> bool {
    name.starts_with("OTEL_") || name.starts_with("DOCKER_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> AbsPath {
        AbsPath::new(text).unwrap()
    }

    #[track_caller]
    fn check(argument: Option<&str>, expected: &[&str]) {
        let candidates = config_candidates(argument, &path("/p"), Some(&path("/h")));
        let paths: Vec<String> = candidates.iter().map(ToString::to_string).collect();
        assert_eq!(paths, expected, "{argument:?}");
    }

    #[test]
    fn a_name_is_looked_for_where_configs_are_kept() {
        check(
            Some("team"),
            &[
                "/p/team",
                "/p/team.yaml",
                "/p/.massgen/team",
                "/p/.massgen/team.yaml",
                "/h/.massgen/configs/team",
                "/h/.massgen/configs/team.yaml",
                "/h/.config/massgen/team",
                "/h/.config/massgen/team.yaml",
            ],
        );
        check(
            Some("a/team.yml"),
            &[
                "/p/a/team.yml",
                "/p/.massgen/a/team.yml",
                "/h/.massgen/configs/a/team.yml",
                "/h/.config/massgen/a/team.yml",
            ],
        );
    }

    #[test]
    fn a_path_is_looked_for_where_it_points() {
        check(Some("/x/team.json"), &["/x/team.json"]);
        check(Some("./team"), &["/p/team", "/p/team.yaml"]);
        check(Some("../team.yaml"), &["/team.yaml"]);
        check(Some("~/team"), &["/h/team", "/h/team.yaml"]);
        check(Some("@examples/basic/two_agents"), &[]);
        check(Some(""), &[]);
    }

    #[test]
    fn without_a_name_the_default_config_is_looked_up() {
        check(
            None,
            &[
                "/p/.massgen/config.yaml",
                "/h/.massgen/configs/config.yaml",
                "/h/.config/massgen/config.yaml",
            ],
        );
        assert_eq!(
            config_candidates(None, &path("/p"), None),
            [path("/p/.massgen/config.yaml")]
        );
    }

    #[test]
    fn env_files_are_read_from_here_outwards() {
        let locations = |base: &str, home: Option<&str>, executable: Option<&str>| -> Vec<String> {
            let (home, executable) = (home.map(path), executable.map(path));
            let found = dotenv_locations(&path(base), home.as_ref(), executable.as_ref());
            let shown = found.iter();
            shown
                .map(|location| format!("{} {:?}", location.file, location.author))
                .collect()
        };
        let own = "/h/.massgen/.env User";
        assert_eq!(
            locations("/p", Some("/h"), Some("/bin")),
            ["/p/.env Stranger", own, "/bin/.env Stranger"]
        );
        assert_eq!(locations("/p", None, None), ["/p/.env Stranger"]);
        // Each file is read once, and the user's own file keeps its author.
        assert_eq!(
            locations("/h/.massgen", Some("/h"), Some("/h/.massgen")),
            [own]
        );
        assert_eq!(
            locations("/p", Some("/h"), Some("/p")),
            ["/p/.env Stranger", own]
        );
        assert_eq!(locations("/h", Some("/h"), None), ["/h/.env Stranger", own]);
    }
}
