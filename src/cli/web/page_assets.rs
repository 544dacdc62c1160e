//! The files of the page, which are part of the executable, and their content types. A client that
//! accepts gzip gets them compressed.

use std::io::Write as _;
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue,
    IF_NONE_MATCH, VARY,
};
use sha2::{Digest, Sha256};

use crate::cli::web::server_state::WebServer;
use crate::text::to_hex;

/// A file of the page.
#[derive(Debug)]
struct PageAsset {
    /// Its path below `page`.
    name: &'static str,
    content: &'static [u8],
}

/// Embeds the files of the page with these names.
macro_rules! page_assets {
    ($($name:literal),* $(,)?) => {
        &[$(PageAsset { name: $name, content: include_bytes!(concat!("page/", $name)) }),*]
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
    "composer.js",
    "cost.js",
    "delivery.js",
    "diff.js",
    "elements.js",
    "format.js",
    "form.js",
    "held_button.js",
    "icon.svg",
    "index.html",
    "keys.js",
    "lazily.js",
    "limits.js",
    "log.js",
    "main.js",
    "markdown.js",
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
];
/// Content types by file extension. A file with another one is not served.
const CONTENT_TYPES: [(&str, &str); 5] = [
    ("html", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
];

/// The coding of compressed files (RFC 9110, section 8.4.1).
const GZIP: &str = "gzip";

/// The compressed files, each made when it is asked for the first time.
#[derive(Debug)]
pub(super) struct CompressedAssets([OnceLock<Option<CompressedAsset>>; ASSETS.len()]);

/// A compressed file.
#[derive(Clone, Debug)]
struct CompressedAsset {
    content: Bytes,
    tag: String,
}

impl Default for CompressedAssets {
    fn default() -> Self {
        Self([const { OnceLock::new() }; ASSETS.len()])
    }
}

impl CompressedAssets {
    /// Returns the compressed form of the file with this index in [`ASSETS`].
    fn get(&self, index: usize, asset: &PageAsset) -> Option<CompressedAsset> {
        let compressed = self.0.get(index)?;
        compressed.get_or_init(|| compress(asset.content)).clone()
    }
}

/// Answers `GET /`.
pub(super) async fn index(State(server): State<WebServer>, headers: HeaderMap) -> Response {
    respond(&server, INDEX, &headers)
}

/// Answers `GET /page/NAME`.
pub(super) async fn asset(
    State(server): State<WebServer>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    respond(&server, &name, &headers)
}

fn respond(server: &WebServer, name: &str, headers: &HeaderMap) -> Response {
    let index = ASSETS.iter().position(|asset| asset.name == name);
    let found = index.and_then(|index| Some((index, ASSETS.get(index)?)));
    let (Some((index, asset)), Some(content_type)) = (found, content_type(name)) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let compressed = accepts_gzip(headers)
        .then(|| server.compressed_assets().get(index, asset))
        .flatten();
    let tag = match &compressed {
        Some(compressed) => compressed.tag.clone(),
        None => entity_tag(asset.content),
    };
    let known = headers.get(IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let fields = [
        (CONTENT_TYPE, content_type.to_owned()),
        (ETAG, tag),
        (CACHE_CONTROL, "no-cache".to_owned()),
        (VARY, ACCEPT_ENCODING.to_string()),
    ];
    if is_known {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    match compressed {
        None => (fields, asset.content).into_response(),
        Some(compressed) => {
            let mut response = (fields, compressed.content).into_response();
            let coding = HeaderValue::from_static(GZIP);
            response.headers_mut().insert(CONTENT_ENCODING, coding);
            response
        }
    }
}

fn entity_tag(content: &[u8]) -> String {
    format!("\"{}\"", to_hex(&Sha256::digest(content)))
}

fn compress(content: &[u8]) -> Option<CompressedAsset> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).ok()?;
    let content = encoder.finish().ok()?;
    Some(CompressedAsset {
        tag: entity_tag(&content),
        content: content.into(),
    })
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
        let weight = weight.trim().strip_prefix("q=");
        let weight = weight.and_then(|weight| weight.trim().parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case(GZIP) && weight.is_some_and(|weight| weight > 0.0)
    })
}

fn content_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    let mut known = CONTENT_TYPES.iter();
    let (_, content_type) = known.find(|(known, _)| *known == extension)?;
    Some(content_type)
}
