//! The files of the page, which are part of the executable, and their content types.

use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use sha2::{Digest, Sha256};

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
const ASSETS: &[PageAsset] = page_assets!["index.html"];
/// Content types by file extension. A file with another one is not served.
const CONTENT_TYPES: [(&str, &str); 5] = [
    ("html", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
];

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
    let tag = format!("\"{}\"", to_hex(&Sha256::digest(asset.content)));
    let known = headers.get(IF_NONE_MATCH);
    let fields = [
        (CONTENT_TYPE, content_type.to_owned()),
        (ETAG, tag.clone()),
        (CACHE_CONTROL, "no-cache".to_owned()),
    ];
    if known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, fields).into_response();
    }
    (fields, asset.content).into_response()
}

fn content_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    let mut known = CONTENT_TYPES.iter();
    let (_, content_type) = known.find(|(known, _)| *known == extension)?;
    Some(content_type)
}
