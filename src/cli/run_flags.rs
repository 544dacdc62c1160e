//! Applies the flags of a run to its config.

use crate::cli::args::RunArguments;
use crate::cli::command_line::usage_error;
use crate::cli::format::OutputFormat;
use crate::cli::model_prices::apply_limits;
use crate::cli::output::CliOutput;
use crate::cli::run_frontend::UserPresence;
use crate::config::{Config, ContextPath, DeliveryMode, Strategy, WinnerChoice, WriteMode};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::permissions::grant::Permission;
use crate::world::diagnostics::telemetry::settings::TelemetrySettings;

/// Returns the flags with the review that `--best-of` implies for a user at a terminal.
pub(crate) fn with_implied_review(mut arguments: RunArguments, host: &Host) -> RunArguments {
    let is_present = UserPresence::detect(host) == UserPresence::Present;
    let is_unattended = arguments.automation
        || arguments.delivery.yes
        || arguments.output_format != OutputFormat::Text;
    arguments.delivery.review |= arguments.best_of.is_some() && is_present && !is_unattended;
    arguments
}

/// Refuses `--park` for a pipeline.
///
/// # Errors
/// The flag is given.
pub(crate) fn reject_parking(arguments: &RunArguments) -> Result<()> {
    if !arguments.park {
        return Ok(());
    }
    let message = "`--park` is not available for a pipeline";
    Err(Error::new(ErrorKind::Usage, message)
        .with_hint("a pipeline that was stopped is resumed without it: massgen --continue"))
}

/// Replaces values of the config by those of the flags.
pub(crate) fn apply_flags(
    config: &mut Config,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    if let Some(seconds) = arguments.orchestrator_timeout {
        config.timeouts.orchestrator_seconds = seconds;
    }
    apply_strategy(config, arguments)?;
    let rates = arguments.rate_limit.iter().cloned();
    config.rate_limits.extend(rates);
    if let Some(warning) = apply_limits(config, &arguments.limits) {
        output.warning(&warning);
    }
    if arguments.limits.iterations.is_some() && !config.has_iterations() {
        output.warning("`--max-iterations` has no effect: the config has no pipeline with `until`");
    }
    if arguments.delivery.pick {
        config.winner_choice = WinnerChoice::User;
    }
    if arguments.delivery.review {
        config.delivery = DeliveryMode::Review;
    }
    for command in &arguments.check {
        config.checks.require(command);
    }
    let strategy = config.orchestrator.strategy;
    if strategy.ends_at_first_pass() && !config.checks.has_required() {
        let message = format!("`{}` needs a required check", strategy.name());
        return Err(usage_error(message).with_hint("name one: --check \"cargo test\""));
    }
    if let Some(choice) = arguments.sandbox {
        config.override_sandbox(choice);
        if !config.has_local_commands() && config.checks.list.is_empty() {
            output.warning("`--sandbox` has no effect: no agent runs commands on this machine, and there are no checks");
        }
    }
    Ok(())
}

/// Applies the flags about attempts and about how the winner is found.
fn apply_strategy(config: &mut Config, arguments: &RunArguments) -> Result<()> {
    if config.workflow.is_some()
        && (arguments.summary_file.is_some() || arguments.junit_file.is_some())
    {
        let message = "`--summary-file` and `--junit-file` are not for a pipeline";
        return Err(
            usage_error(message).with_hint("the result of a pipeline is in `--output-format json`")
        );
    }
    if config.workflow.is_some() && arguments.keep_attempts.is_some() {
        let message = "`--keep-attempts` is not for a pipeline";
        return Err(usage_error(message)
            .with_hint("the work of each role is in its repository: see `massgen pipeline log`"));
    }
    let strategy = arguments.best_of.map(|_| Strategy::BestOf);
    let Some(strategy) = arguments.strategy.or(strategy) else {
        return Ok(());
    };
    if config.workflow.is_some() {
        let message = "`--best-of` and `--strategy` are not for the roles of a pipeline";
        return Err(usage_error(message).with_hint("set `strategy` and `copies` in its config"));
    }
    config.orchestrator.strategy = strategy;
    if let Some(count) = arguments.best_of {
        config.orchestrator.write_mode = WriteMode::Attempts;
        config
            .deal_attempts(count)
            .map_err(|reason| usage_error(format!("`--best-of` cannot copy an agent: {reason}")))?;
    }
    Ok(())
}

/// Reads the telemetry settings from the process's own environment; `.env` files do not count.
pub(crate) fn telemetry_settings(
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Option<TelemetrySettings> {
    match TelemetrySettings::read(&|name| host.env(name).map(str::to_owned)) {
        Ok(settings) => settings,
        Err(reason) => {
            output.warning(&format!("telemetry is disabled: {reason}"));
            None
        }
    }
}

/// Opens the current directory; if the config already lists it, the flag's permission wins.
pub(crate) fn open_cwd(config: &mut Config, host: &Host, permission: Permission) {
    let paths = &mut config.orchestrator.context_paths;
    match paths.iter_mut().find(|context| context.path == host.cwd) {
        Some(context) => context.permission = permission,
        None => paths.push(ContextPath {
            path: host.cwd.clone(),
            permission,
            protected: Vec::new(),
            hidden: Vec::new(),
            unprotected: Vec::new(),
        }),
    }
}
