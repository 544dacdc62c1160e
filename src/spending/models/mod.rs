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
//! 3. If the vendor that is paid is known, only its rows of the table count, otherwise those of the
//!    models' makers. If no vendor is paid, a model costs nothing unless the user's rows say
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

/// The vendor that is paid for the use of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PricingVendor {
    /// None: the model runs on this machine, or from a script.
    Free,
    /// This vendor.
    Vendor(&'static str),
    /// A vendor whose prices are not in the table.
    Other,
}

/// A model as the config names it.
#[derive(Clone, Copy, Debug)]
pub struct ModelQuery<'a> {
    /// The backend type.
    pub backend: &'a str,
    /// The vendor that is paid.
    pub pricing_vendor: PricingVendor,
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
        match (self.find(query), query.pricing_vendor) {
            (Some(row), _) => Some(row.price.clone()),
            (None, PricingVendor::Free) => Some(ModelPrice::default()),
            (None, PricingVendor::Vendor(_) | PricingVendor::Other) => None,
        }
    }

    fn best_match(&self, origin: ModelRowOrigin, query: &ModelQuery<'_>) -> Option<&KnownModel> {
        let rows = self.rows.iter().filter(|row| row.origin == origin);
        let matching_rows =
            rows.filter(|row| row.matches_vendor(query) && matches_name(&row.name, query.model));
        matching_rows.max_by_key(|row| (row.name.len(), row.vendor.is_some()))
    }
}

impl KnownModel {
    /// Returns whether the row is about models of the vendor in `query`.
    fn matches_vendor(&self, query: &ModelQuery<'_>) -> bool {
        let Some(vendor) = self.vendor.as_deref() else {
            return true;
        };
        match (self.origin, query.pricing_vendor) {
            (_, PricingVendor::Vendor(paid_vendor)) if paid_vendor == vendor => true,
            (ModelRowOrigin::User, _) => vendor == query.backend,
            (ModelRowOrigin::Table, PricingVendor::Free | PricingVendor::Vendor(_)) => false,
            (ModelRowOrigin::Table, PricingVendor::Other) => !RESELLERS.contains(&vendor),
        }
    }
}

/// Returns whether a row named `row_name` matches the model `name`, which may have a path as its
/// prefix.
fn matches_name(row_name: &str, name: &str) -> bool {
    let names_after_slashes = name
        .match_indices('/')
        .filter_map(|(index, _)| name.get(index..)?.strip_prefix('/'));
    std::iter::once(name)
        .chain(names_after_slashes)
        .any(|name| is_name_or_variant(row_name, name))
}

/// Returns whether `name` is `row_name`, or `row_name` with a date, a build or a similar suffix.
fn is_name_or_variant(row_name: &str, name: &str) -> bool {
    let Some((beginning, suffix)) = name.split_at_checked(row_name.len()) else {
        return false;
    };
    let mut pairs = row_name.bytes().zip(beginning.bytes());
    let is_same_name = pairs.all(|(a, b)| fold_byte(a) == fold_byte(b));
    is_same_name && (suffix.is_empty() || is_version_suffix(suffix))
}

/// Returns the same byte for all spellings of a letter: case is ignored, and `.` counts as `-`.
fn fold_byte(byte: u8) -> u8 {
    match byte.to_ascii_lowercase() {
        b'.' => b'-',
        byte => byte,
    }
}

/// Returns whether `suffix` only names the build of a model. A single digit may be another model:
/// `claude-opus-4-1` is not a `claude-opus-4`.
fn is_version_suffix(suffix: &str) -> bool {
    let is_build = |part: &str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_known_suffix =
        |part: &str| matches!(part, "latest" | "preview" | "exp") || is_build(part);
    suffix
        .strip_prefix('-')
        .is_some_and(|parts| parts.split('-').all(is_known_suffix))
}

#[cfg(test)]
mod tests;
