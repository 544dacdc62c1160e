//! Owns where prices come from: the table of massgen and the user's own file. A file that lies in
//! the project is never read unless the user names it, for prices decide when a run has to stop.

use crate::cli::args::LimitArguments;
use crate::cli::output::Output;
use crate::config::diagnostic::Severity;
use crate::config::node::CONFIG_BYTES_MAX;
use crate::config::place::STATE_DIR;
use crate::config::sellers::asked;
use crate::config::{Config, Context, Origin, load_models};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::prompt::Found;
use crate::spending::models::ModelList;
use crate::wording::counted;
use crate::world::files::{look, read_capped, read_found};

/// The file of models below the user's state directory.
const MODELS_NAME: &str = "models.yaml";

/// The models that are known: the table's, and those of the file that `named` names or else of
/// `~/.massgen/models.yaml`.
pub(crate) fn model_list(
    host: &Host,
    named: Option<&str>,
    output: &mut Output<'_>,
) -> Result<ModelList> {
    let bytes_max = u64::try_from(CONFIG_BYTES_MAX).unwrap_or(u64::MAX);
    let found = match named {
        Some(name) => {
            let place = AbsPath::resolve(&host.cwd, name);
            let text = read_capped(&place, bytes_max)?.ok_or_else(|| missing(name))?;
            Some((name.to_owned(), place, text))
        }
        None => {
            let place = host.home.as_ref();
            let place = place.map(|home| home.join(STATE_DIR).join(MODELS_NAME));
            warn_of_project_file(host, place.as_ref(), output);
            match place {
                Some(place) => {
                    read_found(&place, bytes_max)?.map(|text| (place.to_string(), place, text))
                }
                None => None,
            }
        }
    };
    let Some((name, place, text)) = found else {
        return Ok(ModelList::with(Vec::new()));
    };
    let origin = Origin {
        name,
        directory: place.parent(),
    };
    let context = Context {
        base: &host.cwd,
        home: host.home.as_ref(),
        env: &host.env,
    };
    match load_models(&text, &origin, &context) {
        Ok((rows, warnings)) => {
            for warning in warnings {
                output.warning(&warning);
            }
            Ok(ModelList::with(rows))
        }
        Err(invalid) => {
            output.note(&invalid.render());
            let errors = invalid.diagnostics.iter();
            let errors = errors.filter(|found| found.severity == Severity::Error);
            let errors = counted(errors.count(), "error");
            let message = format!("`{}` cannot be used: it has {errors}", origin.name);
            Err(Error::new(ErrorKind::Config, message)
                .hint("change what is marked above; its form is in `docs/limits.md`"))
        }
    }
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::Config, format!("there is no file `{name}`"))
        .hint("`--models` names a file of models; its form is in `docs/limits.md`")
}

/// Says that a file in the project is not read, which somebody may have expected.
fn warn_of_project_file(host: &Host, own: Option<&AbsPath>, output: &mut Output<'_>) {
    let place = host.cwd.join(STATE_DIR).join(MODELS_NAME);
    if own != Some(&place) && look(&place) != Found::Missing {
        output.warning(&format!(
            "`{STATE_DIR}/{MODELS_NAME}` of this directory is not used: prices come from \
             `~/{STATE_DIR}/{MODELS_NAME}` or from the file that `--models` names"
        ));
    }
}

/// Puts the limits of the command line in the place of those of the config.
pub(crate) fn apply_limits(config: &mut Config, arguments: &LimitArguments) {
    let limits = &mut config.limits;
    limits.cost = arguments.max_cost_usd.or(limits.cost);
    limits.tokens = arguments.max_tokens_total.or(limits.tokens);
    limits.tool_calls = arguments.max_tool_calls.or(limits.tool_calls);
}

/// Refuses a team whose money is limited while it has a model whose price is not known.
pub(crate) fn expect_prices(config: &Config, models: &ModelList) -> Result<()> {
    for agent in &config.agents {
        if agent.limits.cost.or(config.limits.cost).is_none() {
            continue;
        }
        let backends = std::iter::once(&agent.backend).chain(&agent.backend.fallback);
        for backend in backends {
            if models.price(&asked(backend)).is_none() {
                return Err(unpriced(agent.id.as_str(), &backend.model));
            }
        }
    }
    Ok(())
}

fn unpriced(agent: &str, model: &str) -> Error {
    let message = format!(
        "`max_cost_usd` cannot be kept: the price of `{model}`, which `{agent}` asks, is not known"
    );
    Error::new(ErrorKind::Config, message)
        .hint(format!(
            "write its price into `~/{STATE_DIR}/{MODELS_NAME}`, as `docs/limits.md` shows"
        ))
        .hint("or limit what can be counted: `max_tokens_total`")
}
