//! Owns the reading of what roles write in sections: the parts of a plan, the questions of whoever
//! wants to understand a task, and what a role thinks of its own work. What is not written so is no
//! error: it counts as not said.

/// The heading of what a role thinks of its own work.
pub const SELF_REVIEW: &str = "Self-review";
/// The heading of what is unclear.
pub const OPEN_QUESTIONS: &str = "Open questions";
/// What the heading of a part of a plan begins with; its number follows.
pub const PART: &str = "Part";
/// The word before what is assumed if nobody answers.
pub const ASSUMPTION: &str = "assumption:";
/// How many questions a person is asked.
const QUESTIONS_MAX: usize = 12;

/// Something that is unclear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenQuestion {
    /// The question.
    pub text: String,
    /// What is assumed if nobody answers; empty if nothing was said of it.
    pub assumption: String,
}

/// The parts of a plan, in the order of their numbers, each with its heading. Empty if the plan has none.
pub fn plan_parts(plan: &str) -> Vec<String> {
    let mut numbered: Vec<(u32, String)> = Vec::new();
    for section in sections(plan) {
        let number = section.heading.strip_prefix(PART).and_then(part_number);
        let Some(number) = number else {
            continue;
        };
        match numbered.iter_mut().find(|(known, _)| *known == number) {
            Some((_, text)) => text.push_str(section.whole),
            None => numbered.push((number, section.whole.to_owned())),
        }
    }
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, text)| text).collect()
}

/// What a role thinks of its own work, as it ends its answer with it.
pub fn self_review(answer: &str) -> Option<&str> {
    let mut found = sections(answer);
    found.retain(|section| section.heading.eq_ignore_ascii_case(SELF_REVIEW));
    let body = found.last()?.body.trim();
    (!body.is_empty()).then_some(body)
}

/// What is unclear, as an answer lists it: `- question`, and below it `assumption: …`.
pub fn open_questions(answer: &str) -> Vec<OpenQuestion> {
    let all = sections(answer);
    let is_it =
        |section: &&MarkdownSection<'_>| section.heading.eq_ignore_ascii_case(OPEN_QUESTIONS);
    let Some(section) = all.iter().find(is_it) else {
        return Vec::new();
    };
    let mut questions: Vec<OpenQuestion> = Vec::new();
    for line in section.body.lines() {
        let bare = line.trim();
        let assumed = bare.trim_start_matches(['-', '*', ' ']);
        if let Some(assumption) = strip_word(assumed, ASSUMPTION) {
            if let Some(last) = questions.last_mut() {
                assumption.clone_into(&mut last.assumption);
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

/// A section of a text in Markdown.
struct MarkdownSection<'a> {
    heading: &'a str,
    body: &'a str,
    whole: &'a str,
}

/// A line that begins a section.
#[derive(Clone, Copy)]
struct MarkdownHeading<'a> {
    /// How many `#` it has.
    level: usize,
    text: &'a str,
    /// Where its line begins and ends.
    start: usize,
    end: usize,
}

/// The sections of `text`. One ends where another of its level or a higher one begins.
fn sections(text: &str) -> Vec<MarkdownSection<'_>> {
    let headings = headings(text);
    let mut found = Vec::new();
    for (at, heading) in headings.iter().enumerate() {
        let mut later = headings.iter().skip(at.saturating_add(1));
        let next = later.find(|later| later.level <= heading.level);
        let end = next.map_or(text.len(), |next| next.start);
        if let (Some(body), Some(whole)) =
            (text.get(heading.end..end), text.get(heading.start..end))
        {
            found.push(MarkdownSection {
                heading: heading.text,
                body,
                whole,
            });
        }
    }
    found
}

/// The headings of `text`; in fenced code there are none.
fn headings(text: &str) -> Vec<MarkdownHeading<'_>> {
    let mut found = Vec::new();
    let mut start: usize = 0;
    let mut is_fenced = false;
    for line in text.split_inclusive('\n') {
        let end = start.saturating_add(line.len());
        let bare = line.trim();
        let words = bare.trim_start_matches('#');
        let level = bare.len().saturating_sub(words.len());
        if bare.starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced && level > 0 && words.starts_with(' ') {
            found.push(MarkdownHeading {
                level,
                text: words.trim(),
                start,
                end,
            });
        }
        start = end;
    }
    found
}

/// The number at the beginning of what follows the word for a part: ` 2: the parser`.
fn part_number(rest: &str) -> Option<u32> {
    let digits: String = rest
        .strip_prefix(' ')?
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// The text of an item of a list that is not part of another.
fn list_item(line: &str) -> Option<&str> {
    let number = |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let text = match line.strip_prefix(['-', '*']) {
        Some(text) => text,
        None if number(line) < line.len() => {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            rest.strip_prefix(['.', ')'])?
        }
        None => return None,
    };
    let text = text.strip_prefix(' ')?.trim();
    (!text.is_empty()).then_some(text)
}

/// What follows `word`, whatever its case, with emphasis around the word passed over.
fn strip_word<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    let line = line.trim_start_matches(['*', '_']);
    let head = line.get(..word.len())?;
    let rest = line.get(word.len()..)?;
    head.eq_ignore_ascii_case(word)
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
