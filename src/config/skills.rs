//! The directories in which skills are looked up. A skill is a directory with a file `SKILL.md`:
//! <https://agentskills.io>.

use crate::config::storage_path::STATE_DIR;
use crate::path::AbsPath;

/// The directory of skills in the state directories of the project and of the home directory.
const SKILLS: &str = "skills";
/// The directory of skills that several programs read in a project and in the home directory.
const AGENTS_SKILLS: &str = ".agents/skills";
/// The directory of skills that Claude Code reads in a project.
const CLAUDE_SKILLS: &str = ".claude/skills";

/// The directories of a project with skills that its config need not name.
const OWN_SKILLS: [&str; 3] = [".massgen/skills", AGENTS_SKILLS, CLAUDE_SKILLS];

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
    /// The author of its content.
    pub author: SkillAuthor,
    /// Whether the config names it: then massgen warns if it does not exist.
    pub is_named: bool,
}

/// The author of the content of a directory with skills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillAuthor {
    /// It came with the directory in which massgen was started, and may be a stranger's: its symlinks
    /// count only if they stay inside that directory.
    Project,
    /// It is the user's own.
    User,
}

impl SkillsConfig {
    /// Returns the directories of a run that is started in `base`. The directory that the config
    /// names comes before that in the home directory if it is outside `base`, and else after it;
    /// then those of the project follow.
    pub fn new(config_directory: Option<AbsPath>, base: &AbsPath, home: Option<&AbsPath>) -> Self {
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
        let home_directories = home.map(|home| [in_state(home), home.join(AGENTS_SKILLS)]);
        let home_directories = home_directories
            .into_iter()
            .flatten()
            .map(|path| (path, false));
        let is_in_project = config_directory
            .as_ref()
            .is_some_and(|directory| directory.is_within(base));
        let config_directory = config_directory.map(|directory| (directory, true));
        let (in_project, elsewhere) = match config_directory {
            Some(directory) if is_in_project => (Some(directory), None),
            directory => (None, directory),
        };
        let directories_by_rank = elsewhere
            .into_iter()
            .chain(home_directories)
            .chain(in_project)
            .chain(OWN_SKILLS.map(|directory| (base.join(directory), false)));
        for (path, is_named) in directories_by_rank {
            add(path, is_named);
        }
        Self {
            directories,
            from_sessions: false,
        }
    }
}
