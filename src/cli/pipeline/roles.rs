//! Owns `massgen roles`: what each role of a pipeline may do, where it writes, and who plays it.

use serde_json::json;

use crate::cli::output::{Form, Output};
use crate::cli::pipeline_arguments::RolesArguments;
use crate::cli::run::runtime;
use crate::cli::team::checked;
use crate::cli::team_file::TeamFile;
use crate::config::workflow::Workflow;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::id::AgentId;
use crate::path::RelPath;
use crate::pipeline::ground::Setting;
use crate::roles::table::{ROLES, built_in};
use crate::roles::{Right, Role, RoleName, Stage, Writes};
use crate::wording::{counted, spelled};
use crate::world::git::Git;
use crate::world::git::object::ObjectId;

/// What stands above the columns.
const TITLES: [&str; COLUMNS] = [
    "ROLE",
    "READ",
    "WRITE",
    "EDIT",
    "BASH",
    "WRITES TO",
    "LEAVES",
    "AGENTS",
    "PURPOSE",
];
/// How many columns there are.
const COLUMNS: usize = 9;
/// What stands where there is nothing.
const NONE: &str = "-";

/// A role with those who play it.
struct Row {
    role: Role,
    agents: Vec<AgentId>,
    copies: u32,
}

/// Prints the roles of a config, or those that every config has.
pub(super) fn show(host: &Host, asked: &RolesArguments, output: &mut Output<'_>) -> Result<()> {
    let (rows, directory) = match &asked.config {
        None => (of_table(), RelPath::default()),
        Some(name) => {
            let workflow = workflow_of(name, host, output)?;
            let setting = runtime()?.block_on(setting(&workflow, host))?;
            (of_workflow(&workflow), setting.directory)
        }
    };
    match Form::from(asked.json) {
        Form::Json => rows
            .iter()
            .try_for_each(|row| output.result(&for_scripts(row, &directory))),
        Form::Text => for_people(&rows, &directory, output),
    }
}

/// What a pipeline would be set in that began here.
async fn setting(workflow: &Workflow, host: &Host) -> Result<Setting> {
    let git = Git::find(&host.env).await?;
    Setting::of(workflow, &git, &host.cwd).await
}

fn of_table() -> Vec<Row> {
    let names = ROLES
        .iter()
        .filter_map(|row| RoleName::parse(row.name).ok());
    let roles = names.filter_map(|name| built_in(&name));
    let row = |role| Row {
        role,
        agents: Vec::new(),
        copies: 1,
    };
    roles.map(row).collect()
}

fn workflow_of(name: &str, host: &Host, output: &mut Output<'_>) -> Result<Workflow> {
    let config = checked(&TeamFile::named(name, host)?, host, output)?;
    config.workflow.ok_or_else(|| {
        let message = format!("the config `{name}` has no pipeline");
        Error::new(ErrorKind::Usage, message)
            .hint("`docs/pipelines.md` tells how `workflow` is written")
            .hint("without `--config`, the roles that every config has are shown")
    })
}

fn of_workflow(workflow: &Workflow) -> Vec<Row> {
    let row = |stage: &Stage| Row {
        role: stage.role.clone(),
        agents: stage.agents.clone(),
        copies: stage.copies,
    };
    workflow.pipeline.stages.iter().map(row).collect()
}

/// Prints the roles of a pipeline that would begin, what it would work on, and its course.
pub(crate) async fn show_of(
    (workflow, checks): (&Workflow, usize),
    host: &Host,
    output: &mut Output<'_>,
) -> Result<()> {
    let Setting { project, directory } = setting(workflow, host).await?;
    for_people(&of_workflow(workflow), &directory, output)?;
    let project = project.map_or_else(
        || "none: it begins with an empty tree".to_owned(),
        |project| {
            let branch = project.branch.as_deref().unwrap_or("a detached head");
            let head = project
                .head
                .as_ref()
                .map_or("no commit yet", ObjectId::as_str);
            format!("{}, {branch} at {head}", project.root)
        },
    );
    let course = &workflow.pipeline;
    let stages = course.stages.iter();
    let names: Vec<&str> = stages.map(|stage| stage.role.name.as_str()).collect();
    let end = match &course.until {
        Some(role) => {
            let many = counted(
                course.iterations_max.try_into().unwrap_or(usize::MAX),
                "iteration",
            );
            format!("until {role} is satisfied, for at most {many}")
        }
        None => "once".to_owned(),
    };
    let checks = match checks {
        0 => "none".to_owned(),
        many => format!("{many}, before any work is merged"),
    };
    output.result(&format!(
        "project: {project}\ncourse: {}, {end}\nchecks: {checks}\n",
        names.join(", ")
    ))
}

fn for_people(rows: &[Row], directory: &RelPath, output: &mut Output<'_>) -> Result<()> {
    let cells: Vec<[String; COLUMNS]> = rows.iter().map(|row| cells(row, directory)).collect();
    let titles = TITLES.map(str::to_owned);
    let all = || std::iter::once(&titles).chain(&cells);
    let width = |column: usize| {
        all()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..COLUMNS)
        .map(|column| width(column).unwrap_or_default())
        .collect();
    for row in all() {
        let padded = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        output.result(&format!("{}\n", line.trim_end()))?;
    }
    Ok(())
}

fn cells(row: &Row, directory: &RelPath) -> [String; COLUMNS] {
    let Row {
        role,
        agents,
        copies,
    } = row;
    let may = |right| mark(role.may(right));
    let mut played: Vec<&str> = agents.iter().map(AgentId::as_str).collect();
    let times = format!("x{copies}");
    if *copies > 1 {
        played.push(&times);
    }
    [
        role.name.to_string(),
        mark(true),
        may(Right::Write),
        may(Right::Edit),
        may(Right::Bash),
        or_none(writes(role, directory).join(", ")),
        role.output
            .clone()
            .map_or_else(|| NONE.to_owned(), |output| spelled(&output)),
        or_none(played.join(" ")),
        spelled(&role.purpose),
    ]
}

fn mark(may: bool) -> String {
    if may { "yes" } else { NONE }.to_owned()
}

fn or_none(text: String) -> String {
    if text.is_empty() {
        NONE.to_owned()
    } else {
        text
    }
}

/// The directories that a role writes to.
fn writes(role: &Role, directory: &RelPath) -> Vec<String> {
    let own = directory.as_path().join(role.name.as_str());
    let own = spelled(&format!("{}/", own.display()));
    if !role.may(Right::Write) {
        return Vec::new();
    }
    match &role.writes {
        Writes::OwnDirectory => vec![own],
        Writes::Project => vec![own, "the project".to_owned()],
        Writes::Also(others) => {
            let others = others.iter().map(|dir| spelled(&format!("{dir}/")));
            std::iter::once(own).chain(others).collect()
        }
    }
}

fn for_scripts(row: &Row, directory: &RelPath) -> String {
    let Row {
        role,
        agents,
        copies,
    } = row;
    let rights = Right::ALL
        .into_iter()
        .filter(|right| role.may(*right))
        .map(Right::name);
    let rights: Vec<&str> = std::iter::once("read").chain(rights).collect();
    let told = json!({
        "role": role.name,
        "rights": rights,
        "writes": writes(role, directory),
        "output": role.output,
        "agents": agents,
        "copies": copies,
        "purpose": role.purpose,
    });
    format!("{told}\n")
}
