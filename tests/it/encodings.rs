//! Raw bytes of replies, for all wire formats and without HTTP: a published stream has the same
//! meaning however it is encoded and split into chunks, is never accepted when truncated, and keeps
//! the invariants of replies under any mutation.

use std::path::Path;

use massgen::backend::{BackendError, BackendErrorKind, ReplyEvent};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::decoding::{Decoding, EVENT_STREAM};
use crate::wire::join_texts;
use crate::{chat_wire, claude_wire, gemini_wire, openai_replies, openai_wire};

/// Number of mutated streams that are tested per format.
const CHANGED: u32 = 40;
/// Fragments for mutations that random bytes would rarely produce.
const TOKENS: &[&str] = &[
    "\n\n",
    "\r",
    "data: ",
    "event: error\n",
    "data: [DONE]\n\n",
    "\u{feff}",
    "null",
    "[]",
    "{}",
    "\"\"",
    "-1",
    "1e999",
    "18446744073709551615",
    "\"id\":\"taken\",",
    "\"id\":\"call_1_0\",",
    "\"call_id\":\"call_1_1\",",
    "\\ud800",
];

/// Seed corpus of the fuzz target with this name. The first file is the published stream.
macro_rules! corpus {
    ($target:literal) => {
        (
            concat!("fuzz/corpus/", $target, "/published"),
            [
                include_str!(concat!("../../fuzz/corpus/", $target, "/published")),
                include_str!(concat!("../../fuzz/corpus/", $target, "/whole")),
                include_str!(concat!("../../fuzz/corpus/", $target, "/error")),
                include_str!(concat!("../../fuzz/corpus/", $target, "/strange")),
            ],
        )
    };
}

/// A format with the stream that its vendor publishes.
struct PublishedStream {
    decoding: Decoding,
    stream: String,
    events: Vec<Result<ReplyEvent, BackendError>>,
    /// Offset at which the vendor has sent the end of the reply.
    whole_at: usize,
}

fn published_stream(vendor: &str) -> PublishedStream {
    let (stream, events) = match vendor {
        "groq" => (chat_wire::published_stream(), chat_wire::published_events()),
        "openai" => (
            openai_wire::published_stream(),
            openai_replies::published_events(),
        ),
        "claude" => (
            claude_wire::published_stream(),
            claude_wire::published_events(),
        ),
        _ => (
            gemini_wire::published_stream(),
            gemini_wire::published_events(),
        ),
    };
    // Chat Completions sends it before the usage, Anthropic before `message_stop`; the others with
    // the last event.
    let after = match vendor {
        "groq" => 2,
        "claude" => 1,
        _ => 0,
    };
    PublishedStream {
        decoding: Decoding::of(vendor),
        whole_at: stream[..stream.len() - after].concat().len(),
        stream: stream.concat(),
        events,
    }
}

fn all_published() -> impl Iterator<Item = PublishedStream> {
    ["groq", "openai", "claude", "gemini"]
        .into_iter()
        .map(published_stream)
}

#[test]
fn the_corpora_hold_the_published_streams_and_make_no_impossible_reply() {
    let corpora = [
        corpus!("chat_completions"),
        corpus!("responses"),
        corpus!("messages"),
        corpus!("generate_content"),
    ];
    for (published, (path, corpus)) in all_published().zip(corpora) {
        if std::env::var_os("MASSGEN_BLESS").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
            std::fs::write(path, &published.stream).unwrap();
        } else {
            let is_same = corpus[0] == published.stream;
            assert!(is_same, "{path} differs; MASSGEN_BLESS=1 rewrites it");
        }
        for body in corpus {
            published.decoding.check(body.as_bytes());
        }
    }
}

#[test]
fn the_encoding_of_a_stream_does_not_matter() {
    #[track_caller]
    fn check(published: &PublishedStream, stream: &str) {
        for size in [1, 2, 3, 7, 64, stream.len()] {
            let chunks = stream.as_bytes().chunks(size);
            let events = published.decoding.events(EVENT_STREAM, chunks);
            assert_eq!(join_texts(events), published.events, "in chunks of {size}");
        }
    }

    for published in all_published() {
        let stream = &published.stream;
        let before_events = |more: &str| {
            let parts = stream.split_inclusive("\n\n");
            parts.flat_map(|event| [more, event]).collect::<String>()
        };
        check(&published, stream);
        check(&published, &stream.replace('\n', "\r\n"));
        check(&published, &stream.replace('\n', "\r"));
        check(&published, &format!("\u{feff}{stream}"));
        check(&published, &stream.replace("data: ", "data:"));
        check(&published, &before_events(": still here\n\n"));
        check(&published, &before_events("\n\n"));
        check(&published, &stream.replace("\n\n", "\n: alive\n\n"));
        check(&published, &before_events("id: 7\nretry: 10\n"));
        let stranger = "event: stranger\ndata: {\"type\": \"stranger\"}\n\n";
        check(&published, &before_events(stranger));
        check(
            &published,
            &before_events("event: ping\ndata: {\"type\": \"ping\"}\n\n"),
        );
    }
}

#[test]
fn a_stream_may_be_cut_at_every_byte() {
    for published in all_published() {
        let bytes = published.stream.as_bytes();
        for cut in 0..=bytes.len() {
            let mut events = published.decoding.events(EVENT_STREAM, [&bytes[..cut]]);
            let last = events.pop().unwrap();
            if cut >= published.whole_at {
                assert!(matches!(last, Ok(ReplyEvent::End(_))), "{last:?} at {cut}");
                continue;
            }
            let error = last.unwrap_err();
            let kind = BackendErrorKind::Transient { retry_after: None };
            assert_eq!(error.kind, kind, "cut at {cut}: {error}");
            for event in events {
                let is_piece = matches!(
                    event,
                    Ok(ReplyEvent::Text(_) | ReplyEvent::Reasoning(_) | ReplyEvent::Usage(_))
                );
                assert!(is_piece, "cut at {cut}: {event:?}");
            }
        }
    }
}

/// A mutation of a stream.
#[derive(Clone, Debug)]
enum StreamMutation {
    /// Replaces this many bytes at the offset with others.
    Replace(Index, usize, Vec<u8>),
    /// Inserts a copy of this many bytes from the offset elsewhere.
    Repeat(Index, usize, Index),
}

impl StreamMutation {
    fn make(&self, bytes: &mut Vec<u8>) {
        let offset = |index: &Index| index.index(bytes.len() + 1);
        let until = |from: usize, length: usize| (from + length).min(bytes.len());
        match self {
            Self::Replace(from, length, new) => {
                let from = offset(from);
                let range = from..until(from, *length);
                bytes.splice(range, new.iter().copied());
            }
            Self::Repeat(from, length, to) => {
                let (from, to) = (offset(from), offset(to));
                let again = bytes[from..until(from, *length)].to_vec();
                bytes.splice(to..to, again);
            }
        }
    }
}

fn any_mutation() -> impl Strategy<Value = StreamMutation> {
    let new = prop_oneof![
        vec(any::<u8>(), 0..4),
        select(TOKENS).prop_map(|token| token.as_bytes().to_vec()),
    ];
    prop_oneof![
        (any::<Index>(), 0..40_usize, new)
            .prop_map(|(from, length, new)| StreamMutation::Replace(from, length, new)),
        (any::<Index>(), 0..400_usize, any::<Index>())
            .prop_map(|(from, length, to)| StreamMutation::Repeat(from, length, to)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CHANGED,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_changed_in_a_stream_makes_no_impossible_reply(changes in vec(any_mutation(), 1..8)) {
        for published in all_published() {
            let mut bytes = published.stream.into_bytes();
            for mutation in &changes {
                mutation.make(&mut bytes);
            }
            published.decoding.check(&bytes);
        }
    }
}
