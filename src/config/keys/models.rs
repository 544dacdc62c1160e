//! The keys of the user's file of models, `~/.massgen/models.yaml`.

use crate::config::keys::ValueShape;

/// The largest context size that can be given for a model, in tokens.
const TOKENS_MAX: i64 = 1_000_000_000;

/// The highest price, in US dollars per million tokens.
const DOLLARS_MAX: f64 = 1_000_000.0;

section! {
    /// Prices and context sizes of models, in addition to or instead of the built-in table.
    pub static MODELS_FILE = "";

    /// The models.
    const MODELS = ["models"] nodes(const { &ValueShape::Mapping(&MODEL) }).make_required();
}

section! {
    /// The price and context size of a model.
    pub static MODEL = "models[]";

    /// Its name in a config. Names followed by a date match too.
    const NAME = ["name"] text().make_required();

    /// The backend type that the row applies to. Default: all.
    const VENDOR = ["vendor"] text();

    /// Context size in tokens, for request and reply.
    const CONTEXT_TOKENS = ["context_tokens"] integer(1, TOKENS_MAX);

    /// Maximum tokens of a reply.
    const OUTPUT_TOKENS_MAX = ["output_tokens_max"] integer(1, TOKENS_MAX);

    /// Prices of its tokens.
    const USD_PER_MILLION_TOKENS = ["usd_per_million_tokens"] section(&RATES).make_required();

    /// Prices of all tokens of longer requests, shortest first.
    const LONG_REQUESTS = ["long_requests"] nodes(const { &ValueShape::Mapping(&LONG_REQUEST) });
}

section! {
    /// US dollars per million tokens, with at most six decimals.
    pub static RATES = "models[].usd_per_million_tokens";

    /// Uncached input.
    const INPUT = ["input"] decimal(0.0, DOLLARS_MAX).make_required();

    /// Input from the vendor's cache. Default: as `input`.
    const CACHED_INPUT = ["cached_input"] decimal(0.0, DOLLARS_MAX);

    /// Input written to the vendor's cache. Default: as `input`.
    const CACHE_WRITE = ["cache_write"] decimal(0.0, DOLLARS_MAX);

    /// Output, including reasoning.
    const OUTPUT = ["output"] decimal(0.0, DOLLARS_MAX).make_required();
}

section! {
    /// Prices for requests with more than `above_input_tokens` input tokens.
    pub static LONG_REQUEST = "models[].long_requests[]";

    /// The number of input tokens above which these prices apply.
    const ABOVE_INPUT_TOKENS = ["above_input_tokens"] integer(1, TOKENS_MAX).make_required();
    row USD_PER_MILLION_TOKENS.row();
}
