//! The `massgen skills` commands: list and show the skills that agents would be offered, which
//! `massgen config check` lists too. They read `SKILL.md` files and start no program.

use serde_json::{Value, json};

use crate::cli::args::skills::{SkillSourceArguments, SkillsCommand};
use crate::cli::environment::{self, LoadedEnvironment};
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::team::load_config_without_warnings;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::skills::SkillsConfig;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::grants;
use crate::orchestrator::team::skills::{AgentSkills, SkillLocations};
use crate::path::AbsPath;
use crate::prompts::instructions::SkillSummary;
use crate::text::{escape_line, escape_name, escape_text};
use crate::world::io::files::read_regular_file;

/// Maximum size of a `SKILL.md` that is shown, in bytes.
const SKILL_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Runs a `massgen skills` subcommand.
pub(crate) fn run(
    host: &Host,
    command: &SkillsCommand,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (SkillsCommand::List { source } | SkillsCommand::Show { source, .. }) = command;
    let format = ReportFormat::from(source.json);
    let config = configured_skills(source, host, output)?;
    let AgentSkills { skills, notices } = available_skills(&config, &host.cwd)?;
    match command {
        SkillsCommand::List { .. } => {
            for notice in &notices {
                output.warning(notice);
            }
            for skill in &skills {
                output.result(&match format {
                    ReportFormat::Json => format!("{}\n", to_json(skill)),
                    ReportFormat::Text => to_text(skill),
                })?;
            }
            if skills.is_empty() {
                let paths: Vec<String> = config
                    .directories
                    .iter()
                    .map(|directory| directory.path.to_string())
                    .collect();
                output.note(&format!("no skills in {}", paths.join(", ")));
            }
        }
        SkillsCommand::Show { name, .. } => {
            let lowercase_name = name.to_lowercase();
            let matching_skill = skills
                .iter()
                .find(|skill| skill.name.to_lowercase() == lowercase_name);
            let skill = matching_skill.ok_or_else(|| {
                Error::new(ErrorKind::Usage, format!("no skill `{name}`"))
                    .with_hint("see `massgen skills list`")
            })?;
            show(skill, format, output)?;
        }
    }
    Ok(ExitStatus::Success)
}

/// Returns the directories of the config that the arguments name, or the default ones.
fn configured_skills(
    source: &SkillSourceArguments,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<SkillsConfig> {
    let Some(name) = &source.config else {
        return Ok(SkillsConfig::new(None, &host.cwd, host.home.as_ref()));
    };
    let LoadedEnvironment { host, warnings } = environment::load(host);
    for warning in &warnings {
        output.warning(warning);
    }
    let config = load_config_without_warnings(&TeamFile::find(name, &host)?, &host, output)?;
    let skills = config.orchestrator.skills;
    if skills.directories.is_empty() {
        return Err(
            Error::new(ErrorKind::Usage, format!("`{name}` does not use skills"))
                .with_hint("set `use_skills: true` in `orchestrator.coordination`"),
        );
    }
    Ok(skills)
}

fn available_skills(config: &SkillsConfig, cwd: &AbsPath) -> Result<AgentSkills> {
    let base = grants::real_path(cwd)?;
    SkillLocations::find(config, &base)?.read_all(&base)
}

/// Returns the lines of `massgen config check` about the skills of a config, and their JSON form;
/// `None` if it uses none.
pub(crate) fn describe_configured(config: &Config, host: &Host) -> Option<(String, Value)> {
    let skills = &config.orchestrator.skills;
    if skills.directories.is_empty() {
        return None;
    }
    let AgentSkills { skills, notices } = match available_skills(skills, &host.cwd) {
        Ok(skills) => skills,
        Err(error) => AgentSkills {
            skills: Vec::new(),
            notices: vec![error.to_string()],
        },
    };
    let names = skills.iter().map(|skill| {
        let file = escape_name(&skill.file);
        format!("skill: {} ({file})", skill.name)
    });
    let mut lines: Vec<String> = names.collect();
    if lines.is_empty() {
        lines.push("skills: none found".to_owned());
    }
    lines.extend(notices.iter().cloned());
    let json = json!({
        "skills": skills.iter().map(to_json).collect::<Vec<_>>(),
        "notices": notices,
    });
    Some((lines.join("\n"), json))
}

fn to_json(skill: &SkillSummary) -> Value {
    json!({
        "name": skill.name,
        "description": skill.description.as_written(),
        "file": skill.file,
    })
}

fn to_text(skill: &SkillSummary) -> String {
    let (file, description) = (
        escape_name(&skill.file),
        escape_line(skill.description.as_written()),
    );
    format!("{}  {file}\n    {description}\n", skill.name)
}

fn show(skill: &SkillSummary, format: ReportFormat, output: &mut CliOutput<'_>) -> Result<()> {
    let path = AbsPath::new(&skill.file)
        .ok_or_else(|| Error::bug(format!("`{}` is not absolute", skill.file)))?;
    let bytes = read_regular_file(&path, SKILL_FILE_BYTES_MAX)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    match format {
        ReportFormat::Json => {
            let mut json = to_json(skill);
            if let Value::Object(fields) = &mut json {
                fields.insert("text".to_owned(), Value::from(text.as_ref()));
            }
            output.result(&format!("{json}\n"))
        }
        ReportFormat::Text => {
            output.note(&escape_name(&skill.file));
            let text = escape_text(&text);
            output.result(&format!("{}\n", text.trim_end()))
        }
    }
}
