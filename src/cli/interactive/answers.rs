//! Owns what each command of a session does. What it shows comes from the session itself, or from the code
//! of the subcommand that shows the same.

use crate::cli::args::{DiffArguments, SessionsCommand, UndoArguments};
use crate::cli::deliveries::{diff, undo};
use crate::cli::doctor::sandbox::choices;
use crate::cli::interactive::commands::{Command, OFFERED};
use crate::cli::interactive::standing::{OpenPath, Source};
use crate::cli::interactive::{After, Conversation, recorded};
use crate::cli::output::{Output, Style};
use crate::cli::sessions;
use crate::cli::usage::usage;
use crate::config::place::STATE_DIR;
use crate::confinement::tier::TierChoice;
use crate::error::{Error, ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::wording::joined;
use crate::world::probe::sandbox::in_force;
use crate::world::store::naming::LAST;

/// What the keys do, for people.
const KEYS: &str = "\
@ offers paths: Up and Down choose, Tab or Enter inserts, Ctrl-W inserts with `:w`, Esc closes.
A line that ends with `\\` goes on in the next one; pasted text stays one prompt.
Ctrl-C clears the line, stops a run and keeps what it has, and leaves when typed twice.";

/// What shows something of a recorded run.
type Shows = fn(&str, &Host, &mut Output<'_>) -> Result<()>;

impl Conversation {
    /// Says where the session stands, in a few lines.
    pub(super) fn greet(&mut self) {
        self.output.line(&[
            (Style::Strong, "massgen "),
            (Style::Faint, env!("CARGO_PKG_VERSION")),
            (
                Style::Faint,
                "   /help lists commands, @ offers paths, Ctrl-D leaves",
            ),
        ]);
        self.show_status();
    }

    fn show_status(&mut self) {
        let team = match self.standing.config() {
            Some(config) => {
                let agents: Vec<_> = config.agents.iter().map(|agent| &agent.id).collect();
                joined(&agents)
            }
            None => "made of your keys and local servers at the first prompt".to_owned(),
        };
        let session = match self.standing.session_id() {
            Some(id) => format!("{id}, turn {}", self.standing.turn()),
            None => "new".to_owned(),
        };
        let open = self.standing.open_paths();
        let open: Vec<String> = open
            .iter()
            .map(|open| format!("{} ({})", open.path, open.permission))
            .collect();
        let open = if open.is_empty() {
            "none".to_owned()
        } else {
            open.join(", ")
        };
        let mut lines = vec![("team", team), ("session", session), ("paths", open)];
        if let Some(config) = self
            .standing
            .config()
            .filter(|config| config.has_local_commands())
        {
            let host = &self.standing.host;
            let trees: Vec<AbsPath> = config.write_paths().cloned().collect();
            let tiers = choices(Some(config)).into_iter();
            let tiers = tiers.map(|choice| tier(choice, host, &trees));
            lines.push(("sandbox", tiers.collect::<Vec<_>>().join(", ")));
        }
        for (label, text) in lines {
            let label = format!("  {label:<9}");
            self.output
                .line(&[(Style::Faint, &label), (Style::Plain, &text)]);
        }
    }

    /// Does what a command asks for. An error is shown, and ends nothing.
    pub(super) fn obey(&mut self, command: Command, rest: &str) -> After {
        let done = match command {
            Command::Quit => return After::Leave,
            Command::Help => {
                self.help();
                Ok(())
            }
            Command::Status => {
                self.show_status();
                Ok(())
            }
            Command::Context => self.context(rest),
            Command::Config => self.show_config(),
            Command::Inspect => self.of_last_run(recorded::inspect),
            Command::Cost => self.of_last_run(recorded::cost),
            Command::Votes => self.of_last_run(recorded::votes),
            Command::Files => self.of_last_run(recorded::files),
            Command::Diff => self.delivery(rest, |host, run, output| {
                let (path, stat) = (Vec::new(), false);
                diff::run(host, &DiffArguments { run, path, stat }, output)
            }),
            Command::Undo => self.delivery(rest, |host, run, output| {
                let (path, force) = (Vec::new(), false);
                undo::run(host, &UndoArguments { run, path, force }, output)
            }),
            Command::Sessions => {
                let list = SessionsCommand::List { json: false };
                sessions::run(&self.standing.host, &list, &mut self.output).map(drop)
            }
            Command::Resume => self.resume(rest),
            Command::Reset => {
                self.standing.reset();
                self.output
                    .note("a new session begins; only what the config opens is open");
                Ok(())
            }
            Command::Cancel => {
                self.output
                    .note("nothing runs now; Ctrl-C stops a run and keeps what it has");
                Ok(())
            }
        };
        if let Err(error) = done {
            self.output.error(&error);
        }
        After::GoOn
    }

    fn help(&mut self) {
        for offered in OFFERED {
            let name = format!("  {:<10}", offered.name);
            self.output
                .line(&[(Style::Strong, &name), (Style::Plain, offered.summary)]);
        }
        self.output.note(KEYS);
    }

    fn show_config(&mut self) -> Result<()> {
        let Some((name, text)) = self.standing.config_file() else {
            self.output.note("no config describes the team");
            return Ok(());
        };
        self.output.line(&[(Style::Strong, &name)]);
        self.output.result(&format!("{}\n", text.trim_end()))
    }

    fn of_last_run(&mut self, show: Shows) -> Result<()> {
        match self.standing.last_run() {
            Some(run) => show(run, &self.standing.host, &mut self.output),
            None => Err(usage("this session has had no turn yet").hint("type a prompt first")),
        }
    }

    /// Does what a subcommand does with the delivery of a run, by default the newest one.
    fn delivery(
        &mut self,
        rest: &str,
        does: impl FnOnce(&Host, String, &mut Output<'_>) -> Result<ExitStatus>,
    ) -> Result<()> {
        let run = if rest.is_empty() { LAST } else { rest };
        does(&self.standing.host, run.to_owned(), &mut self.output).map(drop)
    }

    fn resume(&mut self, rest: &str) -> Result<()> {
        let wanted = if rest.is_empty() { LAST } else { rest };
        self.standing.resume(wanted, &mut self.output)?;
        self.show_status();
        Ok(())
    }

    /// Shows what is open, or closes some of it.
    fn context(&mut self, rest: &str) -> Result<()> {
        match rest.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] => {
                self.show_open();
                Ok(())
            }
            ["remove", number] => self.close(number),
            _ => Err(usage("`/context` or `/context remove N` is expected")),
        }
    }

    fn show_open(&mut self) {
        let open = self.standing.open_paths();
        if open.is_empty() {
            self.output
                .note("no path is open to the agents beside their workspaces");
        }
        for (
            place,
            OpenPath {
                path,
                permission,
                source,
            },
        ) in open.iter().enumerate()
        {
            let number = match source {
                Source::Config => "-".to_owned(),
                Source::Turn(_) | Source::Session => place.saturating_add(1).to_string(),
            };
            let source = match source {
                Source::Turn(turn) => format!("turn {turn}"),
                Source::Session => "until you leave".to_owned(),
                Source::Config => "config".to_owned(),
            };
            let line = format!("{number:>3}  {permission:<5}  {path}  ");
            self.output
                .line(&[(Style::Plain, &line), (Style::Faint, &source)]);
        }
    }

    fn close(&mut self, number: &str) -> Result<()> {
        let place = number
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let closed = place.and_then(|place| self.standing.close(place));
        let closed = closed.ok_or_else(|| not_removable(number))?;
        self.output
            .note(&format!("{closed} is closed from the next turn on"));
        Ok(())
    }
}

/// The tier that a choice of the config leads to on this machine, for people.
fn tier(choice: TierChoice, host: &Host, trees: &[AbsPath]) -> String {
    let state = host.cwd.join(STATE_DIR);
    match in_force(choice, &host.executable, &state, trees) {
        Ok(found) => format!("tier {}: {}", found.tier, found.tier.means()),
        Err(error) => format!("none: {error:#}"),
    }
}

fn not_removable(number: &str) -> Error {
    usage(format!("`{number}` is no path that can be closed"))
        .hint("`/context` numbers those that can; what the config opens is closed in the config")
}
