//! Parses the Markdown sections that roles write: the parts of a plan, the open questions about a
//! task, and a role's review of its own work. Text in another form is not an error: it counts as
//! absent.

/// The heading of a role's review of its own work.
pub const SELF_REVIEW_HEADING: &str = "Self-review";
/// The heading of the open questions about a task.
pub const OPEN_QUESTIONS_HEADING: &str = "Open questions";
/// The first word of the heading of a plan's part; its number follows.
pub const PART_HEADING: &str = "Part";
/// The label of what is assumed if a question stays unanswered.
pub const ASSUMPTION_LABEL: &str = "assumption:";
/// The maximum number of questions put to the user.
const QUESTIONS_MAX: usize = 12;

/// An open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenQuestion {
    /// The question.
    pub text: String,
    /// The assumption if the question stays unanswered; empty if none was given.
    pub assumption: String,
}

/// Returns the parts of a plan in the order of their numbers, each with its heading. Empty if the
/// plan has none.
pub fn plan_parts(plan: &str) -> Vec<String> {
    let mut numbered_sections: Vec<(u32, String)> = Vec::new();
    for section in sections(plan) {
        let number = section
            .heading
            .strip_prefix(PART_HEADING)
            .and_then(part_number);
        let Some(number) = number else {
            continue;
        };
        match numbered_sections
            .iter_mut()
            .find(|(known, _)| *known == number)
        {
            Some((_, text)) => text.push_str(section.text),
            None => numbered_sections.push((number, section.text.to_owned())),
        }
    }
    numbered_sections.sort_by_key(|(number, _)| *number);
    numbered_sections
        .into_iter()
        .map(|(_, text)| text)
        .collect()
}

/// Returns the role's review of its own work at the end of its answer.
pub fn self_review(answer: &str) -> Option<&str> {
    let mut reviews = sections(answer);
    reviews.retain(|section| section.heading.eq_ignore_ascii_case(SELF_REVIEW_HEADING));
    let body = reviews.last()?.body.trim();
    (!body.is_empty()).then_some(body)
}

/// Returns the open questions that an answer lists: `- question`, and below it `assumption: …`.
pub fn open_questions(answer: &str) -> Vec<OpenQuestion> {
    let answer_sections = sections(answer);
    let is_open_questions = |section: &&MarkdownSection<'_>| {
        section.heading.eq_ignore_ascii_case(OPEN_QUESTIONS_HEADING)
    };
    let Some(section) = answer_sections.iter().find(is_open_questions) else {
        return Vec::new();
    };
    let mut questions: Vec<OpenQuestion> = Vec::new();
    for line in section.body.lines() {
        let line_without_marks = line.trim().trim_start_matches(['-', '*', ' ']);
        if let Some(assumption) = strip_assumption(line_without_marks) {
            if let Some(last_question) = questions.last_mut() {
                assumption.clone_into(&mut last_question.assumption);
            }
        } else if let Some(text) = list_item(line) {
            questions.push(OpenQuestion {
                text: text.to_owned(),
                assumption: String::new(),
            });
        }
    }
    questions.truncate(QUESTIONS_MAX);
    questions
}

/// A section of a Markdown document.
struct MarkdownSection<'a> {
    heading: &'a str,
    /// The text below the heading.
    body: &'a str,
    /// The heading line and the body.
    text: &'a str,
}

/// A heading line.
#[derive(Clone, Copy)]
struct MarkdownHeading<'a> {
    /// Its number of `#`.
    level: usize,
    text: &'a str,
    /// The start and end of its line.
    start: usize,
    end: usize,
}

/// Returns the sections of `text`. A section ends at the next heading of its level or a higher one.
fn sections(text: &str) -> Vec<MarkdownSection<'_>> {
    let headings = headings(text);
    let mut markdown_sections = Vec::new();
    for (index, heading) in headings.iter().enumerate() {
        let mut later_headings = headings.iter().skip(index.saturating_add(1));
        let next_heading = later_headings.find(|later| later.level <= heading.level);
        let end = next_heading.map_or(text.len(), |next| next.start);
        if let (Some(body), Some(section_text)) =
            (text.get(heading.end..end), text.get(heading.start..end))
        {
            markdown_sections.push(MarkdownSection {
                heading: heading.text,
                body,
                text: section_text,
            });
        }
    }
    markdown_sections
}

/// Returns the headings of `text`, except in fenced code.
fn headings(text: &str) -> Vec<MarkdownHeading<'_>> {
    let mut headings = Vec::new();
    let mut start: usize = 0;
    let mut is_fenced = false;
    for line in text.split_inclusive('\n') {
        let end = start.saturating_add(line.len());
        let trimmed_line = line.trim();
        let words = trimmed_line.trim_start_matches('#');
        let level = trimmed_line.len().saturating_sub(words.len());
        if trimmed_line.starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced && level > 0 && words.starts_with(' ') {
            headings.push(MarkdownHeading {
                level,
                text: words.trim(),
                start,
                end,
            });
        }
        start = end;
    }
    headings
}

/// Parses the number in the rest of a part's heading, such as ` 2: the parser`.
fn part_number(rest: &str) -> Option<u32> {
    let digits: String = rest
        .strip_prefix(' ')?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// Returns the text of a top-level list item.
fn list_item(line: &str) -> Option<&str> {
    let after_digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = match line.strip_prefix(['-', '*']) {
        Some(text) => text,
        None if after_digits.len() < line.len() => after_digits.strip_prefix(['.', ')'])?,
        None => return None,
    };
    let text = text.strip_prefix(' ')?.trim();
    (!text.is_empty()).then_some(text)
}

/// Returns what follows [`ASSUMPTION_LABEL`], ignoring case and any emphasis around the label.
fn strip_assumption(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(['*', '_']);
    let (label, rest) = line.split_at_checked(ASSUMPTION_LABEL.len())?;
    label
        .eq_ignore_ascii_case(ASSUMPTION_LABEL)
        .then(|| rest.trim_start_matches(['*', '_', ' ']).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_parts_by_number() {
        let check =
            |plan: &str, expected: &[&str]| assert_eq!(plan_parts(plan), expected, "{plan}");
        check("# Plan\nDo it.\n", &[]);
        let plan = "# Plan\n## Part 2\nb\n### Files\nx\n## Part 1: parser\na\n## Notes\nn\n";
        let first = "## Part 1: parser\na\n";
        check(plan, &[first, "## Part 2\nb\n### Files\nx\n"]);
        check("```\n## Part 1\n```\n", &[]);
        check("## Partial\n## Part one\n", &[]);
    }

    #[test]
    fn a_review_is_the_last_section_of_its_name() {
        let check = |answer: &str, expected| assert_eq!(self_review(answer), expected, "{answer}");
        check("Done.", None);
        check("Done.\n\n## Self-review\n", None);
        let answer = "## Self-review\nold\n# X\n## self-Review\n- missing: none\n";
        check(answer, Some("- missing: none"));
    }

    #[test]
    fn questions_have_assumptions() {
        let check = |answer: &str, expected: &[(&str, &str)]| {
            let found = open_questions(answer);
            let found: Vec<_> = found
                .iter()
                .map(|question| (question.text.as_str(), question.assumption.as_str()))
                .collect();
            assert_eq!(found, expected, "{answer}");
        };
        check("- not asked here", &[]);
        check(
            "## Open questions\n- Which port?\n  assumption: 80\n* TLS?\n  - **Assumption:** no\n\
             1. Why?\n## More\n- x\n",
            &[("Which port?", "80"), ("TLS?", "no"), ("Why?", "")],
        );
        check("## Open questions\nNone.\n", &[]);
    }
}
