//! Owns [`ToolCall`]: what a model asked for, parsed and complete, and which paths that touches.

use std::fmt;

use crate::permissions::grant::Permission;
use crate::tools::served::ServerCall;

/// A path as a model wrote it: relative to its workspace or absolute. Never empty, without NUL, at
/// most [`USER_PATH_BYTES_MAX`] long. `~`, `$`, globs, `%` and URIs mean nothing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPath(String);

/// The agent's workspace, as a relative path.
pub const WORKSPACE: &str = ".";

/// The longest path that the kernel takes (`PATH_MAX` of Linux, without the final NUL).
pub const USER_PATH_BYTES_MAX: usize = 4095;

/// Why a text is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUserPath {
    /// There is nothing in it.
    #[error("the path is empty")]
    Empty,
    /// It holds a NUL byte.
    #[error("the path holds a NUL byte")]
    Nul,
    /// The kernel would not take it.
    #[error("the path is longer than {USER_PATH_BYTES_MAX} bytes")]
    TooLong,
}

impl UserPath {
    /// Accepts any text that the kernel would accept as a path.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidUserPath> {
        let text = text.into();
        if text.is_empty() {
            Err(InvalidUserPath::Empty)
        } else if text.contains('\0') {
            Err(InvalidUserPath::Nul)
        } else if text.len() > USER_PATH_BYTES_MAX {
            Err(InvalidUserPath::TooLong)
        } else {
            Ok(Self(text))
        }
    }

    /// The path as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Which lines of a text file are read; both ends are counted from 1 and included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRange {
    /// All of them.
    All,
    /// The first so many.
    Head(u64),
    /// The last so many.
    Tail(u64),
    /// From the first number to the second, or to the end.
    Range {
        /// The first line.
        first: u64,
        /// The last line; to the end without one.
        last: Option<u64>,
    },
}

/// One replacement of an edit: `old` must occur exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEdit {
    /// The text to be replaced.
    pub old: String,
    /// What takes its place.
    pub new: String,
}

/// Whether an edit is carried out or only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditMode {
    /// The file is changed.
    Apply,
    /// Only the diff is returned.
    DryRun,
}

/// What happens to a destination that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingTarget {
    /// It stays, and the call fails or skips it.
    Keep,
    /// It is replaced.
    Overwrite,
}

/// Which files of a tree a call is about: glob patterns on the path below the tree's root. `*`
/// crosses `/`, so that `*.py` matches at any depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSelection {
    /// A file must match one of these.
    pub include: Vec<String>,
    /// And none of these.
    pub exclude: Vec<String>,
}

/// A search for text in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepQuery {
    /// A regular expression in ripgrep's syntax.
    pub pattern: String,
    /// Whether upper and lower case differ.
    pub case: CaseSensitivity,
    /// Lines shown before and after each match.
    pub context_lines: u32,
    /// Which files are searched.
    pub selection: FileSelection,
    /// The most matching lines that are shown.
    pub results_max: u32,
}

/// Whether upper and lower case differ in a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseSensitivity {
    /// They differ.
    Sensitive,
    /// They do not.
    Insensitive,
}

/// What a model asked for, with its paths as the model wrote them; the gate turns them into places
/// on the disk. A new variant breaks every match on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolCall<P = UserPath> {
    /// `read_text_file`
    ReadTextFile {
        /// The file.
        path: P,
        /// Which of its lines.
        lines: LineRange,
    },
    /// `read_multiple_files`
    ReadMultipleFiles {
        /// The files, in the order in which they are answered.
        paths: Vec<P>,
    },
    /// `write_file`
    WriteFile {
        /// The file; its directories are made.
        path: P,
        /// All that it will hold.
        content: String,
    },
    /// `edit_file`
    EditFile {
        /// The file.
        path: P,
        /// The replacements, each on the result of the one before.
        edits: Vec<FileEdit>,
        /// Whether the file is changed.
        mode: EditMode,
    },
    /// `create_directory`
    CreateDirectory {
        /// The directory; its parents are made.
        path: P,
    },
    /// `list_directory`
    ListDirectory {
        /// The directory.
        path: P,
    },
    /// `directory_tree`
    DirectoryTree {
        /// The directory.
        path: P,
        /// Which entries are shown.
        exclude: Vec<String>,
    },
    /// `move_file`
    MoveFile {
        /// What is moved.
        source: P,
        /// Where it will be; must not exist.
        destination: P,
    },
    /// `search_files`
    SearchFiles {
        /// Where to begin.
        path: P,
        /// A glob on names and paths.
        pattern: String,
        /// Which entries are left out.
        exclude: Vec<String>,
    },
    /// `grep_files`
    GrepFiles {
        /// The file or directory to search.
        path: P,
        /// What to search for.
        grep: GrepQuery,
    },
    /// `get_file_info`
    GetFileInfo {
        /// The file or directory.
        path: P,
    },
    /// `copy_file`
    CopyFile {
        /// The file or directory.
        source: P,
        /// Where the copy will be; its directories are made.
        destination: P,
        /// What happens if that exists.
        existing: ExistingTarget,
    },
    /// `copy_files_batch`
    CopyFilesBatch {
        /// The directory that is copied from.
        source: P,
        /// The directory that is copied to.
        destination: P,
        /// Which files.
        selection: FileSelection,
        /// What happens to files that exist.
        existing: ExistingTarget,
    },
    /// `delete_file`
    DeleteFile {
        /// The file or directory.
        path: P,
        /// Whether a directory with content is removed.
        recursion: DeleteRecursion,
    },
    /// `delete_files_batch`
    DeleteFilesBatch {
        /// The directory.
        path: P,
        /// Which files below it.
        selection: FileSelection,
    },
    /// `compare_files`
    CompareFiles {
        /// The one file.
        first: P,
        /// The other.
        second: P,
        /// Lines shown around each difference.
        context_lines: u32,
    },
    /// `compare_directories`
    CompareDirectories {
        /// The one directory.
        first: P,
        /// The other.
        second: P,
        /// Whether the differing lines are shown.
        content: ContentDiff,
    },
    /// `list_allowed_directories`
    ListAllowedDirectories,
    /// `execute_command`
    ExecuteCommand {
        /// For the shell.
        command: String,
        /// How long it may take, in seconds; as the config says without a number.
        timeout_seconds: Option<u64>,
        /// The directory that it begins in.
        dir: P,
    },
    /// `start_background_command`
    StartBackgroundCommand {
        /// For the shell.
        command: String,
        /// The directory that it begins in.
        dir: P,
    },
    /// `get_background_output`
    GetBackgroundOutput {
        /// Which one.
        id: BackgroundCommandId,
        /// How many bytes of the output the model has already read.
        offset: u64,
    },
    /// `get_background_status`
    GetBackgroundStatus {
        /// Which one.
        id: BackgroundCommandId,
    },
    /// `stop_background_command`
    StopBackgroundCommand {
        /// Which one.
        id: BackgroundCommandId,
    },
    /// `list_background_commands`
    ListBackgroundCommands,
    /// `execute_code`
    ExecuteCode {
        /// The program.
        code: String,
        /// How long it may take, in seconds; as the config says without a number.
        timeout_seconds: Option<u64>,
    },
    /// A tool of a foreign server.
    CallServer(ServerCall<P>),
}

/// The number of a background command: its agent's first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackgroundCommandId(pub u64);

impl fmt::Display for BackgroundCommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a directory with content is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteRecursion {
    /// With all that is in it.
    Whole,
    /// Only if it is empty.
    EmptyOnly,
}

/// Whether a comparison of directories shows the differing lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentDiff {
    /// Only names.
    Names,
    /// Lines too.
    Lines,
}

/// Whether a link at the end of a path stands for itself or for what it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalLink {
    /// The call is about what it points to.
    Followed,
    /// The call is about the link.
    Itself,
}

/// One path that a call touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedAccess<'a> {
    /// The path as written.
    pub path: &'a UserPath,
    /// What the call does to it.
    pub wanted: Permission,
    /// What a link at its end means.
    pub link: FinalLink,
}

impl ToolCall {
    /// The name of the tool.
    pub fn name(&self) -> &str {
        match self {
            ToolCall::CallServer(call) => &call.full_name,
            ToolCall::ReadTextFile { .. } => "read_text_file",
            ToolCall::ReadMultipleFiles { .. } => "read_multiple_files",
            ToolCall::WriteFile { .. } => "write_file",
            ToolCall::EditFile { .. } => "edit_file",
            ToolCall::CreateDirectory { .. } => "create_directory",
            ToolCall::ListDirectory { .. } => "list_directory",
            ToolCall::DirectoryTree { .. } => "directory_tree",
            ToolCall::MoveFile { .. } => "move_file",
            ToolCall::SearchFiles { .. } => "search_files",
            ToolCall::GrepFiles { .. } => "grep_files",
            ToolCall::GetFileInfo { .. } => "get_file_info",
            ToolCall::CopyFile { .. } => "copy_file",
            ToolCall::CopyFilesBatch { .. } => "copy_files_batch",
            ToolCall::DeleteFile { .. } => "delete_file",
            ToolCall::DeleteFilesBatch { .. } => "delete_files_batch",
            ToolCall::CompareFiles { .. } => "compare_files",
            ToolCall::CompareDirectories { .. } => "compare_directories",
            ToolCall::ListAllowedDirectories => "list_allowed_directories",
            ToolCall::ExecuteCommand { .. } => "execute_command",
            ToolCall::StartBackgroundCommand { .. } => "start_background_command",
            ToolCall::GetBackgroundOutput { .. } => "get_background_output",
            ToolCall::GetBackgroundStatus { .. } => "get_background_status",
            ToolCall::StopBackgroundCommand { .. } => "stop_background_command",
            ToolCall::ListBackgroundCommands => "list_background_commands",
            ToolCall::ExecuteCode { .. } => "execute_code",
        }
    }

    /// Whether the call leaves everything as it is, so that it may run beside others of its kind.
    pub fn only_reads(&self) -> bool {
        let starts_or_stops = matches!(
            self,
            ToolCall::ExecuteCommand { .. }
                | ToolCall::StartBackgroundCommand { .. }
                | ToolCall::StopBackgroundCommand { .. }
                | ToolCall::ExecuteCode { .. }
                | ToolCall::CallServer(_)
        );
        let reads = |access: &RequestedAccess<'_>| access.wanted == Permission::Read;
        !starts_or_stops && self.accesses().iter().all(reads)
    }

    /// Every path that the call names, in the order of its parameters, with what it does there.
    pub fn accesses(&self) -> Vec<RequestedAccess<'_>> {
        use FinalLink::{Followed, Itself};
        use Permission::{Read, Write};
        let access = |path, wanted, link| RequestedAccess { path, wanted, link };
        match self {
            ToolCall::ReadTextFile { path, .. }
            | ToolCall::ListDirectory { path }
            | ToolCall::DirectoryTree { path, .. }
            | ToolCall::SearchFiles { path, .. }
            | ToolCall::GrepFiles { path, .. }
            | ToolCall::GetFileInfo { path }
            | ToolCall::ExecuteCommand { dir: path, .. }
            | ToolCall::StartBackgroundCommand { dir: path, .. }
            | ToolCall::EditFile {
                path,
                mode: EditMode::DryRun,
                ..
            } => vec![access(path, Read, Followed)],
            ToolCall::ReadMultipleFiles { paths } => paths
                .iter()
                .map(|path| access(path, Read, Followed))
                .collect(),
            ToolCall::WriteFile { path, .. }
            | ToolCall::EditFile {
                path,
                mode: EditMode::Apply,
                ..
            }
            | ToolCall::CreateDirectory { path }
            | ToolCall::DeleteFilesBatch { path, .. } => vec![access(path, Write, Followed)],
            ToolCall::DeleteFile { path, .. } => vec![access(path, Write, Itself)],
            ToolCall::MoveFile {
                source,
                destination,
            } => {
                vec![
                    access(source, Write, Itself),
                    access(destination, Write, Itself),
                ]
            }
            ToolCall::CopyFile {
                source,
                destination,
                ..
            }
            | ToolCall::CopyFilesBatch {
                source,
                destination,
                ..
            } => {
                vec![
                    access(source, Read, Followed),
                    access(destination, Write, Followed),
                ]
            }
            ToolCall::CompareFiles { first, second, .. }
            | ToolCall::CompareDirectories { first, second, .. } => {
                vec![
                    access(first, Read, Followed),
                    access(second, Read, Followed),
                ]
            }
            ToolCall::CallServer(call) => call.accesses(),
            ToolCall::ListAllowedDirectories
            | ToolCall::GetBackgroundOutput { .. }
            | ToolCall::GetBackgroundStatus { .. }
            | ToolCall::StopBackgroundCommand { .. }
            | ToolCall::ListBackgroundCommands
            | ToolCall::ExecuteCode { .. } => Vec::new(),
        }
    }
}

impl<P> ToolCall<P> {
    /// Whether the call is one of those that run commands or are about them.
    pub fn is_about_commands(&self) -> bool {
        matches!(
            self,
            ToolCall::ExecuteCommand { .. }
                | ToolCall::StartBackgroundCommand { .. }
                | ToolCall::GetBackgroundOutput { .. }
                | ToolCall::GetBackgroundStatus { .. }
                | ToolCall::StopBackgroundCommand { .. }
                | ToolCall::ListBackgroundCommands
        )
    }

    /// The operation that the answer names, where it is one JSON object; the others are text.
    pub fn json_operation(&self) -> Option<&'static str> {
        match self {
            ToolCall::CopyFile { .. } => Some("copy_file"),
            ToolCall::CopyFilesBatch { .. } => Some("copy_files_batch"),
            ToolCall::DeleteFile { .. } => Some("delete_file"),
            ToolCall::DeleteFilesBatch { .. } => Some("delete_files_batch"),
            ToolCall::CompareFiles { .. } => Some("compare_files"),
            ToolCall::CompareDirectories { .. } => Some("compare_directories"),
            ToolCall::ReadTextFile { .. }
            | ToolCall::ReadMultipleFiles { .. }
            | ToolCall::WriteFile { .. }
            | ToolCall::EditFile { .. }
            | ToolCall::ExecuteCode { .. }
            | ToolCall::CallServer(_)
            | ToolCall::CreateDirectory { .. }
            | ToolCall::ListDirectory { .. }
            | ToolCall::DirectoryTree { .. }
            | ToolCall::MoveFile { .. }
            | ToolCall::SearchFiles { .. }
            | ToolCall::GrepFiles { .. }
            | ToolCall::GetFileInfo { .. }
            | ToolCall::ListAllowedDirectories
            | ToolCall::ExecuteCommand { .. }
            | ToolCall::StartBackgroundCommand { .. }
            | ToolCall::GetBackgroundOutput { .. }
            | ToolCall::GetBackgroundStatus { .. }
            | ToolCall::StopBackgroundCommand { .. }
            | ToolCall::ListBackgroundCommands => None,
        }
    }

    /// What the call gives to the shell, if it does.
    pub fn command(&self) -> Option<&str> {
        if let ToolCall::ExecuteCommand { command, .. }
        | ToolCall::StartBackgroundCommand { command, .. } = self
        {
            Some(command)
        } else {
            None
        }
    }

    /// Whether the call may take long, and ends early when nobody waits for it any more.
    pub fn is_long_running(&self) -> bool {
        let is_foreign = matches!(self, ToolCall::ExecuteCode { .. } | ToolCall::CallServer(_));
        is_foreign || self.command().is_some()
    }

    /// The same call with every path replaced by what `place` makes of it, in the order of
    /// [`ToolCall::accesses`]. The first error ends it.
    pub fn try_map<Q, E>(self, mut place: impl FnMut(P) -> Result<Q, E>) -> Result<ToolCall<Q>, E> {
        /// Each row: a variant, its paths in brackets, then what stays as it is.
        macro_rules! mapped {
            ($($variant:ident [$($path:ident)*] $($rest:ident)*;)*) => {
                match self {
                    $(ToolCall::$variant { $($path,)* $($rest,)* } => ToolCall::$variant {
                        $($path: place($path)?,)*
                        $($rest,)*
                    },)*
                    ToolCall::CallServer(call) => ToolCall::CallServer(call.try_map(place)?),
                    ToolCall::ReadMultipleFiles { paths } => ToolCall::ReadMultipleFiles {
                        paths: paths.into_iter().map(place).collect::<Result<_, _>>()?,
                    },
                }
            };
        }
        Ok(mapped! {
            ReadTextFile [path] lines;
            WriteFile [path] content;
            EditFile [path] edits mode;
            CreateDirectory [path];
            ListDirectory [path];
            DirectoryTree [path] exclude;
            MoveFile [source destination];
            SearchFiles [path] pattern exclude;
            GrepFiles [path] grep;
            GetFileInfo [path];
            CopyFile [source destination] existing;
            CopyFilesBatch [source destination] selection existing;
            DeleteFile [path] recursion;
            DeleteFilesBatch [path] selection;
            CompareFiles [first second] context_lines;
            CompareDirectories [first second] content;
            ListAllowedDirectories [];
            ExecuteCommand [dir] command timeout_seconds;
            StartBackgroundCommand [dir] command;
            GetBackgroundOutput [] id offset;
            GetBackgroundStatus [] id;
            StopBackgroundCommand [] id;
            ListBackgroundCommands [];
            ExecuteCode [] code timeout_seconds;
        })
    }
}
