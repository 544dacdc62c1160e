//! The keys of the user's file of models, `~/.massgen/models.yaml`.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Decimal, Integer, NodeList, Section, Text, TypedShape};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};

/// The largest context size that can be given for a model, in tokens.
const TOKENS_MAX: i64 = 1_000_000_000;

/// The highest price, in US dollars per million tokens.
const DOLLARS_MAX: f64 = 1_000_000.0;

const DOLLARS: TypedShape<Decimal> = shape::decimal(0.0, DOLLARS_MAX);

pub(crate) const MODELS: TypedKey<NodeList> = TypedKey::required(
    &["models"],
    shape::nodes(const { &ValueShape::Mapping(&MODEL) }),
    "The models.",
    Harmless,
);

pub(crate) const NAME: TypedKey<Text> = TypedKey::required(
    &["name"],
    shape::text(),
    "Its name in a config. Names followed by a date match too.",
    Harmless,
);

pub(crate) const VENDOR: TypedKey<Text> = TypedKey::optional(
    &["vendor"],
    shape::text(),
    "The backend type that the row applies to. Default: all.",
    Harmless,
);

pub(crate) const CONTEXT_TOKENS: TypedKey<Integer> = TypedKey::optional(
    &["context_tokens"],
    shape::integer(1, TOKENS_MAX),
    "Context size in tokens, for request and reply.",
    Harmless,
);

pub(crate) const OUTPUT_TOKENS_MAX: TypedKey<Integer> = TypedKey::optional(
    &["output_tokens_max"],
    shape::integer(1, TOKENS_MAX),
    "Maximum tokens of a reply.",
    Harmless,
);

pub(crate) const USD_PER_MILLION_TOKENS: TypedKey<Section> = TypedKey::required(
    &["usd_per_million_tokens"],
    shape::section(&RATES),
    "Prices of its tokens.",
    Harmless,
);

pub(crate) const LONG_REQUESTS: TypedKey<NodeList> = TypedKey::optional(
    &["long_requests"],
    shape::nodes(const { &ValueShape::Mapping(&LONG_REQUEST) }),
    "Prices of all tokens of longer requests, shortest first.",
    Harmless,
);

pub(crate) const ABOVE_INPUT_TOKENS: TypedKey<Integer> = TypedKey::required(
    &["above_input_tokens"],
    shape::integer(1, TOKENS_MAX),
    "The number of input tokens above which these prices apply.",
    Harmless,
);

pub(crate) const INPUT: TypedKey<Decimal> =
    TypedKey::required(&["input"], DOLLARS, "Uncached input.", Harmless);

pub(crate) const CACHED_INPUT: TypedKey<Decimal> = TypedKey::optional(
    &["cached_input"],
    DOLLARS,
    "Input from the vendor's cache. Default: as `input`.",
    Harmless,
);

pub(crate) const CACHE_WRITE: TypedKey<Decimal> = TypedKey::optional(
    &["cache_write"],
    DOLLARS,
    "Input written to the vendor's cache. Default: as `input`.",
    Harmless,
);

pub(crate) const OUTPUT: TypedKey<Decimal> = TypedKey::required(
    &["output"],
    DOLLARS,
    "Output, including reasoning.",
    Harmless,
);

/// The whole file.
pub static MODELS_FILE: KeySection = KeySection {
    path: "",
    doc: "Prices and context sizes of models, in addition to or instead of the built-in table.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[MODELS.row()],
};

/// One model.
pub static MODEL: KeySection = KeySection {
    path: "models[]",
    doc: "The price and context size of a model.",
    unknown_keys: UnknownKeys::Refused,
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
    doc: "US dollars per million tokens, with at most six decimals.",
    unknown_keys: UnknownKeys::Refused,
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
    doc: "Prices for requests with more than `above_input_tokens` input tokens.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[ABOVE_INPUT_TOKENS.row(), USD_PER_MILLION_TOKENS.row()],
};
