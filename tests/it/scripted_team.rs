//! Scripted teams for tests of what runs leave behind.

/// Text that only the final phase's system message contains.
pub(crate) const FINAL: &str = "the final agent";

/// Returns an agent; `keys` are further keys of its backend, `replies` the list of its replies,
/// both YAML.
pub(crate) fn agent(id: &str, keys: &str, replies: &str) -> String {
    let mut out = format!("  - id: {id}\n    backend:\n      type: scripted\n");
    let indented = |text: &str, by: &str| -> String {
        let lines = text.trim_matches('\n').lines();
        lines.flat_map(|line| [by, line, "\n"]).collect()
    };
    out.push_str(&indented(keys, "      "));
    out.push_str("      replies:\n");
    out.push_str(&indented(replies, "        "));
    out
}

/// Returns a config of these agents; `rest` goes to the top level.
pub(crate) fn team(agents: &[String], rest: &str) -> String {
    format!("agents:\n{}{rest}\n", agents.concat())
}

/// Returns a config of one agent that runs `command` with these keys of its backend, answers, and presents.
/// `answers` are pairs: a text in the result of the command, and the answer that follows it.
pub(crate) fn team_with_command(keys: &str, command: &str, answers: &[(&str, &str)]) -> String {
    let answers = answers.iter().map(|(result, answer)| {
        format!(
            r#"
- when: {{last: "{result}"}}
  calls: [{{name: new_answer, arguments: {{content: "{answer}"}}}}]"#
        )
    });
    let replies = format!(
        r#"
- when: {{system: "{FINAL}"}}
  text: "presented"
- when: {{last: "<task>"}}
  calls: [{{name: execute_command, arguments: {{command: "{command}"}}}}]{}
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "it is good"}}}}]
"#,
        answers.collect::<String>()
    );
    let keys = format!("cwd: one\nenable_mcp_command_line: true\n{keys}");
    team(&[agent("one", &keys, &replies)], "")
}

/// Returns replies that wait, answer, vote for `candidate` as often as asked, and then present.
pub(crate) fn answer_replies(answer: &str, candidate: &str, delay_ms: u32) -> String {
    format!(
        r#"
- when: {{system: "{FINAL}"}}
  text: "final: {answer}"
- when: {{last: "<task>"}}
  delay_ms: {delay_ms}
  text: "I think of {answer}."
  calls: [{{name: new_answer, arguments: {{content: "{answer}"}}}}]
- delay_ms: {delay_ms}
  usage: {{input_tokens: 100, output_tokens: 7}}
  calls: [{{name: vote, arguments: {{agent_id: {candidate}, reason: "{candidate} is good"}}}}]
  repeat: true
"#
    )
}
