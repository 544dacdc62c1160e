//! Reads the instructions that projects keep for agents (`AGENTS.md`, or a file with the same
//! purpose) in the directories that were opened to an agent. They are read through a gate of the
//! agent, so that the same rules about paths, hidden names and symlinks apply as to its own calls.
//! See <https://agents.md>.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::call_rules::CallRules;
use crate::error::Result;
use crate::event::{Event, RunEvent};
use crate::id::AgentId;
use crate::orchestrator::grants::{self, permission_manager};
use crate::orchestrator::team::AgentTeam;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, GrantScope, Phase};
use crate::prompts::instructions::InstructionFile;
use crate::text::count_noun;
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::exec;
use crate::world::io::locate::{LocatedPath, locate};

/// The names of files with instructions. The first that exists in a directory is read.
const FILE_NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "GEMINI.md"];

/// Maximum size of the instructions of one file, in bytes; the same as Codex's default.
pub const FILE_BYTES_MAX: usize = 32 * 1024;

/// Maximum size of all instructions of an agent, in bytes.
pub const TOTAL_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of directories in which files are looked for.
const DIRECTORIES_MAX: usize = 64;

/// The instructions for one agent.
#[derive(Clone, Debug, Default)]
pub struct ProjectInstructions {
    /// The files, nearest to the current directory first.
    pub files: Vec<InstructionFile>,
    /// Messages about files that were found and not read.
    pub notices: Vec<String>,
}

/// Reads the instructions for one agent.
#[derive(Debug)]
pub struct InstructionReader<'a> {
    /// The paths that are open to it.
    pub grants: &'a [Grant],
    /// The rules of `permissions` for its calls.
    pub rules: &'a Arc<CallRules>,
    /// The user's current directory.
    pub base: &'a RealPath,
}

impl InstructionReader<'_> {
    /// Reads the files of all opened directories.
    ///
    /// # Errors
    /// An opened directory cannot be opened.
    pub fn read(&self) -> Result<ProjectInstructions> {
        let mut instructions = ProjectInstructions::default();
        let files = self.find_files();
        if files.is_empty() {
            return Ok(instructions);
        }
        // The agent's own directories need not exist yet, and no instructions are read from them.
        let opened_grants: Vec<Grant> = self.opened_grants().cloned().collect();
        // massgen reads them, not the agent: no hook decides about that, and no user is asked.
        let policy = GatePolicy {
            rules: Arc::clone(self.rules),
            ..GatePolicy::minimal(self.base.clone())
        };
        let gate = Gate::open(
            permission_manager(&opened_grants, Phase::Coordination),
            policy,
        )?;
        let mut bytes_left = TOTAL_BYTES_MAX;
        for path in files {
            let bytes_max = bytes_left.min(FILE_BYTES_MAX);
            match read_file(&gate, &path, bytes_max) {
                Ok(file) => {
                    let file_bytes = usize::try_from(file.size_bytes).unwrap_or(usize::MAX);
                    bytes_left = bytes_left.saturating_sub(file_bytes);
                    instructions.files.push(file);
                }
                Err(reason) => instructions.notices.push(format!(
                    "the instructions in `{path}` are not used: {reason}"
                )),
            }
        }
        Ok(instructions)
    }

    /// Returns the grants of paths that the user opened.
    fn opened_grants(&self) -> impl Iterator<Item = &Grant> {
        let grants = self.grants.iter();
        grants.filter(|grant| grant.kind == GrantKind::Context)
    }

    /// Returns the files that exist, nearest to the current directory first.
    fn find_files(&self) -> Vec<AbsPath> {
        let mut directories: Vec<RealPath> = Vec::new();
        let (ancestors, others): (Vec<_>, Vec<_>) = self
            .opened_grants()
            .filter(|grant| grant.scope == GrantScope::Tree)
            .map(|grant| &grant.root)
            .partition(|root| self.base.is_within(root));
        let is_opened =
            |directory: &RealPath| ancestors.iter().any(|root| directory.is_within(root));
        let mut directory = Some(self.base.clone());
        while let Some(current_directory) = directory.filter(is_opened) {
            directory = current_directory.parent();
            directories.push(current_directory);
        }
        directories.extend(others.into_iter().cloned());
        directories.truncate(DIRECTORIES_MAX);
        let mut files: Vec<AbsPath> = Vec::new();
        for file in directories.iter().filter_map(find_file) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        files
    }
}

/// Returns the path of the file with instructions in `directory`, if there is one. The gate checks
/// later what it is and where a symlink leads.
fn find_file(directory: &RealPath) -> Option<AbsPath> {
    let mut candidates = FILE_NAMES.iter().map(|name| directory.to_abs().join(name));
    candidates.find(|path| !matches!(locate(path), Ok(LocatedPath::Missing(_))))
}

fn read_file(
    gate: &Gate,
    path: &AbsPath,
    bytes_max: usize,
) -> std::result::Result<InstructionFile, String> {
    if bytes_max == 0 {
        return Err(format!(
            "all instructions together may have {TOTAL_BYTES_MAX} bytes"
        ));
    }
    let content = exec::read_text(gate, path)?;
    let text = first_lines(&content, bytes_max);
    Ok(InstructionFile {
        path: path.to_string(),
        size_bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
        is_truncated: text.len() < content.len(),
        text: text.into(),
    })
}

/// Describes the size of what an agent was given of a file.
pub fn describe_size(size_bytes: u64, is_truncated: bool) -> String {
    let size = count_noun(usize::try_from(size_bytes).unwrap_or(usize::MAX), "byte");
    if is_truncated {
        format!("only the first {size}")
    } else {
        size
    }
}

/// Returns the lines at the beginning of `text` that have at most `bytes_max` bytes together, or
/// the beginning of a first line that has more.
fn first_lines(text: &str, bytes_max: usize) -> &str {
    let Some(start) = text.get(..text.floor_char_boundary(bytes_max)) else {
        return text;
    };
    match start.rfind('\n') {
        Some(end) if start.len() < text.len() => start.get(..=end).unwrap_or(start),
        Some(_) | None => start,
    }
}

impl AgentTeam {
    /// Gives each member the instructions in the directories that are open to it, unless the config
    /// leaves them out.
    ///
    /// # Errors
    /// A directory that is open to a member cannot be opened.
    pub fn with_project_instructions(mut self) -> Result<Self> {
        if !self.config.orchestrator.reads_project_instructions {
            return Ok(self);
        }
        let base = grants::real_path(&self.base)?;
        for member in &mut self.members {
            let reader = InstructionReader {
                grants: &member.grants,
                rules: &member.rules,
                base: &base,
            };
            member.instructions = reader.read()?;
        }
        Ok(self)
    }

    /// Returns the events that tell which agents read which instructions, and why others were not
    /// read.
    pub fn instruction_events(&self) -> Vec<Event> {
        let members = self.members.iter();
        let instructions = members.map(|member| (&member.id, &member.instructions));
        let events = instruction_events(instructions.clone());
        let notices: BTreeSet<&String> = instructions
            .flat_map(|(_, instructions)| &instructions.notices)
            .collect();
        let warning = |message: &String| RunEvent::Warning {
            message: message.clone(),
        };
        let notices = notices.into_iter().map(warning);
        events.into_iter().chain(notices).map(Event::Run).collect()
    }
}

/// Returns the events that tell which agents read which files.
fn instruction_events<'a>(
    members: impl IntoIterator<Item = (&'a AgentId, &'a ProjectInstructions)>,
) -> Vec<RunEvent> {
    let mut files: Vec<(&InstructionFile, Vec<AgentId>)> = Vec::new();
    for (agent, instructions) in members {
        for file in &instructions.files {
            match files.iter_mut().find(|(known, _)| *known == file) {
                Some((_, agents)) => agents.push(agent.clone()),
                None => files.push((file, vec![agent.clone()])),
            }
        }
    }
    let events = files
        .into_iter()
        .map(|(file, agents)| RunEvent::InstructionsRead {
            agents,
            path: file.path.clone(),
            size_bytes: file.size_bytes,
            is_truncated: file.is_truncated,
        });
    events.collect()
}
