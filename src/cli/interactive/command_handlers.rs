//! Handlers of the session's commands, and the greeting. What they print comes from the session
//! itself, or from the code of the corresponding subcommand.

use crate::cli::args::{ApplyArguments, DiffArguments, SessionsCommand, UndoArguments};
use crate::cli::command_line::usage_error;
use crate::cli::deliveries::{apply, diff, undo};
use crate::cli::directory_question::{
    breadth_message, confirmation, detour_message, directory_breadth_reason, resolve_typed_path,
};
use crate::cli::doctor::sandbox::requested_sandbox_levels;
use crate::cli::interactive::commands::{InteractiveCommand, OFFERED_COMMANDS};
use crate::cli::interactive::session_state::{OpenPath, OpenPathOrigin, session_values};
use crate::cli::interactive::{InteractiveSession, LoopControl, run_reports};
use crate::cli::output::{CliOutput, TextStyle};
use crate::cli::sessions;
use crate::config::ContextPath;
use crate::config::storage_path::STATE_DIR;
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::sandbox_policy::sandbox_level::SandboxLevelChoice;
use crate::world::diagnostics::probe::sandbox::select_sandbox;
use crate::world::io::files::inspect;
use crate::world::store::naming::LAST;

/// Description of the keys for `/help`.
const KEYS: &str = "\
@ offers paths: Up and Down choose, Tab or Enter inserts, Ctrl-W inserts with `:w`, Esc closes.
Alt-Enter or a `\\` at the end of a line begins a new line; pasted text is one prompt.
An image that you mention, as in `@screen.png`, is shown to models that accept images.
Ctrl-X Ctrl-E opens your editor; `!COMMAND` runs in your shell, outside the sandbox, unseen by agents.
A line typed during a turn is a message to all agents; `NAME: text` is for one of them. While the
dashboard is shown, press `i` first: each other key is a command there, and `?` lists them.
Ctrl-C clears the line, stops a run and keeps its results, and exits when pressed twice.";

/// Prints something about the recorded run of this name.
type RunPrinter = fn(&str, &Host, &mut CliOutput<'_>) -> Result<()>;

impl InteractiveSession {
    /// Prints the state of the session in a few lines.
    pub(super) fn greet(&mut self) {
        self.output.line(&[
            (TextStyle::Strong, "massgen "),
            (TextStyle::Faint, env!("CARGO_PKG_VERSION")),
            (
                TextStyle::Faint,
                "   /help lists commands, @ offers paths, Ctrl-D exits",
            ),
        ]);
        self.show_status();
    }

    fn show_status(&mut self) {
        let team = match self.state.config() {
            Some(_) => self.state.team_text(),
            None => "created from your API keys and local servers at the first prompt".to_owned(),
        };
        let session = match self.state.session_id() {
            Some(id) => match self.state.turn() {
                Ok(turn) => format!("{id}, turn {turn}"),
                Err(error) => format!("{id}: {error:#}"),
            },
            None => "new".to_owned(),
        };
        let open_paths = self.state.open_paths();
        let writable_paths: Vec<AbsPath> = open_paths
            .iter()
            .filter(|open| open.permission == Permission::Write)
            .map(|open| open.path.clone())
            .collect();
        let path_texts: Vec<String> = open_paths
            .iter()
            .map(|open| format!("{} ({})", open.path, open.permission))
            .collect();
        let path_list = if path_texts.is_empty() {
            "none".to_owned()
        } else {
            path_texts.join(", ")
        };
        let mut lines = vec![("team", team), ("session", session), ("paths", path_list)];
        if let Some(config) = self
            .state
            .config()
            .filter(|config| config.has_local_commands())
        {
            let host = &self.state.host;
            let trees: Vec<AbsPath> = config
                .write_paths()
                .cloned()
                .chain(writable_paths)
                .collect();
            let levels = requested_sandbox_levels(Some(config))
                .into_iter()
                .map(|choice| level_description(choice, host, &trees));
            lines.push(("sandbox", levels.collect::<Vec<_>>().join(", ")));
        }
        let policy = self.state.host.policy.describe();
        lines.extend(policy.map(|text| ("policy", text)));
        for (label, text) in lines {
            let label = format!("  {label:<9}");
            self.output
                .line(&[(TextStyle::Faint, &label), (TextStyle::Plain, &text)]);
        }
    }

    /// Executes a command. An error is shown, and does not end the session.
    pub(super) fn run_command(
        &mut self,
        command: InteractiveCommand,
        argument: &str,
    ) -> LoopControl {
        let result = match command {
            InteractiveCommand::Quit => return LoopControl::Leave,
            InteractiveCommand::Help => {
                self.show_help();
                Ok(())
            }
            InteractiveCommand::Status => {
                self.show_status();
                Ok(())
            }
            InteractiveCommand::Context => self.context(argument),
            InteractiveCommand::Config => self.show_config(),
            InteractiveCommand::Inspect => self.print_last_run(run_reports::show_run),
            InteractiveCommand::Dashboard => self.print_last_run(run_reports::show_dashboard),
            InteractiveCommand::Cost => self.show_cost(),
            InteractiveCommand::Votes => self.print_last_run(run_reports::show_votes),
            InteractiveCommand::Files => self.print_last_run(run_reports::show_files),
            InteractiveCommand::Diff => self.run_delivery_command(argument, |host, run, output| {
                let arguments = DiffArguments {
                    run,
                    agent: None,
                    path: Vec::new(),
                    stat: false,
                };
                diff::run(host, &arguments, output)
            }),
            InteractiveCommand::Apply => {
                self.run_delivery_command(argument, |host, run, output| {
                    let arguments = ApplyArguments {
                        run,
                        agent: None,
                        path: Vec::new(),
                        yes: false,
                        history: None,
                        push: None,
                    };
                    apply::run(host, &arguments, output)
                })
            }
            InteractiveCommand::Export => self.export(argument),
            InteractiveCommand::Model => self.model(argument),
            InteractiveCommand::Undo => self.run_delivery_command(argument, |host, run, output| {
                let arguments = UndoArguments {
                    run,
                    path: Vec::new(),
                    force: false,
                };
                undo::run(host, &arguments, output)
            }),
            InteractiveCommand::Sessions => {
                let list = SessionsCommand::List { json: false };
                sessions::run(&self.state.host, &list, &mut self.output).map(drop)
            }
            InteractiveCommand::Resume => self.resume(argument),
            InteractiveCommand::Reset => {
                self.state.reset();
                self.output
                    .note("new session; only paths of the config are open");
                Ok(())
            }
            InteractiveCommand::Cancel => {
                self.output
                    .note("no run is active; Ctrl-C stops a run and keeps its results");
                Ok(())
            }
        };
        if let Err(error) = result {
            self.output.error(&error);
        }
        LoopControl::Continue
    }

    fn show_help(&mut self) {
        for command in OFFERED_COMMANDS {
            let name = format!("  {:<10}", command.name);
            self.output.line(&[
                (TextStyle::Strong, &name),
                (TextStyle::Plain, command.summary),
            ]);
        }
        self.output.note(KEYS);
    }

    fn show_config(&mut self) -> Result<()> {
        let Some((name, text)) = self.state.config_file() else {
            self.output.note("the team has no config");
            return Ok(());
        };
        self.output.line(&[(TextStyle::Strong, &name)]);
        self.output.result(&format!("{}\n", text.trim_end()))
    }

    fn print_last_run(&mut self, show: RunPrinter) -> Result<()> {
        match self.state.last_run() {
            Some(run) => show(run, &self.state.host, &mut self.output),
            None => {
                Err(usage_error("this session has no turn yet").with_hint("enter a prompt first"))
            }
        }
    }

    /// Shows what the last turn used, and what all turns of the session did.
    fn show_cost(&mut self) -> Result<()> {
        self.print_last_run(run_reports::show_cost)?;
        if let Some(usage) = self.state.session_usage() {
            self.output.line(&[
                (TextStyle::Strong, "session"),
                (TextStyle::Plain, ": "),
                (TextStyle::Plain, &usage),
            ]);
        }
        Ok(())
    }

    /// Tells how the session is continued and what it used, if it has a turn.
    pub(super) fn say_goodbye(&mut self) {
        let Some(session) = self.state.session_id() else {
            return;
        };
        let usage = self.state.session_usage();
        let usage = usage.map(|usage| format!("  {usage}")).unwrap_or_default();
        self.output.note(&format!("{session}{usage}"));
        self.output.note("continue it here: massgen --continue");
    }

    /// Gives the editor the values that commands take now.
    pub(super) fn offer_values(&mut self) {
        let (sessions, current_id) = (self.state.sessions(), self.state.session_id());
        let find_sessions = move || session_values(&sessions, current_id.as_deref());
        self.values.set("/resume", find_sessions);
        let models = self.state.model_values();
        self.values.set("/model", move || models);
    }

    /// Runs a subcommand on the delivery of a run, by default the newest one.
    fn run_delivery_command(
        &mut self,
        argument: &str,
        subcommand: impl FnOnce(&Host, String, &mut CliOutput<'_>) -> Result<ExitStatus>,
    ) -> Result<()> {
        let run = if argument.is_empty() { LAST } else { argument };
        // For a pipeline, the subcommand starts an event loop of its own.
        tokio::task::block_in_place(|| {
            subcommand(&self.state.host, run.to_owned(), &mut self.output).map(drop)
        })
    }

    fn resume(&mut self, argument: &str) -> Result<()> {
        let session = if argument.is_empty() { LAST } else { argument };
        self.state.resume(session, &mut self.output)?;
        self.show_status();
        Ok(())
    }

    /// Packs the session into the archive `file`.
    fn export(&mut self, file: &str) -> Result<()> {
        let session = self.state.session_id().ok_or_else(|| {
            usage_error("this session has no turn yet").with_hint("enter a prompt first")
        })?;
        let export = SessionsCommand::Export {
            session,
            output: (!file.is_empty()).then(|| file.to_owned()),
        };
        sessions::run(&self.state.host, &export, &mut self.output).map(drop)
    }

    /// Shows the models of the agents, or changes those of one agent or of all.
    fn model(&mut self, argument: &str) -> Result<()> {
        let warnings = match argument.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] => Vec::new(),
            [model] => self.state.set_model(None, model)?,
            [agent, model] => self.state.set_model(Some(agent), model)?,
            _ => {
                return Err(usage_error(
                    "expected `/model`, `/model NAME` or `/model AGENT NAME`",
                ));
            }
        };
        let lines = self.state.model_lines();
        if lines.is_empty() {
            self.output.note("the team is created at the first prompt");
        }
        for line in lines {
            self.output.note(&line);
        }
        for warning in warnings {
            self.output.warning(&warning);
        }
        Ok(())
    }

    /// Opens a path that the user names with a command, unless it is a directory that is more than
    /// a project.
    fn open_typed_path(&mut self, text: &str, permission: Permission) -> Result<()> {
        let path = resolve_typed_path(text, &self.state.host);
        match inspect(&path) {
            LookupResult::Directory => {
                if let Some(reason) = directory_breadth_reason(&path, &self.state.host) {
                    return Err(usage_error(breadth_message(&path, reason)));
                }
            }
            LookupResult::File => {}
            LookupResult::Missing => {
                return Err(usage_error(format!("`{path}` does not exist")));
            }
            LookupResult::Unreadable => {
                return Err(usage_error(format!("`{path}` cannot be read")));
            }
        }
        if let Some(message) = detour_message(&path, &self.state.host) {
            return Err(usage_error(message));
        }
        let context = ContextPath {
            permission,
            ..ContextPath::read_only(path)
        };
        let confirmation = confirmation(&context);
        self.state.open_context_path(context)?;
        self.output.line(&[(TextStyle::Good, &confirmation)]);
        Ok(())
    }

    /// Lists the open paths, opens one, or closes one.
    fn context(&mut self, argument: &str) -> Result<()> {
        match argument.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] => {
                self.show_open_paths();
                Ok(())
            }
            ["remove", number] => self.close_path(number),
            ["add", path] | ["add", path, "read" | "ro"] => {
                self.open_typed_path(path, Permission::Read)
            }
            ["add", path, "write" | "rw"] => self.open_typed_path(path, Permission::Write),
            _ => Err(usage_error(
                "expected `/context`, `/context add PATH [read|write]` or `/context remove N`",
            )),
        }
    }

    fn show_open_paths(&mut self) {
        let open_paths = self.state.open_paths();
        if open_paths.is_empty() {
            self.output
                .note("no path is open to the agents except their workspaces");
        }
        for (
            index,
            OpenPath {
                path,
                permission,
                origin,
            },
        ) in open_paths.iter().enumerate()
        {
            let number = match origin {
                OpenPathOrigin::Config => "-".to_owned(),
                OpenPathOrigin::Turn(_) | OpenPathOrigin::Session => {
                    index.saturating_add(1).to_string()
                }
            };
            let origin_text = match origin {
                OpenPathOrigin::Turn(turn) => format!("turn {turn}"),
                OpenPathOrigin::Session => "until you leave".to_owned(),
                OpenPathOrigin::Config => "config".to_owned(),
            };
            let line = format!("{number:>3}  {permission:<5}  {path}  ");
            self.output
                .line(&[(TextStyle::Plain, &line), (TextStyle::Faint, &origin_text)]);
        }
    }

    fn close_path(&mut self, number: &str) -> Result<()> {
        let index = number
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let closed = index
            .and_then(|index| self.state.close_path(index))
            .ok_or_else(|| not_removable_error(number))?;
        self.output
            .note(&format!("{closed} is closed starting with the next turn"));
        Ok(())
    }
}

/// Returns a description of the sandbox level that a choice of the config selects on this machine.
fn level_description(choice: SandboxLevelChoice, host: &Host, trees: &[AbsPath]) -> String {
    let state = host.state_parent.join(STATE_DIR);
    match select_sandbox(choice, &host.executable, &state, trees, &host.policy) {
        Ok(selection) => format!(
            "level `{}`: {}; not protected: {}",
            selection.level,
            selection.level.description(),
            selection.level.leaves_open().join("; ")
        ),
        Err(error) => format!("none: {error:#}"),
    }
}

fn not_removable_error(number: &str) -> Error {
    usage_error(format!("`{number}` is not a path that can be closed"))
        .with_hint("see `/context` for the numbers; to close a path of the config, edit the config")
}
