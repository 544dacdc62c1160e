//! Owns where configs and `.env` files are looked for. It names places and reads texts; the caller
//! reads the files.

use std::collections::BTreeMap;

use crate::config::place::STATE_DIR;
use crate::path::AbsPath;

/// What a config file is called when the user names none.
const CONFIG_NAME: &str = "config.yaml";
/// The file that holds variables.
const ENV_NAME: &str = ".env";
/// The endings of files that are read as configs.
const CONFIG_ENDINGS: &[&str] = &[".yaml", ".yml", ".json"];
/// What the argument of `--config` begins with that names a built-in example and no file.
pub const EXAMPLE_PREFIX: &str = "@examples/";

/// The files to try for `--config ARGUMENT`, or without it, first come first served. After them come
/// the built-in examples of that name. An argument that begins with [`EXAMPLE_PREFIX`] has no files.
pub fn config_places(
    argument: Option<&str>,
    base: &AbsPath,
    home: Option<&AbsPath>,
) -> Vec<AbsPath> {
    let Some(argument) = argument else {
        let folders = config_folders(base, home).into_iter();
        return folders.map(|folder| folder.join(CONFIG_NAME)).collect();
    };
    if argument.is_empty() || argument.starts_with(EXAMPLE_PREFIX) {
        return Vec::new();
    }
    let mut names = vec![argument.to_owned()];
    if !CONFIG_ENDINGS
        .iter()
        .any(|ending| argument.ends_with(ending))
    {
        names.push(format!("{argument}.yaml"));
    }
    let below_home = argument.strip_prefix("~/").zip(home);
    if let Some((_, home)) = below_home {
        let names = names.iter().filter_map(|name| name.strip_prefix("~/"));
        return names.map(|name| home.join(name)).collect();
    }
    let is_bare = !argument.starts_with(['/', '.']);
    let folders = if is_bare {
        config_folders(base, home)
    } else {
        Vec::new()
    };
    let folders = std::iter::once(base.clone()).chain(folders);
    folders
        .flat_map(|folder| {
            names
                .iter()
                .map(move |name| folder.join(name))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn config_folders(base: &AbsPath, home: Option<&AbsPath>) -> Vec<AbsPath> {
    let of_home = home.into_iter().flat_map(|home| {
        [
            home.join(STATE_DIR).join("configs"),
            home.join(".config").join("massgen"),
        ]
    });
    std::iter::once(base.join(STATE_DIR))
        .chain(of_home)
        .collect()
}

/// The `.env` files to read. What an earlier one sets, a later one does not change.
pub fn env_places(
    base: &AbsPath,
    home: Option<&AbsPath>,
    executable_dir: Option<&AbsPath>,
) -> Vec<AbsPath> {
    let folders = [
        Some(base.clone()),
        home.map(|home| home.join(STATE_DIR)),
        executable_dir.cloned(),
    ];
    let folders = folders.into_iter().flatten();
    folders.map(|folder| folder.join(ENV_NAME)).collect()
}

/// Whether `name` counts only in the process's own environment: what a run tells about itself goes
/// where its user says, and its containers are made by whom they say, and nowhere that a file says.
pub fn is_of_process(name: &str) -> bool {
    name.starts_with("OTEL_") || name.starts_with("DOCKER_")
}

/// Adds the variables of a `.env` file to those that are set, and never changes one. Gives a warning
/// for each line that cannot be read; no warning repeats the line, which may hold a key.
pub fn add_env(set: &mut BTreeMap<String, String>, file: &str, text: &[u8]) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut added: BTreeMap<String, String> = BTreeMap::new();
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    for item in dotenvy::from_read_iter(text) {
        match item {
            Ok((name, value)) => {
                added.insert(name, value);
            }
            Err(error) => {
                let place = line_of(&error, text).map_or(String::new(), |line| format!(":{line}"));
                warnings.push(format!(
                    "`{file}{place}` is not `NAME=value`: the line is skipped"
                ));
            }
        }
    }
    for (name, value) in added {
        set.entry(name).or_insert(value);
    }
    warnings
}

/// The number of the line that an error is about, from 1.
fn line_of(error: &dotenvy::Error, text: &[u8]) -> Option<usize> {
    let dotenvy::Error::LineParse(line, _) = error else {
        return None;
    };
    let first = line.lines().next()?.trim();
    let text = String::from_utf8_lossy(text);
    let index = text.lines().position(|line| line.trim() == first)?;
    Some(index.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> AbsPath {
        AbsPath::new(text).unwrap()
    }

    #[track_caller]
    fn check(argument: Option<&str>, expected: &[&str]) {
        let places = config_places(argument, &path("/p"), Some(&path("/h")));
        let places: Vec<String> = places.iter().map(ToString::to_string).collect();
        assert_eq!(places, expected, "{argument:?}");
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
    fn without_a_name_the_usual_one_is_looked_for() {
        check(
            None,
            &[
                "/p/.massgen/config.yaml",
                "/h/.massgen/configs/config.yaml",
                "/h/.config/massgen/config.yaml",
            ],
        );
        assert_eq!(
            config_places(None, &path("/p"), None),
            [path("/p/.massgen/config.yaml")]
        );
    }

    #[test]
    fn env_files_are_read_from_here_outwards() {
        let places = env_places(&path("/p"), Some(&path("/h")), Some(&path("/bin")));
        assert_eq!(
            places,
            [path("/p/.env"), path("/h/.massgen/.env"), path("/bin/.env")]
        );
        assert_eq!(env_places(&path("/p"), None, None), [path("/p/.env")]);
    }

    #[test]
    fn env_files_add_and_never_change() {
        let mut set = BTreeMap::from([
            ("SET".to_owned(), "old".to_owned()),
            ("EMPTY".to_owned(), String::new()),
        ]);
        let text =
            "\u{feff}# keys\nSET=new\nEMPTY=new\nexport A=1\nB=\"two words\"\nC='$A'\nD=x # y\n";
        assert_eq!(
            add_env(&mut set, ".env", text.as_bytes()),
            Vec::<String>::new()
        );
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "$A"),
            ("D", "x"),
            ("EMPTY", ""),
            ("SET", "old"),
        ];
        let found: Vec<(&str, &str)> = set
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(found, expected);
        add_env(&mut set, "later", b"A=2\nE=3");
        assert_eq!((set["A"].as_str(), set["E"].as_str()), ("1", "3"));
    }

    #[test]
    fn lines_that_cannot_be_read_are_told_without_their_text() {
        let mut set = BTreeMap::new();
        let warnings = add_env(&mut set, ".env", b"A=1\nsk-secret is my key\nB=2\n");
        assert_eq!(
            warnings,
            ["`.env:2` is not `NAME=value`: the line is skipped"]
        );
        assert_eq!(set.len(), 2);
        let warnings = add_env(&mut set, ".env", b"C=\xff\xfe\n");
        assert_eq!(warnings.len(), 1);
        assert!(!add_env(&mut set, ".env", &vec![b'a'; 100_000]).is_empty());
    }
}
