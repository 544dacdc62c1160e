//! The verdict of the role that ends a pipeline, read from its answer at the end of an iteration.

/// The word that ends a pipeline.
pub const SATISFIED: &str = "SATISFIED";

/// The verdict on an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleVerdict {
    /// The work is accepted.
    Satisfied,
    /// The work is not accepted; this feedback says what to change.
    Feedback(String),
}

impl RoleVerdict {
    /// Parses an answer. The work is accepted only if the first non-empty line is the word alone,
    /// possibly with emphasis marks around it; a text that merely mentions the word does not count.
    pub fn parse(answer: &str) -> Self {
        let mut lines = answer.lines().map(str::trim);
        let first_line = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let is_mark = |c: char| matches!(c, '*' | '_' | '`' | '#' | '.' | '!' | ' ');
        if first_line.trim_matches(is_mark) == SATISFIED {
            RoleVerdict::Satisfied
        } else {
            RoleVerdict::Feedback(answer.trim().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_alone_is_satisfaction() {
        let check = |answer: &str, satisfied| {
            assert_eq!(
                RoleVerdict::parse(answer) == RoleVerdict::Satisfied,
                satisfied,
                "{answer}"
            );
        };
        check("SATISFIED", true);
        check("\n\n  **SATISFIED**.\n\nIt does all of it.", true);
        check("# SATISFIED", true);
        check("NOT SATISFIED", false);
        check("SATISFIED with most of it, but it crashes", false);
        check("It crashes.\nSATISFIED", false);
        check("satisfied", false);
        check("", false);
        assert_eq!(
            RoleVerdict::parse(" it crashes \n"),
            RoleVerdict::Feedback("it crashes".to_owned())
        );
    }
}
