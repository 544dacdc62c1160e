//! Carries out `fetch_url`: reads the page, and gives the model its text marked as untrusted.

use tokio::runtime::Handle;

use crate::call_rules::judge::CallJudgement;
use crate::markdown::from_html::{PageText, page_to_markdown};
use crate::prompts::outside_text::{FetchedText, describe_page, describe_redirect};
use crate::tools::page_url::PageUrl;
use crate::world::access::gate::Gate;
use crate::world::exec::server_calls::wait_until_raised;
use crate::world::exec::tool_result::{Observation, ToolError, ToolResult};
use crate::world::io::page_fetcher::{FetchOutcome, FetchedPage};
use crate::world::sandbox::interrupt::CommandInterrupt;

/// The most text of a page that a model reads, in bytes.
const TEXT_BYTES_MAX: usize = 96 * 1024;

/// Reads the page at `url`.
pub(super) fn fetch_url(
    gate: &Gate,
    url: PageUrl,
    interrupt: Option<&CommandInterrupt>,
) -> ToolResult {
    let pages = gate
        .policy()
        .pages
        .clone()
        .ok_or_else(|| ToolError::failed("no pages are read here"))?;
    let runtime = Handle::try_current().map_err(|_| ToolError::failed("no pages are read here"))?;
    // A redirect to a page that is not open, or that rules deny or ask about, is not followed: it
    // needs a call of its own.
    let is_allowed = |next_url: &PageUrl| {
        let judgement = gate.policy().rules.judge_page(next_url);
        let needs_no_approval =
            matches!(judgement, CallJudgement::Undecided | CallJudgement::Allowed);
        needs_no_approval && pages.allows(next_url)
    };
    let fetch_result = runtime.block_on(async {
        tokio::select! {
            result = pages.fetcher.fetch(url, is_allowed) => result,
            () = wait_until_raised(interrupt) => Err("the call was cancelled".to_owned()),
        }
    });
    match fetch_result.map_err(ToolError::failed)? {
        FetchOutcome::Redirect(target) => Ok(Observation::done(describe_redirect(target.as_str()))),
        FetchOutcome::Page(page) => observe_page(&page),
    }
}

fn observe_page(page: &FetchedPage) -> ToolResult {
    let text = decode(page)?;
    let PageText {
        title,
        markdown,
        is_truncated,
    } = match page.media_type.as_str() {
        "text/html" | "application/xhtml+xml" => {
            page_to_markdown(&text, page.url.as_url(), TEXT_BYTES_MAX)
        }
        _ => {
            let end = text.floor_char_boundary(TEXT_BYTES_MAX);
            PageText {
                title: String::new(),
                markdown: text.get(..end).unwrap_or_default().to_owned(),
                is_truncated: end < text.len(),
            }
        }
    };
    let is_truncated = is_truncated || page.is_truncated;
    let content = describe_page(&FetchedText {
        url: page.url.as_str(),
        title: &title,
        text: &markdown,
        is_truncated,
    });
    let summary = format!("{}: {} bytes of text", page.url, markdown.len());
    Ok(Observation {
        summary: Some(summary),
        ..Observation::done(content)
    })
}

/// Returns the text of a page, if it is text.
fn decode(page: &FetchedPage) -> Result<String, ToolError> {
    let media_type = page.media_type.as_str();
    let is_text = media_type.starts_with("text/")
        || media_type == "application/json"
        || media_type == "application/xml"
        || media_type == "application/xhtml+xml"
        || media_type == "application/javascript"
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml");
    if !is_text || media_type == "image/svg+xml" {
        let media_description = if media_type.is_empty() {
            "without a type"
        } else {
            media_type
        };
        let message =
            format!("the page is {media_description}: only HTML, JSON, XML and text are read");
        return Err(ToolError::failed(message));
    }
    if page.body.contains(&0) {
        return Err(ToolError::failed(
            "the page contains bytes that are not text",
        ));
    }
    let charset = page.charset.as_deref().unwrap_or("utf-8");
    let encoding =
        encoding_rs::Encoding::for_label(charset.as_bytes()).unwrap_or(encoding_rs::UTF_8);
    let (text, _, _) = encoding.decode(&page.body);
    Ok(text.into_owned())
}
