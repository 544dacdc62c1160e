//! Loads model prices, massgen's table and the user's own file, and checks that the limits on money
//! can be enforced with them. A file in the project must never be read unless the user names it,
//! because prices decide when a run has to stop.

use std::collections::BTreeSet;

use crate::cli::args::LimitArguments;
use crate::cli::output::CliOutput;
use crate::cli::team_file::config_context;
use crate::config::diagnostic::Severity;
use crate::config::external_agents::ExternalAgentConfig;
use crate::config::machine_policy::MACHINE_POLICY_PATH;
use crate::config::pricing_vendor::model_query;
use crate::config::storage_path::STATE_DIR;
use crate::config::vendors::VendorConnection;
use crate::config::yaml::CONFIG_BYTES_MAX;
use crate::config::{AgentConfig, BackendConfig, Config, ConfigOrigin, load_models};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::path::AbsPath;
use crate::spending::models::{ModelList, PricingVendor};
use crate::spending::money::Money;
use crate::text::{count_noun, list_names};
use crate::world::io::files::{inspect, read_capped, read_regular_file};

/// The file of models, below the user's state directory.
const MODELS_NAME: &str = "models.yaml";

/// Returns the known models: those of the table, and those of the file `file_name` or else of
/// `~/.massgen/models.yaml`.
pub(crate) fn model_list(
    host: &Host,
    file_name: Option<&str>,
    output: &mut CliOutput<'_>,
) -> Result<ModelList> {
    let file = match file_name {
        Some(name) => Some(read_named_file(host, name)?),
        None => read_user_file(host, output),
    };
    let Some(ModelsFile { origin, text }) = file else {
        return Ok(ModelList::with_user_rows(Vec::new()));
    };
    let (env, packages) = (host.config_variables(), BTreeSet::new());
    let context = config_context(host, &env, &packages);
    let invalid = match load_models(&text, &origin, &context) {
        Ok((rows, warnings)) => {
            for warning in warnings {
                output.warning(&warning);
            }
            return Ok(ModelList::with_user_rows(rows));
        }
        Err(invalid) => invalid,
    };
    output.note(&invalid.render());
    let errors = invalid
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error);
    let error_count = count_noun(errors.count(), "error");
    let message = format!("`{}` cannot be used: {error_count}", origin.name);
    Err(Error::new(ErrorKind::Config, message)
        .with_hint("fix the errors above; see `docs/limits.md` for the format"))
}

/// A file of models.
struct ModelsFile {
    origin: ConfigOrigin,
    text: Vec<u8>,
}

/// Reads the file that the user names.
fn read_named_file(host: &Host, name: &str) -> Result<ModelsFile> {
    let path = AbsPath::resolve(&host.cwd, name);
    match read_capped(&path, bytes_max())? {
        Some(text) => Ok(ModelsFile {
            origin: file_origin(name.to_owned(), &path),
            text,
        }),
        None => Err(missing_file_error(name)),
    }
}

/// Reads the file in the user's home, if it exists. Warns if it cannot be read.
fn read_user_file(host: &Host, output: &mut CliOutput<'_>) -> Option<ModelsFile> {
    let home = host.home.as_ref();
    let path = home.map(|home| home.join(STATE_DIR).join(MODELS_NAME));
    warn_of_project_file(host, path.as_ref(), output);
    let path = path?;
    match read_regular_file(&path, bytes_max()) {
        Ok(text) => text.map(|text| ModelsFile {
            origin: file_origin(path.to_string(), &path),
            text,
        }),
        Err(error) => {
            output.warning(&format!("ignoring your list of models: {error:#}"));
            None
        }
    }
}

fn file_origin(name: String, path: &AbsPath) -> ConfigOrigin {
    ConfigOrigin {
        name,
        directory: path.parent(),
    }
}

fn bytes_max() -> u64 {
    u64::try_from(CONFIG_BYTES_MAX).unwrap_or(u64::MAX)
}

fn missing_file_error(name: &str) -> Error {
    Error::new(ErrorKind::Config, format!("file `{name}` does not exist"))
        .with_hint("`--models` takes a file of models; see `docs/limits.md` for the format")
        .with_hint("`--model NAME` selects the model of a team without a config")
}

/// Warns that a file in the project is not read, although the user may expect it.
fn warn_of_project_file(host: &Host, users_file: Option<&AbsPath>, output: &mut CliOutput<'_>) {
    let path = host.project.join(STATE_DIR).join(MODELS_NAME);
    if users_file != Some(&path) && inspect(&path) != LookupResult::Missing {
        output.warning(&format!(
            "ignoring `{STATE_DIR}/{MODELS_NAME}` of this directory: prices come from \
             `~/{STATE_DIR}/{MODELS_NAME}` or the file of `--models`"
        ));
    }
}

/// Replaces the limits of the config by those that the command line gives, up to those of the
/// machine; the others stay. Returns a warning if the machine allows less.
pub(crate) fn apply_limits(config: &mut Config, arguments: &LimitArguments) -> Option<String> {
    let limits = &mut config.limits;
    limits.cost = arguments.cost.or(limits.cost);
    limits.tokens = arguments.tokens.or(limits.tokens);
    limits.tool_calls = arguments.tool_calls.or(limits.tool_calls);
    let (lowered, is_lowered) = limits.lowered_to(config.limits_max);
    *limits = lowered;
    if let (Some(max), Some(workflow)) = (arguments.iterations, &mut config.workflow) {
        workflow.pipeline.iterations_max = max;
    }
    is_lowered.then(|| {
        format!(
            "this machine allows less than the flags, which applies: {lowered} \
             (`{MACHINE_POLICY_PATH}`)"
        )
    })
}

/// Rejects a team with a cost limit and a model whose price is unknown.
pub(crate) fn require_prices(config: &Config, models: &ModelList) -> Result<()> {
    for agent in &config.agents {
        if agent.limits.cost.or(config.limits.cost).is_none() {
            continue;
        }
        for backend in agent.backend.with_subagent_models() {
            if models.price(&model_query(backend)).is_none() {
                return Err(unpriced_error(agent.id.as_str(), backend));
            }
        }
    }
    Ok(())
}

/// Returns the warning that a limit on money does not count the models of servers on this machine.
/// Such a server may be a proxy of a vendor that charges for them. A limit of nothing is kept by
/// free models.
pub(crate) fn uncounted_models_warning(config: &Config, models: &ModelList) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    let is_limited = |agent: &&AgentConfig| {
        let limit = agent.limits.cost.or(config.limits.cost);
        limit.is_some_and(|limit| limit > Money::ZERO)
    };
    for agent in config.agents.iter().filter(is_limited) {
        for backend in agent.backend.with_subagent_models() {
            let query = model_query(backend);
            let is_local = query.pricing_vendor == PricingVendor::Free
                && backend.vendor.connection != VendorConnection::Scripted;
            let name = backend.model.as_str();
            if is_local && models.find(&query).is_none() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    (!names.is_empty()).then(|| {
        format!(
            "`max_cost_usd` does not count {}: a server on this machine costs nothing unless \
             `~/{STATE_DIR}/{MODELS_NAME}` has a price for the model; `max_tokens_total` counts its \
             tokens",
            list_names(&names, "and")
        )
    })
}

fn unpriced_error(agent: &str, backend: &BackendConfig) -> Error {
    let model = &backend.model;
    let chooses_model = |external_agent: &ExternalAgentConfig| external_agent.model.is_none();
    if backend.external_agent.as_deref().is_some_and(chooses_model) {
        let message = format!(
            "`max_cost_usd` cannot be enforced: the program of `{agent}` chooses its model, so the \
             price is unknown"
        );
        return Error::new(ErrorKind::Config, message)
            .with_hint("set its `model`")
            .with_hint("or limit tokens instead: `max_tokens_total`");
    }
    let message = format!(
        "`max_cost_usd` cannot be enforced: the price of `{model}`, which `{agent}` uses, is \
         unknown"
    );
    Error::new(ErrorKind::Config, message)
        .with_hint(format!(
            "add its price to `~/{STATE_DIR}/{MODELS_NAME}`; see `docs/limits.md`"
        ))
        .with_hint("or limit tokens instead: `max_tokens_total`")
}
