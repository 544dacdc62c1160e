//! Tests of the table of vendors.

use std::collections::BTreeSet;

use super::*;

#[test]
fn the_address_of_ollama_may_lack_parts() {
    for (address, expected) in [
        ("127.0.0.1:4000", "http://127.0.0.1:4000/v1"),
        ("0.0.0.0", "http://localhost:11434/v1"),
        (":4000", "http://localhost:4000/v1"),
        ("gpu.lan", "http://gpu.lan:11434/v1"),
        ("http://gpu.lan:4000/", "http://gpu.lan:4000/v1"),
        ("https://gpu.lan", "https://gpu.lan:443/v1"),
        ("[::]:4000", "http://localhost:4000/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
    ] {
        assert_eq!(ollama_endpoint(address), expected, "{address}");
    }
}

#[track_caller]
fn check(vendor: &str, base_url: &str, variables: &[&str], requirement: KeyRequirement) {
    let vendor = find_vendor(vendor).unwrap();
    let url = Url::parse(base_url).unwrap();
    assert_eq!(vendor.key_variables_at(&url), variables, "{base_url}");
    assert_eq!(vendor.key_requirement_at(&url), requirement, "{base_url}");
}

#[test]
fn a_chatcompletion_takes_the_key_of_the_host_it_goes_to() {
    use KeyRequirement::{Optional, Required};
    let openai: &[&str] = &["OPENAI_API_KEY"];
    let rows: &[(&str, &[&str], KeyRequirement)] = &[
        ("https://api.openai.com/v1", openai, Required),
        (
            "https://api.groq.com/openai/v1",
            &["GROQ_API_KEY"],
            Required,
        ),
        ("https://API.GROQ.COM/v1", &["GROQ_API_KEY"], Required),
        ("https://groq.com/v1", &["GROQ_API_KEY"], Required),
        ("https://api.x.ai/v1", &["XAI_API_KEY"], Required),
        ("https://notgroq.com/v1", openai, Required),
        ("https://groq.com.example.org/v1", openai, Required),
        ("https://proxy.example.org/groq.com/v1", openai, Required),
        ("https://groq.com@example.org/v1", openai, Required),
        ("http://localhost:4000/v1", openai, Optional),
        ("http://127.0.0.1:4000/v1", openai, Optional),
        ("http://[::1]:4000/v1", openai, Optional),
        ("http://10.0.0.7:4000/v1", openai, Required),
    ];
    for (url, variables, requirement) in rows {
        check("chatcompletion", url, variables, *requirement);
    }
}

#[test]
fn every_other_type_keeps_its_own_key() {
    check(
        "grok",
        "https://api.groq.com/v1",
        &["XAI_API_KEY"],
        KeyRequirement::Required,
    );
    check(
        "vllm",
        "https://gpu.example.org/v1",
        &["VLLM_API_KEY"],
        KeyRequirement::Optional,
    );
}

#[test]
fn a_url_leads_to_this_machine_or_a_vendor_or_elsewhere() {
    use UrlDestination::{Elsewhere, ThisMachine, Vendor};
    let groq = Vendor(&["GROQ_API_KEY"]);
    let other = Elsewhere("is not a known vendor's host");
    let user = Elsewhere("contains a user name");
    let port = Elsewhere("uses another port");
    for (url, expected) in [
        ("https://api.groq.com/openai/v1", groq),
        ("https://API.GROQ.com/openai/v1", groq),
        ("https://api.groq.com:443/openai/v1", groq),
        ("https://api.groq.com\\.evil.example/v1", groq),
        ("https://api.groq.com:8443/openai/v1", port),
        ("https://api.groq.com:80/openai/v1", port),
        (
            "http://api.groq.com/openai/v1",
            Elsewhere("is not encrypted"),
        ),
        ("http://api.groq.com:443/v1", Elsewhere("is not encrypted")),
        ("https://api.groq.com./openai/v1", other),
        ("https://api.groq.com@evil.example/v1", user),
        ("https://api.groq.com:x@evil.example/v1", user),
        ("https://x@api.groq.com/v1", user),
        ("https://x@127.0.0.1/v1", user),
        ("https://groq.com/v1", other),
        ("https://x.api.groq.com/v1", other),
        ("https://api.groq.com.evil.example/v1", other),
        ("https://api-groq.com/v1", other),
        ("https://evil.example/api.groq.com", other),
        ("https://evil.example/?https://api.groq.com", other),
        ("https://1234.cn-hangzhou.fc.aliyuncs.com/v1", other),
        ("https://bucket.storage.googleapis.com/v1", other),
        ("https://\u{430}pi.groq.com/v1", other),
        ("https://10.0.0.7/v1", other),
        ("https://[fe80::1]/v1", other),
        ("https://128.0.0.1/v1", other),
        ("http://localhost:8000/v1", ThisMachine),
        ("http://LOCALHOST:8000/v1", ThisMachine),
        ("http://localhost.:8000/v1", ThisMachine),
        ("http://x.localhost:8000/v1", ThisMachine),
        ("http://api.groq.com.localhost/v1", ThisMachine),
        ("http://notlocalhost/v1", other),
        ("http://localhost.evil.example/v1", other),
        ("http://localhost../v1", other),
        ("http://127.0.0.1:8000/v1", ThisMachine),
        ("http://127.1/v1", ThisMachine),
        ("http://127.8.8.8/v1", ThisMachine),
        ("http://0x7f000001/v1", ThisMachine),
        ("http://0/v1", ThisMachine),
        ("http://0.0.0.0:8000/v1", ThisMachine),
        ("http://[::1]:8000/v1", ThisMachine),
        ("http://[::]:8000/v1", ThisMachine),
        ("http://[::ffff:127.0.0.1]/v1", ThisMachine),
        ("http://[::ffff:10.0.0.7]/v1", other),
    ] {
        let url = Url::parse(url).unwrap();
        assert_eq!(destination(&url), expected, "{url}");
    }
}

#[test]
fn the_own_host_of_every_vendor_takes_its_key() {
    for vendor in VENDORS {
        let Some(url) = vendor.base_url.and_then(|url| Url::parse(url).ok()) else {
            continue;
        };
        match destination(&url) {
            UrlDestination::ThisMachine => {}
            UrlDestination::Vendor(variables) => assert_eq!(variables, vendor.key_variables),
            UrlDestination::Elsewhere(reason) => panic!("{}: {reason}", vendor.name),
        }
    }
    let known: Vec<&str> = KEY_VARIABLES_BY_DOMAIN
        .iter()
        .flat_map(|(_, keys)| *keys)
        .copied()
        .collect();
    for (host, variables) in VENDOR_HOSTS {
        let is_known = |name: &&&str| known.contains(*name) || **name == "OPENAI_API_KEY";
        assert_eq!(
            variables.iter().filter(is_known).count(),
            variables.len(),
            "{host}"
        );
    }
}

#[test]
fn an_endpoint_is_from_the_config_the_environment_or_the_table() {
    #[track_caller]
    fn check(vendor: &str, base_url: Option<&str>, variable: &str, expected: Option<&str>) {
        let env = |name: &str| (name == "AZURE_OPENAI_ENDPOINT").then(|| variable.to_owned());
        let endpoint = find_vendor(vendor).unwrap().endpoint(base_url, env);
        assert_eq!(
            endpoint.as_deref(),
            expected,
            "{vendor} {base_url:?} {variable:?}"
        );
    }

    let (base_url, variable) = ("https://a.example", "https://b.example");
    check("azure_openai", Some(base_url), variable, Some(base_url));
    check("azure_openai", None, variable, Some(variable));
    // An empty variable counts as unset.
    check("azure_openai", None, "", None);
    check("grok", None, variable, Some("https://api.x.ai/v1"));
    check("grok", Some(base_url), variable, Some(base_url));
    check("inference", None, variable, None);
}

#[test]
fn reasoning_goes_back_to_hosts_and_models_that_want_it() {
    let (wanted, on_demand) = (ReasoningEcho::Wanted, ReasoningEcho::OnDemand);
    for (url, model, expected) in [
        ("https://api.moonshot.cn/v1", "m", wanted),
        ("https://api.deepseek.com", "m", wanted),
        ("https://openrouter.ai/api/v1", "m", wanted),
        (
            "https://api.groq.com/openai/v1",
            "m",
            ReasoningEcho::Refused,
        ),
        (
            "https://api.groq.com/openai/v1",
            "moonshotai/kimi-k2-instruct",
            ReasoningEcho::Refused,
        ),
        ("http://127.0.0.1/deepseek.com", "m", on_demand),
        ("https://notz.ai", "m", on_demand),
        ("https://a.example", "moonshotai/Kimi-K2.5", wanted),
        ("https://a.example", "deepseek-ai/DeepSeek-V4", wanted),
        ("https://a.example", "zai-org/GLM-4.7", wanted),
        ("https://a.example", "MiniMaxAI/MiniMax-M2", wanted),
        (
            "https://a.example",
            "Qwen/Qwen3-235B-A22B-Thinking-2507",
            wanted,
        ),
        (
            "https://a.example",
            "Qwen/Qwen3-235B-A22B-Instruct",
            on_demand,
        ),
        ("https://a.example", "gpt-5", on_demand),
    ] {
        let url = Url::parse(url).unwrap();
        let echo = reasoning_echo("chatcompletion", &url, model);
        assert_eq!(echo, expected, "{url} {model}");
    }
    let elsewhere = Url::parse("https://a.example").unwrap();
    assert_eq!(reasoning_echo("openrouter", &elsewhere, "m"), wanted);
    let refused = reasoning_echo("groq", &elsewhere, "kimi");
    assert_eq!(refused, ReasoningEcho::Refused);
}

#[test]
fn a_model_of_google_is_of_the_line_that_its_name_says() {
    for (model, expected) in [
        ("gemini-3.8-flash", GeminiGeneration::Current),
        ("gemini-flash-latest", GeminiGeneration::Current),
        ("models/gemini-4-pro", GeminiGeneration::Current),
        ("gemini-2.5-flash", GeminiGeneration::Early),
        ("gemini-1.5-pro-002", GeminiGeneration::Early),
        ("gemma-3-27b-it", GeminiGeneration::Early),
        ("tunedModels/mine", GeminiGeneration::Early),
    ] {
        assert_eq!(gemini_generation(model), expected, "{model}");
    }
}

#[test]
fn variables_of_keys_are_keys_and_nothing_else() {
    for name in key_variables() {
        let is_word = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        assert!(
            name.ends_with("_API_KEY") && name.bytes().all(is_word),
            "{name}"
        );
    }
    assert!(is_key_variable("OPENAI_API_KEY") && is_key_variable("DEEPSEEK_API_KEY"));
    for name in [
        "AZURE_OPENAI_ENDPOINT",
        "PATH",
        "LD_PRELOAD",
        "openai_api_key",
        "",
    ] {
        assert!(!is_key_variable(name), "{name}");
    }
}

#[test]
fn a_key_comes_before_others_of_its_vendor() {
    let after = |name: &str| {
        let names: BTreeSet<&str> = key_variables_after(name).collect();
        names.into_iter().collect::<Vec<&str>>()
    };
    assert_eq!(after("CLAUDE_CODE_API_KEY"), ["ANTHROPIC_API_KEY"]);
    assert_eq!(after("GOOGLE_API_KEY"), ["GEMINI_API_KEY"]);
    assert_eq!(after("GEMINI_API_KEY"), ["GOOGLE_API_KEY"]);
    for last in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PATH"] {
        assert!(after(last).is_empty(), "{last}");
    }
}

#[test]
fn the_table_is_consistent() {
    for (row, vendor) in VENDORS.iter().enumerate() {
        let first = VENDORS.iter().position(|other| other.name == vendor.name);
        assert_eq!(first, Some(row), "{} is there twice", vendor.name);
        assert_eq!(
            vendor.alternative.is_none(),
            vendor.is_supported(),
            "{}",
            vendor.name
        );
        if let Some(url) = vendor.base_url {
            let url = Url::parse(url).unwrap();
            let local = vendor.key_requirement_at(&url) == KeyRequirement::Optional;
            assert_eq!(
                url.scheme(),
                if local { "http" } else { "https" },
                "{}",
                vendor.name
            );
            if vendor.connection == VendorConnection::Http(WireFormat::ChatCompletions) && !local {
                let chat = find_vendor("chatcompletion").unwrap();
                assert_eq!(
                    chat.key_variables_at(&url),
                    vendor.key_variables,
                    "{}",
                    vendor.name
                );
            }
        }
    }
}
