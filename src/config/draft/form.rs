//! The questions whose answers make a config, in the order in which they are asked. What a key
//! means, which values it has and what its default is comes from the table of keys; only the short
//! label and the initial answer are written here.

use crate::config::external_agents::find_kind;
use crate::config::keys::root::ROOT;
use crate::config::keys::{
    ConfigKey, KeySection, KeyStatus, ValueShape, agents, backend, checks, commands, context_paths,
    limits, orchestrator, root,
};
use crate::config::vendors::{VENDORS, Vendor, VendorConnection};

/// The placeholder for the number of an entry in [`FormQuestion::initial_answer`].
const NUMBER_PLACEHOLDER: char = '#';

/// A group of questions.
#[derive(Debug)]
pub struct QuestionGroup {
    /// Its name in drafts.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The list whose entries it describes; `None` if it is answered once.
    pub list: Option<QuestionList>,
    /// Its questions.
    pub questions: &'static [FormQuestion],
}

/// A list of the config in which each entry answers the questions of a group.
#[derive(Debug)]
pub struct QuestionList {
    /// The keys on the way to the list.
    pub path: &'static [&'static str],
    /// What one entry is called.
    pub noun: &'static str,
    /// The number of entries in a new draft.
    pub initial_entries: usize,
}

/// A question, whose answer is the value of one key.
#[derive(Debug)]
pub struct FormQuestion {
    /// A short name.
    pub label: &'static str,
    /// The keys on the way to the value, from the top of the config. The last one is the name of
    /// the answer in drafts.
    pub path: &'static [&'static str],
    /// The answer of a new draft, in which `#` is the number of the entry; empty for none.
    pub initial_answer: &'static str,
}

/// The form of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerKind {
    /// One line of text.
    Line,
    /// Several lines of text.
    Paragraph,
    /// `true` or `false`.
    Flag,
    /// A number.
    Number,
    /// One of these words.
    Choice(Vec<&'static str>),
    /// The name of a model of the entry's vendor.
    Model,
    /// One value in each line.
    List,
    /// One of these words, or one value in each line.
    ChoiceOrList(Vec<&'static str>),
}

const fn question(
    label: &'static str,
    path: &'static [&'static str],
    initial_answer: &'static str,
) -> FormQuestion {
    FormQuestion {
        label,
        path,
        initial_answer,
    }
}

const AGENTS: &str = root::AGENTS.name();
const BACKEND: &str = agents::BACKEND.name();
const ORCHESTRATOR: &str = root::ORCHESTRATOR.name();
const CONTEXT_PATHS: &str = context_paths::KEY.name();
const CHECKS: &str = root::CHECKS.name();
const LIMITS: &str = limits::KEY.name();
const TIMEOUTS: &str = root::TIMEOUT_SETTINGS.name();

/// All questions. In a group without a list, a question about a key of agents is answered once for
/// all agents.
pub static FORM: &[QuestionGroup] = &[
    QuestionGroup {
        id: "agents",
        title: "Agents",
        list: Some(QuestionList {
            path: &[AGENTS],
            noun: "agent",
            initial_entries: 1,
        }),
        questions: &[
            question("Name", &[AGENTS, agents::ID.name()], "agent#"),
            question("Backend", &[AGENTS, BACKEND, backend::TYPE.name()], ""),
            question("Model", &[AGENTS, BACKEND, backend::MODEL.name()], ""),
            question("Endpoint", &[AGENTS, BACKEND, backend::BASE_URL.name()], ""),
            question(
                "Workspace",
                &[AGENTS, BACKEND, backend::CWD.name()],
                "workspace#",
            ),
            question("Instructions", &[AGENTS, agents::SYSTEM_MESSAGE.name()], ""),
        ],
    },
    QuestionGroup {
        id: "context_paths",
        title: "Your files",
        list: Some(QuestionList {
            path: &[ORCHESTRATOR, CONTEXT_PATHS],
            noun: "path",
            initial_entries: 0,
        }),
        questions: &[
            question(
                "Path",
                &[ORCHESTRATOR, CONTEXT_PATHS, context_paths::PATH.name()],
                "",
            ),
            question(
                "Access",
                &[
                    ORCHESTRATOR,
                    CONTEXT_PATHS,
                    context_paths::PERMISSION.name(),
                ],
                "",
            ),
        ],
    },
    QuestionGroup {
        id: "commands",
        title: "Commands",
        list: None,
        questions: &[
            question(
                "Run commands",
                &[AGENTS, BACKEND, commands::ENABLED.name()],
                "",
            ),
            question("Where", &[AGENTS, BACKEND, commands::MODE.name()], ""),
            question("Network", &[AGENTS, BACKEND, commands::NETWORK.name()], ""),
        ],
    },
    QuestionGroup {
        id: "checks",
        title: "Checks",
        list: Some(QuestionList {
            path: &[CHECKS],
            noun: "check",
            initial_entries: 0,
        }),
        questions: &[
            question("Command", &[CHECKS, checks::COMMAND.name()], ""),
            question("Name", &[CHECKS, checks::NAME.name()], ""),
            question("Required", &[CHECKS, checks::REQUIRED.name()], ""),
            question("Timeout", &[CHECKS, checks::TIMEOUT.name()], ""),
        ],
    },
    QuestionGroup {
        id: "limits",
        title: "Limits",
        list: None,
        questions: &[
            question("Dollars", &[LIMITS, limits::MAX_COST_USD.name()], ""),
            question("Tokens", &[LIMITS, limits::MAX_TOKENS_TOTAL.name()], ""),
            question("Tool calls", &[LIMITS, limits::MAX_TOOL_CALLS.name()], ""),
            question(
                "Seconds",
                &[TIMEOUTS, limits::ORCHESTRATOR_TIMEOUT_SECONDS.name()],
                "",
            ),
        ],
    },
    QuestionGroup {
        id: "coordination",
        title: "Vote and delivery",
        list: None,
        questions: &[
            question(
                "Voting",
                &[ORCHESTRATOR, orchestrator::VOTING_SENSITIVITY.name()],
                "",
            ),
            question(
                "Answers per agent",
                &[ORCHESTRATOR, orchestrator::MAX_NEW_ANSWERS_PER_AGENT.name()],
                "",
            ),
            question("Delivery", &[root::DELIVERY.name()], ""),
            question("Failed checks", &[root::ON_CHECK_FAILURE.name()], ""),
        ],
    },
];

impl QuestionGroup {
    /// Returns the group with this name.
    pub fn find(id: &str) -> Option<&'static QuestionGroup> {
        FORM.iter().find(|group| group.id == id)
    }

    /// Returns the question whose answer has this name.
    pub fn question(&self, name: &str) -> Option<&'static FormQuestion> {
        self.questions
            .iter()
            .find(|question| question.name() == name)
    }

    /// Returns what the table of keys says about the list; `None` for a group without one.
    pub fn doc(&self) -> Option<&'static str> {
        Some(key_row(self.list.as_ref()?.path)?.doc)
    }

    /// Returns the number of entries in a new draft.
    pub fn initial_entries(&self) -> usize {
        self.list.as_ref().map_or(1, |list| list.initial_entries)
    }
}

impl FormQuestion {
    /// Returns the name of the answer: the key.
    pub fn name(&self) -> &'static str {
        self.path.last().copied().unwrap_or_default()
    }

    /// Returns the row of its key; every question has one.
    pub fn key(&self) -> Option<&'static ConfigKey> {
        key_row(self.path)
    }

    /// Returns the form of an answer.
    pub fn kind(&self) -> AnswerKind {
        let is_key = |path: &[&str], key: &str| self.path.starts_with(path) && self.name() == key;
        if is_key(&[AGENTS, BACKEND], backend::TYPE.name()) {
            return AnswerKind::Choice(offered_vendors().map(|vendor| vendor.name).collect());
        }
        if is_key(&[AGENTS, BACKEND], backend::MODEL.name()) {
            return AnswerKind::Model;
        }
        if is_key(&[AGENTS], agents::SYSTEM_MESSAGE.name()) {
            return AnswerKind::Paragraph;
        }
        self.key().map_or(AnswerKind::Line, |key| match &key.shape {
            ValueShape::Flag => AnswerKind::Flag,
            ValueShape::Integer(..) | ValueShape::Number(..) => AnswerKind::Number,
            ValueShape::OneOf(words) => AnswerKind::Choice(words.to_vec()),
            ValueShape::OneOfOrList(words) => AnswerKind::ChoiceOrList(words.to_vec()),
            ValueShape::List(_) => AnswerKind::List,
            ValueShape::Text
            | ValueShape::Size(..)
            | ValueShape::Names
            | ValueShape::Any
            | ValueShape::Verbatim
            | ValueShape::Mapping(_)
            | ValueShape::TextOr(_)
            | ValueShape::Named(_) => AnswerKind::Line,
        })
    }

    /// Returns the initial answer of the entry with this index.
    pub fn initial_answer(&self, index: usize) -> String {
        let number = index.saturating_add(1).to_string();
        self.initial_answer.replace(NUMBER_PLACEHOLDER, &number)
    }

    /// Returns whether the key must be set.
    pub fn is_required(&self) -> bool {
        let status = self.key().map(|key| key.status);
        status == Some(KeyStatus::Required)
    }

    /// Returns the answer that applies if there is none.
    pub fn default_answer(&self) -> Option<&'static str> {
        self.key()?.default.filter(|default| *default != "null")
    }
}

/// Returns the vendors that a draft can describe: those that need neither recorded replies nor a
/// program that the user has to name.
pub fn offered_vendors() -> impl Iterator<Item = &'static Vendor> {
    VENDORS.iter().filter(|vendor| match vendor.connection {
        VendorConnection::Http(_) => true,
        VendorConnection::ExternalAgent(_) => {
            find_kind(vendor.name).is_some_and(|kind| !kind.command.is_empty())
        }
        VendorConnection::Scripted | VendorConnection::Unsupported => false,
    })
}

/// Returns the row of the key at `path`, which consists of the names of keys, without indexes.
pub fn key_row(path: &[&str]) -> Option<&'static ConfigKey> {
    let (last_name, parents) = path.split_last()?;
    let section = parents.iter().try_fold(&ROOT, |section, name| {
        section_of(&section.find(name)?.shape)
    });
    section?.find(last_name)
}

/// Returns the section of a value that is a mapping, or a list of mappings.
fn section_of(shape: &'static ValueShape) -> Option<&'static KeySection> {
    match shape {
        ValueShape::Mapping(section) | ValueShape::TextOr(section) => Some(section),
        ValueShape::List(item) => section_of(item),
        ValueShape::Any
        | ValueShape::Verbatim
        | ValueShape::Text
        | ValueShape::Flag
        | ValueShape::Integer(..)
        | ValueShape::Number(..)
        | ValueShape::OneOf(_)
        | ValueShape::OneOfOrList(_)
        | ValueShape::Size(..)
        | ValueShape::Names
        | ValueShape::Named(_) => None,
    }
}
