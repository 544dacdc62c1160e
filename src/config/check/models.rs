//! Reads the user's file of models: their limits and prices.

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::MappingView;
use crate::config::keys::shape::Decimal;
use crate::config::keys::{TypedKey, models};
use crate::config::yaml::YamlNode;
use crate::spending::models::{KnownModel, ModelRowOrigin};
use crate::spending::money::Money;
use crate::spending::price::{ModelPrice, TokenRates};

impl ConfigChecker<'_> {
    /// Returns the rows of the file that are valid.
    pub(super) fn models(&mut self, tree: &YamlNode) -> Vec<KnownModel> {
        let root = MappingView {
            node: tree,
            path: String::new(),
        };
        let views = root.views(&models::MODELS);
        let rows = views.iter().filter_map(|view| self.known_model(view));
        rows.collect()
    }

    fn known_model(&mut self, view: &MappingView<'_>) -> Option<KnownModel> {
        let rates = self.rates(view);
        let mut long_request_rates: Vec<(u64, TokenRates)> = view
            .views(&models::LONG_REQUESTS)
            .iter()
            .filter_map(|view| {
                let threshold = view.integer(&models::ABOVE_INPUT_TOKENS)?;
                Some((threshold, self.rates(view)?))
            })
            .collect();
        long_request_rates.sort_by_key(|(threshold, _)| *threshold);
        Some(KnownModel {
            vendor: view.string(&models::VENDOR),
            name: view.text(&models::NAME)?.value.to_owned(),
            context_tokens: view.integer(&models::CONTEXT_TOKENS),
            output_tokens_max: view.integer(&models::OUTPUT_TOKENS_MAX),
            price: ModelPrice {
                rates: rates?,
                long_request_rates,
            },
            origin: ModelRowOrigin::User,
        })
    }

    fn rates(&mut self, parent: &MappingView<'_>) -> Option<TokenRates> {
        let view = parent.section(&models::USD_PER_MILLION_TOKENS)?;
        let mut price = |key: &TypedKey<Decimal>| self.dollars(&view, key, Money::per_token);
        let (input, output) = (price(&models::INPUT), price(&models::OUTPUT));
        let (cached, cache_write) = (price(&models::CACHED_INPUT), price(&models::CACHE_WRITE));
        let input = input?;
        Some(TokenRates {
            input,
            cached: cached.unwrap_or(input),
            cache_write: cache_write.unwrap_or(input),
            output: output?,
        })
    }
}
