//! The keys of a check: a command that is run on every answer.

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
