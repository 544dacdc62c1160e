//! The vendor that is paid for the use of a model, determined by the host of its endpoint. The
//! prices are in `spending`.

use url::{Host, Url};

use crate::config::BackendConfig;
use crate::config::vendors::{VendorConnection, is_this_machine, is_within};
use crate::spending::models::{ModelQuery, PricingVendor};

/// Domains and the vendors that are paid there, by their names in the price table.
const VENDORS_BY_DOMAIN: &[(&str, &str)] = &[
    ("aliyuncs.com", "qwen"),
    ("anthropic.com", "claude"),
    ("azure.com", "openai"),
    ("bigmodel.cn", "zai"),
    ("cerebras.ai", "cerebras"),
    ("deepseek.com", "deepseek"),
    ("fireworks.ai", "fireworks"),
    ("googleapis.com", "gemini"),
    ("groq.com", "groq"),
    ("mistral.ai", "mistral"),
    ("moonshot.ai", "moonshot"),
    ("moonshot.cn", "moonshot"),
    ("nebius.ai", "nebius"),
    ("nebius.com", "nebius"),
    ("openai.com", "openai"),
    ("together.ai", "together"),
    ("together.xyz", "together"),
    ("x.ai", "grok"),
    ("z.ai", "zai"),
];

/// Returns the query for the price of `backend`'s model, not of its fallback models.
pub fn model_query(backend: &BackendConfig) -> ModelQuery<'_> {
    ModelQuery {
        backend: backend.vendor.name,
        pricing_vendor: pricing_vendor(backend),
        model: &backend.model,
    }
}

fn pricing_vendor(backend: &BackendConfig) -> PricingVendor {
    if backend.vendor.connection == VendorConnection::Scripted {
        return PricingVendor::Free;
    }
    let url = backend.base_url.as_deref().or(backend.vendor.base_url);
    match url.and_then(|url| Url::parse(url).ok()) {
        Some(url) => pricing_vendor_at(&url),
        None => PricingVendor::Other,
    }
}

fn pricing_vendor_at(url: &Url) -> PricingVendor {
    if is_this_machine(url) {
        return PricingVendor::Free;
    }
    let Some(Host::Domain(host)) = url.host() else {
        return PricingVendor::Other;
    };
    let mut vendors = VENDORS_BY_DOMAIN.iter();
    vendors
        .find(|(domain, _)| is_within(host, domain))
        .map_or(PricingVendor::Other, |(_, vendor)| {
            PricingVendor::Vendor(vendor)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: PricingVendor) {
        assert_eq!(
            pricing_vendor_at(&Url::parse(url).unwrap()),
            expected,
            "{url}"
        );
    }

    #[test]
    fn the_host_tells_who_is_paid() {
        check("https://api.openai.com/v1", PricingVendor::Vendor("openai"));
        check(
            "https://ada.openai.azure.com",
            PricingVendor::Vendor("openai"),
        );
        check("https://api.x.ai/v1", PricingVendor::Vendor("grok"));
        check("https://openrouter.ai/api/v1", PricingVendor::Other);
        check("https://notopenai.com/v1", PricingVendor::Other);
        check("https://openai.com.evil.example/v1", PricingVendor::Other);
        check("http://192.168.1.7:8000/v1", PricingVendor::Other);
        check("http://localhost:11434/v1", PricingVendor::Free);
        check("http://127.0.0.1:8000/v1", PricingVendor::Free);
        check("http://[::1]:8000/v1", PricingVendor::Free);
    }
}
