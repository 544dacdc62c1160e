//! Reads the types of subagents that agents may start: built-in ones, and those of files in the
//! directories of the user and of the project.

use std::sync::Arc;

use crate::config::subagents::{SubagentBackend, SubagentTypesConfig};
use crate::error::Result;
use crate::mentions::LookupResult;
use crate::orchestrator::grants;
use crate::orchestrator::team::skills::below_base;
use crate::orchestrator::team::{AgentTeam, DeliveryAccess, TeamMember};
use crate::path::{AbsPath, RealPath};
use crate::prompts::subagent_types::{
    SubagentChoices, SubagentModelOffer, SubagentType, TYPE_FILE,
};
use crate::text::{escape_name, join_with_commas};
use crate::world::io::files::{inspect, read_regular_file};
use crate::world::io::locate::locate;

/// Maximum size of the file of a type, in bytes.
const FILE_BYTES_MAX: u64 = 128 * 1024;

/// The types of a team's subagents.
#[derive(Clone, Debug, Default)]
pub(super) struct SubagentTypes {
    types: Vec<SubagentType>,
    /// Messages about types of files, and about those that are missing or not used.
    notices: Vec<String>,
}

impl SubagentTypes {
    /// Reads the types of `config` for a run that is started in `base`. A type of the project
    /// replaces neither massgen's nor the user's own of the same name.
    fn read(config: &SubagentTypesConfig, base: &RealPath) -> Self {
        let mut types = Self::default();
        for name in &config.names {
            types.add(name, config, base);
        }
        types
    }

    /// Adds the type `name`, or a notice why there is none.
    fn add(&mut self, name: &str, config: &SubagentTypesConfig, base: &RealPath) {
        let file_in = |directory: &AbsPath| directory.join(name).join(TYPE_FILE);
        let own_files: Vec<AbsPath> = config.user_directory.iter().map(file_in).collect();
        let project_files: Vec<AbsPath> = config.project_directories.iter().map(file_in).collect();
        let (own_file, project_file) = (first_existing(&own_files), first_existing(&project_files));
        let (type_result, file) = match (own_file, SubagentType::built_in(name), project_file) {
            (Some(file), _, _) => (read_type(name, file), file),
            (None, Some(built_in), ignored_file) => {
                let reason = "massgen has a type of this name: give the directory another name, or \
                              move it to `~/.massgen/subagent_types`";
                self.notices
                    .extend(ignored_file.map(|file| unused_notice(file, reason)));
                return self.types.push(built_in);
            }
            (None, None, Some(file)) => {
                let type_result =
                    expect_in_project(file, base).and_then(|()| read_type(name, file));
                (type_result, file)
            }
            (None, None, None) => {
                return self.notices.push(format!(
                    "there is no subagent type `{name}`: massgen has none of this name, and there \
                     is no `{name}/{TYPE_FILE}` in `~/.massgen/subagent_types`, \
                     `.massgen/subagent_types` or `.agent/subagent_types`"
                ));
            }
        };
        match type_result {
            Ok(subagent_type) => {
                let path = escape_name(&file.to_string());
                self.notices
                    .push(format!("the subagent type `{name}` is that of `{path}`"));
                self.types.push(subagent_type);
            }
            Err(reason) => self.notices.push(unused_notice(file, &reason)),
        }
    }
}

/// Returns the first of `candidates` that exists, even if it cannot be read: the user must not get
/// another type of the same name.
fn first_existing(candidates: &[AbsPath]) -> Option<&AbsPath> {
    let mut candidates = candidates.iter();
    candidates.find(|path| inspect(path) != LookupResult::Missing)
}

/// Checks that no symlink in the project leads to `file`.
fn expect_in_project(file: &AbsPath, base: &RealPath) -> std::result::Result<(), String> {
    let real_file = locate(file).map_err(|error| error.to_string())?.into_real();
    if below_base(file, base).as_ref() == Some(&real_file) {
        Ok(())
    } else {
        Err("a symlink leads to it; copy the directory".to_owned())
    }
}

fn read_type(name: &str, file: &AbsPath) -> std::result::Result<SubagentType, String> {
    let file_bytes = read_regular_file(file, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let bytes = file_bytes.ok_or_else(|| "it does not exist".to_owned())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    SubagentType::parse(name, &text)
}

fn unused_notice(file: &AbsPath, reason: &str) -> String {
    let (file, reason) = (escape_name(&file.to_string()), reason.trim());
    format!("the subagent type in `{file}` is not used: {reason}")
}

impl AgentTeam {
    /// Returns the team with the types of subagents that agents may start.
    ///
    /// # Errors
    /// The current directory cannot be resolved.
    pub fn with_subagent_types(mut self) -> Result<Self> {
        let rules = &self.config.orchestrator;
        if rules.subagents.is_some() && !rules.subagent_types.names.is_empty() {
            let base = grants::real_path(&self.base)?;
            self.subagent_types = SubagentTypes::read(&rules.subagent_types, &base);
        }
        Ok(self)
    }

    /// Returns the notices for the user about what subagents may be: their types that come from
    /// files or are missing, and their models.
    pub fn subagent_choice_notices(&self) -> Vec<String> {
        let mut notices = self.subagent_types.notices.clone();
        for member in &self.members {
            let subagent_models = &member.config.backend.subagent_models;
            let models: Vec<String> = subagent_models.iter().map(name_and_model).collect();
            let types = self.types_with_models(member);
            let has_no_choice = match models.as_slice() {
                [] => true,
                [_] => types.is_none(),
                [..] => false,
            };
            if has_no_choice || self.subagent_limits(member).is_none() {
                continue;
            }
            let models = join_with_commas(&models);
            let notice = match types {
                None => format!(
                    "subagents take turns with the models {models}, unless their agent chooses one"
                ),
                Some([]) => {
                    "subagents have the models of their agents: `shared_child_team_types` is empty"
                        .to_owned()
                }
                Some(types) => format!(
                    "only subagents of these types have the models {models}: {}",
                    join_with_commas(types)
                ),
            };
            if !notices.contains(&notice) {
                notices.push(notice);
            }
        }
        notices
    }

    /// Returns the types whose subagents have the models that the config names for subagents;
    /// `None` if all subagents of `member` have them, because the config says so or it is an
    /// external agent, which has no model for others.
    fn types_with_models(&self, member: &TeamMember) -> Option<&[String]> {
        let types = self
            .config
            .orchestrator
            .subagent_types
            .types_with_models
            .as_deref();
        types.filter(|_| member.config.backend.external_agent.is_none())
    }

    /// Returns what `member` may choose for its subagents; `None` in a replay.
    pub(super) fn subagent_choices(&self, member: &TeamMember) -> Option<Arc<SubagentChoices>> {
        let offer = |named: &SubagentBackend| SubagentModelOffer {
            name: named.name.clone(),
            model: named.backend.model.clone(),
        };
        let models = member.config.backend.subagent_models.iter();
        let choices = SubagentChoices {
            types: self.subagent_types.types.clone(),
            models: models.map(offer).collect(),
            types_with_models: self.types_with_models(member).map(<[String]>::to_vec),
            skills: member.skills.skills.clone(),
        };
        (self.delivery_access == DeliveryAccess::ReadWrite).then(|| Arc::new(choices))
    }
}

fn name_and_model(named: &SubagentBackend) -> String {
    let SubagentBackend { name, backend } = named;
    format!("`{name}` ({})", escape_name(&backend.model))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "tests look at the disk themselves"
    )]
    fn an_unusable_type_of_the_user_gives_way_to_none_of_the_project() {
        let root = tempfile::tempdir().unwrap();
        let root = grants::real_path(&AbsPath::new(root.path()).unwrap()).unwrap();
        let (home, project) = (root.to_abs().join("home"), root.to_abs().join("project"));
        let unusable = home.join(".massgen/subagent_types/counter/SUBAGENT.md");
        fs::create_dir_all(unusable.as_path()).unwrap();
        let project_type = project.join(".agent/subagent_types/counter");
        fs::create_dir_all(project_type.as_path()).unwrap();
        let text = "---\ndescription: d\n---\nCount.\n";
        fs::write(project_type.join(TYPE_FILE).as_path(), text).unwrap();
        let read = |home: Option<&AbsPath>| {
            let names = vec!["counter".to_owned()];
            let config = SubagentTypesConfig::new(names, &project, home);
            SubagentTypes::read(&config, &grants::real_path(&project).unwrap())
        };
        let found = read(Some(&home));
        assert!(found.types.is_empty(), "{found:?}");
        assert!(found.notices[0].contains("is not used"), "{found:?}");
        let found = read(None);
        assert_eq!(found.types.len(), 1, "{found:?}");
    }
}
