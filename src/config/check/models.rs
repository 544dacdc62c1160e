//! Reads the models in the user's file.

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::MappingView;
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
        let items = root.items("models").into_iter();
        let views = items.map(|(path, node)| MappingView { node, path });
        views.filter_map(|view| self.known_model(&view)).collect()
    }

    fn known_model(&mut self, view: &MappingView<'_>) -> Option<KnownModel> {
        let rates = self.rates(view);
        let long = view.items("long_requests").into_iter();
        let long = long.filter_map(|(path, node)| {
            let view = MappingView { node, path };
            let above = view.integer("above_input_tokens")?;
            Some((above, self.rates(&view)?))
        });
        let mut long: Vec<(u64, TokenRates)> = long.collect();
        long.sort_by_key(|(above, _)| *above);
        Some(KnownModel {
            vendor: view.text("vendor").map(|text| text.written.to_owned()),
            name: view.text("name")?.written.to_owned(),
            context_tokens: view.integer("context_tokens"),
            output_tokens_max: view.integer("output_tokens_max"),
            price: ModelPrice {
                rates: rates?,
                long,
            },
            origin: ModelRowOrigin::User,
        })
    }

    fn rates(&mut self, around: &MappingView<'_>) -> Option<TokenRates> {
        let view = around.section("usd_per_million_tokens")?;
        let mut price = |key| self.dollars(&view, key, Money::per_token);
        let (input, output) = (price("input"), price("output"));
        let (cached, cache_write) = (price("cached_input"), price("cache_write"));
        let input = input?;
        Some(TokenRates {
            input,
            cached: cached.unwrap_or(input),
            cache_write: cache_write.unwrap_or(input),
            output: output?,
        })
    }
}
