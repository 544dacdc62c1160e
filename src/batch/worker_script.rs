//! The script of a job of a queue: it starts massgen, which claims cells until none is left. The
//! script contains no API key, and of the user's environment only [`JOB_VARIABLES`].

use std::collections::BTreeMap;

use crate::path::AbsPath;
use crate::text::shell_words::{quote_word, shell_line};

/// The environment variables of the user that jobs get. None of them may be a secret.
pub const JOB_VARIABLES: &[&str] = &["HOME", "PATH", "LANG", "TZ", "MASSGEN_STATE_DIR"];

/// What all jobs of a batch have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerScript {
    /// massgen, at the same path on all nodes.
    pub executable: AbsPath,
    /// The user's directory, at the same path on all nodes.
    pub dir: AbsPath,
    /// The batch.
    pub batch: String,
    /// The name of the scheduler, which the results show.
    pub engine: &'static str,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Those of [`JOB_VARIABLES`] that are set.
    pub variables: BTreeMap<String, String>,
}

impl WorkerScript {
    /// Returns the words of the command, without the names of the job and of the node.
    pub fn words(&self) -> Vec<String> {
        let words = ["batch", "worker", &self.batch, "--engine", self.engine];
        std::iter::once(self.executable.to_string())
            .chain(words.map(str::to_owned))
            .chain(self.arguments.clone())
            .collect()
    }

    /// Returns the script. `job` and `node` are words of the shell that become the name of the job
    /// and of the node in the files of the batch.
    pub fn text(&self, job: &str, node: &str) -> String {
        let export_lines = self.variables.iter().map(|(name, value)| {
            let value = quote_word(value);
            format!("export {name}={value}\n")
        });
        let exports: String = export_lines.collect();
        let dir = quote_word(&self.dir.to_string());
        let line = shell_line(&self.words());
        format!("#!/bin/sh\n{exports}cd {dir} || exit 3\nexec {line} --job {job} --node {node}\n")
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
        let script = WorkerScript {
            executable: AbsPath::new("/opt/mass gen").unwrap(),
            dir: AbsPath::new("/home/u/it's").unwrap(),
            batch: "batch_1".to_owned(),
            engine: "slurm",
            arguments: vec!["--require-sandbox".to_owned(), "overlay".to_owned()],
            variables: job_variables(&env),
        };
        assert_eq!(
            script.text("\"$JOB\"", "n1"),
            "#!/bin/sh\nexport LANG='C; x'\nexport PATH=/bin\ncd '/home/u/it'\\''s' || exit 3\n\
             exec '/opt/mass gen' batch worker batch_1 --engine slurm --require-sandbox overlay \
             --job \"$JOB\" --node n1\n"
        );
    }
}
