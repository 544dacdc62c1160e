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
    doc: "What models cost and hold, beside or instead of the table in massgen.",
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
    doc: "What a model costs and holds.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["name"],
            ValueShape::Text,
            "Its name as a config writes it. Names that go on with a date are found too.",
            Harmless,
        ),
        ConfigKey::served(
            &["vendor"],
            ValueShape::Text,
            "The backend type that the row holds for; without it, for all.",
            Harmless,
        ),
        ConfigKey::served(
            &["context_tokens"],
            ValueShape::Integer(1, TOKENS_MAX),
            "Tokens of request and reply that it holds.",
            Harmless,
        ),
        ConfigKey::served(
            &["output_tokens_max"],
            ValueShape::Integer(1, TOKENS_MAX),
            "Tokens of a reply at most.",
            Harmless,
        ),
        ConfigKey::required(
            &["usd_per_million_tokens"],
            ValueShape::Mapping(&RATES),
            "What its tokens cost.",
            Harmless,
        ),
        ConfigKey::served(
            &["long_requests"],
            ValueShape::List(&ValueShape::Mapping(&LONG_REQUESTS)),
            "What all tokens of longer requests cost instead, the shortest of them first.",
            Harmless,
        ),
    ],
};

/// The prices of tokens.
pub static RATES: KeySection = KeySection {
    path: "models[].usd_per_million_tokens",
    doc: "US dollars for a million tokens, with at most six decimals.",
    others: UnknownKeys::Refused,
    keys: &[INPUT, CACHED_INPUT, CACHE_WRITE, OUTPUT],
};

/// The prices of tokens in longer requests.
pub static LONG_REQUESTS: KeySection = KeySection {
    path: "models[].long_requests[]",
    doc: "What the tokens of a request cost that has more input tokens than `above_input_tokens`.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["above_input_tokens"],
            ValueShape::Integer(1, TOKENS_MAX),
            "How many input tokens a request has at most that is not long.",
            Harmless,
        ),
        ConfigKey::required(
            &["usd_per_million_tokens"],
            ValueShape::Mapping(&RATES),
            "What its tokens cost.",
            Harmless,
        ),
    ],
};

const DOLLARS: ValueShape = ValueShape::Number(0.0, DOLLARS_MAX);
const INPUT: ConfigKey =
    ConfigKey::required(&["input"], DOLLARS, "Input that was read anew.", Harmless);
const CACHED_INPUT: ConfigKey = ConfigKey::served(
    &["cached_input"],
    DOLLARS,
    "Input from the vendor's cache; without it, as `input`.",
    Harmless,
);
const CACHE_WRITE: ConfigKey = ConfigKey::served(
    &["cache_write"],
    DOLLARS,
    "Input that was put into the vendor's cache; without it, as `input`.",
    Harmless,
);
const OUTPUT: ConfigKey = ConfigKey::required(
    &["output"],
    DOLLARS,
    "Output, reasoning included.",
    Harmless,
);
