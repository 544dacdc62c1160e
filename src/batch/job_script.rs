//! The script of a job of a queue: it starts massgen for the cells of one index of an array. It
//! contains no API key, and of the user's environment only [`JOB_VARIABLES`].

use std::collections::BTreeMap;

use crate::path::AbsPath;
use crate::text::{quote_word, shell_line};

/// The environment variables of the user that jobs get. None of them may be a secret.
pub const JOB_VARIABLES: &[&str] = &["HOME", "PATH", "LANG", "TZ", "MASSGEN_STATE_DIR"];

/// What all jobs of a batch have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobScript {
    /// massgen, at the same path on all nodes.
    pub executable: AbsPath,
    /// The user's directory, at the same path on all nodes.
    pub dir: AbsPath,
    /// The name of the batch.
    pub batch: String,
    /// Those of [`JOB_VARIABLES`] that are set.
    pub variables: BTreeMap<String, String>,
}

impl JobScript {
    /// Returns the script of the jobs of a submission. `index` is the shell's word for the index of
    /// a job. If the job was parked or killed, the script runs the shell's line `requeue`; it passes
    /// SIGTERM on, because queues send that to the shell.
    pub fn text(&self, submission: u32, index: &str, requeue: &str) -> String {
        let export_lines = self.variables.iter().map(|(name, value)| {
            let value = quote_word(value);
            format!("export {name}={value}\n")
        });
        let exports: String = export_lines.collect();
        let dir = quote_word(&self.dir.to_string());
        let words = [&self.executable.to_string(), "batch", "job", &self.batch];
        let line = shell_line(&words.map(str::to_owned));
        format!(
            "#!/bin/sh\n{exports}cd {dir} || exit 3\ntrap 'kill -TERM \"$job\"' TERM\n\
             {line} {submission} {index} &\njob=$!\nwait \"$job\"; status=$?\n\
             while kill -0 \"$job\" 2>/dev/null; do wait \"$job\"; status=$?; done\n\
             if [ $status -eq 75 ] || [ $status -gt 128 ]; then {requeue}; fi\nexit $status\n"
        )
    }
}

/// Keeps those of [`JOB_VARIABLES`].
pub fn job_variables(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let variables = env
        .iter()
        .filter(|(name, _)| JOB_VARIABLES.contains(&name.as_str()));
    variables
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_holds_its_variables_and_no_other() {
        let env = [("PATH", "/bin"), ("LANG", "C; x"), ("OPENAI_API_KEY", "k")];
        let env: BTreeMap<String, String> = env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let script = JobScript {
            executable: AbsPath::new("/opt/mass gen").unwrap(),
            dir: AbsPath::new("/home/u/it's").unwrap(),
            batch: "batch_1".to_owned(),
            variables: job_variables(&env),
        };
        let text = script.text(2, "\"$I\"", "again");
        let start =
            "#!/bin/sh\nexport LANG='C; x'\nexport PATH=/bin\ncd '/home/u/it'\\''s' || exit 3\n";
        assert!(text.starts_with(start), "{text}");
        assert!(
            text.contains("\n'/opt/mass gen' batch job batch_1 2 \"$I\" &\n"),
            "{text}"
        );
    }
}
