//! Which documents, recordings and videos the models of each vendor accept, and how they are
//! passed.

use url::{Host, Url};

use crate::config::vendors::{Vendor, VendorConnection, WireFormat, is_within};
use crate::tools::model_file::ModelFileClass;

/// How a model is given files of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePassing {
    /// It accepts none, or that is unknown.
    Refused,
    /// As their bytes.
    Bytes,
    /// As their bytes, or as a URL that the vendor reads.
    BytesOrUrl,
}

/// The files besides images that a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelFileInput {
    documents: FilePassing,
    audio: FilePassing,
    video: FilePassing,
}

/// What models behind `OpenAI`'s Responses and Anthropic's Messages accept:
/// <https://developers.openai.com/api/docs/guides/file-inputs>,
/// <https://platform.claude.com/docs/en/build-with-claude/pdf-support>.
const ONLY_DOCUMENTS: ModelFileInput = ModelFileInput {
    documents: FilePassing::BytesOrUrl,
    ..ModelFileInput::NONE
};

/// Google's `generateContent`: <https://ai.google.dev/gemini-api/docs/file-input-methods>. The type
/// of a file at a URL must be known, so that recordings and videos are sent as their bytes.
const GOOGLE: ModelFileInput = ModelFileInput {
    documents: FilePassing::BytesOrUrl,
    audio: FilePassing::Bytes,
    video: FilePassing::Bytes,
};

/// `OpenAI`'s Chat Completions: <https://developers.openai.com/api/docs/guides/file-inputs>,
/// <https://developers.openai.com/api/docs/guides/audio>.
const OPENAI_CHAT: ModelFileInput = ModelFileInput {
    documents: FilePassing::Bytes,
    audio: FilePassing::Bytes,
    ..ModelFileInput::NONE
};

/// `OpenRouter`: <https://openrouter.ai/docs/features/multimodal/pdfs>,
/// <https://openrouter.ai/docs/features/multimodal/audio>,
/// <https://openrouter.ai/docs/features/multimodal/videos>.
const OPENROUTER: ModelFileInput = ModelFileInput {
    documents: FilePassing::BytesOrUrl,
    audio: FilePassing::Bytes,
    video: FilePassing::BytesOrUrl,
};

/// Alibaba Cloud: <https://www.alibabacloud.com/help/en/model-studio/vision>.
const QWEN: ModelFileInput = ModelFileInput {
    video: FilePassing::BytesOrUrl,
    ..ModelFileInput::NONE
};

/// vLLM: <https://docs.vllm.ai/en/latest/features/multimodal_inputs.html>.
const VLLM: ModelFileInput = ModelFileInput {
    audio: FilePassing::Bytes,
    video: FilePassing::BytesOrUrl,
    ..ModelFileInput::NONE
};

/// What `chatcompletion` with a `base_url` accepts, by the domain of its host.
const INPUT_BY_DOMAIN: &[(&str, ModelFileInput)] = &[
    ("aliyuncs.com", QWEN),
    ("api.openai.com", OPENAI_CHAT),
    ("openrouter.ai", OPENROUTER),
];

impl ModelFileInput {
    /// The files of a model that accepts none, or for which this is unknown.
    pub const NONE: Self = Self {
        documents: FilePassing::Refused,
        audio: FilePassing::Refused,
        video: FilePassing::Refused,
    };

    /// The files of a model whose replies are recorded: all.
    pub const ALL: Self = Self {
        documents: FilePassing::BytesOrUrl,
        audio: FilePassing::BytesOrUrl,
        video: FilePassing::BytesOrUrl,
    };

    /// Returns what the models of `vendor` accept, given the `base_url` of the config:
    /// `chatcompletion` without one is `OpenAI`.
    pub fn at(vendor: &Vendor, base_url: Option<&str>) -> Self {
        match vendor.connection {
            VendorConnection::Http(WireFormat::Responses | WireFormat::Messages) => ONLY_DOCUMENTS,
            VendorConnection::Http(WireFormat::GenerateContent) => GOOGLE,
            VendorConnection::Http(WireFormat::ChatCompletions) => match (vendor.name, base_url) {
                ("openrouter", _) => OPENROUTER,
                ("qwen", _) => QWEN,
                ("vllm", _) => VLLM,
                ("chatcompletion", None) => OPENAI_CHAT,
                ("chatcompletion", Some(base_url)) => input_at_host(base_url),
                (_, _) => Self::NONE,
            },
            VendorConnection::Scripted => Self::ALL,
            VendorConnection::ExternalAgent(_) | VendorConnection::Unsupported => Self::NONE,
        }
    }

    /// Returns how the model is given files of `class`.
    pub fn passing(self, class: ModelFileClass) -> FilePassing {
        match class {
            ModelFileClass::Document => self.documents,
            ModelFileClass::Audio => self.audio,
            ModelFileClass::Video => self.video,
        }
    }
}

fn input_at_host(base_url: &str) -> ModelFileInput {
    let url = Url::parse(base_url);
    let Ok(Some(Host::Domain(host))) = url.as_ref().map(Url::host) else {
        return ModelFileInput::NONE;
    };
    INPUT_BY_DOMAIN
        .iter()
        .find(|(domain, _)| is_within(host, domain))
        .map_or(ModelFileInput::NONE, |(_, input)| *input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::vendors::find_vendor;

    #[test]
    fn vendors_accept_what_they_document() {
        #[track_caller]
        fn check(vendor: &str, base_url: Option<&str>, expected: [FilePassing; 3]) {
            let input = ModelFileInput::at(find_vendor(vendor).unwrap(), base_url);
            let classes = [
                ModelFileClass::Document,
                ModelFileClass::Audio,
                ModelFileClass::Video,
            ];
            let passings = classes.map(|class| input.passing(class));
            assert_eq!(passings, expected, "{vendor} {base_url:?}");
        }

        use FilePassing::{Bytes, BytesOrUrl, Refused};
        check("openai", None, [BytesOrUrl, Refused, Refused]);
        check("claude", None, [BytesOrUrl, Refused, Refused]);
        check("gemini", None, [BytesOrUrl, Bytes, Bytes]);
        check("openrouter", None, [BytesOrUrl, Bytes, BytesOrUrl]);
        check("groq", None, [Refused, Refused, Refused]);
        check("codex", None, [Refused, Refused, Refused]);
        let chat = |url, expected| check("chatcompletion", url, expected);
        chat(None, [Bytes, Bytes, Refused]);
        let router = Some("https://openrouter.ai/api/v1");
        chat(router, [BytesOrUrl, Bytes, BytesOrUrl]);
        let qwen = Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1");
        chat(qwen, [Refused, Refused, BytesOrUrl]);
        for unknown in [
            "https://notopenrouter.ai/api/v1",
            "https://example.org/openrouter.ai",
            "http://127.0.0.1:8000/v1",
            "no URL",
        ] {
            chat(Some(unknown), [Refused, Refused, Refused]);
        }
    }
}
