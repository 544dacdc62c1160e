//! The flags of a resumed run: those that are typed now, completed with those that it was started
//! with.

use clap::Parser as _;
use clap::error::ContextKind;

use crate::cli::args::{CliArguments, DeliveryArguments, LIMIT_FLAGS, RunArguments, TIMEOUT_ALIAS};
use crate::config::examples;
use crate::error::{Error, ErrorKind, Result};

/// Parses a recorded command line.
///
/// # Errors
/// This version does not understand it.
pub(crate) fn parse_recorded(words: &[String]) -> Result<RunArguments> {
    let words = std::iter::once("massgen").chain(words.iter().map(String::as_str));
    let CliArguments { run, .. } = CliArguments::try_parse_from(words).map_err(|error| {
        let flag = error
            .get(ContextKind::InvalidArg)
            .map(|flag| format!(" (`{flag}`)"));
        let message = format!(
            "the recorded command line of the run cannot be parsed{}",
            flag.unwrap_or_default()
        );
        Error::new(ErrorKind::Usage, message).with_hint(
            "resume it with the version of massgen that started it, or give the task again",
        )
    })?;
    Ok(run)
}

/// Returns the error that `flag` of a recorded command line has to be typed again.
fn untrusted_flag_error(flag: &str) -> Error {
    let message = format!("the run was started with `{flag}`, which is not taken from its records");
    Error::new(ErrorKind::Usage, message)
        .with_hint(format!("pass `{flag}` again with `--continue`"))
}

impl RunArguments {
    /// Returns these flags, which are typed when a run is resumed, completed with those in `words`,
    /// its recorded command line. What concerns only the process that was started, such as where it
    /// shows the run, is not taken over.
    ///
    /// # Errors
    /// The recorded command line cannot be parsed, or it has a flag that reaches outside the
    /// directory or weakens the isolation of commands: that one must be typed again, because records
    /// can come with a project.
    pub(crate) fn with_recorded(&self, words: &[String]) -> Result<Self> {
        let recorded = parse_recorded(words)?;
        let Self {
            task: _,
            config,
            model,
            backend,
            base_url,
            system_message,
            set,
            cwd_context,
            best_of,
            strategy,
            check,
            output_file: _,
            summary_file: _,
            junit_file: _,
            keep_attempts: _,
            output_format: _,
            json: _,
            print: _,
            automation: _,
            orchestrator_timeout,
            rate_limit,
            sandbox,
            skip_missing: _,
            limits,
            delivery,
            approval_socket: _,
            inbox_dir: _,
            clarifications,
            models,
            session: _,
            display: _,
            park: _,
            debug,
            dry_run: _,
        } = recorded;
        let untrusted_flags = [
            ("--base-url", base_url.is_some() && self.base_url.is_none()),
            ("--sandbox", sandbox.is_some() && self.sandbox.is_none()),
            ("--set", !set.is_empty() && self.set.is_empty()),
        ];
        if let Some((flag, _)) = untrusted_flags
            .into_iter()
            .find(|(_, is_missing)| *is_missing)
        {
            return Err(untrusted_flag_error(flag));
        }
        let mut arguments = self.clone();
        // A file is found again by its recorded path; a built-in config has only its name.
        let example = config.filter(|name| examples::find_example(name).is_some());
        arguments.config = arguments.config.or(example);
        // A config brings its own models.
        if arguments.config.is_none() {
            if arguments.model.is_empty() {
                arguments.model = model;
            }
            arguments.backend = arguments.backend.or(backend);
            arguments.system_message = arguments.system_message.or(system_message);
        }
        arguments.cwd_context = arguments.cwd_context.or(cwd_context);
        arguments.best_of = arguments.best_of.or(best_of);
        arguments.strategy = arguments.strategy.or(strategy);
        arguments.orchestrator_timeout = arguments.orchestrator_timeout.or(orchestrator_timeout);
        if arguments.rate_limit.is_empty() {
            arguments.rate_limit = rate_limit;
        }
        if arguments.check.is_empty() {
            arguments.check = check;
        }
        arguments.limits = arguments.limits.or(limits);
        if arguments.delivery == DeliveryArguments::default() {
            arguments.delivery = delivery;
        }
        arguments.clarifications = arguments.clarifications.or(clarifications);
        arguments.models = arguments.models.or(models);
        arguments.debug |= debug;
        Ok(arguments)
    }

    /// Returns the recorded command line `words` with the limits of these flags instead of its own.
    pub(crate) fn replace_limit_words(&self, words: Vec<String>) -> Vec<String> {
        let mut kept = Vec::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value)),
                None => (word.as_str(), None),
            };
            if !LIMIT_FLAGS.contains(&flag) && flag != TIMEOUT_ALIAS {
                kept.push(word);
            } else if value.is_none() {
                words.next();
            }
        }
        let flags_end = kept.iter().position(|word| word == "--");
        let end = flags_end.unwrap_or(kept.len());
        kept.splice(end..end, self.limit_words());
        kept
    }
}
