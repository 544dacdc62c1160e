//! Lookups of the file picker: the same finder as in the terminal, for the directory in which the
//! server was started and nothing outside it. Lookups are limited in number and frequency, and one
//! that the same client has replaced by another is given up.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::cli::http::token::BearerToken;
use crate::cli::web::overview::run_blocking;
use crate::cli::web::reply::{ApiError, ApiResult, JsonBody, JsonReply};
use crate::cli::web::server_state::WebServer;
use crate::path::{AbsPath, RelPath};
use crate::permissions::protected::protected_name;
use crate::text::is_hidden;
use crate::world::io::clock::Stopwatch;
use crate::world::io::file_finder::{
    FileFinder, FileSuggestion, FileSuggestions, IndexEntryKind, SearchExtent, matched_ranges,
};
use crate::world::io::locate::{is_inside, resolve_path};

/// Maximum number of entries of a reply.
pub(super) const ENTRIES_MAX: usize = 100;
/// Number of entries of a reply unless the page asks for another.
const ENTRIES_DEFAULT: usize = 20;
/// Maximum length of a typed path, in bytes.
const PATH_BYTES_MAX: usize = 4096;
/// Time that a lookup may take; the reply holds what was found until it ends.
const LOOKUP_TIME_MAX: Duration = Duration::from_millis(100);
/// The same for a client that has such a reply and waits for the rest.
const WAITING_LOOKUP_TIME_MAX: Duration = Duration::from_secs(1);
/// Maximum number of lookups at the same time.
const LOOKUPS_MAX: usize = 4;
/// Maximum number of lookups of a client within [`RATE_PERIOD`].
const LOOKUPS_PER_PERIOD: usize = 30;
/// Period of the rate limit.
const RATE_PERIOD: Duration = Duration::from_secs(1);
/// Age at which the list of files is read again.
const INDEX_AGE_MAX: Duration = Duration::from_secs(5);
/// Languages by file extension.
const LANGUAGES: &[(&str, &str)] = &[
    ("c", "c"),
    ("cpp", "cpp"),
    ("cs", "csharp"),
    ("css", "css"),
    ("go", "go"),
    ("h", "c"),
    ("hpp", "cpp"),
    ("html", "html"),
    ("java", "java"),
    ("js", "javascript"),
    ("json", "json"),
    ("jsx", "javascript"),
    ("kt", "kotlin"),
    ("lua", "lua"),
    ("md", "markdown"),
    ("php", "php"),
    ("py", "python"),
    ("rb", "ruby"),
    ("rs", "rust"),
    ("scala", "scala"),
    ("sh", "bash"),
    ("sql", "sql"),
    ("swift", "swift"),
    ("toml", "toml"),
    ("ts", "typescript"),
    ("tsx", "typescript"),
    ("txt", "text"),
    ("xml", "xml"),
    ("yaml", "yaml"),
    ("yml", "yaml"),
];

/// Body of `POST /api/browse`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BrowseRequest {
    #[serde(default)]
    path: String,
    /// The directory that `path` is relative to, as MassGen's clients send it.
    base_path: Option<String>,
    limit: Option<usize>,
    /// Whether the client waits for the rest of a partial reply.
    #[serde(default)]
    waits: bool,
}

impl BrowseRequest {
    /// Returns the time that the lookup may take.
    fn time_max(&self) -> Duration {
        if self.waits {
            WAITING_LOOKUP_TIME_MAX
        } else {
            LOOKUP_TIME_MAX
        }
    }

    /// Returns how many entries the reply may have.
    fn entries_max(&self) -> usize {
        self.limit.unwrap_or(ENTRIES_DEFAULT).min(ENTRIES_MAX)
    }
}

/// The lookups of all clients.
#[derive(Debug)]
pub(super) struct FileLookups {
    base: AbsPath,
    home: Option<AbsPath>,
    finder: Arc<FileFinder>,
    /// The time since the list of files was last read, or since the server started.
    index_age: Mutex<Stopwatch>,
    /// A slot for each lookup at the same time.
    slots: Arc<Semaphore>,
    clients: Mutex<BTreeMap<BearerToken, ClientLookups>>,
}

/// The lookups of one client.
#[derive(Debug, Default)]
struct ClientLookups {
    /// The start of each of the last lookups, oldest first.
    recent: VecDeque<Stopwatch>,
    /// Cancelled when the next one starts.
    replacement: CancellationToken,
}

impl FileLookups {
    /// Creates the lookups of files below `base`. Nothing is read yet.
    pub(super) fn new(base: &AbsPath, home: Option<&AbsPath>) -> Self {
        Self {
            base: base.clone(),
            home: home.cloned(),
            finder: Arc::new(FileFinder::new(base.clone(), None)),
            index_age: Mutex::new(Stopwatch::start()),
            slots: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            clients: Mutex::default(),
        }
    }

    /// Returns what was typed as a path relative to the directory of the server, which it has to
    /// name if it begins with `~/` or has a base of its own.
    fn inside_path(&self, request: &BrowseRequest) -> ApiResult<String> {
        let typed = request.path.as_str();
        let (root, rest) = match (typed.strip_prefix("~/"), &request.base_path, &self.home) {
            (Some(rest), _, Some(home)) => (home.to_string(), rest),
            (None, Some(base_path), _) => (base_path.clone(), typed),
            (Some(_), _, None) | (None, None, _) => return Ok(typed.to_owned()),
        };
        let full_path = format!("{}/{rest}", root.trim_end_matches('/'));
        let inside = full_path.strip_prefix(&format!("{}/", self.base));
        inside.map(str::to_owned).ok_or_else(outside_error)
    }

    /// Starts a lookup of `client`, which replaces its earlier ones. The token is cancelled when it
    /// is replaced itself.
    fn begin(&self, client: BearerToken) -> ApiResult<CancellationToken> {
        let mut clients = lock(&self.clients);
        let lookups = clients.entry(client).or_default();
        let is_recent = |since: &Stopwatch| since.elapsed() < RATE_PERIOD;
        while lookups
            .recent
            .front()
            .is_some_and(|since| !is_recent(since))
        {
            lookups.recent.pop_front();
        }
        if lookups.recent.len() >= LOOKUPS_PER_PERIOD {
            let message = format!("more than {LOOKUPS_PER_PERIOD} lookups in a second");
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        lookups.recent.push_back(Stopwatch::start());
        lookups.replacement.cancel();
        lookups.replacement = CancellationToken::new();
        Ok(lookups.replacement.clone())
    }

    /// Reads the list of files again if it is old. Lookups use the earlier list meanwhile.
    fn refresh(&self) {
        let mut age = lock(&self.index_age);
        if age.elapsed() > INDEX_AGE_MAX {
            *age = Stopwatch::start();
            self.finder.refresh();
        }
    }
}

/// Answers `POST /api/browse`.
pub(super) async fn browse(
    State(server): State<Arc<WebServer>>,
    Extension(client): Extension<BearerToken>,
    JsonBody(request): JsonBody<BrowseRequest>,
) -> ApiResult {
    let lookups = &server.lookups;
    let inside = lookups.inside_path(&request)?;
    reject_outside_path(&inside)?;
    let replacement = lookups.begin(client)?;
    let reply = async {
        let slot = Arc::clone(&lookups.slots)
            .acquire_owned()
            .await
            .map_err(|_| ApiError::conflict("the server is stopping"))?;
        lookups.refresh();
        let (base, finder) = (lookups.base.clone(), Arc::clone(&lookups.finder));
        let find = move || Ok(find_files(&base, &finder, &request, &inside, slot));
        run_blocking(find).await?
    };
    tokio::select! {
        reply = reply => reply.map(JsonReply),
        () = replacement.cancelled() => Err(ApiError::conflict("a later lookup replaced this one")),
    }
}

/// Refuses a typed path that leads out of the directory by its text alone, is no path, or is too
/// long.
fn reject_outside_path(path: &str) -> ApiResult<()> {
    let is_outside =
        path.starts_with('/') || path.starts_with('~') || path.split('/').any(|name| name == "..");
    if is_outside {
        return Err(outside_error());
    }
    if path.contains('\0') {
        return Err(ApiError::invalid("the path contains a NUL character"));
    }
    if path.len() > PATH_BYTES_MAX {
        let message = format!("the path is longer than {PATH_BYTES_MAX} bytes");
        return Err(ApiError::invalid(message));
    }
    Ok(())
}

fn outside_error() -> ApiError {
    ApiError::invalid("the path leads out of the directory of the server")
        .with_hint("type a path below it; a mention of another one needs no lookup")
}

/// Suggests files for `typed_path`, which is below `base`. The directory that it names must also be
/// inside with its symlinks resolved.
fn find_files(
    base: &AbsPath,
    finder: &FileFinder,
    request: &BrowseRequest,
    typed_path: &str,
    slot: OwnedSemaphorePermit,
) -> ApiResult<Value> {
    let directory = directory_of(typed_path);
    if !is_inside(&base.join(directory), resolve_path(base)) {
        let message = "the directory lies outside that of the server";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    let suggestions = finder.query(typed_path, request.entries_max(), request.time_max());
    drop(slot);
    let mut reply = to_json(&suggestions, typed_path, directory);
    if let Some(path) = reply.get_mut("path").filter(|path| *path == directory) {
        // As it was typed.
        *path = directory_of(&request.path).into();
    }
    Ok(reply)
}

/// Returns the part of `path` up to its last slash.
fn directory_of(path: &str) -> &str {
    let end = path.rfind('/');
    end.and_then(|end| path.get(..=end)).unwrap_or_default()
}

/// Returns the reply with `suggestions`. Their names are relative to the typed directory if all of
/// them are in it.
fn to_json(suggestions: &FileSuggestions, typed_path: &str, directory: &str) -> Value {
    let is_below = |row: &FileSuggestion| row.name.starts_with(directory);
    let path = if suggestions.rows.iter().all(is_below) {
        directory
    } else {
        ""
    };
    let entries = suggestions.rows.iter().map(|row| {
        let mut entry = Map::new();
        let name = row.name.strip_prefix(path).unwrap_or(&row.name);
        entry.insert("name".to_owned(), name.into());
        let kind = match row.kind {
            IndexEntryKind::File => "file",
            IndexEntryKind::Directory => "directory",
        };
        entry.insert("type".to_owned(), kind.into());
        if let (IndexEntryKind::File, Some(language)) = (row.kind, language(name)) {
            entry.insert("language".to_owned(), language.into());
        }
        let query = typed_path.strip_prefix(path).unwrap_or(typed_path);
        let ranges: Vec<Value> = matched_ranges(query, name)
            .into_iter()
            .map(|part| json!([part.start, part.end]))
            .collect();
        // Hidden characters are sent as escapes, so the ranges would not fit.
        if !ranges.is_empty() && !name.chars().any(is_hidden) {
            entry.insert("match".to_owned(), ranges.into());
        }
        let rel = RelPath::new(&row.name);
        if rel.is_some_and(|rel| protected_name(&rel, &[]).is_some()) {
            entry.insert("permission".to_owned(), "protected".into());
        }
        Value::Object(entry)
    });
    let is_partial = suggestions.extent == SearchExtent::Part;
    json!({
        "entries": entries.collect::<Vec<_>>(),
        "path": path,
        "has_more": suggestions.matched > suggestions.rows.len() || is_partial,
        "is_partial": is_partial,
    })
}

fn language(name: &str) -> Option<&'static str> {
    let extension = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    let mut languages = LANGUAGES.iter();
    let (_, language) = languages.find(|(ending, _)| *ending == extension)?;
    Some(language)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
