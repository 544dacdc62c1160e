//! The directories in which skills are looked for: directories with a file `SKILL.md`. See
//! <https://agentskills.io>.

use crate::config::storage_path::STATE_DIR;
use crate::path::AbsPath;

/// The directory of skills in a state directory: the project's, and that in the home directory.
const SKILLS: &str = "skills";
/// The directory of skills that Claude Code reads in a project.
const CLAUDE_SKILLS: &str = ".claude/skills";

/// The directories with skills, in the order of their rank; empty unless `use_skills` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillsConfig {
    /// The directories. They need not exist.
    pub directories: Vec<SkillDirectory>,
    /// Whether the skills that earlier sessions have left are offered too.
    pub from_sessions: bool,
}

/// A directory whose subdirectories are skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillDirectory {
    /// The directory.
    pub path: AbsPath,
    /// Whose it is.
    pub author: SkillAuthor,
    /// Whether the config names it, so that it is missed if it does not exist.
    pub is_named: bool,
}

/// Author of the content of a directory with skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillAuthor {
    /// It is in the directory in which massgen was started, and may be a stranger's: no symlink in
    /// it leads to a skill elsewhere.
    Project,
    /// It is the user's own.
    User,
}

impl SkillsConfig {
    /// Returns the directories of a run that is started in `base`: `named` by the config if it is
    /// outside `base`, then that in the home directory, then those of the project.
    pub fn new(named: Option<AbsPath>, base: &AbsPath, home: Option<&AbsPath>) -> Self {
        let in_state = |directory: &AbsPath| directory.join(STATE_DIR).join(SKILLS);
        let mut directories: Vec<SkillDirectory> = Vec::new();
        let mut add = |path: AbsPath, is_named| {
            if directories.iter().all(|known| known.path != path) {
                let author = if path.is_within(base) {
                    SkillAuthor::Project
                } else {
                    SkillAuthor::User
                };
                directories.push(SkillDirectory {
                    path,
                    author,
                    is_named,
                });
            }
        };
        let is_of_project = named.as_ref().is_some_and(|named| named.is_within(base));
        let in_home = home.map(|home| (in_state(home), false));
        let named = named.map(|named| (named, true));
        let (first, second) = if is_of_project {
            (in_home, named)
        } else {
            (named, in_home)
        };
        for (path, is_named) in first.into_iter().chain(second) {
            add(path, is_named);
        }
        add(in_state(base), false);
        add(base.join(CLAUDE_SKILLS), false);
        Self {
            directories,
            from_sessions: false,
        }
    }
}
