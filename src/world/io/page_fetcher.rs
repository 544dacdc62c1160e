//! Reads pages for the tool `fetch_url`, over HTTP and HTTPS, from the hosts that the config opens,
//! and files that the config names: only from addresses that are public on the Internet. The
//! address that was judged is the one that is connected to. Nothing of the user's is sent: no key,
//! no cookie, no proxy is used.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::{Client, Response};
use url::Url;

use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::public::is_public;
use crate::tools::page_url::PageUrl;
use crate::world::io::http::{HttpSetupError, client_with_resolver, root_cause};

/// The longest time for one page, with all its redirects.
pub const FETCH_SECONDS_MAX: u64 = 30;
/// The largest page that is read, in bytes, after decompression.
pub const PAGE_BYTES_MAX: usize = 2 << 20;
/// The number of redirects that are followed within one host.
pub const REDIRECTS_MAX: usize = 5;
/// The most addresses of a host that are tried.
const ADDRESSES_TRIED_MAX: usize = 4;
/// The content types that a request accepts.
const ACCEPT_HEADER: &str = "text/html, application/xhtml+xml, text/markdown, text/plain, \
                        application/json, text/*;q=0.8, */*;q=0.1";

/// A page as its server sent it.
#[derive(Clone, Debug)]
pub struct FetchedPage {
    /// Where it was found, after redirects.
    pub url: PageUrl,
    /// Its type, without parameters, in lower case; empty if the server names none.
    pub media_type: String,
    /// Its character set, as the server names it.
    pub charset: Option<String>,
    /// Its bytes.
    pub body: Vec<u8>,
    /// Whether it was longer than the limit, and ends there.
    pub is_truncated: bool,
}

/// The end of a fetch.
#[derive(Clone, Debug)]
pub enum FetchOutcome {
    /// The page.
    Page(FetchedPage),
    /// The server redirects to a page that has to be asked for by itself.
    Redirect(Url),
}

/// The pages that an agent may read, and what reads them.
#[derive(Clone, Debug)]
pub struct PageAccess {
    /// The hosts that the config opens.
    pub hosts: NetworkPolicy,
    /// Reads the pages.
    pub fetcher: PageFetcher,
}

impl PageAccess {
    /// Returns whether the config opens the host of this page.
    pub fn allows(&self, page: &PageUrl) -> bool {
        self.hosts.allows(page.host())
    }
}

/// Reads pages. Its clones share one client, which is set up at the first page.
#[derive(Clone, Debug, Default)]
pub struct PageFetcher(Arc<OnceLock<Result<Client, HttpSetupError>>>);

impl PageFetcher {
    /// Reads the page at `url`. Follows redirects within its host, as long as `is_allowed` accepts
    /// them.
    ///
    /// # Errors
    /// The reason why there is no page, as the end of a sentence.
    pub async fn fetch(
        &self,
        url: PageUrl,
        is_allowed: impl Fn(&PageUrl) -> bool,
    ) -> Result<FetchOutcome, String> {
        self.fetch_in_time(url, PAGE_BYTES_MAX, is_allowed).await
    }

    /// Reads the file of at most `bytes_max` bytes at `url`. Follows redirects within its host, as
    /// long as they are encrypted.
    ///
    /// # Errors
    /// The reason why there is no such file, as the end of a sentence.
    pub async fn fetch_file(&self, url: PageUrl, bytes_max: usize) -> Result<Vec<u8>, String> {
        let is_encrypted = |next: &PageUrl| next.as_url().scheme() == "https";
        match self.fetch_in_time(url, bytes_max, is_encrypted).await? {
            FetchOutcome::Page(page) if page.is_truncated => {
                Err(format!("it is larger than {} MiB", bytes_max >> 20))
            }
            FetchOutcome::Page(page) => Ok(page.body),
            FetchOutcome::Redirect(target) => Err(format!(
                "the server redirects to {target}: name that address instead"
            )),
        }
    }

    async fn fetch_in_time(
        &self,
        url: PageUrl,
        bytes_max: usize,
        is_allowed: impl Fn(&PageUrl) -> bool,
    ) -> Result<FetchOutcome, String> {
        let time_max = Duration::from_secs(FETCH_SECONDS_MAX);
        let fetch = self.follow_redirects(url, bytes_max, is_allowed);
        match tokio::time::timeout(time_max, fetch).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!(
                "the server did not answer within {FETCH_SECONDS_MAX} s"
            )),
        }
    }

    async fn follow_redirects(
        &self,
        mut url: PageUrl,
        bytes_max: usize,
        is_allowed: impl Fn(&PageUrl) -> bool,
    ) -> Result<FetchOutcome, String> {
        for _ in 0..=REDIRECTS_MAX {
            let response = self.request(&url).await?;
            if !response.status().is_redirection() {
                let page = read_page(url, bytes_max, response).await;
                return page.map(FetchOutcome::Page);
            }
            let target = redirect_target(&url, &response)?;
            match PageUrl::parse(target.as_str()) {
                Ok(next) if next.host() == url.host() && is_allowed(&next) => url = next,
                Ok(_) => return Ok(FetchOutcome::Redirect(target)),
                Err(reason) => {
                    return Err(format!("the server redirects to an address that {reason}"));
                }
            }
        }
        Err(format!(
            "the server redirects more than {REDIRECTS_MAX} times"
        ))
    }

    async fn request(&self, url: &PageUrl) -> Result<Response, String> {
        let client = self
            .0
            .get_or_init(|| client_with_resolver(Arc::new(PublicResolver)));
        let client = client.as_ref().map_err(ToString::to_string)?;
        let request = client
            .get(url.as_url().clone())
            .header(ACCEPT, ACCEPT_HEADER);
        request.send().await.map_err(|error| {
            let error = error.without_url();
            format!("the page cannot be read: {}", root_cause(&error))
        })
    }
}

/// Returns where a redirect leads.
fn redirect_target(url: &PageUrl, response: &Response) -> Result<Url, String> {
    let header = response.headers().get(LOCATION);
    let location = header.and_then(|location| location.to_str().ok());
    let target = location.and_then(|location| url.as_url().join(location).ok());
    target.ok_or_else(|| {
        format!(
            "the server answers {} without an address",
            response.status()
        )
    })
}

async fn read_page(
    url: PageUrl,
    bytes_max: usize,
    mut response: Response,
) -> Result<FetchedPage, String> {
    let status = response.status();
    if !status.is_success() {
        return Err(format!("the server answers {status}"));
    }
    let content_type = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut parts = content_type.split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        is_charset.then(|| value.trim().trim_matches('"').to_owned())
    });
    let mut page = FetchedPage {
        url,
        media_type,
        charset,
        body: Vec::new(),
        is_truncated: false,
    };
    loop {
        let chunk = response.chunk().await.map_err(|error| {
            let error = error.without_url();
            format!("the page was cut off: {}", root_cause(&error))
        })?;
        let Some(chunk) = chunk else {
            return Ok(page);
        };
        page.body.extend_from_slice(&chunk);
        if page.body.len() > bytes_max {
            page.body.truncate(bytes_max);
            page.is_truncated = true;
            return Ok(page);
        }
    }
}

/// Resolves names to public addresses only; the client connects to these and to no others.
#[derive(Debug)]
struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public_addresses: Vec<SocketAddr> = addresses
                .filter(|address| is_public(address.ip()))
                .take(ADDRESSES_TRIED_MAX)
                .collect();
            if public_addresses.is_empty() {
                return Err("the host has no public address".into());
            }
            let addresses: Addrs = Box::new(public_addresses.into_iter());
            Ok(addresses)
        })
    }
}
