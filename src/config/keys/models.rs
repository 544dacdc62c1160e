//! Owns the keys of the user's file of models, `~/.massgen/models.yaml`.

use crate::config::keys::found::FoundUse::Harmless;
use crate::config::keys::{Key, Others, Section, Shape};

/// The most tokens that a model can be said to hold.
const TOKENS_MAX: i64 = 1_000_000_000;
/// The highest price, in US dollars for a million tokens.
const DOLLARS_MAX: f64 = 1_000_000.0;

/// The whole file.
pub static MODELS_FILE: Section = Section {
    path: "",
    doc: "What models cost and hold, beside or instead of the table in massgen.",
    others: Others::Refused,
    keys: &[Key::required(
        &["models"],
        Shape::List(&Shape::Mapping(&MODEL)),
        "The models.",
        Harmless,
    )],
};

/// One model.
pub static MODEL: Section = Section {
    path: "models[]",
    doc: "What a model costs and holds.",
    others: Others::Refused,
    keys: &[
        Key::required(
            &["name"],
            Shape::Text,
            "Its name as a config writes it. Names that go on with a date are found too.",
            Harmless,
        ),
        Key::served(
            &["vendor"],
            Shape::Text,
            "The backend type that the row holds for; without it, for all.",
            Harmless,
        ),
        Key::served(
            &["context_tokens"],
            Shape::Integer(1, TOKENS_MAX),
            "Tokens of request and reply that it holds.",
            Harmless,
        ),
        Key::served(
            &["output_tokens_max"],
            Shape::Integer(1, TOKENS_MAX),
            "Tokens of a reply at most.",
            Harmless,
        ),
        Key::required(
            &["usd_per_million_tokens"],
            Shape::Mapping(&RATES),
            "What its tokens cost.",
            Harmless,
        ),
        Key::served(
            &["long_requests"],
            Shape::List(&Shape::Mapping(&LONG_REQUESTS)),
            "What all tokens of longer requests cost instead, the shortest of them first.",
            Harmless,
        ),
    ],
};

/// What tokens cost.
pub static RATES: Section = Section {
    path: "models[].usd_per_million_tokens",
    doc: "US dollars for a million tokens, with at most six decimals.",
    others: Others::Refused,
    keys: &[INPUT, CACHED_INPUT, CACHE_WRITE, OUTPUT],
};

/// What tokens of longer requests cost.
pub static LONG_REQUESTS: Section = Section {
    path: "models[].long_requests[]",
    doc: "What the tokens of a request cost that has more input tokens than `above_input_tokens`.",
    others: Others::Refused,
    keys: &[
        Key::required(
            &["above_input_tokens"],
            Shape::Integer(1, TOKENS_MAX),
            "How many input tokens a request has at most that is not long.",
            Harmless,
        ),
        Key::required(
            &["usd_per_million_tokens"],
            Shape::Mapping(&RATES),
            "What its tokens cost.",
            Harmless,
        ),
    ],
};

const DOLLARS: Shape = Shape::Number(0.0, DOLLARS_MAX);
const INPUT: Key = Key::required(&["input"], DOLLARS, "Input that was read anew.", Harmless);
const CACHED_INPUT: Key = Key::served(
    &["cached_input"],
    DOLLARS,
    "Input from the vendor's cache; without it, as `input`.",
    Harmless,
);
const CACHE_WRITE: Key = Key::served(
    &["cache_write"],
    DOLLARS,
    "Input that was put into the vendor's cache; without it, as `input`.",
    Harmless,
);
const OUTPUT: Key = Key::required(
    &["output"],
    DOLLARS,
    "Output, reasoning included.",
    Harmless,
);
