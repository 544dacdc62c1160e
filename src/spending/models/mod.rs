//! The known models: their context and output limits, and their prices. The table in the binary is
//! `models.txt`; the user's own rows take precedence.
//!
//! How a model is found:
//! 1. A row matches if it has the model's name. It matches too if the name has a suffix that is a
//!    date or a build (`-20250929`, `-2025-08-07`, `-001`), `-latest`, `-preview` or `-exp`, or if
//!    it has a path as its prefix (`openai/gpt-5`, `models/gemini-2.5-flash`). Case is ignored, and
//!    `.` and `-` within a name are the same.
//! 2. Of several rows, the one with the longest name is used; the user's rows take precedence over
//!    the table's.
//! 3. If the seller is known, only that vendor's rows of the table count, otherwise those of the
//!    models' makers. If there is no seller, a model costs nothing unless the user's rows say
//!    otherwise.

use crate::spending::price::ModelPrice;

pub mod table;

/// Vendors that sell models of other makers, at their own prices.
const RESELLERS: &[&str] = &["groq", "cerebras", "together", "fireworks", "nebius"];

/// A known model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownModel {
    /// The vendor whose price it is, as the `type` of a backend; `None`, in the user's rows, for
    /// any.
    pub vendor: Option<String>,
    /// Its name at its vendor, without a date.
    pub name: String,
    /// Maximum number of tokens in request and reply together.
    pub context_tokens: Option<u64>,
    /// Maximum number of tokens in a reply.
    pub output_tokens_max: Option<u64>,
    /// Its price.
    pub price: ModelPrice,
    /// The origin of the row.
    pub origin: ModelRowOrigin,
}

/// Origin of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelRowOrigin {
    /// The table in the binary.
    Table,
    /// The user's file.
    User,
}

/// The seller of a model's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PricingVendor {
    /// No seller: the model runs on this machine, or from a script.
    Free,
    /// This vendor.
    Vendor(&'static str),
    /// A seller whose prices are not in the table.
    Other,
}

/// A model as the config names it.
#[derive(Clone, Copy, Debug)]
pub struct ModelQuery<'a> {
    /// The backend type.
    pub backend: &'a str,
    /// Its seller.
    pub seller: PricingVendor,
    /// The model's name as the config writes it.
    pub model: &'a str,
}

/// All known models.
#[derive(Clone, Debug)]
pub struct ModelList {
    rows: Vec<KnownModel>,
}

impl ModelList {
    /// Returns the table of the binary, preceded by the user's rows.
    pub fn with_user_rows(user_rows: Vec<KnownModel>) -> Self {
        let mut rows = user_rows;
        rows.extend(table::rows());
        Self { rows }
    }

    /// Returns all rows, the user's first.
    pub fn rows(&self) -> &[KnownModel] {
        &self.rows
    }

    /// Returns the row for a model.
    pub fn find(&self, query: &ModelQuery<'_>) -> Option<&KnownModel> {
        self.best_match(ModelRowOrigin::User, query)
            .or_else(|| self.best_match(ModelRowOrigin::Table, query))
    }

    /// Returns the price of a model; `None` if it is unknown.
    pub fn price(&self, query: &ModelQuery<'_>) -> Option<ModelPrice> {
        match (self.find(query), query.seller) {
            (Some(row), _) => Some(row.price.clone()),
            (None, PricingVendor::Free) => Some(ModelPrice::default()),
            (None, PricingVendor::Vendor(_) | PricingVendor::Other) => None,
        }
    }

    fn best_match(&self, origin: ModelRowOrigin, query: &ModelQuery<'_>) -> Option<&KnownModel> {
        let rows = self.rows.iter().filter(|row| row.origin == origin);
        let fitting =
            rows.filter(|row| row.is_sold_to(query) && matches_name(&row.name, query.model));
        fitting.max_by_key(|row| (row.name.len(), row.vendor.is_some()))
    }
}

impl KnownModel {
    fn is_sold_to(&self, query: &ModelQuery<'_>) -> bool {
        let Some(vendor) = self.vendor.as_deref() else {
            return true;
        };
        match (self.origin, query.seller) {
            (_, PricingVendor::Vendor(seller)) if seller == vendor => true,
            (ModelRowOrigin::User, _) => vendor == query.backend,
            (ModelRowOrigin::Table, PricingVendor::Free | PricingVendor::Vendor(_)) => false,
            (ModelRowOrigin::Table, PricingVendor::Other) => !RESELLERS.contains(&vendor),
        }
    }
}

/// Returns whether a row named `row` matches the model `name`.
fn matches_name(row: &str, name: &str) -> bool {
    let tails = name
        .match_indices('/')
        .filter_map(|(at, _)| name.get(at..))
        .filter_map(|tail| tail.strip_prefix('/'));
    std::iter::once(name)
        .chain(tails)
        .any(|name| is_name_or_variant(row, name))
}

/// Returns whether `name` is `row`, or `row` with a date, a build or a similar suffix.
fn is_name_or_variant(row: &str, name: &str) -> bool {
    let Some((beginning, rest)) = name.split_at_checked(row.len()) else {
        return false;
    };
    let is_same_letter = |a: u8, b: u8| fold_byte(a) == fold_byte(b);
    let mut pairs = row.bytes().zip(beginning.bytes());
    pairs.all(|(a, b)| is_same_letter(a, b)) && (rest.is_empty() || is_version_suffix(rest))
}

fn fold_byte(byte: u8) -> u8 {
    match byte.to_ascii_lowercase() {
        b'.' => b'-',
        byte => byte,
    }
}

/// Returns whether `rest` only names the build of a model. A single digit may be another model:
/// `claude-opus-4-1` is not a `claude-opus-4`.
fn is_version_suffix(rest: &str) -> bool {
    let is_build = |part: &str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_known_suffix =
        |part: &str| matches!(part, "latest" | "preview" | "exp") || is_build(part);
    rest.strip_prefix('-')
        .is_some_and(|rest| rest.split('-').all(is_known_suffix))
}

#[cfg(test)]
mod tests;
