//! The examples that a config gives for its rules: each names a call and the expected action.

use crate::call_rules::judge::CallJudgement;
use crate::call_rules::rule_syntax::{FORMS, RuleForm, rule_form, server_tool_name};
use crate::call_rules::{CallMatcher, CallRules};
use crate::permissions::grant::Permission;
use crate::permissions::path_rules::RuleAction;
use crate::tools::page_url::PageUrl;
use crate::tools::parse::canonical_name;

/// Returns the page that an example names, with or without its scheme.
fn example_page(address: &str) -> Result<PageUrl, String> {
    let page = if address.contains("://") {
        PageUrl::parse(address)
    } else {
        PageUrl::parse(&format!("https://{address}"))
    };
    page.map_err(|reason| format!("its address {reason}"))
}

impl CallRules {
    /// Returns the action of the rules for the call that `example` names, such as
    /// `write_file(src/x.lock)` or `command(git push origin)`. A call that no rule matches is
    /// allowed, within the grants. If `example` names no call, the error gives the cause as the end
    /// of a sentence.
    pub fn action_for_example(&self, example: &str) -> Result<RuleAction, String> {
        let form = rule_form(example).ok_or_else(|| format!("expected {FORMS}"))?;
        let judgement = match form {
            RuleForm::Path(permission, path) => return Ok(self.action_for_path(path, permission)),
            RuleForm::Command(line) => self.judge("execute_command", Some(line)),
            RuleForm::Page(address) => self.judge_page(&example_page(address)?),
            RuleForm::Server(name) => self.judge(&server_tool_name(name)?, None),
            RuleForm::Tool(name) => self.judge(canonical_name(name), None),
        };
        Ok(match judgement {
            CallJudgement::Undecided | CallJudgement::Allowed => RuleAction::Allow,
            CallJudgement::Asked(_) => RuleAction::Ask,
            CallJudgement::Denied(_) => RuleAction::Deny,
        })
    }

    /// Returns the action for an access to a path that needs `permission`. A rule about reading
    /// applies to writing as well.
    fn action_for_path(&self, path: &str, permission: Permission) -> RuleAction {
        let matching_rules = self.0.iter().filter(|rule| match &rule.matcher {
            CallMatcher::Path(rule_permission, glob) => {
                *rule_permission <= permission && glob.matches_example(path)
            }
            CallMatcher::Command(_) | CallMatcher::Page(_) | CallMatcher::Tool(_) => false,
        });
        let strictest_action = matching_rules.map(|rule| rule.action).max();
        strictest_action.unwrap_or(RuleAction::Allow)
    }
}
