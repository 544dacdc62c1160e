//! Tests which row matches which name, and what a model without a row costs.

use super::*;
use crate::spending::money::Money;
use crate::spending::price::TokenRates;

/// Returns a user's row, identified by its input price.
fn own(vendor: Option<&str>, name: &str, dollars: &str) -> KnownModel {
    let input = Money::per_token(dollars).unwrap();
    let rates = TokenRates {
        input,
        ..TokenRates::default()
    };
    KnownModel {
        vendor: vendor.map(str::to_owned),
        name: name.to_owned(),
        context_tokens: None,
        output_tokens_max: None,
        price: ModelPrice {
            rates,
            long_request_rates: Vec::new(),
        },
        origin: ModelRowOrigin::User,
    }
}

/// `expected` is the vendor and name of the row that matches.
#[track_caller]
fn check(pricing_vendor: PricingVendor, model: &str, expected: Option<&str>) {
    let list = ModelList::with_user_rows(Vec::new());
    let query = ModelQuery {
        backend: "chatcompletion",
        pricing_vendor,
        model,
    };
    let actual = list
        .find(&query)
        .map(|row| format!("{} {}", row.vendor.as_deref().unwrap(), row.name));
    assert_eq!(actual.as_deref(), expected, "{pricing_vendor:?} {model}");
}

#[test]
fn names_with_dates_and_paths_are_found() {
    let claude = PricingVendor::Vendor("claude");
    check(
        claude,
        "claude-sonnet-4-5",
        Some("claude claude-sonnet-4-5"),
    );
    check(
        claude,
        "claude-sonnet-4-5-20250929",
        Some("claude claude-sonnet-4-5"),
    );
    check(
        claude,
        "claude-opus-4-20250514",
        Some("claude claude-opus-4"),
    );
    check(claude, "claude-opus-4-1", Some("claude claude-opus-4-1"));
    check(claude, "claude-opus-4-9", None);
    check(
        claude,
        "claude-3.7-sonnet",
        Some("claude claude-3-7-sonnet"),
    );
    let openai = PricingVendor::Vendor("openai");
    check(openai, "gpt-5-2025-08-07", Some("openai gpt-5"));
    check(openai, "gpt-5-mini-2025-08-07", Some("openai gpt-5-mini"));
    check(openai, "GPT-4o", Some("openai gpt-4o"));
    check(
        openai,
        "gpt-4o-2024-05-13",
        Some("openai gpt-4o-2024-05-13"),
    );
    check(openai, "gpt-4o-2024-08-06", Some("openai gpt-4o"));
    check(openai, "gpt-4o-audio", None);
    check(openai, "gpt-5-giant", None);
    check(openai, "my-gpt-5", None);
    check(openai, "", None);
    let gemini = PricingVendor::Vendor("gemini");
    check(
        gemini,
        "models/gemini-2.5-flash",
        Some("gemini gemini-2.5-flash"),
    );
    check(
        gemini,
        "gemini-2.5-flash-preview-09-2025",
        Some("gemini gemini-2.5-flash"),
    );
    check(
        gemini,
        "gemini-2.0-flash-001",
        Some("gemini gemini-2.0-flash"),
    );
    check(
        gemini,
        "gemini-2.5-flash-lite",
        Some("gemini gemini-2.5-flash-lite"),
    );
    check(
        PricingVendor::Vendor("grok"),
        "grok-4.20",
        Some("grok grok-4.20"),
    );
    check(PricingVendor::Vendor("grok"), "grok-4.21", None);
}

#[test]
fn only_rows_of_the_billing_vendor_apply() {
    check(PricingVendor::Vendor("claude"), "gpt-5", None);
    check(
        PricingVendor::Vendor("cerebras"),
        "gpt-oss-120b",
        Some("cerebras gpt-oss-120b"),
    );
    check(
        PricingVendor::Vendor("groq"),
        "openai/gpt-oss-120b",
        Some("groq openai/gpt-oss-120b"),
    );
    check(PricingVendor::Other, "openai/gpt-5", Some("openai gpt-5"));
    check(
        PricingVendor::Other,
        "anthropic/claude-sonnet-4.5",
        Some("claude claude-sonnet-4-5"),
    );
    check(PricingVendor::Other, "openai/gpt-oss-120b", None);
    check(
        PricingVendor::Other,
        "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        None,
    );
    check(PricingVendor::Free, "gpt-5", None);
}

/// `expected` is the price of a million input tokens.
#[track_caller]
fn check_price(rows: &[KnownModel], query: ModelQuery<'_>, expected: Option<&str>) {
    let price = ModelList::with_user_rows(rows.to_vec()).price(&query);
    let input = price.map(|price| price.rates.input.saturating_mul(1_000_000).to_string());
    assert_eq!(input.as_deref(), expected, "{query:?}");
}

#[test]
fn the_users_rows_come_first_and_what_runs_here_is_free() {
    let rows = [
        own(None, "gpt-5", "99"),
        own(None, "house-model", "1"),
        own(Some("vllm"), "house-model", "2"),
        own(None, "scripted", "3"),
    ];
    let query = |backend, pricing_vendor, model| ModelQuery {
        backend,
        pricing_vendor,
        model,
    };
    let openai = PricingVendor::Vendor("openai");
    check_price(
        &rows,
        query("openai", openai, "gpt-5-2025-08-07"),
        Some("99"),
    );
    check_price(
        &[],
        query("openai", openai, "gpt-5-2025-08-07"),
        Some("1.25"),
    );
    check_price(&rows, query("openai", openai, "gpt-5-mini"), Some("0.25"));
    check_price(
        &rows,
        query("vllm", PricingVendor::Other, "house-model"),
        Some("2"),
    );
    check_price(
        &rows,
        query("sglang", PricingVendor::Other, "house-model"),
        Some("1"),
    );
    check_price(
        &[],
        query("sglang", PricingVendor::Other, "house-model"),
        None,
    );
    check_price(
        &[],
        query("ollama", PricingVendor::Free, "house-model"),
        Some("0"),
    );
    check_price(
        &rows,
        query("scripted", PricingVendor::Free, "scripted"),
        Some("3"),
    );
    check_price(
        &[],
        query("scripted", PricingVendor::Free, "scripted"),
        Some("0"),
    );
}
