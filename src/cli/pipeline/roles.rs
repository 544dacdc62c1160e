//! Implements `massgen pipeline roles`: prints what each role of a pipeline may do, where it
//! writes, and which agents play it. `--dry-run` prints that too, with the order of the stages.

use serde_json::json;

use crate::cli::args::pipeline::RolesArguments;
use crate::cli::interrupts::runtime;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::team::load_config;
use crate::cli::team_file::TeamFile;
use crate::config::workflow::WorkflowConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::id::AgentId;
use crate::path::RelPath;
use crate::pipeline::repository::PipelinePreview;
use crate::roles::built_in::{ROLES, built_in_role};
use crate::roles::{PipelineRole, PipelineStage, RoleName, RoleRight, RoleWriteAccess};
use crate::text::{count_noun, escape_name};
use crate::world::git::GitProgram;
use crate::world::git::object::ObjectId;

/// Column titles.
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
/// Number of columns.
const COLUMNS: usize = 9;
/// Placeholder for an empty cell.
const EMPTY_CELL: &str = "-";

/// A role with the agents that play it.
struct RoleRow {
    role: PipelineRole,
    agents: Vec<AgentId>,
    copies: u32,
}

/// Prints the roles of a config, or the built-in ones.
pub(super) fn show(
    host: &Host,
    arguments: &RolesArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let (rows, directory) = match &arguments.config {
        None => (built_in_rows(), RelPath::default()),
        Some(name) => {
            let workflow = load_workflow(name, host, output)?;
            let preview = runtime()?.block_on(pipeline_preview(&workflow, host))?;
            (workflow_rows(&workflow), preview.directory)
        }
    };
    match ReportFormat::from(arguments.json) {
        ReportFormat::Json => rows
            .iter()
            .try_for_each(|row| output.result(&to_json(row, &directory))),
        ReportFormat::Text => print_table(&rows, &directory, output),
    }
}

/// Returns the project and directory of a pipeline that would begin here.
async fn pipeline_preview(workflow: &WorkflowConfig, host: &Host) -> Result<PipelinePreview> {
    let git = GitProgram::find(&host.env).await?;
    PipelinePreview::inspect(workflow, &git, &host.cwd).await
}

fn built_in_rows() -> Vec<RoleRow> {
    let names = ROLES
        .iter()
        .filter_map(|row| RoleName::parse(row.name).ok());
    let roles = names.filter_map(|name| built_in_role(&name));
    let row = |role| RoleRow {
        role,
        agents: Vec::new(),
        copies: 1,
    };
    roles.map(row).collect()
}

fn load_workflow(name: &str, host: &Host, output: &mut CliOutput<'_>) -> Result<WorkflowConfig> {
    let config = load_config(&TeamFile::find(name, host)?, host, output)?;
    config.workflow.ok_or_else(|| {
        let message = format!("the config `{name}` has no pipeline");
        Error::new(ErrorKind::Usage, message)
            .with_hint("see `docs/pipelines.md` for `workflow`")
            .with_hint("omit `--config` to show the built-in roles")
    })
}

fn workflow_rows(workflow: &WorkflowConfig) -> Vec<RoleRow> {
    let row = |stage: &PipelineStage| RoleRow {
        role: stage.role.clone(),
        agents: stage.agents.clone(),
        copies: stage.copies,
    };
    workflow.pipeline.stages.iter().map(row).collect()
}

/// Prints the roles of a pipeline that would begin, its project and the order of its stages.
pub(crate) async fn show_preview(
    workflow: &WorkflowConfig,
    checks: usize,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let PipelinePreview { project, directory } = pipeline_preview(workflow, host).await?;
    print_table(&workflow_rows(workflow), &directory, output)?;
    let project = project.map_or_else(
        || "none: it starts with an empty tree".to_owned(),
        |project| {
            let branch = project.branch.as_deref().unwrap_or("a detached head");
            let head = project
                .head
                .as_ref()
                .map_or("no commit yet", ObjectId::as_str);
            format!("{}, {branch} at {head}", project.root)
        },
    );
    let pipeline = &workflow.pipeline;
    let stages = pipeline.stages.iter();
    let names: Vec<&str> = stages.map(|stage| stage.role.name.as_str()).collect();
    let end = match &pipeline.until {
        Some(role) => {
            let iterations = count_noun(
                pipeline.iterations_max.try_into().unwrap_or(usize::MAX),
                "iteration",
            );
            format!("until {role} is satisfied, for at most {iterations}")
        }
        None => "once".to_owned(),
    };
    let checks = match checks {
        0 => "none".to_owned(),
        many => format!("{many}, before any work is merged"),
    };
    output.result(&format!(
        "project: {project}\nstages: {}, {end}\nchecks: {checks}\n",
        names.join(", ")
    ))
}

fn print_table(rows: &[RoleRow], directory: &RelPath, output: &mut CliOutput<'_>) -> Result<()> {
    let lines: Vec<[String; COLUMNS]> = rows.iter().map(|row| row_cells(row, directory)).collect();
    let titles = TITLES.map(str::to_owned);
    let rows_with_titles = || std::iter::once(&titles).chain(&lines);
    let width = |column: usize| {
        rows_with_titles()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..COLUMNS)
        .map(|column| width(column).unwrap_or_default())
        .collect();
    for row in rows_with_titles() {
        let padded_cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"));
        let line = padded_cells.collect::<Vec<_>>().join("  ");
        output.result(&format!("{}\n", line.trim_end()))?;
    }
    Ok(())
}

/// Returns the cells of a row of the table.
fn row_cells(row: &RoleRow, directory: &RelPath) -> [String; COLUMNS] {
    let RoleRow {
        role,
        agents,
        copies,
    } = row;
    let may = |right| yes_or_empty_cell(role.has_right(right));
    let mut players: Vec<&str> = agents.iter().map(AgentId::as_str).collect();
    let times = format!("x{copies}");
    if *copies > 1 {
        players.push(&times);
    }
    [
        role.name.to_string(),
        yes_or_empty_cell(true),
        may(RoleRight::Write),
        may(RoleRight::Edit),
        may(RoleRight::Bash),
        or_empty_cell(write_directories(role, directory).join(", ")),
        role.output
            .clone()
            .map_or_else(|| EMPTY_CELL.to_owned(), |output| escape_name(&output)),
        or_empty_cell(players.join(" ")),
        escape_name(&role.purpose),
    ]
}

fn yes_or_empty_cell(is_yes: bool) -> String {
    if is_yes { "yes" } else { EMPTY_CELL }.to_owned()
}

fn or_empty_cell(text: String) -> String {
    if text.is_empty() {
        EMPTY_CELL.to_owned()
    } else {
        text
    }
}

/// Returns the directories that a role writes to.
fn write_directories(role: &PipelineRole, directory: &RelPath) -> Vec<String> {
    let own_path = directory.as_path().join(role.name.as_str());
    let own_directory = escape_name(&format!("{}/", own_path.display()));
    if !role.has_right(RoleRight::Write) {
        return Vec::new();
    }
    match &role.writes {
        RoleWriteAccess::OwnDirectory => vec![own_directory],
        RoleWriteAccess::Project => vec![own_directory, "the project".to_owned()],
        RoleWriteAccess::OwnAndListed(directories) => {
            let names = directories
                .iter()
                .map(|dir| escape_name(&format!("{dir}/")));
            std::iter::once(own_directory).chain(names).collect()
        }
    }
}

fn to_json(row: &RoleRow, directory: &RelPath) -> String {
    let RoleRow {
        role,
        agents,
        copies,
    } = row;
    let rights = RoleRight::ALL
        .into_iter()
        .filter(|right| role.has_right(*right))
        .map(RoleRight::name);
    let rights: Vec<&str> = std::iter::once("read").chain(rights).collect();
    let role_json = json!({
        "role": role.name,
        "rights": rights,
        "writes": write_directories(role, directory),
        "output": role.output,
        "agents": agents,
        "copies": copies,
        "purpose": role.purpose,
    });
    format!("{role_json}\n")
}
