//! The keys of the user's file of models, `~/.massgen/models.yaml`.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Decimal, Integer, NodeList, Section, Text, TypedShape};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys, ValueShape};

/// The largest context size that can be given for a model, in tokens.
const TOKENS_MAX: i64 = 1_000_000_000;

/// The highest price, in US dollars per million tokens.
const DOLLARS_MAX: f64 = 1_000_000.0;

const DOLLARS: TypedShape<Decimal> = shape::decimal(0.0, DOLLARS_MAX);

pub(crate) const MODELS: ServedKey<NodeList> = ServedKey::required(
    &["models"],
    shape::nodes(const { &ValueShape::Mapping(&MODEL) }),
    "The models.",
    Harmless,
);

pub(crate) const NAME: ServedKey<Text> = ServedKey::required(
    &["name"],
    shape::text(),
    "Its name as a config writes it. Names that go on with a date are found too.",
    Harmless,
);

pub(crate) const VENDOR: ServedKey<Text> = ServedKey::optional(
    &["vendor"],
    shape::text(),
    "The backend type that the row holds for; without it, for all.",
    Harmless,
);

pub(crate) const CONTEXT_TOKENS: ServedKey<Integer> = ServedKey::optional(
    &["context_tokens"],
    shape::integer(1, TOKENS_MAX),
    "Tokens of request and reply that it holds.",
    Harmless,
);

pub(crate) const OUTPUT_TOKENS_MAX: ServedKey<Integer> = ServedKey::optional(
    &["output_tokens_max"],
    shape::integer(1, TOKENS_MAX),
    "Tokens of a reply at most.",
    Harmless,
);

pub(crate) const USD_PER_MILLION_TOKENS: ServedKey<Section> = ServedKey::required(
    &["usd_per_million_tokens"],
    shape::section(&RATES),
    "What its tokens cost.",
    Harmless,
);

pub(crate) const LONG_REQUESTS: ServedKey<NodeList> = ServedKey::optional(
    &["long_requests"],
    shape::nodes(const { &ValueShape::Mapping(&LONG_REQUEST) }),
    "What all tokens of longer requests cost instead, the shortest of them first.",
    Harmless,
);

pub(crate) const ABOVE_INPUT_TOKENS: ServedKey<Integer> = ServedKey::required(
    &["above_input_tokens"],
    shape::integer(1, TOKENS_MAX),
    "How many input tokens a request has at most that is not long.",
    Harmless,
);

pub(crate) const INPUT: ServedKey<Decimal> =
    ServedKey::required(&["input"], DOLLARS, "Input that was read anew.", Harmless);

pub(crate) const CACHED_INPUT: ServedKey<Decimal> = ServedKey::optional(
    &["cached_input"],
    DOLLARS,
    "Input from the vendor's cache; without it, as `input`.",
    Harmless,
);

pub(crate) const CACHE_WRITE: ServedKey<Decimal> = ServedKey::optional(
    &["cache_write"],
    DOLLARS,
    "Input that was put into the vendor's cache; without it, as `input`.",
    Harmless,
);

pub(crate) const OUTPUT: ServedKey<Decimal> = ServedKey::required(
    &["output"],
    DOLLARS,
    "Output, reasoning included.",
    Harmless,
);

/// The whole file.
pub static MODELS_FILE: KeySection = KeySection {
    path: "",
    doc: "What models cost and hold, beside or instead of the table in massgen.",
    others: UnknownKeys::Refused,
    keys: &[MODELS.row()],
};

/// One model.
pub static MODEL: KeySection = KeySection {
    path: "models[]",
    doc: "What a model costs and holds.",
    others: UnknownKeys::Refused,
    keys: &[
        NAME.row(),
        VENDOR.row(),
        CONTEXT_TOKENS.row(),
        OUTPUT_TOKENS_MAX.row(),
        USD_PER_MILLION_TOKENS.row(),
        LONG_REQUESTS.row(),
    ],
};

/// The prices of tokens.
pub static RATES: KeySection = KeySection {
    path: "models[].usd_per_million_tokens",
    doc: "US dollars for a million tokens, with at most six decimals.",
    others: UnknownKeys::Refused,
    keys: &[
        INPUT.row(),
        CACHED_INPUT.row(),
        CACHE_WRITE.row(),
        OUTPUT.row(),
    ],
};

/// The prices of tokens in longer requests.
pub static LONG_REQUEST: KeySection = KeySection {
    path: "models[].long_requests[]",
    doc: "What the tokens of a request cost that has more input tokens than `above_input_tokens`.",
    others: UnknownKeys::Refused,
    keys: &[ABOVE_INPUT_TOKENS.row(), USD_PER_MILLION_TOKENS.row()],
};
