//! The user's commands for a queue of jobs that massgen does not know: how a job is submitted,
//! which jobs there are, and how one is cancelled.

use serde::{Deserialize, Serialize};

use crate::config::typed_yaml::read_typed;
use crate::error::{Error, ErrorKind, Result};
use crate::text::shell_words::quote_word;

/// Maximum size of the file of the commands, in bytes.
pub const QUEUE_COMMANDS_BYTES_MAX: u64 = 64 * 1024;
/// The placeholder for the script of the job.
const SCRIPT: &str = "{script}";
/// The placeholder for the name of the batch.
const NAME: &str = "{name}";
/// The placeholder for the id that the queue gave to the job.
const ID: &str = "{id}";
/// Maximum length of an id, in bytes.
const ID_BYTES_MAX: usize = 200;
/// The second word of a line about a job that is not running.
const WAITING: &str = "waiting";

/// Command lines for `sh`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueCommands {
    /// Submits the script of a job and prints the id of the job.
    submit: String,
    /// Prints a line for each job that has not ended: its id, and `waiting` if it does not run.
    #[serde(alias = "look")]
    list: String,
    /// Cancels a job.
    cancel: String,
}

/// A job in the output of `list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedJob {
    /// Its id.
    pub id: String,
    /// Whether it does not run.
    pub is_waiting: bool,
}

impl QueueCommands {
    /// Parses the file `name` of the commands.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let commands_error = |reason: String| {
            let message = format!("`{name}` cannot be used: {reason}");
            Error::new(ErrorKind::Usage, message)
                .with_hint("see \"Other queues\" in docs/batch.md for an example")
        };
        let commands: Self = read_typed(text).map_err(|error| commands_error(error.to_string()))?;
        for (key, line, placeholder) in [
            ("submit", &commands.submit, SCRIPT),
            ("cancel", &commands.cancel, ID),
        ] {
            if !line.contains(placeholder) {
                return Err(commands_error(format!(
                    "`{key}` does not contain `{placeholder}`"
                )));
            }
        }
        if commands.list.trim().is_empty() {
            return Err(commands_error("`list` is empty".to_owned()));
        }
        Ok(commands)
    }

    /// Returns the command line that submits `script` for the batch `name`.
    pub fn submit_line(&self, script: &str, name: &str) -> String {
        let line = self.submit.replace(SCRIPT, &quote_word(script));
        line.replace(NAME, &quote_word(name))
    }

    /// Returns the command line that lists the jobs of the batch `name`.
    pub fn list_line(&self, name: &str) -> String {
        self.list.replace(NAME, &quote_word(name))
    }

    /// Returns the command line that cancels the job `id`.
    pub fn cancel_line(&self, id: &str) -> String {
        self.cancel.replace(ID, &quote_word(id))
    }
}

/// Returns the id in the output of `submit`. The error says what was expected.
pub fn parse_submitted_id(output: &str) -> std::result::Result<String, String> {
    let id = output.trim();
    let is_id = !id.is_empty() && id.len() <= ID_BYTES_MAX && !id.contains(char::is_whitespace);
    if is_id {
        Ok(id.to_owned())
    } else {
        Err("expected the id of the job, one word, and nothing else".to_owned())
    }
}

/// Parses the output of `list`.
pub fn parse_job_list(output: &str) -> Vec<ListedJob> {
    let jobs = output.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let id = words.next()?.to_owned();
        let is_waiting = words.next() == Some(WAITING);
        Some(ListedJob { id, is_waiting })
    });
    jobs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let error = QueueCommands::parse(text, "queue.yaml").unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn commands_have_their_parts_and_words_stay_words() {
        let text = "submit: 'q -n {name} {script}'\nlist: 'q -l {name}'\ncancel: 'q -d {id}'\n";
        let commands = QueueCommands::parse(text, "queue.yaml").unwrap();
        let submit = commands.submit_line("/a b/1.sh", "batch_1");
        assert_eq!(submit, "q -n batch_1 '/a b/1.sh'");
        assert_eq!(commands.list_line("batch_1"), "q -l batch_1");
        assert_eq!(commands.cancel_line("1;rm"), "q -d '1;rm'");
        check_refused(
            "submit: q\nlist: q\ncancel: 'q {id}'\n",
            "`submit` does not",
        );
        check_refused(
            "submit: 'q {script}'\nlist: q\ncancel: q\n",
            "`cancel` does not",
        );
        check_refused(
            "submit: 'q {script}'\nlist: ' '\ncancel: '{id}'\n",
            "`list` is empty",
        );
        check_refused("submit: q\n", "missing field");
        check_refused(
            "submit: 'q {script}'\nlist: q\nlook: q\ncancel: 'q {id}'\n",
            "duplicate field",
        );
        check_refused("submit: q\nlist: q\ncancel: q\nother: 1\n", "unknown field");
    }

    #[test]
    fn the_old_name_of_list_is_accepted() {
        let text = "submit: 'q {script}'\nlook: 'q -l'\ncancel: 'q -d {id}'\n";
        let commands = QueueCommands::parse(text, "queue.yaml").unwrap();
        assert_eq!(commands.list_line("batch_1"), "q -l");
        let written = serde_json::to_value(&commands).unwrap();
        assert_eq!(written["list"], "q -l");
    }

    #[test]
    fn ids_and_lists_are_read() {
        assert_eq!(
            parse_submitted_id(" 12.server\n"),
            Ok("12.server".to_owned())
        );
        for wrong in ["", "Job <12> is submitted", &"1".repeat(201)] {
            assert!(parse_submitted_id(wrong).is_err(), "{wrong}");
        }
        let listed = parse_job_list("1 waiting\n\n 2 R\n3\n");
        let listed: Vec<(&str, bool)> = listed
            .iter()
            .map(|job| (job.id.as_str(), job.is_waiting))
            .collect();
        assert_eq!(listed, [("1", true), ("2", false), ("3", false)]);
    }
}
