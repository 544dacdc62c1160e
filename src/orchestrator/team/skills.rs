//! Finds the skills that a team is offered, opens their directories to the members for reading,
//! and reads names and descriptions through a gate of each member, so that its rules apply as to
//! its own calls. See `docs/decisions/0048-skills-are-read-grants.md`.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;

use crate::call_rules::CallRules;
use crate::config::front_matter::FrontMatter;
use crate::config::skills::{SkillAuthor, SkillDirectory, SkillsConfig};
use crate::config::storage_path::STATE_DIR;
use crate::error::Result;
use crate::event::{Event, OfferedSkill, RunEvent};
use crate::id::AgentId;
use crate::orchestrator::grants::{self, apply_path_rules, permission_manager};
use crate::orchestrator::team::{AgentTeam, TeamMember};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, Permission, Phase};
use crate::permissions::guard::FolderGuard;
use crate::permissions::protected::protected_name;
use crate::prompts::instructions::SkillSummary;
use crate::prompts::untrusted_text::UntrustedText;
use crate::text::{escape_name, truncate};
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::exec;
use crate::world::io::files::subdirectory_names;
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::store::sessions;

/// The file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";
/// The directory in a workspace in which an agent leaves a skill.
const SESSION_SKILL: &str = "tasks/evolving_skill";
/// Maximum number of earlier sessions that are searched.
const SESSIONS_MAX: usize = 32;
/// Maximum number of skills of earlier sessions.
const SESSION_SKILLS_MAX: usize = 16;
/// Maximum number of turns whose skills are read, because most may be versions of the same skill.
const SESSION_VERSIONS_MAX: usize = 256;
/// Maximum number of skills of a team.
pub const SKILLS_MAX: usize = 64;
/// Maximum number of subdirectories of a directory with skills.
const SUBDIRECTORIES_MAX: usize = 512;
/// Maximum length of a skill's name, in characters; the same as in the specification.
const NAME_CHARS_MAX: usize = 64;
/// Maximum length of a description that agents are shown, in characters; the same as in the
/// specification.
const DESCRIPTION_CHARS_MAX: usize = 1024;
/// Maximum size of all names and descriptions of an agent, in bytes.
const LISTING_BYTES_MAX: usize = 24 * 1024;

/// The skills of one agent.
#[derive(Clone, Debug, Default)]
pub struct AgentSkills {
    /// The skills, in the order of their rank.
    pub skills: Vec<SkillSummary>,
    /// Messages about skills that were found and are not offered.
    pub notices: Vec<String>,
}

/// Where a skill is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SkillLocation {
    /// Its directory.
    root: RealPath,
    /// Its `SKILL.md`, which is elsewhere if that is a symlink.
    file: RealPath,
}

impl SkillLocation {
    /// Returns the location of a skill whose `SKILL.md` leads to `file`. If `file` is the one of
    /// another directory with the same name, that is the skill, and `root` has only links to it.
    fn new(root: RealPath, file: RealPath) -> Self {
        let target_root = file.parent().filter(|parent| {
            file.name() == Some(SKILL_FILE.as_ref()) && parent.name() == root.name()
        });
        Self {
            root: target_root.unwrap_or(root),
            file,
        }
    }

    /// Returns the grants that open it.
    fn grants(&self) -> impl Iterator<Item = Grant> + use<> {
        let tree = Grant::tree(self.root.clone(), GrantKind::Skill, Permission::Read);
        let linked_file = (!self.file.is_within(&self.root)).then(|| Grant {
            kind: GrantKind::Skill,
            ..Grant::file(self.file.clone(), Permission::Read)
        });
        [tree].into_iter().chain(linked_file)
    }
}

/// The skills that exist, before any file of them was read.
#[derive(Clone, Debug, Default)]
pub struct SkillLocations {
    /// The skills, in the order of their rank.
    skills: Vec<SkillLocation>,
    /// Messages about directories that are not used.
    notices: Vec<String>,
}

impl SkillLocations {
    /// Finds the skills in the directories of `config`, for a run that is started in `base`. It
    /// lists directories and reads no file.
    ///
    /// # Errors
    /// A path cannot be resolved.
    pub fn find(config: &SkillsConfig, base: &RealPath) -> Result<Self> {
        let mut locations = Self::default();
        let directories = config.directories.iter();
        let project_roots: Vec<RealPath> = directories
            .filter_map(|directory| below_base(&directory.path, base))
            .collect();
        for directory in &config.directories {
            locations.add_directory(directory, base, &project_roots);
        }
        Ok(locations)
    }

    /// Adds the skills that winners of earlier turns have left, newest first. Sessions that came
    /// with a project are not trusted.
    fn add_sessions(&mut self, sessions: &AbsPath, base: &RealPath) {
        let sessions = sessions::list(sessions).unwrap_or_default().into_iter();
        let own_sessions = sessions.filter(|session| session.expect_own().is_ok());
        let turns = own_sessions
            .take(SESSIONS_MAX)
            .flat_map(|session| session.turns().unwrap_or_default().into_iter().rev());
        let skills = turns.filter_map(|turn| session_skill(&turn.workspace?));
        self.add_session_skills(skills, base);
    }

    /// Adds the first of `skills` with each name.
    fn add_session_skills(&mut self, skills: impl Iterator<Item = SkillLocation>, base: &RealPath) {
        let skills_left = SKILLS_MAX
            .saturating_sub(self.skills.len())
            .min(SESSION_SKILLS_MAX);
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut refusals: Vec<String> = Vec::new();
        for location in skills.take(SESSION_VERSIONS_MAX) {
            if names.len() >= skills_left {
                break;
            }
            let grants: Vec<Grant> = location.grants().collect();
            match read_skills(slice::from_ref(&location), &grants, &Arc::default(), base) {
                Ok(AgentSkills { skills, notices }) => {
                    refusals.extend(notices);
                    if skills
                        .iter()
                        .any(|skill| names.insert(skill.name.to_lowercase()))
                    {
                        self.skills.push(location);
                    }
                }
                Err(error) => {
                    refusals.push(unused_notice(&location.root.to_abs(), &error.to_string()));
                }
            }
        }
        let refusals = refusals.into_iter().take(SESSION_SKILLS_MAX);
        self.notices.extend(refusals);
    }

    fn add_directory(
        &mut self,
        directory: &SkillDirectory,
        base: &RealPath,
        project_roots: &[RealPath],
    ) {
        let path = &directory.path;
        let names = match subdirectory_names(path, SUBDIRECTORIES_MAX) {
            Ok(Some(names)) => names,
            Ok(None) if directory.is_named => {
                let notice = format!("no skills in `{path}`: it does not exist");
                return self.notices.push(notice);
            }
            Ok(None) => return,
            Err(error) => {
                let notice = format!("no skills in `{path}`: {error}");
                return self.notices.push(notice);
            }
        };
        for name in names {
            let skill = path.join(&name);
            match self.usable_skill(&skill, directory.author, base, project_roots) {
                Ok(None) => {}
                Ok(Some(location)) if self.skills.contains(&location) => {}
                Ok(Some(location)) => self.skills.push(location),
                Err(reason) => self.notices.push(unused_notice(&skill, &reason)),
            }
        }
    }

    /// Returns where the skill in `directory` is, which may be a symlink; `None` if there is none.
    ///
    /// # Errors
    /// Why it is not opened.
    fn usable_skill(
        &self,
        directory: &AbsPath,
        author: SkillAuthor,
        base: &RealPath,
        project_roots: &[RealPath],
    ) -> std::result::Result<Option<SkillLocation>, String> {
        let Ok(LocatedPath::Directory(root)) = locate(directory) else {
            return Ok(None);
        };
        let Some(file) = located_skill_file(&root)? else {
            return Ok(None);
        };
        if self.skills.len() >= SKILLS_MAX {
            return Err(format!("a team has at most {SKILLS_MAX} skills"));
        }
        let location = SkillLocation::new(root, file);
        if author == SkillAuthor::Project {
            for target in [&location.root, &location.file] {
                expect_in_project(target, base, project_roots)?;
            }
        }
        if base.is_within(&location.root) {
            return Err(format!("it contains the current directory `{base}`"));
        }
        Ok(Some(location))
    }

    /// Reads names and descriptions of all skills, without the rules of an agent.
    ///
    /// # Errors
    /// A directory cannot be opened.
    pub fn read_all(&self, base: &RealPath) -> Result<AgentSkills> {
        let grants: Vec<Grant> = self.skills.iter().flat_map(SkillLocation::grants).collect();
        let mut skills = read_skills(&self.skills, &grants, &Arc::default(), base)?;
        skills.notices.splice(0..0, self.notices.clone());
        Ok(skills)
    }
}

/// Returns the file to which `SKILL.md` in `root` leads; `None` if there is none.
///
/// # Errors
/// It is not a file, or cannot be inspected.
fn located_skill_file(root: &RealPath) -> std::result::Result<Option<RealPath>, String> {
    let file = root.to_abs().join(SKILL_FILE);
    match locate(&file) {
        Ok(LocatedPath::File(target)) => Ok(Some(target)),
        Ok(LocatedPath::Missing(target)) if target.to_abs() == file => Ok(None),
        Ok(LocatedPath::Missing(_)) => Err(format!(
            "its `{SKILL_FILE}` is a symlink that leads nowhere"
        )),
        Ok(LocatedPath::Directory(_)) => Err(format!("its `{SKILL_FILE}` is a directory")),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks that a skill of a project is inside the project, and that no symlink leads to what is
/// protected there, such as `.git`, except in the directories with skills.
fn expect_in_project(
    target: &RealPath,
    base: &RealPath,
    project_roots: &[RealPath],
) -> std::result::Result<(), String> {
    let Some(inside) = target.below(base) else {
        return Err(format!("a symlink leads out of the project, to `{target}`"));
    };
    let is_in_skills = project_roots.iter().any(|root| target.is_within(root));
    match protected_name(&inside, &[]) {
        Some(name) if !is_in_skills => Err(format!("a symlink leads into `{name}`")),
        Some(_) | None => Ok(()),
    }
}

/// Returns the directory of the skill in the copy of a workspace, if there is one. No symlink leads
/// out of the copy.
fn session_skill(workspace: &AbsPath) -> Option<SkillLocation> {
    let directory = |path: &AbsPath| match locate(path) {
        Ok(LocatedPath::Directory(directory)) => Some(directory),
        Ok(LocatedPath::File(_) | LocatedPath::Missing(_)) | Err(_) => None,
    };
    let skill = workspace.join(SESSION_SKILL);
    let (workspace_root, root) = (directory(workspace)?, directory(&skill)?);
    let file = located_skill_file(&root).ok()??;
    let is_inside = root.is_within(&workspace_root) && file.is_within(&root);
    is_inside.then_some(SkillLocation { root, file })
}

/// Returns `path` below the real path of `base`, without following symlinks below that.
pub(super) fn below_base(path: &AbsPath, base: &RealPath) -> Option<RealPath> {
    let relative_path = path.below(&base.to_abs())?;
    Some(base.join(&relative_path))
}

/// Reads `locations` through a gate with `grants`. Of several skills with the same name,
/// only the first is offered.
fn read_skills(
    locations: &[SkillLocation],
    grants: &[Grant],
    rules: &Arc<CallRules>,
    base: &RealPath,
) -> Result<AgentSkills> {
    let mut agent_skills = AgentSkills::default();
    if locations.is_empty() {
        return Ok(agent_skills);
    }
    let policy = GatePolicy {
        rules: Arc::clone(rules),
        ..GatePolicy::minimal(base.clone())
    };
    let gate = Gate::open(permission_manager(grants, Phase::Coordination), policy)?;
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut bytes_left = LISTING_BYTES_MAX;
    for SkillLocation { root, file } in locations {
        let file = file.to_abs();
        let skill_result =
            exec::read_text(&gate, &file).and_then(|text| parse_skill(&text, root, &file));
        let accepted_skill = skill_result.and_then(|skill| {
            if !names.insert(skill.name.to_lowercase()) {
                // An older version of a skill of sessions: the newest comes first.
                if file.to_string().contains(SESSION_SKILL) {
                    return Ok(None);
                }
                return Err(format!("an earlier skill has the name `{}`", skill.name));
            }
            let name_bytes = skill.name.len().saturating_add(skill.file.len());
            let size = name_bytes.saturating_add(skill.description.in_quotes().len());
            bytes_left = bytes_left.checked_sub(size).ok_or_else(|| {
                format!("names and descriptions may have {LISTING_BYTES_MAX} bytes together")
            })?;
            Ok(Some(skill))
        });
        match accepted_skill {
            Ok(skill) => agent_skills.skills.extend(skill),
            Err(reason) => agent_skills
                .notices
                .push(unused_notice(&root.to_abs(), &reason)),
        }
    }
    Ok(agent_skills)
}

/// Returns the summary of the skill in `root`, whose file has this text, or why it has none.
fn parse_skill(
    text: &str,
    root: &RealPath,
    file: &AbsPath,
) -> std::result::Result<SkillSummary, String> {
    let front_matter = FrontMatter::parse(text)?;
    let own_name = root.name().map(|name| name.to_string_lossy().into_owned());
    let name = front_matter
        .text("name")
        .map(str::to_owned)
        .or(own_name)
        .unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
        let shown_name = escape_name(&truncate(&name, NAME_CHARS_MAX));
        return Err(format!(
            "`{shown_name}` is not a name of a skill: expected at most {NAME_CHARS_MAX} letters, \
             digits, spaces, `-`, `_` and `.`"
        ));
    }
    let description = front_matter.text("description").ok_or_else(|| {
        "its front matter has no `description`, so that agents cannot know what it is for"
            .to_owned()
    })?;
    Ok(SkillSummary {
        name,
        description: UntrustedText::from(description).truncate(DESCRIPTION_CHARS_MAX),
        file: file.to_string(),
    })
}

fn unused_notice(skill: &AbsPath, reason: &str) -> String {
    let (skill, reason) = (escape_name(&skill.to_string()), reason.trim());
    format!("the skill in `{skill}` is not used: {reason}")
}

impl TeamMember {
    /// Returns the skills that it is offered.
    pub fn skills(&self) -> &AgentSkills {
        &self.skills
    }

    /// Opens those of `locations` to it that its config does not close, and reads their descriptions.
    fn add_skills(&mut self, locations: &[SkillLocation], base: &AbsPath) -> Result<()> {
        let real_base = grants::real_path(base)?;
        let state = grants::real_path(&base.join(STATE_DIR))?;
        let mut notices = Vec::new();
        let mut open_skills = Vec::new();
        for location in locations {
            let paths = [&location.root, &location.file];
            match paths
                .iter()
                .find_map(|path| self.closing_reason(path, &state))
            {
                None => open_skills.push(location.clone()),
                Some(reason) => notices.push(unused_notice(&location.root.to_abs(), reason)),
            }
        }
        if self.config.folder_guard == FolderGuard::Off {
            let grants = open_skills.iter().flat_map(SkillLocation::grants);
            let grants = self.grants.iter().cloned().chain(grants).collect();
            self.grants = apply_path_rules(grants, &self.config.permissions.rules, base)?;
        }
        // The agent's own directories need not exist yet, and no skills are read from them.
        let readable_grants: Vec<Grant> = self
            .grants
            .iter()
            .filter(|grant| matches!(grant.kind, GrantKind::Skill | GrantKind::Context))
            .cloned()
            .collect();
        self.skills = read_skills(&open_skills, &readable_grants, &self.rules, &real_base)?;
        let offered_files: BTreeSet<&String> =
            self.skills.skills.iter().map(|skill| &skill.file).collect();
        let is_offered =
            |location: &&SkillLocation| offered_files.contains(&location.file.to_string());
        let offered: Vec<&SkillLocation> = open_skills.iter().filter(is_offered).collect();
        let is_of_offered = |path: &RealPath| {
            offered
                .iter()
                .any(|skill| [&skill.root, &skill.file].contains(&path))
        };
        self.grants
            .retain(|grant| grant.kind != GrantKind::Skill || is_of_offered(&grant.root));
        self.skills.notices.splice(0..0, notices);
        Ok(())
    }

    /// Returns why its config closes the directory of a skill to it, if it does.
    fn closing_reason(&self, root: &RealPath, state: &RealPath) -> Option<&'static str> {
        let mut contexts = self
            .grants
            .iter()
            .filter(|grant| grant.kind == GrantKind::Context);
        let hides_root = |grant: &Grant| {
            let mut hidden_paths = grant.hidden.iter().map(|rel| grant.root.join(rel));
            hidden_paths.any(|hidden| hidden != *state && root.is_within(&hidden))
        };
        let is_open = |grant: &Grant| grant.relative_path(root).is_some();
        match self.config.folder_guard {
            FolderGuard::Off if contexts.any(hides_root) => {
                Some("`hidden_paths` closes its directory")
            }
            FolderGuard::On { .. } if !contexts.any(is_open) => {
                Some("the agent's `folder_guard` does not open its directory")
            }
            FolderGuard::Role { .. } => Some("a role of a pipeline reads only its own tree"),
            FolderGuard::Off | FolderGuard::On { .. } => None,
        }
    }
}

impl AgentTeam {
    /// Returns the team with the skills that the config offers to its members.
    ///
    /// # Errors
    /// A directory of a skill cannot be opened.
    pub fn with_skills(mut self) -> Result<Self> {
        let config = &self.config.orchestrator.skills;
        if config.directories.is_empty() {
            return Ok(self);
        }
        let base = grants::real_path(&self.base)?;
        let mut locations = SkillLocations::find(config, &base)?;
        if let Some(sessions) = &self.session_skills {
            locations.add_sessions(sessions, &base);
        }
        for member in &mut self.members {
            member.add_skills(&locations.skills, &self.base)?;
        }
        self.skill_notices = locations.notices;
        // With `load_previous_session_skills`, the first session leaves the first skill.
        if locations.skills.is_empty() && self.session_skills.is_none() {
            self.skill_notices.push(
                "`use_skills` is set, and there are no skills: `massgen skills list` shows where \
                 they are looked for"
                    .to_owned(),
            );
        }
        Ok(self)
    }

    /// Returns the events that tell which agents are offered which skills, and why others are not.
    pub fn skill_events(&self) -> Vec<Event> {
        let mut offers: Vec<(&[SkillSummary], Vec<AgentId>)> = Vec::new();
        for member in &self.members {
            let skills = member.skills.skills.as_slice();
            match offers.iter_mut().find(|(known, _)| *known == skills) {
                _ if skills.is_empty() => {}
                Some((_, agents)) => agents.push(member.id.clone()),
                None => offers.push((skills, vec![member.id.clone()])),
            }
        }
        let offered_skill = |skill: &SkillSummary| OfferedSkill {
            name: skill.name.clone(),
            path: skill.file.clone(),
        };
        let offers = offers
            .into_iter()
            .map(|(skills, agents)| RunEvent::SkillsOffered {
                agents,
                skills: skills.iter().map(offered_skill).collect(),
            });
        let warning = |message: &String| RunEvent::Warning {
            message: message.clone(),
        };
        let notices = self.skill_notices().into_iter().map(warning);
        offers.chain(notices).map(Event::Run).collect()
    }

    /// Returns why skills are not offered, each message once.
    pub fn skill_notices(&self) -> Vec<&String> {
        let members = self.members.iter();
        let notices = members.flat_map(|member| &member.skills.notices);
        let mut unique_notices: Vec<&String> = Vec::new();
        for notice in self.skill_notices.iter().chain(notices) {
            if !unique_notices.contains(&notice) {
                unique_notices.push(notice);
            }
        }
        unique_notices
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::RelPath;

    #[expect(
        clippy::disallowed_methods,
        reason = "a test makes its own directories"
    )]
    #[test]
    fn versions_of_a_skill_take_one_place() {
        let dir = tempfile::tempdir().unwrap();
        let real = |path: &std::path::Path| {
            let path = AbsPath::new(path).unwrap();
            grants::real_path(&path).unwrap()
        };
        let skill = |number: usize, text: &str| {
            let root = dir.path().join(number.to_string()).join(SESSION_SKILL);
            std::fs::create_dir_all(&root).unwrap();
            std::fs::write(root.join(SKILL_FILE), text).unwrap();
            let root = real(&root);
            let file = RelPath::new(SKILL_FILE)
                .map(|name| root.join(&name))
                .unwrap();
            SkillLocation { root, file }
        };
        let with_name = |number: usize, name: &str| {
            skill(number, &format!("---\nname: {name}\ndescription: d\n---\n"))
        };
        let mut skills: Vec<SkillLocation> =
            (0..20).map(|number| with_name(number, "same")).collect();
        skills.push(skill(20, "no front matter"));
        skills.extend((21..40).map(|number| with_name(number, &format!("s{number}"))));
        let mut locations = SkillLocations::default();
        locations.add_session_skills(skills.iter().cloned(), &real(dir.path()));
        assert_eq!(locations.skills.len(), SESSION_SKILLS_MAX);
        assert_eq!(
            locations.skills[..2],
            [skills[0].clone(), skills[21].clone()]
        );
        assert_eq!(locations.notices.len(), 1, "{:?}", locations.notices);
    }
}
