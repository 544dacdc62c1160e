//! The environment of commands, built from scratch, so that no key of the user and no variable of
//! the dynamic loader is ever passed on by mistake.

use std::collections::BTreeMap;

use crate::path::AbsPath;
use crate::sandbox_policy::NetworkAccess;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::sandbox_policy::toolchains::UserToolchains;

/// The inputs for a command's environment.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentInputs<'a> {
    /// massgen's own environment; only a few listed variables are passed on.
    pub process_env: &'a BTreeMap<String, String>,
    /// The user's toolchains.
    pub toolchains: &'a UserToolchains,
    /// Variables that the user adds explicitly (`env`); they override all others.
    pub config_env: &'a BTreeMap<String, String>,
    /// The private home directory.
    pub home: &'a AbsPath,
    /// The private directory for temporary files, used where `/tmp` does not show it.
    pub scratch: &'a AbsPath,
    /// The Python environment (`.venv`) of the working directory, if there is one.
    pub venv: Option<&'a AbsPath>,
    /// The sandbox level of the command.
    pub level: SandboxLevel,
    /// Its network access.
    pub network: NetworkAccess,
}

/// The name of a Python virtual environment, which commands in its parent directory use.
pub const VENV: &str = ".venv";
/// The variable that names the active virtual environment.
pub const VIRTUAL_ENV: &str = "VIRTUAL_ENV";

/// Variables that are passed on; a trailing `*` matches any suffix.
const INHERITED_VARIABLES: &[&str] = &["LANG", "LANGUAGE", "LC_*", "LOGNAME", "TZ", "USER"];

/// Variables with fixed values: no colours, no pager, no prompts.
const FIXED_VARIABLES: &[(&str, &str)] = &[
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("SHELL", "/bin/bash"),
    ("TERM", "dumb"),
];

/// Variables with which package managers use what is installed and fail immediately instead of
/// retrying for a minute; set without network access.
const OFFLINE_VARIABLES: &[(&str, &str)] = &[
    ("CARGO_NET_OFFLINE", "true"),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    ("PIP_RETRIES", "0"),
    ("UV_OFFLINE", "1"),
    ("YARN_ENABLE_NETWORK", "0"),
    ("npm_config_offline", "true"),
];

/// Directories that are always searched for programs, after those of the user's `PATH`.
pub(crate) const PROGRAM_DIRECTORIES: &[&str] = &[
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// Variables that name the proxy. Some programs know only one spelling.
const PROXY_VARIABLES: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
];
/// The variable with which Node.js 24 and later use the proxy in the variables above; other
/// versions ignore it.
const NODE_PROXY_VARIABLE: &str = "NODE_USE_ENV_PROXY";
/// Variables that list the hosts reached without the proxy.
const NO_PROXY_VARIABLES: &[&str] = &["NO_PROXY", "no_proxy"];

/// Returns all variables of a command.
pub fn command_environment(inputs: &EnvironmentInputs<'_>) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = inputs
        .process_env
        .iter()
        .filter(|(name, _)| is_inherited(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let mut set_variable = |name: &str, value: String| {
        env.insert(name.to_owned(), value);
    };
    // Without a sandbox, nothing blocks the network for commands.
    let is_offline = inputs.network == NetworkAccess::None && inputs.level != SandboxLevel::Off;
    for (name, value) in FIXED_VARIABLES
        .iter()
        .chain(OFFLINE_VARIABLES.iter().filter(|_| is_offline))
    {
        set_variable(name, (*value).to_owned());
    }
    for (name, value) in &inputs.toolchains.variables {
        set_variable(name, value.clone());
    }
    set_variable("HOME", inputs.home.to_string());
    set_variable("TMPDIR", temporary_directory(inputs));
    set_variable("PATH", search_path(inputs));
    // Keeps compiled Python files out of trees that Python only reads.
    let python_cache = inputs.home.join(".cache/pycache");
    set_variable("PYTHONPYCACHEPREFIX", python_cache.to_string());
    if let Some(venv) = inputs.venv {
        set_variable(VIRTUAL_ENV, venv.to_string());
    }
    if let NetworkAccess::Proxy { port } = inputs.network {
        for name in PROXY_VARIABLES {
            set_variable(name, format!("http://127.0.0.1:{port}"));
        }
        for name in NO_PROXY_VARIABLES {
            set_variable(name, "localhost,127.0.0.1,::1".to_owned());
        }
        set_variable(NODE_PROXY_VARIABLE, "1".to_owned());
    }
    env.extend(inputs.config_env.clone());
    env
}

/// Returns whether the variable `name` is passed on.
fn is_inherited(name: &str) -> bool {
    let matches = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => *pattern == name,
    };
    INHERITED_VARIABLES.iter().any(matches)
}

fn temporary_directory(inputs: &EnvironmentInputs<'_>) -> String {
    match inputs.level {
        SandboxLevel::Overlay | SandboxLevel::Namespaces => "/tmp".to_owned(),
        SandboxLevel::Landlock | SandboxLevel::Unavailable | SandboxLevel::Off => {
            inputs.scratch.to_string()
        }
    }
}

/// Returns the value of `PATH`, without duplicates: the directory of the Python environment, those
/// of the user's `PATH`, and those of the system. Relative ones are skipped: the project would
/// decide what they contain.
fn search_path(inputs: &EnvironmentInputs<'_>) -> String {
    let user_path = inputs.process_env.get("PATH").map(String::as_str);
    let user_directories = user_path
        .unwrap_or_default()
        .split(':')
        .filter(|dir| dir.starts_with('/'));
    let venv_programs = inputs.venv.map(|venv| venv.join("bin").to_string());
    let mut directories: Vec<&str> = Vec::new();
    let all_directories = venv_programs
        .as_deref()
        .into_iter()
        .chain(user_directories)
        .chain(PROGRAM_DIRECTORIES.iter().copied());
    for dir in all_directories {
        if !directories.contains(&dir) {
            directories.push(dir);
        }
    }
    directories.join(":")
}

/// Leaves those directories out of the `PATH` in `env` that are relative, or that `is_excluded`.
pub fn exclude_directories(
    env: &mut BTreeMap<String, String>,
    is_excluded: impl Fn(&AbsPath) -> bool,
) {
    let Some(path) = env.remove("PATH") else {
        return;
    };
    let is_kept = |dir: &&str| AbsPath::new(dir).is_some_and(|dir| !is_excluded(&dir));
    let directories: Vec<&str> = path.split(':').filter(is_kept).collect();
    // An empty `PATH` means the working directory.
    if !directories.is_empty() {
        env.insert("PATH".to_owned(), directories.join(":"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    /// Returns the environment of a command, given massgen's own environment and the variables of
    /// the config.
    fn environment_with(
        process_env: &[(&str, &str)],
        config_env: &[(&str, &str)],
        edit: impl FnOnce(&mut EnvironmentInputs<'_>),
    ) -> BTreeMap<String, String> {
        let (process_env, config_env) = (map(process_env), map(config_env));
        let user_home = AbsPath::new("/home/u");
        let toolchains = UserToolchains::from_environment(&process_env, user_home.as_ref());
        let (home, scratch) = (
            AbsPath::new("/s/home").unwrap(),
            AbsPath::new("/s/tmp").unwrap(),
        );
        let mut inputs = EnvironmentInputs {
            process_env: &process_env,
            toolchains: &toolchains,
            config_env: &config_env,
            home: &home,
            scratch: &scratch,
            venv: None,
            level: SandboxLevel::Overlay,
            network: NetworkAccess::None,
        };
        edit(&mut inputs);
        command_environment(&inputs)
    }

    #[track_caller]
    fn check(env: &BTreeMap<String, String>, name: &str, expected: Option<&str>) {
        assert_eq!(env.get(name).map(String::as_str), expected, "{name}");
    }

    #[test]
    fn only_listed_variables_are_passed_on() {
        let process_env = [
            ("LANG", "de_DE.UTF-8"),
            ("LC_TIME", "C"),
            ("TZ", "Europe/Berlin"),
            ("USER", "u"),
            ("OPENAI_API_KEY", "sk-1"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("LD_PRELOAD", "/x.so"),
            ("BASH_ENV", "/x"),
            ("ENV", "/x"),
            ("HOME", "/home/u"),
            ("TERM", "xterm"),
            ("http_proxy", "http://u:secret@proxy"),
        ];
        let env = environment_with(&process_env, &[], |inputs| {
            inputs.network = NetworkAccess::Host;
        });
        let names: Vec<&str> = env.keys().map(String::as_str).collect();
        let expected = "DEBIAN_FRONTEND GIT_PAGER GIT_TERMINAL_PROMPT HOME LANG LC_TIME NO_COLOR \
            PAGER PATH PIP_DISABLE_PIP_VERSION_CHECK PYTHONPYCACHEPREFIX SHELL TERM TMPDIR TZ USER";
        assert_eq!(names.join(" "), expected);
        check(&env, "HOME", Some("/s/home"));
        check(&env, "TERM", Some("dumb"));
        check(&env, "LANG", Some("de_DE.UTF-8"));
    }

    #[test]
    fn the_config_may_add_and_replace_variables() {
        let env = environment_with(
            &[],
            &[("OPENAI_API_KEY", "sk-1"), ("TERM", "xterm")],
            |_| (),
        );
        check(&env, "OPENAI_API_KEY", Some("sk-1"));
        check(&env, "TERM", Some("xterm"));
    }

    #[test]
    fn path_has_each_absolute_directory_once_and_those_of_the_system() {
        let with = |path: &str| environment_with(&[("PATH", path)], &[], |_| ());
        check(&with(""), "PATH", Some(SYSTEM));
        let expected = format!("/home/u/bin:{SYSTEM}");
        check(
            &with("/home/u/bin:.:node_modules/.bin:/home/u/bin:"),
            "PATH",
            Some(&expected),
        );
        let expected = "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin";
        check(&with("/bin"), "PATH", Some(expected));
    }

    #[test]
    fn a_python_environment_of_the_working_directory_comes_first() {
        let venv = AbsPath::new("/w/.venv").unwrap();
        let process_env = map(&[("PATH", "/usr/bin")]);
        let toolchains = UserToolchains::default();
        let inputs = EnvironmentInputs {
            process_env: &process_env,
            toolchains: &toolchains,
            config_env: &BTreeMap::new(),
            home: &venv,
            scratch: &venv,
            venv: Some(&venv),
            level: SandboxLevel::Namespaces,
            network: NetworkAccess::None,
        };
        let env = command_environment(&inputs);
        check(&env, "VIRTUAL_ENV", Some("/w/.venv"));
        assert!(
            env["PATH"].starts_with("/w/.venv/bin:/usr/bin:"),
            "{}",
            env["PATH"]
        );
    }

    #[test]
    fn temporary_files_are_in_a_private_directory() {
        let with = |level| environment_with(&[], &[], |inputs| inputs.level = level);
        check(&with(SandboxLevel::Overlay), "TMPDIR", Some("/tmp"));
        check(&with(SandboxLevel::Namespaces), "TMPDIR", Some("/tmp"));
        check(&with(SandboxLevel::Landlock), "TMPDIR", Some("/s/tmp"));
        check(&with(SandboxLevel::Off), "TMPDIR", Some("/s/tmp"));
    }

    #[test]
    fn a_proxy_is_named_in_all_spellings() {
        let proxied = environment_with(&[], &[], |inputs| {
            inputs.network = NetworkAccess::Proxy { port: 99 }
        });
        check(&proxied, "https_proxy", Some("http://127.0.0.1:99"));
        check(&proxied, "HTTPS_PROXY", Some("http://127.0.0.1:99"));
        check(&proxied, "NO_PROXY", Some("localhost,127.0.0.1,::1"));
        check(&proxied, "NODE_USE_ENV_PROXY", Some("1"));
        let direct = environment_with(&[], &[], |inputs| inputs.network = NetworkAccess::Host);
        for name in ["HTTPS_PROXY", "NODE_USE_ENV_PROXY"] {
            check(&direct, name, None);
        }
        let replaced = environment_with(&[], &[("NODE_USE_ENV_PROXY", "0")], |inputs| {
            inputs.network = NetworkAccess::Proxy { port: 99 };
        });
        check(&replaced, "NODE_USE_ENV_PROXY", Some("0"));
    }

    #[test]
    fn package_managers_fail_at_once_where_there_is_no_network() {
        let with = |level, network| {
            environment_with(&[], &[], |inputs| {
                (inputs.level, inputs.network) = (level, network);
            })
        };
        for level in [
            SandboxLevel::Overlay,
            SandboxLevel::Namespaces,
            SandboxLevel::Landlock,
        ] {
            check(
                &with(level, NetworkAccess::None),
                "CARGO_NET_OFFLINE",
                Some("true"),
            );
            check(&with(level, NetworkAccess::None), "PIP_RETRIES", Some("0"));
            check(&with(level, NetworkAccess::Host), "PIP_RETRIES", None);
            let proxied = with(level, NetworkAccess::Proxy { port: 9 });
            check(&proxied, "npm_config_offline", None);
        }
        check(
            &with(SandboxLevel::Off, NetworkAccess::None),
            "npm_config_offline",
            None,
        );
        let replaced = environment_with(&[], &[("GOPROXY", "file:///w/proxy")], |_| ());
        check(&replaced, "GOPROXY", Some("file:///w/proxy"));
    }

    #[test]
    fn toolchains_get_their_directories_in_variables() {
        let env = environment_with(&[("PATH", "/home/u/.cargo/bin")], &[], |_| ());
        check(&env, "RUSTUP_HOME", Some("/home/u/.rustup"));
    }
}
