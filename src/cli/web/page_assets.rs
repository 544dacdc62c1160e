//! The files of the page, which are part of the executable, and their content types. A client that
//! accepts gzip gets them compressed.

use std::borrow::Cow;

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue,
    IF_NONE_MATCH, VARY,
};
use sha2::{Digest, Sha256};

use crate::cli::embedded_file::{EmbeddedFile, embedded_file};
use crate::text::to_hex;

/// A file of the page.
#[derive(Debug)]
struct PageAsset {
    /// Its path below `page`.
    name: &'static str,
    file: EmbeddedFile,
}

/// Embeds the files of the page with these names.
macro_rules! page_assets {
    ($($name:literal),* $(,)?) => {
        &[$(PageAsset { name: $name, file: embedded_file!("cli/web/page/", $name) }),*]
    };
}

/// Name of the page itself.
const INDEX: &str = "index.html";
/// All files of the page.
const ASSETS: &[PageAsset] = page_assets![
    "agents.js",
    "announce.js",
    "answers.js",
    "api.js",
    "approvals.js",
    "ballot.js",
    "batches.js",
    "comments.js",
    "compare.js",
    "comparison.js",
    "composer.js",
    "cost.js",
    "delivery.js",
    "diff.js",
    "editor.js",
    "elements.js",
    "format.js",
    "form.js",
    "held_button.js",
    "highlight.js",
    "icon.svg",
    "index.html",
    "keys.js",
    "lazily.js",
    "limits.js",
    "log.js",
    "main.js",
    "markdown.js",
    "pasted.js",
    "picker.js",
    "pipeline.js",
    "redraw.js",
    "review.js",
    "router.js",
    "run.js",
    "runs.js",
    "steering.js",
    "stream.js",
    "style.css",
    "timeline.js",
    "vendor/lit-html/lit-html.js",
    "vendor/speed-highlight/dist/languages/bash.js",
    "vendor/speed-highlight/dist/languages/c.js",
    "vendor/speed-highlight/dist/languages/css.js",
    "vendor/speed-highlight/dist/languages/go.js",
    "vendor/speed-highlight/dist/languages/java.js",
    "vendor/speed-highlight/dist/languages/json.js",
    "vendor/speed-highlight/dist/languages/py.js",
    "vendor/speed-highlight/dist/languages/rs.js",
    "vendor/speed-highlight/dist/languages/sql.js",
    "vendor/speed-highlight/dist/languages/toml.js",
    "vendor/speed-highlight/dist/languages/ts.js",
    "vendor/speed-highlight/dist/languages/yaml.js",
    "vendor/speed-highlight/dist/tokenize.js",
];
/// Content types by file extension. A file with another one is not served.
const CONTENT_TYPES: [(&str, &str); 4] = [
    ("html", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("svg", "image/svg+xml"),
];

/// The coding of compressed files (RFC 9110, section 8.4.1).
const GZIP: &str = "gzip";

/// Answers `GET /`.
pub(super) async fn index(headers: HeaderMap) -> Response {
    respond(INDEX, &headers)
}

/// Answers `GET /page/NAME`.
pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    respond(&name, &headers)
}

fn respond(name: &str, headers: &HeaderMap) -> Response {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    let (Some(asset), Some(content_type)) = (asset, content_type(name)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let is_compressed = accepts_gzip(headers);
    let content = if is_compressed {
        Cow::Borrowed(asset.file.compressed)
    } else {
        match asset.file.content() {
            Ok(content) => Cow::Owned(content),
            Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    };
    let tag = format!("\"{}\"", to_hex(&Sha256::digest(&content)));
    let known_tag = headers.get(IF_NONE_MATCH);
    let is_known = known_tag.is_some_and(|known_tag| known_tag.as_bytes() == tag.as_bytes());
    let fields = [
        (CONTENT_TYPE, content_type.to_owned()),
        (ETAG, tag),
        (CACHE_CONTROL, "no-cache".to_owned()),
        (VARY, ACCEPT_ENCODING.to_string()),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    let mut response = (fields, content).into_response();
    if is_compressed {
        let coding = HeaderValue::from_static(GZIP);
        response.headers_mut().insert(CONTENT_ENCODING, coding);
    }
    response
}

/// Returns whether the client names gzip among the codings that it accepts (RFC 9110, section
/// 12.5.3). One that accepts any coding without naming gzip gets none.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let fields = headers
        .get_all(ACCEPT_ENCODING)
        .into_iter()
        .filter_map(|field| field.to_str().ok());
    let mut codings = fields.flat_map(|field| field.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight_text = weight.trim().strip_prefix("q=");
        let weight = weight_text.and_then(|text| text.trim().parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case(GZIP) && weight.is_some_and(|weight| weight > 0.0)
    })
}

fn content_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    let mut types = CONTENT_TYPES.iter();
    let (_, content_type) = types.find(|(ending, _)| *ending == extension)?;
    Some(content_type)
}
