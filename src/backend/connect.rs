//! Owns the way from a config to a backend. It finds endpoint and key and says what is missing;
//! it must never open a connection: a model is reached when it is first asked.

use std::fmt;
use std::sync::Arc;

use crate::backend::guest::Guest;
use crate::backend::pace::Pace;
use crate::backend::remote::Remote;
use crate::backend::scripted::Scripted;
use crate::backend::scripted::script::ReplyList;
use crate::backend::{Backend, Model};
use crate::config::sellers::asked;
use crate::config::vendors::{VENDORS, Vendor, Wire};
use crate::config::{BackendConfig, Script};
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::spending::models::ModelList;
use crate::world::http::HttpClient;

/// What a backend may need from outside its config.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Looks an environment variable up; an empty one counts as unset.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The client that all backends share.
    pub http: &'a HttpClient,
    /// The directory that the user stands in.
    pub cwd: &'a AbsPath,
    /// How fast models may be asked, all agents together.
    pub pace: &'a Pace,
    /// What models cost.
    pub models: &'a ModelList,
    /// Reads a script file as text.
    pub read: &'a dyn Fn(&AbsPath) -> Result<String>,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings")
            .field("cwd", self.cwd)
            .finish_non_exhaustive()
    }
}

/// Makes the model that `config` describes, and after it those that are asked when it cannot go on.
///
/// # Errors
/// `Config` for a type that is not served, a malformed endpoint or script; `Environment` for a
/// missing key.
pub fn connect(config: &BackendConfig, around: Surroundings<'_>) -> Result<Vec<Model>> {
    let model = |config: &BackendConfig| {
        Ok(Model {
            name: config.model.as_str().into(),
            price: around.models.price(&asked(config)),
            backend: backend(config, around)?,
            image_input: config.image_input,
            pacing: around.pace.of(config),
        })
    };
    config.with_fallbacks().map(model).collect()
}

fn backend(config: &BackendConfig, around: Surroundings<'_>) -> Result<Arc<dyn Backend>> {
    match config.vendor.wire {
        Wire::Remote(format) => Ok(Arc::new(Remote::connect(config, format, around)?)),
        Wire::Scripted => Ok(Arc::new(Scripted::new(replies(config, around)?))),
        Wire::Guest(_) => {
            let guest = config.guest.as_ref();
            let guest = guest.ok_or_else(|| {
                let message = format!("`type: {}` cannot be used here", config.vendor.name);
                Error::new(ErrorKind::Config, message)
                    .hint("write it as the `type` of an agent in a config")
            })?;
            Ok(Arc::new(Guest::new(Arc::clone(guest), config.times)))
        }
        Wire::Unserved => Err(unserved(config.vendor)),
    }
}

fn replies(config: &BackendConfig, around: Surroundings<'_>) -> Result<ReplyList> {
    match &config.script {
        Some(Script::Inline(list)) => ReplyList::from_list(list, around.cwd),
        Some(Script::File(path)) => {
            let text = (around.read)(path)?;
            ReplyList::parse(&text, &path.to_string(), around.cwd)
        }
        None => Err(
            Error::new(ErrorKind::Config, "a `scripted` backend has no replies")
                .hint("give `replies` or `script` beside `type: scripted`"),
        ),
    }
}

fn unserved(vendor: &Vendor) -> Error {
    let served: Vec<&str> = VENDORS
        .iter()
        .filter(|vendor| vendor.is_served())
        .map(|vendor| vendor.name)
        .collect();
    let message = format!("`type: {}` is not served by this version", vendor.name);
    let error = Error::new(ErrorKind::Config, message);
    let error = vendor.instead.into_iter().fold(error, Error::hint);
    error.hint(format!("served are: {}", served.join(", ")))
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::{Map, json};

    use super::*;
    use crate::config::vendors::{ImageInput, find};
    use crate::config::{KeyHosts, ReplyTimes};

    fn config(vendor: &str) -> BackendConfig {
        BackendConfig {
            vendor: find(vendor).unwrap(),
            model: "m".to_owned(),
            base_url: None,
            api_key: None,
            key_hosts: KeyHosts::default(),
            parameters: Map::new(),
            script: None,
            guest: None,
            image_input: ImageInput::Refused,
            times: ReplyTimes::default(),
            fallback: Vec::new(),
        }
    }

    fn connected(config: &BackendConfig, env: &[(&str, &str)]) -> Result<String> {
        let value = |name: &str| env.iter().find(|(variable, _)| *variable == name);
        let around = Surroundings {
            env: &|name| value(name).map(|(_, value)| (*value).to_owned()),
            http: &HttpClient::new(),
            cwd: &AbsPath::new("/home/ada").unwrap(),
            pace: &Pace::default(),
            models: &ModelList::with(Vec::new()),
            read: &|path| Ok(format!("replies: [{{text: from {path}}}]")),
        };
        connect(config, around).map(|backend| format!("{backend:?}"))
    }

    #[track_caller]
    fn refused(config: &BackendConfig, env: &[(&str, &str)]) -> (ErrorKind, String) {
        let error = connected(config, env).unwrap_err();
        let hints = error.hints().join(
            "
",
        );
        (error.kind(), format!("{error}\n{hints}"))
    }

    #[test]
    fn a_missing_key_names_the_variables_and_where_to_put_them() {
        let (kind, text) = refused(&config("moonshot"), &[("OPENAI_API_KEY", "sk-1")]);
        assert_eq!(kind, ErrorKind::Environment);
        insta::assert_snapshot!(text, @r#"
        no key for `moonshot`: `MOONSHOT_API_KEY` or `KIMI_API_KEY` is not set
        export `MOONSHOT_API_KEY` or `KIMI_API_KEY`, or write it into `.env` in this directory or in `~/.massgen/.env`
        or see massgen work without a key: `massgen --config @examples/basic/offline_demo "write a hello program"`
        "#);
        assert!(
            refused(&config("moonshot"), &[("KIMI_API_KEY", " ")])
                .1
                .contains("no key")
        );
    }

    #[test]
    fn a_key_is_found_in_the_config_first_and_never_shown() {
        #[track_caller]
        fn check(config: &BackendConfig, env: &[(&str, &str)], origin: &str) {
            let shown = connected(config, env).unwrap();
            assert!(shown.contains(origin), "{shown}");
            assert!(!shown.contains("sk-"), "{shown}");
        }

        let both = [("KIMI_API_KEY", "sk-2"), ("MOONSHOT_API_KEY", "sk-1")];
        let mut config = config("moonshot");
        check(&config, &both, "`MOONSHOT_API_KEY`");
        check(&config, &both[..1], "`KIMI_API_KEY`");
        config.api_key = Some(SecretString::from("sk-3"));
        check(&config, &both, "`api_key`");
        config.api_key = Some(SecretString::from("sk-3\n"));
        let (kind, text) = refused(&config, &[]);
        assert_eq!(kind, ErrorKind::Environment);
        assert!(!text.contains("sk-3"), "{text}");
    }

    #[test]
    fn an_endpoint_comes_from_the_config_the_environment_or_the_table() {
        let azure = [
            ("AZURE_OPENAI_API_KEY", "sk-1"),
            ("AZURE_OPENAI_ENDPOINT", "https://a.example"),
        ];
        let shown = connected(&config("azure_openai"), &azure).unwrap();
        assert!(
            shown.contains("https://a.example/openai/deployments/m/chat"),
            "{shown}"
        );
        let mut named = config("azure_openai");
        named.base_url = Some("https://b.example/".to_owned());
        let shown = connected(&named, &azure).unwrap();
        assert!(
            shown.contains("https://b.example/openai/deployments/m/chat"),
            "{shown}"
        );
        let shown = connected(&config("ollama"), &[]).unwrap();
        assert!(
            shown.contains("http://localhost:11434/v1/chat/completions"),
            "{shown}"
        );

        let (kind, text) = refused(&config("azure_openai"), &azure[..1]);
        assert_eq!(kind, ErrorKind::Config);
        insta::assert_snapshot!(text, @"
        `type: azure_openai` needs an endpoint
        give `base_url` beside `type`
        or set `AZURE_OPENAI_ENDPOINT`
        ");
        for malformed in ["localhost:8000/v1", "/v1", "ftp://a.example", "https://"] {
            named.base_url = Some(malformed.to_owned());
            let (kind, text) = refused(&named, &azure);
            assert_eq!(kind, ErrorKind::Config);
            assert!(text.contains(malformed), "{text}");
        }
    }

    #[test]
    fn a_type_that_is_not_served_names_what_to_use_instead() {
        let (kind, text) = refused(&config("copilot"), &[("OPENAI_API_KEY", "sk-1")]);
        assert_eq!(kind, ErrorKind::Config);
        let (text, served) = text.rsplit_once("\nserved are: ").unwrap();
        insta::assert_snapshot!(text, @"
        `type: copilot` is not served by this version
        use `type: openrouter`, which reaches most models with one key
        ");
        assert!(served.starts_with("chatcompletion, "), "{served}");
        assert!(served.contains(", scripted"), "{served}");
    }

    #[test]
    fn a_script_stands_in_the_config_or_in_a_file() {
        let mut config = config("scripted");
        assert_eq!(refused(&config, &[]).0, ErrorKind::Config);
        config.script = Some(Script::Inline(json!([{"text": "from {{cwd}}"}])));
        assert!(connected(&config, &[]).unwrap().contains("from /home/ada"));
        config.script = Some(Script::File(AbsPath::new("/s.yaml").unwrap()));
        assert!(connected(&config, &[]).unwrap().contains("from /s.yaml"));
    }
}
