//! The question whether mentions that were pasted into a prompt open what they name. Mentions in a
//! pasted block of several lines never do.

use crate::cli::editor::LinePurpose;
use crate::cli::interactive::{InteractiveSession, UserInput};
use crate::cli::mentions::{closed_note, lookup, path_list};
use crate::error::Result;
use crate::mentions::Mention;
use crate::mentions::pasted_mentions::PastedMentions;
use crate::permissions::grant::Permission;

/// Question about pasted mentions.
const QUESTION: &str = "   open the paths that the pasted text mentions? [y]es / [N]o (default): ";

impl InteractiveSession {
    /// Returns the prompt with every pasted mention escaped, unless the user agrees to open what
    /// they name; `None` if the user leaves. `pasted_texts` came into the line by other means than
    /// typing.
    pub(super) async fn confirm_pasted_mentions(
        &mut self,
        prompt: &str,
        pasted_texts: &[String],
    ) -> Result<Option<String>> {
        let pasted_texts: Vec<String> = pasted_texts
            .iter()
            .map(|text| text.replace("\\\n", "\n"))
            .collect();
        let host = &self.state.host;
        let pasted_mentions = PastedMentions::find(prompt, &pasted_texts, lookup(&host.cwd, host));
        let mentions = pasted_mentions.mentions();
        if mentions.is_empty() {
            return Ok(Some(prompt.to_owned()));
        }
        let is_block = pasted_texts.iter().any(|text| text.trim().contains('\n'));
        if !is_block {
            for line in requested_permissions(&mentions) {
                self.output.note(&line);
            }
            loop {
                let UserInput::Text(line) = self
                    .read_input(QUESTION, String::new(), LinePurpose::Question)
                    .await?
                else {
                    return Ok(None);
                };
                match parse_answer(&line.text) {
                    Some(true) => return Ok(Some(prompt.to_owned())),
                    Some(false) => break,
                    None => self.output.note("   expected `y` or `n`"),
                }
            }
        }
        if let Some(note) = closed_note("the pasted text", &mentions) {
            self.output.note(&note);
        }
        Ok(Some(pasted_mentions.escape(prompt)))
    }
}

/// Formats what the pasted mentions ask for, one line per permission.
fn requested_permissions(mentions: &[&Mention]) -> Vec<String> {
    let requests = [
        (Permission::Read, "to read"),
        (Permission::Write, "to write"),
    ];
    let lines = requests.into_iter().filter_map(|(permission, request)| {
        let matching_mentions: Vec<&Mention> = mentions
            .iter()
            .copied()
            .filter(|mention| mention.permission == permission)
            .collect();
        (!matching_mentions.is_empty()).then(|| {
            let paths = path_list(&matching_mentions);
            format!("the pasted text asks {request} {paths}")
        })
    });
    lines.collect()
}

/// Parses an answer to [`QUESTION`]; `None` if it is invalid.
fn parse_answer(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "" | "n" | "no" => Some(false),
        _ => None,
    }
}
