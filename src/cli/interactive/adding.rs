//! Owns the asking whether the current directory, or another one, is opened to the agents.

use crate::cli::editor::Purpose;
use crate::cli::interactive::question::{
    Answer, HOW, PROTECTED, QUESTION, WHICH, answer, confirmation, permission, protected,
};
use crate::cli::interactive::{After, Conversation, Heard};
use crate::cli::output::Style;
use crate::config::ContextPath;
use crate::error::Result;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::prompt::Found;
use crate::world::files::look;

impl Conversation {
    /// Asks until there is an answer, and does what it says.
    pub(super) async fn add_directory(&mut self) -> Result<After> {
        let cwd = self.standing.host.cwd.clone();
        self.output.line(&[(
            Style::Strong,
            "Add the current directory as a context path?",
        )]);
        self.output.note(&format!("   {cwd}"));
        let (path, permission, wants_protected) = loop {
            let Heard::Text(line) = self
                .hear(QUESTION, String::new(), Purpose::Question)
                .await?
            else {
                return Ok(After::Leave);
            };
            match answer(&line.text) {
                Some(Answer::Yes) => break (cwd, Permission::Write, false),
                Some(Answer::No) => return Ok(After::GoOn),
                Some(Answer::Protect) => break (cwd, Permission::Write, true),
                Some(Answer::Custom) => match self.custom().await? {
                    Some((path, permission)) => break (path, permission, true),
                    None => return Ok(After::Leave),
                },
                None => self.output.note("   `y`, `n`, `c` or `p` is expected"),
            }
        };
        let protected = if wants_protected && permission == Permission::Write {
            loop {
                let Heard::Text(line) = self
                    .hear(PROTECTED, String::new(), Purpose::Question)
                    .await?
                else {
                    return Ok(After::Leave);
                };
                match protected(&line.text, &path) {
                    Ok(protected) => break protected,
                    Err(why) => self.output.note(&format!("   {why}")),
                }
            }
        } else {
            Vec::new()
        };
        let added = ContextPath {
            permission,
            protected,
            ..ContextPath::read_only(path)
        };
        self.output.line(&[(Style::Good, &confirmation(&added))]);
        self.standing.add(added);
        Ok(After::GoOn)
    }

    /// A directory of the user's choice, and what may be done there; nothing if they leave.
    async fn custom(&mut self) -> Result<Option<(AbsPath, Permission)>> {
        let path = loop {
            let Heard::Text(line) = self.hear(WHICH, String::new(), Purpose::Question).await?
            else {
                return Ok(None);
            };
            let path = self.standing.path(line.text.trim());
            match look(&path) {
                Found::Directory if self.standing.is_broad(&path) => {
                    self.output
                        .note(&format!("   `{path}` is far more than a project"));
                }
                Found::Directory => break path,
                Found::File => {
                    self.output.note(&format!(
                        "   `{path}` is a file: mention it in a prompt, `@path`"
                    ));
                }
                Found::Missing | Found::Unreadable => {
                    self.output.note(&format!(
                        "   there is no directory `{path}` that can be read"
                    ));
                }
            }
        };
        loop {
            let Heard::Text(line) = self.hear(HOW, String::new(), Purpose::Question).await? else {
                return Ok(None);
            };
            match permission(&line.text) {
                Some(permission) => return Ok(Some((path, permission))),
                None => self.output.note("   `w` or `r` is expected"),
            }
        }
    }
}
