//! The format of standard output, and how it is found in a command line that cannot be parsed: if
//! JSON was requested, the error is reported as JSON too.

use clap::ValueEnum;

/// Format of standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Only the answer.
    #[default]
    Text,
    /// One JSON object at the end of the run.
    Json,
    /// One JSON object per line for each event; the last one is the result.
    StreamJson,
}

/// The name of the flag.
const FLAG: &str = "--output-format";
/// Its short form.
const JSON_FLAG: &str = "--json";

/// Returns the format that `words` ask for, whatever else is wrong with them: the value of the last
/// flag that has a valid one.
pub(crate) fn requested_format(words: &[String]) -> OutputFormat {
    let mut choice = OutputFormat::Text;
    let mut words = words.iter().take_while(|word| *word != "--").peekable();
    while let Some(word) = words.next() {
        if word == JSON_FLAG {
            choice = OutputFormat::Json;
        }
        let value = match word.strip_prefix(FLAG) {
            Some("") => words.peek().map(|next| next.as_str()),
            Some(rest) => rest.strip_prefix('='),
            None => None,
        };
        let format = value.and_then(|value| OutputFormat::from_str(value, false).ok());
        choice = format.unwrap_or(choice);
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: OutputFormat) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        assert_eq!(requested_format(&words), expected, "{line}");
    }

    #[test]
    fn the_format_is_found_whatever_else_is_wrong() {
        check("task", OutputFormat::Text);
        check("--output-format json task", OutputFormat::Json);
        check("--nonsense --output-format=json", OutputFormat::Json);
        check(
            "a b --output-format stream-json c",
            OutputFormat::StreamJson,
        );
        check(
            "config --output-format=stream-json",
            OutputFormat::StreamJson,
        );
    }

    #[test]
    fn an_unknown_format_is_ignored() {
        check("--output-format", OutputFormat::Text);
        check("--output-format yaml", OutputFormat::Text);
        check("--output-formats json", OutputFormat::Text);
        check(
            "--output-format json --output-format yaml",
            OutputFormat::Json,
        );
        check("-- --output-format json", OutputFormat::Text);
        check("--output-format --output-format=json", OutputFormat::Json);
    }
}
