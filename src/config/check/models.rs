//! Owns the models of the user's file, as it gives them.

use crate::config::check::Checker;
use crate::config::check::view::View;
use crate::config::node::Node;
use crate::spending::models::{KnownModel, Origin};
use crate::spending::money::Money;
use crate::spending::price::{Price, Rates};

impl Checker<'_> {
    /// The rows of the file, as far as they can be made.
    pub(super) fn models(&mut self, tree: &Node) -> Vec<KnownModel> {
        let root = View {
            node: tree,
            path: String::new(),
        };
        let items = root.items("models").into_iter();
        let views = items.map(|(path, node)| View { node, path });
        views.filter_map(|view| self.known_model(&view)).collect()
    }

    fn known_model(&mut self, view: &View<'_>) -> Option<KnownModel> {
        let rates = self.rates(view);
        let long = view.items("long_requests").into_iter();
        let long = long.filter_map(|(path, node)| {
            let view = View { node, path };
            let above = view.integer("above_input_tokens")?;
            Some((above, self.rates(&view)?))
        });
        let mut long: Vec<(u64, Rates)> = long.collect();
        long.sort_by_key(|(above, _)| *above);
        Some(KnownModel {
            vendor: view.text("vendor").map(|text| text.written.to_owned()),
            name: view.text("name")?.written.to_owned(),
            context_tokens: view.integer("context_tokens"),
            output_tokens_max: view.integer("output_tokens_max"),
            price: Price {
                rates: rates?,
                long,
            },
            origin: Origin::User,
        })
    }

    fn rates(&mut self, around: &View<'_>) -> Option<Rates> {
        let view = around.section("usd_per_million_tokens")?;
        let mut price = |key| self.dollars(&view, key, Money::of_one_token);
        let (input, output) = (price("input"), price("output"));
        let (cached, cache_write) = (price("cached_input"), price("cache_write"));
        let input = input?;
        Some(Rates {
            input,
            cached: cached.unwrap_or(input),
            cache_write: cache_write.unwrap_or(input),
            output: output?,
        })
    }
}
