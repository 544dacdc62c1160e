//! Owns who is paid for a model's work: the host of its endpoint tells. What it costs is the
//! business of `spending`.

use url::{Host, Url};

use crate::config::BackendConfig;
use crate::config::vendors::{Wire, is_this_machine, is_within};
use crate::spending::models::{Asked, Seller};

/// Hosts and the vendors that are paid there, as the table of prices names them.
const SELLERS_OF_HOSTS: &[(&str, &str)] = &[
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

/// The model of `backend` as its price is looked up; its fallback models are others.
pub fn asked(backend: &BackendConfig) -> Asked<'_> {
    Asked {
        backend: backend.vendor.name,
        seller: seller(backend),
        model: &backend.model,
    }
}

fn seller(backend: &BackendConfig) -> Seller {
    if backend.vendor.wire == Wire::Scripted {
        return Seller::Nobody;
    }
    let url = backend.base_url.as_deref().or(backend.vendor.base_url);
    match url.and_then(|url| Url::parse(url).ok()) {
        Some(url) => seller_at(&url),
        None => Seller::Other,
    }
}

fn seller_at(url: &Url) -> Seller {
    if is_this_machine(url) {
        return Seller::Nobody;
    }
    let Some(Host::Domain(host)) = url.host() else {
        return Seller::Other;
    };
    let mut sellers = SELLERS_OF_HOSTS.iter();
    sellers
        .find(|(domain, _)| is_within(host, domain))
        .map_or(Seller::Other, |(_, vendor)| Seller::Vendor(vendor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: Seller) {
        assert_eq!(seller_at(&Url::parse(url).unwrap()), expected, "{url}");
    }

    #[test]
    fn the_host_tells_who_is_paid() {
        check("https://api.openai.com/v1", Seller::Vendor("openai"));
        check("https://ada.openai.azure.com", Seller::Vendor("openai"));
        check("https://api.x.ai/v1", Seller::Vendor("grok"));
        check("https://openrouter.ai/api/v1", Seller::Other);
        check("https://notopenai.com/v1", Seller::Other);
        check("https://openai.com.evil.example/v1", Seller::Other);
        check("http://192.168.1.7:8000/v1", Seller::Other);
        check("http://localhost:11434/v1", Seller::Nobody);
        check("http://127.0.0.1:8000/v1", Seller::Nobody);
        check("http://[::1]:8000/v1", Seller::Nobody);
    }
}
