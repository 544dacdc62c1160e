//! Owns what `.env` files add to the environment. A variable that is set stays as it is; of the
//! files, the one nearest to the user speaks first.

use std::io::BufReader;

use crate::error::Result;
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::files;

/// The largest `.env` file, in bytes.
const ENV_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The process with what `.env` files add, and what in them could not be used.
#[derive(Debug)]
pub(crate) struct Completed {
    /// The process, with a larger environment.
    pub host: Host,
    /// What the user should know about the files.
    pub warnings: Vec<String>,
}

/// Adds the variables of the `.env` files in the current directory, in `~/.massgen` and beside the
/// executable.
pub(crate) fn complete(host: &Host) -> Completed {
    let mut completed = Completed {
        host: host.clone(),
        warnings: Vec::new(),
    };
    let home = host.home.as_ref().map(|home| home.join(".massgen"));
    let directories = [Some(host.cwd.clone()), home, host.executable_dir.clone()];
    for directory in directories.into_iter().flatten() {
        let path = directory.join(".env");
        if let Err(error) = completed.add(&path) {
            let warning = format!("the variables of `{path}` are not used: {error}");
            completed.warnings.push(warning);
        }
    }
    completed
}

impl Completed {
    fn add(&mut self, path: &AbsPath) -> Result<()> {
        let Some(bytes) = files::read_capped(path, ENV_FILE_BYTES_MAX)? else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&bytes);
        let (variables, bad_lines) = parse(&text);
        for (name, value) in variables {
            self.host.env.entry(name).or_insert(value);
        }
        for number in bad_lines {
            let warning = format!("line {number} of `{path}` is not `NAME=value` and is not used");
            self.warnings.push(warning);
        }
        Ok(())
    }
}

/// The variables of a file, and the numbers of the lines that cannot be read. Such a line may hold
/// half a key, so it is never shown.
fn parse(text: &str) -> (Vec<(String, String)>, Vec<usize>) {
    let mut variables = Vec::new();
    let mut bad_lines = Vec::new();
    for item in dotenvy::from_read_iter(BufReader::new(text.as_bytes())) {
        match item {
            Ok(variable) => variables.push(variable),
            Err(dotenvy::Error::LineParse(bad, _)) => {
                let number = text.lines().position(|line| line.trim() == bad.trim());
                bad_lines.extend(number.map(|index| index.saturating_add(1)));
            }
            Err(_) => {}
        }
    }
    (variables, bad_lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)], bad: &[usize]) {
        let (variables, bad_lines) = parse(text);
        let variables: Vec<(&str, &str)> = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(variables, expected, "{text}");
        assert_eq!(bad_lines, bad, "{text}");
    }

    #[test]
    fn variables_are_read_and_bad_lines_are_numbered() {
        check("A=1\n# note\n\nexport B='two words'\n", &[("A", "1"), ("B", "two words")], &[]);
        check("KEY=\"sk-1\"  # mine\r\nC=\n", &[("KEY", "sk-1"), ("C", "")], &[]);
        check("A=1\nthis is no variable\nB=2", &[("A", "1"), ("B", "2")], &[2]);
        check("\u{0}\n", &[], &[1]);
        check("", &[], &[]);
    }
}
