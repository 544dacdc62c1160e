//! Asks whether the current directory, or another one, is opened to the agents.

use crate::cli::directory_question::{
    DIRECTORY_QUESTION, DirectoryAnswer, EXPECTED_ANSWERS, PATH_QUESTION, PERMISSION_QUESTION,
    PROTECTED_PATHS_QUESTION, confirmation, directory_obstacle, parse_answer, parse_permission,
    parse_protected_paths, question_lines, resolve_typed_path,
};
use crate::cli::editor::LinePurpose;
use crate::cli::interactive::commands::is_quit;
use crate::cli::interactive::{InteractiveSession, LoopControl, UserInput};
use crate::cli::output::TextStyle;
use crate::config::ContextPath;
use crate::error::Result;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::io::files::inspect;

impl InteractiveSession {
    /// Asks until there is an answer, and opens the chosen directory.
    pub(super) async fn add_directory(&mut self) -> Result<LoopControl> {
        let cwd = self.state.host.cwd.clone();
        let open_paths: Vec<ContextPath> = self
            .state
            .open_paths()
            .into_iter()
            .map(|open| ContextPath {
                permission: open.permission,
                ..ContextPath::read_only(open.path)
            })
            .collect();
        for line in question_lines(&cwd, &open_paths) {
            self.output.note(&line);
        }
        let (path, permission, wants_protected) = loop {
            let UserInput::Text(line) = self
                .read_input(DIRECTORY_QUESTION, String::new(), LinePurpose::Question)
                .await?
            else {
                return Ok(LoopControl::Leave);
            };
            match parse_answer(&line.text) {
                Some(DirectoryAnswer::Yes) => break (cwd, Permission::Write, false),
                Some(DirectoryAnswer::No) => {
                    self.state.decline_directory();
                    return Ok(LoopControl::Continue);
                }
                Some(DirectoryAnswer::Protect) => break (cwd, Permission::Write, true),
                Some(DirectoryAnswer::Custom) => match self.ask_custom_directory().await? {
                    Some((path, permission)) => break (path, permission, true),
                    None => return Ok(LoopControl::Leave),
                },
                None if is_quit(&line.text) => return Ok(LoopControl::Leave),
                None => {
                    let note = format!("{EXPECTED_ANSWERS}; the prompt for your task follows");
                    self.output.note(&note);
                }
            }
        };
        let protected = if wants_protected && permission == Permission::Write {
            loop {
                let UserInput::Text(line) = self
                    .read_input(
                        PROTECTED_PATHS_QUESTION,
                        String::new(),
                        LinePurpose::Question,
                    )
                    .await?
                else {
                    return Ok(LoopControl::Leave);
                };
                match parse_protected_paths(&line.text, &path) {
                    Ok(protected) => break protected,
                    Err(reason) => self.output.note(&format!("   {reason}")),
                }
            }
        } else {
            Vec::new()
        };
        let context = ContextPath {
            permission,
            protected,
            ..ContextPath::read_only(path)
        };
        let confirmation = confirmation(&context);
        self.state.open_context_path(context)?;
        self.output.line(&[(TextStyle::Good, &confirmation)]);
        Ok(LoopControl::Continue)
    }

    /// Asks for a directory and the permission there; `None` if the user leaves.
    async fn ask_custom_directory(&mut self) -> Result<Option<(AbsPath, Permission)>> {
        let path = loop {
            let UserInput::Text(line) = self
                .read_input(PATH_QUESTION, String::new(), LinePurpose::Question)
                .await?
            else {
                return Ok(None);
            };
            let host = &self.state.host;
            let path = resolve_typed_path(line.text.trim(), host);
            match directory_obstacle(&path, inspect(&path), host) {
                None => break path,
                Some(reason) => self.output.note(&format!("   {reason}")),
            }
        };
        loop {
            let UserInput::Text(line) = self
                .read_input(PERMISSION_QUESTION, String::new(), LinePurpose::Question)
                .await?
            else {
                return Ok(None);
            };
            match parse_permission(&line.text) {
                Some(permission) => return Ok(Some((path, permission))),
                None => self.output.note("   expected `w` or `r`"),
            }
        }
    }
}
