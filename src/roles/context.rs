//! Selects the output of earlier stages that goes into a stage's prompt, within a token budget. A
//! document that does not fit is named, so that the agent can read it itself: all roles can read
//! everything.

/// Bytes of text per token, the usual size that vendors give for English.
const BYTES_PER_TOKEN: usize = 4;
/// The smallest excerpt worth including, in bytes.
const EXCERPT_BYTES_MIN: usize = 400;

/// A document that an earlier stage left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageDocument {
    /// Its path in the shared tree.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// How much of a document is included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentInclusion {
    /// The whole document.
    Full(StageDocument),
    /// Its beginning.
    Excerpt(StageDocument),
    /// Only its path.
    Omitted(String),
}

/// Selects what to include of `documents`, which are in order of importance. Earlier documents use
/// up the budget first.
pub fn select_documents(documents: Vec<StageDocument>, tokens_max: u64) -> Vec<DocumentInclusion> {
    let tokens_max = usize::try_from(tokens_max).unwrap_or(usize::MAX);
    let mut bytes_left = tokens_max.saturating_mul(BYTES_PER_TOKEN);
    let mut inclusions = Vec::new();
    for document in documents {
        let size = document.text.len();
        if size <= bytes_left {
            bytes_left = bytes_left.saturating_sub(size);
            inclusions.push(DocumentInclusion::Full(document));
        } else if bytes_left >= EXCERPT_BYTES_MIN {
            let end = document.text.floor_char_boundary(bytes_left);
            let text = document.text.get(..end).unwrap_or_default().to_owned();
            bytes_left = 0;
            inclusions.push(DocumentInclusion::Excerpt(StageDocument {
                text,
                ..document
            }));
        } else {
            // No less important document takes its place.
            bytes_left = 0;
            inclusions.push(DocumentInclusion::Omitted(document.path));
        }
    }
    inclusions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sizes: &[usize], tokens_max: u64, expected: &[&str]) {
        let document = |(number, size): (usize, &usize)| StageDocument {
            path: number.to_string(),
            text: "ä".repeat(*size / 2),
        };
        let documents = sizes.iter().enumerate().map(document).collect();
        let inclusions = select_documents(documents, tokens_max)
            .into_iter()
            .map(|inclusion| match inclusion {
                DocumentInclusion::Full(document) => format!("{} whole", document.path),
                DocumentInclusion::Excerpt(document) => {
                    format!("{} {}", document.path, document.text.len())
                }
                DocumentInclusion::Omitted(path) => format!("{path} named"),
            });
        assert_eq!(inclusions.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn documents_that_fit_are_included_and_the_rest_are_named() {
        check(&[], 10, &[]);
        check(&[400, 400], 200, &["0 whole", "1 whole"]);
        check(&[400, 1002], 200, &["0 whole", "1 400"]);
        check(&[400, 1002, 2], 199, &["0 whole", "1 named", "2 named"]);
        // Characters are not split.
        check(&[2002], 250, &["0 1000"]);
        check(&[2], 0, &["0 named"]);
    }
}
