//! The one request to an endpoint that costs nothing: the list of its models. It goes to the same
//! endpoint as other requests, with the same key. Nothing here opens a connection.

use reqwest::header::HeaderMap;
use url::{Url, form_urlencoded};

use crate::backend::connect::ConnectContext;
use crate::backend::remote::RemoteBackend;
use crate::backend::remote::endpoint::KeyOrigin;
use crate::config::BackendConfig;
use crate::config::vendors::WireFormat;
use crate::error::Result;

/// The path suffixes of model requests, in the wire formats that do not name the model in the path.
const REQUEST_PATH_SUFFIXES: &[&str] = &["/chat/completions", "/responses", "/messages"];
/// The query parameters that request the whole list from vendors that paginate, by a part of their
/// model path: <https://docs.claude.com/en/api/models-list>, <https://ai.google.dev/api/models>.
const PAGE_SIZE_PARAMETERS: &[(&str, (&str, &str))] = &[
    ("/messages", ("limit", "1000")),
    ("/models/", ("pageSize", "1000")),
];

/// The request for the models of an endpoint.
#[derive(Debug, PartialEq, Eq)]
pub struct ModelListRequest {
    /// Its URL.
    pub url: Url,
    /// Its headers, which include the key.
    pub headers: HeaderMap,
    /// Where the key was found, if there is one.
    pub key: Option<KeyOrigin>,
}

/// Returns the request for the endpoint of `config`, whose vendor uses `format`.
///
/// # Errors
/// Those of [`RemoteBackend::connect`].
pub fn model_list_request(
    config: &BackendConfig,
    format: WireFormat,
    context: ConnectContext<'_>,
) -> Result<ModelListRequest> {
    let remote = RemoteBackend::connect(config, format, context)?;
    Ok(ModelListRequest {
        key: remote.errors.key_origin(),
        url: models_url(&remote.url),
        headers: remote.headers,
    })
}

/// Returns the URL of the model list of an endpoint whose requests go to `url`.
fn models_url(url: &Url) -> Url {
    let path = url.path().trim_end_matches('/');
    let without_suffix = REQUEST_PATH_SUFFIXES
        .iter()
        .find_map(|suffix| path.strip_suffix(suffix));
    // Azure has the deployment in the path, Gemini the model.
    let base_path = without_suffix.unwrap_or(path);
    let base_path = ["/deployments/", "/models/"]
        .iter()
        .find_map(|part| Some(base_path.split_once(part)?.0))
        .unwrap_or(base_path);
    let mut list_url = url.clone();
    list_url.set_path(&format!("{base_path}/models"));
    // A list is not streamed.
    let parameters = url.query_pairs().filter(|(name, _)| name != "alt");
    let mut serializer = form_urlencoded::Serializer::new(String::new());
    serializer.extend_pairs(parameters);
    let page_parameters = PAGE_SIZE_PARAMETERS
        .iter()
        .filter(|(part, _)| path.contains(part));
    serializer.extend_pairs(page_parameters.map(|(_, pair)| pair));
    let query = serializer.finish();
    list_url.set_query(
        Some(&query)
            .filter(|query| !query.is_empty())
            .map(String::as_str),
    );
    list_url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base_url: &str, expected: &str) {
        let url = models_url(&Url::parse(base_url).unwrap());
        assert_eq!(url.as_str(), expected, "{base_url}");
    }

    #[test]
    fn models_are_listed_beside_where_they_are_asked() {
        check(
            "https://openrouter.ai/api/v1/chat/completions",
            "https://openrouter.ai/api/v1/models",
        );
        check(
            "https://api.openai.com/v1/responses",
            "https://api.openai.com/v1/models",
        );
        check(
            "https://api.anthropic.com/v1/messages",
            "https://api.anthropic.com/v1/models?limit=1000",
        );
        check(
            "https://a.example/openai/deployments/m/chat/completions?api-version=2024-12-01",
            "https://a.example/openai/models?api-version=2024-12-01",
        );
        check(
            "https://g.example/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
            "https://g.example/v1beta/models?pageSize=1000",
        );
    }
}
