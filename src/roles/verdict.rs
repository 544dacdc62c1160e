//! Owns what the role that ends a pipeline says at the end of an iteration, read from its answer.

/// The word that ends a pipeline.
pub const SATISFIED: &str = "SATISFIED";

/// What the last role says of an iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleVerdict {
    /// The work is good.
    Satisfied,
    /// It is not, and this is to be done about it.
    Feedback(String),
}

impl RoleVerdict {
    /// Reads an answer. It is good only if its first line with anything on it is the word alone,
    /// whatever marks of emphasis stand around it: a text that speaks about the word says nothing.
    pub fn parse(answer: &str) -> Self {
        let mut lines = answer.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let is_mark = |c: char| matches!(c, '*' | '_' | '`' | '#' | '.' | '!' | ' ');
        if first.trim_matches(is_mark) == SATISFIED {
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
