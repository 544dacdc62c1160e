//! A config that a person writes by answering questions: the answers as text, the YAML that they
//! give, and what the check of configs says about each answer. The Web page and the terminal ask
//! the same questions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::diagnostic::{Diagnostic, quote};
use crate::config::draft::document::DocumentNode;
use crate::config::draft::findings::{AnswerAddress, DraftFinding, FindingMap, missing_keys};
use crate::config::draft::form::{
    AnswerKind, FORM, FormQuestion, QuestionGroup, key_row, offered_vendors,
};
use crate::config::keys::{ValueShape, backend, root};
use crate::config::vendors::{Vendor, VendorConnection, find_vendor};
use crate::config::{ConfigContext, ConfigOrigin, LoadedConfig, load};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};

pub mod destination;
mod document;
pub mod findings;
pub mod first_team;
pub mod form;

#[cfg(test)]
mod tests;

/// The highest number of entries that answer the questions of one group.
pub const DRAFT_ENTRIES_MAX: usize = 64;
/// The first line of the YAML.
const HEADING: &str = "A team for massgen. `massgen config check FILE` checks it; docs/config.md \
                       lists all keys.";
/// The group whose entries are agents.
const AGENT_GROUP: &str = "agents";
/// The group of the paths that are open to all agents.
const PATH_GROUP: &str = "context_paths";
/// The group about the commands of all agents.
const COMMAND_GROUP: &str = "commands";
/// The vendor of a new draft when the key of none is set.
const INITIAL_VENDOR: &str = "openai";

/// The answers to the questions of one entry, by the names of their keys.
pub type DraftAnswers = BTreeMap<String, String>;

/// The answers so far: for each group of questions its entries. Every name in it is that of a
/// question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, Vec<DraftAnswers>>")]
pub struct TeamDraft(BTreeMap<String, Vec<DraftAnswers>>);

/// A draft that was checked.
#[derive(Clone, Debug)]
pub struct DraftCheck {
    /// The YAML, even if it cannot be run.
    pub yaml: String,
    /// What was found, errors and warnings in the order of the file.
    pub findings: Vec<DraftFinding>,
    /// The config, if it can be run.
    pub loaded: Option<LoadedConfig>,
}

impl TryFrom<BTreeMap<String, Vec<DraftAnswers>>> for TeamDraft {
    type Error = Error;

    fn try_from(groups: BTreeMap<String, Vec<DraftAnswers>>) -> Result<Self> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Usage, message));
        for (id, entries) in &groups {
            let Some(group) = QuestionGroup::find(id) else {
                return refuse(format!("the form has no group {}", quote(id)));
            };
            let entries_max = group.list.as_ref().map_or(1, |_| DRAFT_ENTRIES_MAX);
            if entries.len() > entries_max {
                return refuse(format!("`{id}` has more than {entries_max} entries"));
            }
            let mut names = entries.iter().flat_map(BTreeMap::keys);
            if let Some(name) = names.find(|name| group.question(name).is_none()) {
                return refuse(format!(
                    "the form does not ask for {} in `{id}`",
                    quote(name)
                ));
            }
        }
        Ok(Self(groups))
    }
}

impl TeamDraft {
    /// Returns the draft in which nothing has been answered yet: one agent, of the first vendor
    /// whose key is set.
    pub fn initial(env: &ConfigVariables) -> Self {
        let is_set = |name: &&str| env.get_non_empty(name).is_some();
        let has_key = |vendor: &&'static Vendor| {
            vendor.is_http()
                && vendor.default_model.is_some()
                && vendor.key_variables.iter().any(is_set)
        };
        let vendor = offered_vendors()
            .find(has_key)
            .map_or(INITIAL_VENDOR, |vendor| vendor.name);
        let mut groups: BTreeMap<String, Vec<DraftAnswers>> = FORM
            .iter()
            .map(|group| {
                let indexes = 0..group.initial_entries();
                let entries = indexes.map(|index| Self::initial_entry(group, index));
                (group.id.to_owned(), entries.collect())
            })
            .collect();
        for agent in groups.get_mut(AGENT_GROUP).into_iter().flatten() {
            agent.insert(backend::TYPE.name().to_owned(), vendor.to_owned());
        }
        Self(groups)
    }

    /// Returns the initial answers of the entry with this index.
    pub fn initial_entry(group: &QuestionGroup, index: usize) -> DraftAnswers {
        let questions = group.questions.iter();
        let answers = questions.map(|question| {
            let answer = question.initial_answer(index);
            (question.name().to_owned(), answer)
        });
        answers.filter(|(_, answer)| !answer.is_empty()).collect()
    }

    /// Returns the entries of a group.
    pub fn entries(&self, group: &QuestionGroup) -> &[DraftAnswers] {
        self.0.get(group.id).map_or(&[], Vec::as_slice)
    }

    /// Returns the YAML, and what the check of configs says about it.
    pub fn check(&self, origin: &ConfigOrigin, context: &ConfigContext<'_>) -> DraftCheck {
        let yaml = self.to_yaml();
        let (diagnostics, loaded_config): (Vec<Diagnostic>, _) =
            match load(yaml.as_bytes(), origin, context) {
                Ok(loaded) => (loaded.warnings.clone(), Some(loaded)),
                Err(invalid) => (invalid.diagnostics, None),
            };
        let finding_map = FindingMap::new(self);
        let mut findings: Vec<DraftFinding> = Vec::new();
        for diagnostic in diagnostics {
            let finding = finding_map.finding(diagnostic);
            // A question that is answered once for all agents has the same finding for each agent.
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        findings.extend(missing_keys(
            self.entries_of_group(AGENT_GROUP),
            context.env,
        ));
        DraftCheck {
            yaml,
            findings,
            loaded: loaded_config,
        }
    }

    /// Returns the YAML.
    pub fn to_yaml(&self) -> String {
        let mut document = DocumentNode::mapping();
        for group in FORM {
            if let Some(list) = group.list.as_ref().filter(|list| list.initial_entries > 0) {
                // Written even if it is empty, so that the check says so.
                create_node(&mut document, list.path, &[]);
            }
            for (index, answers) in self.entries(group).iter().enumerate() {
                self.write_entry(&mut document, group, index, answers);
            }
        }
        document.to_yaml(HEADING)
    }

    fn entries_of_group(&self, id: &str) -> &[DraftAnswers] {
        self.0.get(id).map_or(&[], Vec::as_slice)
    }

    fn write_entry(
        &self,
        document: &mut DocumentNode,
        group: &QuestionGroup,
        index: usize,
        answers: &DraftAnswers,
    ) {
        if let Some(list) = &group.list {
            // An entry without answers stays an entry, so that the check can say what it lacks.
            create_node(document, list.path, &[index]);
        }
        for question in group.questions {
            let answer = answers.get(question.name()).map_or("", String::as_str);
            if answer.trim().is_empty() {
                continue;
            }
            for indexes in self.list_indexes(group, index) {
                set_value(document, question, &indexes, answer_node(question, answer));
            }
        }
    }

    /// Returns the indexes of the lists on the way to the values of an entry. What is asked once
    /// about all agents has several values, one for each agent whose commands massgen runs.
    fn list_indexes(&self, group: &QuestionGroup, index: usize) -> Vec<Vec<usize>> {
        if group.list.is_some() {
            return vec![vec![index]];
        }
        let is_for_agents = group
            .questions
            .iter()
            .any(|question| question.path.first() == Some(&root::AGENTS.name()));
        if !is_for_agents {
            return vec![Vec::new()];
        }
        let agents = self.entries_of_group(AGENT_GROUP).iter().enumerate();
        let agents = agents.filter(|(_, agent)| !runs_own_commands(agent));
        agents.map(|(index, _)| vec![index]).collect()
    }

    /// Returns the address of every answer that could be given, with the paths of its key in the
    /// YAML.
    fn addresses(&self) -> Vec<(AnswerAddress, Vec<String>)> {
        let mut answers = Vec::new();
        for group in FORM {
            for index in 0..self.entries(group).len() {
                for question in group.questions {
                    let index_lists = self.list_indexes(group, index).into_iter();
                    let paths = index_lists.map(|indexes| yaml_path(question.path, &indexes));
                    let address = AnswerAddress {
                        group: group.id,
                        entry: index,
                        name: question.name(),
                    };
                    answers.push((address, paths.collect()));
                }
            }
        }
        answers
    }
}

/// Returns whether an agent is a program that runs commands itself.
fn runs_own_commands(agent: &DraftAnswers) -> bool {
    let vendor = agent
        .get(backend::TYPE.name())
        .and_then(|name| find_vendor(name.trim()));
    vendor.is_some_and(|vendor| matches!(vendor.connection, VendorConnection::ExternalAgent(_)))
}

/// Returns the mapping or the list at `path`, which is created if it is missing. `indexes` are the
/// indexes in the lists on the way, in this order; without one for the last list, returns the list.
/// `None` if the table of keys lacks `path`.
fn create_node<'d>(
    document: &'d mut DocumentNode,
    path: &'static [&'static str],
    indexes: &[usize],
) -> Option<&'d mut DocumentNode> {
    let mut node = document;
    let mut indexes = indexes.iter();
    for (depth, key) in path.iter().enumerate() {
        let row = key_row(path.get(..=depth)?)?;
        let is_list = matches!(row.shape, ValueShape::List(_));
        node = node.entry(key, row.doc, || {
            if is_list {
                DocumentNode::List(Vec::new())
            } else {
                DocumentNode::mapping()
            }
        })?;
        if is_list && let Some(index) = indexes.next() {
            node = node.item(*index)?;
        }
    }
    Some(node)
}

/// Sets the value of the key of `question`. `None` if the table of keys lacks it, which no question
/// of the form can cause.
fn set_value(
    document: &mut DocumentNode,
    question: &FormQuestion,
    indexes: &[usize],
    value: DocumentNode,
) -> Option<()> {
    let (name, parents) = question.path.split_last()?;
    let doc = question.key()?.doc;
    create_node(document, parents, indexes)?.entry(name, doc, || value)?;
    Some(())
}

/// Returns an answer as a value of the key's shape, if it has that shape.
fn answer_node(question: &FormQuestion, answer: &str) -> DocumentNode {
    let list_of_lines = |answer: &str| {
        let lines = answer
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        DocumentNode::List(lines.map(DocumentNode::text).collect())
    };
    match question.kind() {
        AnswerKind::Flag | AnswerKind::Number => DocumentNode::literal(answer),
        AnswerKind::Paragraph => DocumentNode::text(answer),
        AnswerKind::ChoiceOrList(words) if !words.contains(&answer.trim()) => list_of_lines(answer),
        AnswerKind::List => list_of_lines(answer),
        AnswerKind::Line
        | AnswerKind::Choice(_)
        | AnswerKind::Model
        | AnswerKind::ChoiceOrList(_) => DocumentNode::text(answer.trim()),
    }
}

/// Returns the path of a key in the YAML, as diagnostics name it: with the indexes in lists.
fn yaml_path(path: &[&str], indexes: &[usize]) -> String {
    let mut yaml_path = String::new();
    let mut indexes = indexes.iter();
    for (depth, key) in path.iter().enumerate() {
        if depth > 0 {
            yaml_path.push('.');
        }
        yaml_path.push_str(key);
        let row = path.get(..=depth).and_then(key_row);
        let is_list = row.is_some_and(|row| matches!(row.shape, ValueShape::List(_)));
        if is_list && let Some(index) = indexes.next() {
            yaml_path.extend(["[", &index.to_string(), "]"]);
        }
    }
    yaml_path
}
