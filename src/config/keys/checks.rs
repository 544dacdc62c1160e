//! The keys about the quality of answers: of a check, which is a command that is run on every answer,
//! of a criterion by which voters score answers, and of the judge, which is run when all is over.

section! {
    /// A command whose exit status decides whether an answer passes; see `docs/checks.md` for where
    /// it runs. An answer that fails a required check cannot win while another one passes.
    pub static CHECK = "checks[]";

    /// The shell command. `${NAME}` is expanded from your environment when the config is read;
    /// `$NAME` is left to the shell.
    const COMMAND = ["command"] text().make_required();

    /// Its name for voters and in reports. Default: the command.
    const NAME = ["name"] text();

    /// Whether an answer must pass it. With `false`, voters see the result and decide.
    const REQUIRED = ["required"] flag().with_default("true");

    /// Timeout in seconds.
    const TIMEOUT = ["timeout"] integer(1, 24 * 60 * 60).with_default("600");

    /// How often it is run again if it fails, for one that sometimes fails by chance. It passes if
    /// one run does.
    const RETRIES = ["retries"] integer(0, 10).with_default("0");

    /// Globs of files, such as `tests/**`, relative to the write path, that it takes from your
    /// files, whatever an answer does to them. Needs attempts.
    const FIXED = ["fixed"] texts();
}

section! {
    /// A command that measures the work and decides nothing: it is run when the run is over, on
    /// every answer and on what was delivered. Agents see neither it nor its files nor its result.
    pub static JUDGE = "judge";

    /// The shell command. Exit status 0 means that the task is solved.
    const JUDGE_COMMAND = ["command"] text().make_required();

    /// A directory, such as one of hidden tests, that is copied over the files only for the judge.
    /// No agent may be able to read it.
    const JUDGE_FILES = ["files"] text();

    /// A text that stands in these files and nowhere else. If it is in a record of the run, an agent
    /// has seen them, and a comparison says that its results are void.
    const CANARY = ["canary"] text();

    /// Timeout in seconds.
    const JUDGE_TIMEOUT = ["timeout"] integer(1, 24 * 60 * 60).with_default("600");
}

section! {
    /// A criterion that voters give a score from 0 to 10.
    pub static CRITERION = "orchestrator.coordination.checklist_criteria_inline[]";

    /// What an answer has to be like, as the agents read it.
    const TEXT = ["text"] text().make_required();
    unsupported ["category", "verify_by", "anti_patterns", "score_anchors"] Convenience,
        "all criteria count alike, and agents read their texts";
}
