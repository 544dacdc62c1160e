//! Thoughts that some servers leave in the text of a reply: at its beginning, between `<think>` and
//! `</think>`.

const BEGIN: &str = "<think>";
const END: &str = "</think>";

/// Splits the text of a reply, as it arrives, into thoughts and the rest.
#[derive(Debug, Default)]
pub(super) struct ThoughtSplitter {
    place: TextPlace,
    /// Text that may be a part of a mark.
    held: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TextPlace {
    /// Nothing but blanks and a part of the first mark has arrived.
    #[default]
    Beginning,
    Thought,
    /// Between the thought and the text.
    Gap,
    Text,
}

impl ThoughtSplitter {
    /// Returns the thought and the text in the next piece.
    pub(super) fn split(&mut self, piece: &str) -> (String, String) {
        self.held.push_str(piece);
        let mut thought = String::new();
        if self.place == TextPlace::Beginning {
            let start = self.held.trim_start();
            if let Some(rest) = start.strip_prefix(BEGIN) {
                self.held = rest.to_owned();
                self.place = TextPlace::Thought;
            } else if !BEGIN.starts_with(start) {
                self.place = TextPlace::Text;
            }
        }
        if self.place == TextPlace::Thought {
            if let Some((before, after)) = self.held.split_once(END) {
                before.clone_into(&mut thought);
                self.held = after.to_owned();
                self.place = TextPlace::Gap;
            } else {
                let is_partial_end = |at: &usize| {
                    let rest = self.held.get(*at..);
                    rest.is_some_and(|rest| END.starts_with(rest))
                };
                let from = self.held.len().saturating_sub(END.len());
                let end = (from..self.held.len()).find(is_partial_end);
                let kept = self.held.split_off(end.unwrap_or(self.held.len()));
                thought = std::mem::replace(&mut self.held, kept);
            }
        }
        if self.place == TextPlace::Gap {
            self.held = self.held.trim_start().to_owned();
            if !self.held.is_empty() {
                self.place = TextPlace::Text;
            }
        }
        let is_text = self.place == TextPlace::Text;
        let text = if is_text {
            std::mem::take(&mut self.held)
        } else {
            String::new()
        };
        (thought, text)
    }

    /// Returns the text that is left at the end of the reply.
    pub(super) fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.place == TextPlace::Beginning {
            held
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_at_the_beginning_are_not_text() {
        for (pieces, expected) in [
            (
                vec!["<thi", "nk>plan</th", "ink>\n\nHello"],
                ("plan", "Hello"),
            ),
            (
                vec!["\n<think>a < b", "</think>", "\n", "\nx"],
                ("a < b", "x"),
            ),
            (vec!["<think>", "endless"], ("endless", "")),
            (vec!["Use ", "<think>"], ("", "Use <think>")),
            (vec!["<th", "e>"], ("", "<the>")),
            (vec!["<t"], ("", "<t")),
        ] {
            let mut splitter = ThoughtSplitter::default();
            let (mut thoughts, mut texts) = (String::new(), String::new());
            for piece in &pieces {
                let (thought, text) = splitter.split(piece);
                thoughts.push_str(&thought);
                texts.push_str(&text);
            }
            texts.push_str(&splitter.finish());
            assert_eq!((thoughts.as_str(), texts.as_str()), expected, "{pieces:?}");
        }
    }
}
