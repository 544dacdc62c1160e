//! Owns the examples that a config gives for its rules: each names a call, and what the rules say of it.

use crate::call_rules::judge::Judgement;
use crate::call_rules::written::{FORMS, Form, form, served};
use crate::call_rules::{About, CallRules};
use crate::permissions::grant::Permission;
use crate::permissions::path_rules::Ruling;
use crate::tools::parse::canonical;

impl CallRules {
    /// What the rules say of the call that `example` names, as `write_file(src/x.lock)` or
    /// `command(git push origin)`. What no rule closes is allowed, as far as the grants go. The error
    /// says why it names no call, as the end of a sentence.
    pub fn of_example(&self, example: &str) -> Result<Ruling, String> {
        let form = form(example).ok_or_else(|| format!("expected {FORMS}"))?;
        let judged = match form {
            Form::Path(wanted, path) => return Ok(self.of_path(path, wanted)),
            Form::Command(line) => self.judge("execute_command", Some(line)),
            Form::Server(name) => self.judge(&served(name)?, None),
            Form::Tool(name) => self.judge(canonical(name), None),
        };
        Ok(match judged {
            Judgement::Silent | Judgement::Allowed => Ruling::Allow,
            Judgement::Asked(_) => Ruling::Ask,
            Judgement::Denied(_) => Ruling::Deny,
        })
    }

    /// Who may not read may not write either.
    fn of_path(&self, path: &str, wanted: Permission) -> Ruling {
        let closing = self.0.iter().filter(|rule| match &rule.about {
            About::Path(closed, glob) => *closed <= wanted && glob.matches_written(path),
            About::Command(_) | About::Tool(_) => false,
        });
        let strictest = closing.map(|rule| rule.ruling).max();
        strictest.unwrap_or(Ruling::Allow)
    }
}
