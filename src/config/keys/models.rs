//! The keys of the user's file of models, `~/.massgen/models.yaml`.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::{ConfigKey, KeySection, UnknownKeys, ValueShape};

/// The largest context size that can be given for a model, in tokens.
const TOKENS_MAX: i64 = 1_000_000_000;
/// The highest price, in US dollars per million tokens.
const DOLLARS_MAX: f64 = 1_000_000.0;

/// The whole file.
pub static MODELS_FILE: KeySection = KeySection {
    path: "",
    doc: "Prices and context sizes of models, in addition to or instead of the built-in table.",
    others: UnknownKeys::Refused,
    keys: &[ConfigKey::required(
        &["models"],
        ValueShape::List(&ValueShape::Mapping(&MODEL)),
        "The models.",
        Harmless,
    )],
};

/// One model.
pub static MODEL: KeySection = KeySection {
    path: "models[]",
    doc: "The price and context size of a model.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["name"],
            ValueShape::Text,
            "Its name in a config. Names followed by a date match too.",
            Harmless,
        ),
        ConfigKey::served(
            &["vendor"],
            ValueShape::Text,
            "The backend type that the row applies to. Default: all.",
            Harmless,
        ),
        ConfigKey::served(
            &["context_tokens"],
            ValueShape::Integer(1, TOKENS_MAX),
            "Context size in tokens, for request and reply.",
            Harmless,
        ),
        ConfigKey::served(
            &["output_tokens_max"],
            ValueShape::Integer(1, TOKENS_MAX),
            "Maximum tokens of a reply.",
            Harmless,
        ),
        ConfigKey::required(
            &["usd_per_million_tokens"],
            ValueShape::Mapping(&RATES),
            "Prices of its tokens.",
            Harmless,
        ),
        ConfigKey::served(
            &["long_requests"],
            ValueShape::List(&ValueShape::Mapping(&LONG_REQUESTS)),
            "Prices of all tokens of longer requests, shortest first.",
            Harmless,
        ),
    ],
};

/// The prices of tokens.
pub static RATES: KeySection = KeySection {
    path: "models[].usd_per_million_tokens",
    doc: "US dollars per million tokens, with at most six decimals.",
    others: UnknownKeys::Refused,
    keys: &[INPUT, CACHED_INPUT, CACHE_WRITE, OUTPUT],
};

/// The prices of tokens in longer requests.
pub static LONG_REQUESTS: KeySection = KeySection {
    path: "models[].long_requests[]",
    doc: "Prices for requests with more than `above_input_tokens` input tokens.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["above_input_tokens"],
            ValueShape::Integer(1, TOKENS_MAX),
            "The number of input tokens above which these prices apply.",
            Harmless,
        ),
        ConfigKey::required(
            &["usd_per_million_tokens"],
            ValueShape::Mapping(&RATES),
            "Prices of its tokens.",
            Harmless,
        ),
    ],
};

const DOLLARS: ValueShape = ValueShape::Number(0.0, DOLLARS_MAX);
const INPUT: ConfigKey = ConfigKey::required(&["input"], DOLLARS, "Uncached input.", Harmless);
const CACHED_INPUT: ConfigKey = ConfigKey::served(
    &["cached_input"],
    DOLLARS,
    "Input from the vendor's cache. Default: as `input`.",
    Harmless,
);
const CACHE_WRITE: ConfigKey = ConfigKey::served(
    &["cache_write"],
    DOLLARS,
    "Input written to the vendor's cache. Default: as `input`.",
    Harmless,
);
const OUTPUT: ConfigKey = ConfigKey::required(
    &["output"],
    DOLLARS,
    "Output, including reasoning.",
    Harmless,
);
