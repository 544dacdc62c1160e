//! Checks what a config opens to agents: context paths, folder guards, and the files that it makes
//! part of an agent's first message.

use crate::config::ContextPath;
use crate::config::check::mapping_view::{MappingView, TextValue, scalar_text};
use crate::config::check::{ConfigChecker, PATHS_MAX, paths};
use crate::config::diagnostic::quote;
use crate::config::keys::shape::TextList;
use crate::config::keys::{ConfigKey, TypedKey, backend, context_paths, media, nearest_hint};
use crate::config::storage_path::{LOGS, STATE_DIR};
use crate::config::uploads::{UploadSource, UploadedFile};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::guard::{DownloadsAccess, FolderGuard, GuardPreset};
use crate::permissions::protected::PROTECTED_NAMES;
use crate::tools::image::is_image_name;
use crate::tools::model_file::ModelFileClass;
use crate::tools::page_url::PageUrl;

impl ConfigChecker<'_> {
    /// Returns the context paths of an `orchestrator` or a backend.
    pub(super) fn context_paths(&mut self, parent: &MappingView<'_>) -> Vec<ContextPath> {
        let items = parent.items(&context_paths::KEY);
        self.check_count(parent, &context_paths::KEY, items.len());
        let mut paths: Vec<ContextPath> = Vec::new();
        for (path, item) in items.into_iter().take(PATHS_MAX) {
            let Some(entry) = self.context_path(path.clone(), item) else {
                continue;
            };
            if paths.iter().any(|earlier| earlier.path == entry.path) {
                let message = format!("{} is listed twice", quote(&entry.path.to_string()));
                let hint = "keep one entry with the intended permission";
                self.refuse((path, &item.span), message, hint);
                continue;
            }
            paths.push(entry);
        }
        paths
    }

    fn context_path(&mut self, path: String, item: &YamlNode) -> Option<ContextPath> {
        if let YamlValue::Scalar(_) = item.value {
            let text = scalar_text(item, path)?;
            let root = self.path(&text)?;
            if !self.is_in_logs(&root) {
                self.refuse_breadth(&root, &text);
            }
            return Some(ContextPath::read_only(root));
        }
        let entry = MappingView { node: item, path };
        let text = entry.text(&context_paths::PATH)?;
        let root = self.path(&text)?;
        let permission = match entry.word(&context_paths::PERMISSION) {
            Some("write") => Permission::Write,
            _ => Permission::Read,
        };
        let is_readable_log = permission == Permission::Read && self.is_in_logs(&root);
        if entry.flag(&context_paths::ALLOW_BROAD) != Some(true) && !is_readable_log {
            self.refuse_breadth(&root, &text);
        }
        Some(ContextPath {
            permission,
            protected: self.paths_inside(&entry, &context_paths::PROTECTED_PATHS, &root),
            hidden: self.paths_inside(&entry, &context_paths::HIDDEN_PATHS, &root),
            unprotected: self.unprotected_names(&entry),
            path: root,
        })
    }

    /// Returns the images that a backend shows to its model at the beginning. The config thereby
    /// grants the agent to read them.
    pub(super) fn uploaded_images(
        &mut self,
        backend: &MappingView<'_>,
        guard: &FolderGuard,
    ) -> Vec<AbsPath> {
        let entries = backend.views(&media::UPLOAD_FILES);
        self.check_count(backend, &media::UPLOAD_FILES, entries.len());
        if names_local_file(&entries) && *guard != FolderGuard::Off {
            let message = "`upload_files` are not open to an agent with a `folder_guard`";
            let hint = "list their directory in `read` of the guard";
            self.warn(backend.at(&media::UPLOAD_FILES), message, hint);
        }
        let mut images: Vec<AbsPath> = Vec::new();
        for entry in entries.iter().take(PATHS_MAX) {
            let Some(text) = entry.text(&media::IMAGE_PATH) else {
                continue;
            };
            let image = Some(&text).filter(|text| !is_url(text.value));
            let image = image.and_then(|text| self.path(text));
            if let Some(image) = image.filter(|image| is_image_name(image.as_path())) {
                if !images.contains(&image) {
                    images.push(image);
                }
            } else {
                let message = format!("{} is not shown", quote(text.value));
                let hint = "name a PNG, JPEG, GIF or WebP file on this machine, or a URL in \
                            `image_url`";
                self.warn(&text, message, hint);
            }
        }
        images
    }

    /// Returns the URLs of the images that a backend shows to its model at the beginning.
    pub(super) fn uploaded_image_urls(&mut self, backend: &MappingView<'_>) -> Vec<PageUrl> {
        let mut urls: Vec<PageUrl> = Vec::new();
        for entry in backend
            .views(&media::UPLOAD_FILES)
            .into_iter()
            .take(PATHS_MAX)
        {
            let Some(text) = entry.text(&media::IMAGE_URL) else {
                continue;
            };
            let url = self.upload_url(&text);
            urls.extend(url.filter(|url| !urls.contains(url)));
        }
        urls
    }

    /// Returns the documents, recordings and videos that a backend shows to its model at the
    /// beginning. Their formats are detected when they are read.
    pub(super) fn uploaded_files(&mut self, backend: &MappingView<'_>) -> Vec<UploadedFile> {
        let keys = [
            (&media::FILE_PATH, ModelFileClass::Document),
            (&media::AUDIO_PATH, ModelFileClass::Audio),
            (&media::VIDEO_PATH, ModelFileClass::Video),
        ];
        let mut files: Vec<UploadedFile> = Vec::new();
        for entry in backend
            .views(&media::UPLOAD_FILES)
            .into_iter()
            .take(PATHS_MAX)
        {
            for (key, class) in keys {
                let Some(source) = entry.text(key).and_then(|text| self.upload_source(&text))
                else {
                    continue;
                };
                let file = UploadedFile { class, source };
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        files
    }

    /// Returns the location of the uploaded file that `text` names.
    fn upload_source(&mut self, text: &TextValue<'_>) -> Option<UploadSource> {
        if is_url(text.value) {
            self.upload_url(text).map(UploadSource::Url)
        } else {
            self.path(text).map(UploadSource::Path)
        }
    }

    /// Returns the URL that `text` names; adds a warning if massgen reads nothing from it.
    fn upload_url(&mut self, text: &TextValue<'_>) -> Option<PageUrl> {
        let problem = match PageUrl::parse(text.value) {
            Ok(url) if url.as_url().scheme() == "https" => return Some(url),
            Ok(_) => "is not encrypted",
            Err(problem) => problem,
        };
        let message = format!("{} is not shown: it {problem}", quote(text.value));
        let hint = "name a file on this machine, or one on a public server: `https://HOST/…`";
        self.warn(text, message, hint);
        None
    }

    /// Returns whether a path is in the logs of massgen's runs, which agents may be given to read.
    fn is_in_logs(&self, path: &AbsPath) -> bool {
        path.is_within(&self.context.state_parent.join(STATE_DIR).join(LOGS))
    }

    /// Returns the paths of a list, each relative to the context path that must contain it.
    fn paths_inside(
        &mut self,
        entry: &MappingView<'_>,
        key: &TypedKey<TextList>,
        root: &AbsPath,
    ) -> Vec<RelPath> {
        let texts = entry.texts(key);
        self.check_count(entry, key, texts.len());
        let mut paths = Vec::new();
        for text in texts.into_iter().take(PATHS_MAX) {
            let absolute_path = if text.value.starts_with(['/', '~']) {
                self.path(&text)
            } else {
                Some(root.join(text.value))
            };
            let Some(absolute_path) = absolute_path else {
                continue;
            };
            if text.value.contains(['*', '?']) || text.value.trim() != text.value {
                let hint = "name a file or directory, or use a rule such as `deny: \
                            [read_file(notes/*)]` in `permissions`";
                self.refuse_value(&text, "a name: patterns close nothing here", hint);
            } else if let Some(relative_path) = absolute_path.below(root) {
                paths.push(relative_path);
            } else {
                let hint = "write it relative to `path`, without `..`";
                self.refuse_value(&text, "inside the context path", hint);
            }
        }
        paths
    }

    /// Returns the names that are removed from the protected ones.
    fn unprotected_names(&mut self, entry: &MappingView<'_>) -> Vec<String> {
        let mut names = Vec::new();
        for text in entry.texts(&context_paths::UNPROTECTED) {
            let protected = PROTECTED_NAMES
                .iter()
                .find(|name| name.eq_ignore_ascii_case(text.value));
            if let Some(name) = protected {
                names.push((*name).to_owned());
                continue;
            }
            let otherwise = "remove it: the name is open anyway";
            let hint = nearest_hint(text.value, PROTECTED_NAMES.iter().copied(), otherwise);
            self.refuse_value(&text, "a protected name", hint);
        }
        names
    }

    /// Returns the folder guard of an agent: its own, or that of its backend.
    pub(super) fn folder_guard(
        &mut self,
        agent: &MappingView<'_>,
        backend: &MappingView<'_>,
    ) -> FolderGuard {
        for parent in [agent, backend] {
            let Some(entry) = parent.entry(&context_paths::GUARD) else {
                continue;
            };
            if entry.value.value == YamlValue::Null {
                let path = parent.key_path(&context_paths::GUARD);
                let hint = "list directories in `read` and `write`, or remove the key";
                self.refuse((path, &entry.key_span), "`folder_guard` is empty", hint);
            }
            if let Some(guard) = parent.section(&context_paths::GUARD) {
                return self.parse_guard(&guard, backend);
            }
        }
        FolderGuard::Off
    }

    /// Parses a folder guard; a preset below `root` becomes part of its lists.
    fn parse_guard(&mut self, guard: &MappingView<'_>, backend: &MappingView<'_>) -> FolderGuard {
        let root = guard
            .text(&context_paths::ROOT)
            .and_then(|text| self.path(&text));
        let preset = guard
            .text(&context_paths::PRESET)
            .and_then(|text| GuardPreset::from_name(text.value));
        let (mut read, mut write) = (
            self.guard_directories(guard, &context_paths::READ),
            self.guard_directories(guard, &context_paths::WRITE),
        );
        let workspace_preset = match (&root, preset) {
            (Some(root), Some(preset)) => {
                read.extend(preset.readable_names().iter().map(|name| root.join(name)));
                write.extend(preset.writable_names().iter().map(|name| root.join(name)));
                None
            }
            (_, None) => None,
            (None, Some(preset)) => {
                if backend.get(&backend::CWD).is_none() {
                    let message = "the directories of a preset are below `root` or `cwd`, but both \
                                   are missing";
                    let hint = "add `root: DIR` to the guard, or `cwd: workspace`";
                    self.refuse(guard.at(&context_paths::PRESET), message, hint);
                }
                Some(preset)
            }
        };
        FolderGuard::On {
            root,
            read,
            write,
            workspace_preset,
            // `Downloads/` is open unless the config says otherwise.
            downloads: match guard.flag(&context_paths::DOWNLOADS) {
                Some(false) => DownloadsAccess::Dropped,
                Some(true) | None => DownloadsAccess::Open,
            },
        }
    }

    fn guard_directories(
        &mut self,
        guard: &MappingView<'_>,
        key: &TypedKey<TextList>,
    ) -> Vec<AbsPath> {
        let texts = guard.texts(key);
        self.check_count(guard, key, texts.len());
        let mut directories = Vec::new();
        for text in texts.into_iter().take(PATHS_MAX) {
            if let Some(path) = self.path(&text) {
                self.refuse_breadth(&path, &text);
                directories.push(path);
            }
        }
        directories
    }

    /// Refuses a path that is too broad to be opened to agents.
    fn refuse_breadth(&mut self, path: &AbsPath, text: &TextValue<'_>) {
        if let Some(reason) = paths::breadth_reason(path, self.context) {
            let message = format!("{} is {reason}", quote(&path.to_string()));
            let hint = "use the directory that the agents need, or set `allow_broad: true` on the \
                        context path";
            self.refuse(text, message, hint);
        }
    }

    /// Refuses more than the maximum number of entries in the list of a key.
    fn check_count(&mut self, parent: &MappingView<'_>, key: &ConfigKey, count: usize) {
        if count > PATHS_MAX {
            let name = key.name();
            let message =
                format!("`{name}` has {count} entries; at most {PATHS_MAX} can be opened");
            self.refuse(parent.at(key), message, "use a parent directory instead");
        }
    }
}

/// Returns whether one of these entries of `upload_files` names a file on this machine. massgen
/// itself reads those that are URLs, so that the agent needs no access to them.
fn names_local_file(entries: &[MappingView<'_>]) -> bool {
    let path_keys = [
        &media::IMAGE_PATH,
        &media::FILE_PATH,
        &media::AUDIO_PATH,
        &media::VIDEO_PATH,
    ];
    entries.iter().any(|entry| {
        let mut texts = path_keys.iter().filter_map(|key| entry.text(key));
        texts.any(|text| !is_url(text.value))
    })
}

/// Returns whether the value of an uploaded file is a URL.
pub(super) fn is_url(value: &str) -> bool {
    let mut schemes = ["http://", "https://"].into_iter();
    schemes.any(|scheme| value.starts_with(scheme))
}
