//! Owns which models are known: how much they read and write, and what they cost. The table in the
//! binary stands in `models.txt`; the user's own rows come before it.
//!
//! How a model is found:
//! 1. A row fits that has the model's name. It fits too if the name goes on with a date or a build
//!    (`-20250929`, `-2025-08-07`, `-001`), with `-latest`, `-preview` or `-exp`, or if a path stands
//!    before it (`openai/gpt-5`, `models/gemini-2.5-flash`). Case makes no difference, and neither
//!    does `.` or `-` within a name.
//! 2. Of several rows, the one with the longest name is taken; the user's rows before the table's.
//! 3. Where it is known who is paid, only that vendor's rows of the table count, and elsewhere those
//!    of the models' makers. Where nobody is paid, a model costs nothing unless the user's rows say
//!    otherwise.

use crate::spending::price::ModelPrice;

pub mod table;

/// Vendors that sell models of others, at prices of their own.
const RESELLERS: &[&str] = &["groq", "cerebras", "together", "fireworks", "nebius"];

/// A model that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownModel {
    /// Whose price it is, as `type` of a backend names it; of the user's rows, `None` for any.
    pub vendor: Option<String>,
    /// Its name at its vendor, without a date.
    pub name: String,
    /// Tokens of request and reply that it holds at most.
    pub context_tokens: Option<u64>,
    /// Tokens of a reply at most.
    pub output_tokens_max: Option<u64>,
    /// What it costs.
    pub price: ModelPrice,
    /// Where the row stands.
    pub origin: ModelRowOrigin,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelRowOrigin {
    /// In the table of the binary.
    Table,
    /// In the user's file.
    User,
}

/// Who is paid for a model's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PricingVendor {
    /// Nobody: it runs on this machine, or from a script.
    Nobody,
    /// This vendor.
    Vendor(&'static str),
    /// Somebody whose prices are not in the table.
    Other,
}

/// A model as a team asks it.
#[derive(Clone, Copy, Debug)]
pub struct ModelQuery<'a> {
    /// The backend type.
    pub backend: &'a str,
    /// Who is paid.
    pub seller: PricingVendor,
    /// The model's name as the config writes it.
    pub model: &'a str,
}

/// All models that are known.
#[derive(Clone, Debug)]
pub struct ModelList {
    rows: Vec<KnownModel>,
}

impl ModelList {
    /// The table of the binary, with the user's rows before it.
    pub fn with_user_rows(own: Vec<KnownModel>) -> Self {
        let mut rows = own;
        rows.extend(table::rows());
        Self { rows }
    }

    /// All rows, the user's first.
    pub fn rows(&self) -> &[KnownModel] {
        &self.rows
    }

    /// The row that holds for a model.
    pub fn find(&self, asked: &ModelQuery<'_>) -> Option<&KnownModel> {
        self.best_match(ModelRowOrigin::User, asked)
            .or_else(|| self.best_match(ModelRowOrigin::Table, asked))
    }

    /// What a model costs; `None` if that is not known.
    pub fn price(&self, asked: &ModelQuery<'_>) -> Option<ModelPrice> {
        match (self.find(asked), asked.seller) {
            (Some(row), _) => Some(row.price.clone()),
            (None, PricingVendor::Nobody) => Some(ModelPrice::default()),
            (None, PricingVendor::Vendor(_) | PricingVendor::Other) => None,
        }
    }

    fn best_match(&self, origin: ModelRowOrigin, asked: &ModelQuery<'_>) -> Option<&KnownModel> {
        let rows = self.rows.iter().filter(|row| row.origin == origin);
        let fitting =
            rows.filter(|row| row.is_sold_to(asked) && matches_name(&row.name, asked.model));
        fitting.max_by_key(|row| (row.name.len(), row.vendor.is_some()))
    }
}

impl KnownModel {
    fn is_sold_to(&self, asked: &ModelQuery<'_>) -> bool {
        let Some(vendor) = self.vendor.as_deref() else {
            return true;
        };
        match (self.origin, asked.seller) {
            (_, PricingVendor::Vendor(seller)) if seller == vendor => true,
            (ModelRowOrigin::User, _) => vendor == asked.backend,
            (ModelRowOrigin::Table, PricingVendor::Nobody | PricingVendor::Vendor(_)) => false,
            (ModelRowOrigin::Table, PricingVendor::Other) => !RESELLERS.contains(&vendor),
        }
    }
}

/// Whether a row named `row` holds for the model `name`.
fn matches_name(row: &str, name: &str) -> bool {
    let tails = name.match_indices('/').filter_map(|(at, _)| name.get(at..));
    let tails = tails.filter_map(|tail| tail.strip_prefix('/'));
    std::iter::once(name)
        .chain(tails)
        .any(|name| is_name_or_variant(row, name))
}

/// Whether `name` is `row`, or goes on after it with a date, a build or the like.
fn is_name_or_variant(row: &str, name: &str) -> bool {
    let Some((beginning, rest)) = name.split_at_checked(row.len()) else {
        return false;
    };
    let same = |a: u8, b: u8| fold_byte(a) == fold_byte(b);
    let mut pairs = row.bytes().zip(beginning.bytes());
    pairs.all(|(a, b)| same(a, b)) && (rest.is_empty() || is_version_suffix(rest))
}

fn fold_byte(byte: u8) -> u8 {
    match byte.to_ascii_lowercase() {
        b'.' => b'-',
        byte => byte,
    }
}

/// Whether `rest` says only which build of a model is meant. A single digit may be another model:
/// `claude-opus-4-1` is not a `claude-opus-4`.
fn is_version_suffix(rest: &str) -> bool {
    let is_build = |part: &str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let known = |part: &str| matches!(part, "latest" | "preview" | "exp") || is_build(part);
    rest.strip_prefix('-')
        .is_some_and(|rest| rest.split('-').all(known))
}

#[cfg(test)]
mod tests;
