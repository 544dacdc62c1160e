//! The questions of `massgen init` on a terminal. Enter takes the default of each.

use crate::cli::init::candidates::{
    default_indexes, endpoint_backend, endpoint_models, find_candidates, nothing_found_error,
};
use crate::cli::init::directory::{DirectoryChoice, default_directory, parse_directory};
use crate::cli::init::discovery::{candidate_line, find_logins, found_lines};
use crate::cli::output::CliOutput;
use crate::config::draft::DRAFT_ENTRIES_MAX;
use crate::config::draft::first_team::TeamCandidate;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::permissions::grant::Permission;
use crate::text::{escape_name, list_first};

/// What a single model makes possible.
const ONE_MODEL_NOTE: &str = "One agent works alone, without a vote. Two agents of one model make a \
    team: both work on the task and vote, for about twice the money.";
/// How several agents get one model.
const REPEATED_NUMBER_NOTE: &str =
    "A number may be repeated: two of one model make a team, such as `1 1`.";
/// Maximum number of models of an endpoint that are shown.
const SHOWN_MODELS_MAX: usize = 20;

/// Asks on a terminal. `next_line` returns the lines that the user types.
pub(super) struct InitDialogue<'d, 'w> {
    pub(super) output: &'d mut CliOutput<'w>,
    pub(super) next_line: &'d mut dyn FnMut() -> Option<String>,
}

impl InitDialogue<'_, '_> {
    /// Shows what was found, and asks which of it takes part. A single model takes part in any
    /// case: the question is whether it is the model of two agents.
    pub(super) fn ask_agents(&mut self, host: &Host) -> Result<Vec<TeamCandidate>> {
        let logins = find_logins(host);
        let mut candidates = find_candidates(host)?;
        for line in found_lines(&candidates, &logins) {
            self.output.note(&line);
        }
        let endpoint_index = candidates.len();
        if let Some(candidate) = self.ask_endpoint(host)? {
            let number = endpoint_index.saturating_add(1);
            self.output.note(&candidate_line(number, &candidate));
            candidates.push(candidate);
        }
        let mut default_indexes = default_indexes(&candidates);
        if endpoint_index < candidates.len() && !default_indexes.contains(&endpoint_index) {
            default_indexes.push(endpoint_index);
        }
        match candidates.as_slice() {
            [] => Err(nothing_found_error(host, &logins)),
            [only] if !only.is_program() => self.ask_pair(only),
            candidates => self.ask_numbers(candidates, &default_indexes),
        }
    }

    /// Asks for a server that was not found, and for one of its models.
    fn ask_endpoint(&mut self, host: &Host) -> Result<Option<TeamCandidate>> {
        loop {
            let url =
                self.ask("Another endpoint? Its URL, such as http://127.0.0.1:8080/v1 [none]")?;
            if matches!(url.as_str(), "" | "none" | "n" | "no") {
                return Ok(None);
            }
            let Some(mut backend) = endpoint_backend(&url)? else {
                continue;
            };
            let models = endpoint_models(&backend, host).unwrap_or_else(|error| {
                self.output.note(&error.to_string());
                Vec::new()
            });
            backend.model = match models.as_slice() {
                [model] => model.clone(),
                models => self.ask_model(models)?,
            };
            if !backend.model.is_empty() {
                let (name, env) = (backend.vendor.name, host.config_variables());
                return Ok(Some(TeamCandidate::from_backend(
                    name, &backend, &url, &env,
                )));
            }
        }
    }

    /// Asks for one of the models of an endpoint.
    fn ask_model(&mut self, models: &[String]) -> Result<String> {
        let names: Vec<String> = models.iter().map(|name| escape_name(name)).collect();
        if !names.is_empty() {
            let list = list_first(&names, SHOWN_MODELS_MAX);
            self.output.note(&format!("Its models: {list}"));
        }
        self.ask("Which model? Its name, or Enter for another endpoint")
    }

    /// Asks whether one model is the model of two agents.
    pub(super) fn ask_pair(&mut self, only: &TeamCandidate) -> Result<Vec<TeamCandidate>> {
        self.output.note(ONE_MODEL_NOTE);
        let wants_pair = self.ask_yes_or_no("Make a team of two agents of this model?", false)?;
        let count = if wants_pair { 2 } else { 1 };
        Ok(vec![only.clone(); count])
    }

    /// Asks which candidates take part.
    fn ask_numbers(
        &mut self,
        candidates: &[TeamCandidate],
        default_indexes: &[usize],
    ) -> Result<Vec<TeamCandidate>> {
        self.output.note(REPEATED_NUMBER_NOTE);
        let numbers: Vec<String> = default_indexes
            .iter()
            .map(|index| index.saturating_add(1).to_string())
            .collect();
        let question = format!("Which take part, by number? [{}]", numbers.join(" "));
        loop {
            let answer = self.ask(&question)?;
            if answer.is_empty() {
                let agents = default_indexes
                    .iter()
                    .filter_map(|index| candidates.get(*index));
                return Ok(agents.cloned().collect());
            }
            if let Some(agents) = parse_numbers(&answer, candidates) {
                return Ok(agents);
            }
            self.output.note(&format!(
                "type numbers from 1 to {}, such as `1 1` for two agents of the first kind",
                candidates.len()
            ));
        }
    }

    /// Asks which directory the agents may read.
    pub(super) fn ask_directory(&mut self, host: &Host) -> Result<DirectoryChoice> {
        let default = default_directory(host);
        let default_name = default.as_ref().map_or("none", |path| path.as_str());
        let question =
            format!("Which directory may the agents read? A path, or `none` [{default_name}]");
        loop {
            let answer = self.ask(&question)?;
            match answer.as_str() {
                "" => return Ok(default),
                "none" => return Ok(None),
                path_text => match parse_directory(path_text, host) {
                    Ok(path) => return Ok(Some(path)),
                    Err(error) => self.output.note(&error.to_string()),
                },
            }
        }
    }

    /// Asks whether the winner may write to the directory.
    pub(super) fn ask_permission(&mut self) -> Result<Permission> {
        let writes = self.ask_yes_or_no("May the winner write there?", false)?;
        Ok(if writes {
            Permission::Write
        } else {
            Permission::Read
        })
    }

    /// Asks a question whose answer is `yes` or `no`.
    pub(super) fn ask_yes_or_no(&mut self, question: &str, default: bool) -> Result<bool> {
        let choices = if default { "[Y/n]" } else { "[y/N]" };
        loop {
            match self
                .ask(&format!("{question} {choices}"))?
                .to_lowercase()
                .as_str()
            {
                "" => return Ok(default),
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => self.output.note("type y or n, then Enter"),
            }
        }
    }

    /// Returns the user's answer without the spaces around it.
    fn ask(&mut self, question: &str) -> Result<String> {
        self.output.ask(question);
        let Some(line) = (self.next_line)() else {
            self.output.note("");
            let message = "the input ended before the last answer: nothing was written";
            return Err(Error::new(ErrorKind::Interrupted, message)
                .with_hint("`massgen init --yes` takes the answers in brackets"));
        };
        Ok(line.trim().to_owned())
    }
}

/// Parses the numbers of candidates, from 1, with spaces or commas between them; `None` if one of
/// them is not a candidate, or if there is none.
fn parse_numbers(answer: &str, candidates: &[TeamCandidate]) -> Option<Vec<TeamCandidate>> {
    let words = answer.split([' ', ',']).filter(|word| !word.is_empty());
    let candidate = |word: &str| {
        let index = word.parse::<usize>().ok()?.checked_sub(1)?;
        candidates.get(index).cloned()
    };
    let agents: Option<Vec<TeamCandidate>> = words.map(candidate).collect();
    agents.filter(|agents| (1..=DRAFT_ENTRIES_MAX).contains(&agents.len()))
}
