//! [`ToolCall`]: a model's request, parsed and complete, and the paths that it touches.

use std::fmt;

use crate::id::{AnswerLabel, SubagentId};
use crate::permissions::grant::Permission;
use crate::tools::media::MediaOrder;
use crate::tools::page_url::PageUrl;
use crate::tools::patch::FilePatch;
use crate::tools::served::ServerCall;
use crate::tools::task_plan::TaskPlan;
use crate::tools::vendor_tool::VendorTool;

/// A path as a model wrote it: relative to its workspace or absolute. Never empty, without NUL, at
/// most [`USER_PATH_BYTES_MAX`] long. `~`, `$`, globs, `%` and URIs have no special meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPath(String);

/// The agent's workspace, as a relative path.
pub const WORKSPACE: &str = ".";

/// The longest path that the kernel accepts (`PATH_MAX` of Linux, without the final NUL).
pub const USER_PATH_BYTES_MAX: usize = 4095;

/// The reason why a string is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUserPath {
    /// It is empty.
    #[error("the path is empty")]
    Empty,
    /// It contains a NUL byte.
    #[error("the path holds a NUL byte")]
    Nul,
    /// It is too long for the kernel.
    #[error("the path is longer than {USER_PATH_BYTES_MAX} bytes")]
    TooLong,
}

impl UserPath {
    /// Accepts any string that the kernel would accept as a path.
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

    /// Returns the path as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The lines of a text file to read; line numbers start at 1, and ranges include both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRange {
    /// All lines.
    All,
    /// The first lines, this many.
    Head(u64),
    /// The last lines, this many.
    Tail(u64),
    /// A range of lines.
    Range {
        /// The first line.
        first: u64,
        /// The last line; `None` is the end of the file.
        last: Option<u64>,
    },
}

/// Whether a file is read as it is or with line numbers, for editors that edit by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadForm {
    /// The text as it is.
    Plain,
    /// Each line after its number; a directory is listed.
    Numbered,
}

/// One change of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEdit {
    /// A text that must occur exactly once is replaced.
    Replacement {
        /// The text to replace.
        old: String,
        /// The replacement.
        new: String,
    },
    /// Lines are inserted.
    Insertion {
        /// The number of the line below which they are inserted; 0 is the beginning.
        line: u64,
        /// The lines.
        text: String,
    },
}

/// Whether an edit is applied or only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditMode {
    /// The file is changed.
    Apply,
    /// Only the diff is returned.
    DryRun,
}

/// How an existing destination is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingTarget {
    /// It is kept, and the call fails or skips it.
    Keep,
    /// It is replaced.
    Overwrite,
}

/// The files of a tree that a call is about: glob patterns on the path relative to the tree's root.
/// `*` also matches `/`, so that `*.py` matches at any depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSelection {
    /// A file must match one of these.
    pub include: Vec<String>,
    /// A file must match none of these.
    pub exclude: Vec<String>,
}

/// A text search in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepQuery {
    /// A regular expression in ripgrep's syntax.
    pub pattern: String,
    /// Whether the search is case-sensitive.
    pub case: CaseSensitivity,
    /// Lines shown before and after each match.
    pub context_lines: u32,
    /// Which files are searched.
    pub selection: FileSelection,
    /// The maximum number of matching lines to show.
    pub results_max: u32,
    /// The words that the pattern stands for, in lower case: the files with the most of them come
    /// first, with their best lines. Without words, all lines are shown by path.
    pub ranking: Vec<String>,
}

/// Whether a search is case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseSensitivity {
    /// Case-sensitive.
    Sensitive,
    /// Case-insensitive.
    Insensitive,
}

/// A model's request, with paths as the model wrote them; the gate resolves them. A new variant
/// breaks every `match` on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolCall<P = UserPath> {
    /// `read_text_file`
    ReadTextFile {
        /// The file.
        path: P,
        /// The lines to read.
        lines: LineRange,
        /// How they are shown.
        form: ReadForm,
    },
    /// `read_multiple_files`
    ReadMultipleFiles {
        /// The files, in the order of the results.
        paths: Vec<P>,
    },
    /// `write_file`
    WriteFile {
        /// The file; its parent directories are created.
        path: P,
        /// The complete new content.
        content: String,
    },
    /// `edit_file`
    EditFile {
        /// The file.
        path: P,
        /// The changes, each applied to the result of the previous one.
        edits: Vec<FileEdit>,
        /// Whether the file is changed.
        mode: EditMode,
    },
    /// `apply_patch`
    ApplyPatch {
        /// What it does with each file.
        files: Vec<FilePatch<P>>,
        /// The patch as the model wrote it.
        text: String,
    },
    /// `create_directory`
    CreateDirectory {
        /// The directory; its parents are created.
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
        /// Entries to leave out.
        exclude: Vec<String>,
    },
    /// `move_file`
    MoveFile {
        /// The file or directory to move.
        source: P,
        /// Its new path, which must not exist.
        destination: P,
    },
    /// `search_files`
    SearchFiles {
        /// The directory to start in.
        path: P,
        /// A glob on names and paths.
        pattern: String,
        /// Entries to leave out.
        exclude: Vec<String>,
    },
    /// `grep_files`
    GrepFiles {
        /// The file or directory to search.
        path: P,
        /// The search.
        grep: GrepQuery,
    },
    /// `read_media_file`
    ReadMediaFile {
        /// The image.
        path: P,
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
        /// The path of the copy; its parent directories are created.
        destination: P,
        /// How an existing destination is treated.
        existing: ExistingTarget,
    },
    /// `copy_files_batch`
    CopyFilesBatch {
        /// The source directory.
        source: P,
        /// The destination directory.
        destination: P,
        /// The files to copy.
        selection: FileSelection,
        /// How existing files are treated.
        existing: ExistingTarget,
    },
    /// `delete_file`
    DeleteFile {
        /// The file or directory.
        path: P,
        /// Whether a non-empty directory is removed.
        recursion: DeleteRecursion,
    },
    /// `delete_files_batch`
    DeleteFilesBatch {
        /// The directory.
        path: P,
        /// The files below it to delete.
        selection: FileSelection,
    },
    /// `compare_files`
    CompareFiles {
        /// The first file.
        first: P,
        /// The second file.
        second: P,
        /// The number of context lines around each difference.
        context_lines: u32,
    },
    /// `compare_directories`
    CompareDirectories {
        /// The first directory.
        first: P,
        /// The second directory.
        second: P,
        /// Whether the differing lines are shown.
        content: ContentDiff,
    },
    /// `list_allowed_directories`
    ListAllowedDirectories,
    /// `execute_command`
    ExecuteCommand {
        /// The command line for the shell.
        command: String,
        /// The timeout in seconds; `None` uses the config's.
        timeout_seconds: Option<u64>,
        /// The working directory.
        dir: P,
        /// The answer of another agent on which it runs; `None` for the agent's own files.
        answer: Option<AnswerLabel>,
    },
    /// `start_background_command`
    StartBackgroundCommand {
        /// The command line for the shell.
        command: String,
        /// The working directory.
        dir: P,
    },
    /// `get_background_output`
    GetBackgroundOutput {
        /// The command.
        id: BackgroundCommandId,
        /// The number of bytes of output that the model has already read.
        offset: u64,
    },
    /// `get_background_status`
    GetBackgroundStatus {
        /// The command.
        id: BackgroundCommandId,
    },
    /// `stop_background_command`
    StopBackgroundCommand {
        /// The command.
        id: BackgroundCommandId,
    },
    /// `list_background_commands`
    ListBackgroundCommands,
    /// `execute_code`
    ExecuteCode {
        /// The program.
        code: String,
        /// The timeout in seconds; `None` uses the config's.
        timeout_seconds: Option<u64>,
    },
    /// `fetch_url`
    FetchUrl {
        /// The page.
        url: PageUrl,
    },
    /// `web_search` or `vendor_code_execution`
    AskVendor {
        /// The vendor's tool.
        tool: VendorTool,
        /// What it is used for: a query or a task.
        request: String,
    },
    /// `generate_media`
    GenerateMedia {
        /// The new file.
        path: P,
        /// What it is to contain.
        order: MediaOrder,
    },
    /// `update_plan`
    UpdatePlan {
        /// The whole plan, which replaces the previous one.
        plan: TaskPlan,
    },
    /// `spawn_subagents`
    SpawnSubagents {
        /// The tasks, one for each subagent.
        tasks: Vec<SubagentTask>,
        /// The directory of each subagent, in the order of the tasks.
        dirs: Vec<P>,
    },
    /// A tool of an MCP server.
    CallServer(ServerCall<P>),
}

/// The task of one subagent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentTask {
    /// The name that its parent gives it.
    pub id: SubagentId,
    /// What it should do.
    pub task: String,
    /// The type that its parent gives it, as the parent wrote it.
    pub subagent_type: Option<String>,
    /// The name of the model that its parent chooses for it, as the parent wrote it.
    pub agent: Option<String>,
}

impl SubagentTask {
    /// Creates a task for which nothing is chosen.
    pub fn new(id: SubagentId, task: String) -> Self {
        Self {
            id,
            task,
            subagent_type: None,
            agent: None,
        }
    }
}

/// The directory of an agent's subagents, in its workspace.
pub const SUBAGENTS_DIRECTORY: &str = ".subagents";

/// The number of a background command: an agent's first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackgroundCommandId(pub u64);

impl fmt::Display for BackgroundCommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a non-empty directory is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteRecursion {
    /// It is removed with its content.
    Whole,
    /// Only an empty directory is removed.
    EmptyOnly,
}

/// Whether a comparison of directories shows differing lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentDiff {
    /// Only names.
    Names,
    /// Names and lines.
    Lines,
}

/// Whether a symlink at the end of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalSymlink {
    /// It is followed: the call applies to its target.
    Followed,
    /// It is not followed: the call applies to the symlink itself.
    NotFollowed,
}

/// A path that a call touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedAccess<'a> {
    /// The path as written.
    pub path: &'a UserPath,
    /// The access that the call needs.
    pub permission: Permission,
    /// How a symlink at its end is treated.
    pub link: FinalSymlink,
}

impl ToolCall {
    /// Returns the name of the tool.
    pub fn name(&self) -> &str {
        match self {
            ToolCall::CallServer(call) => &call.full_name,
            ToolCall::ReadTextFile { .. } => "read_text_file",
            ToolCall::ReadMultipleFiles { .. } => "read_multiple_files",
            ToolCall::WriteFile { .. } => "write_file",
            ToolCall::EditFile { .. } => "edit_file",
            ToolCall::ApplyPatch { .. } => "apply_patch",
            ToolCall::CreateDirectory { .. } => "create_directory",
            ToolCall::ListDirectory { .. } => "list_directory",
            ToolCall::DirectoryTree { .. } => "directory_tree",
            ToolCall::MoveFile { .. } => "move_file",
            ToolCall::SearchFiles { .. } => "search_files",
            ToolCall::GrepFiles { .. } => "grep_files",
            ToolCall::ReadMediaFile { .. } => "read_media_file",
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
            ToolCall::FetchUrl { .. } => "fetch_url",
            ToolCall::AskVendor { tool, .. } => tool.name(),
            ToolCall::GenerateMedia { .. } => "generate_media",
            ToolCall::UpdatePlan { .. } => "update_plan",
            ToolCall::SpawnSubagents { .. } => "spawn_subagents",
        }
    }

    /// Returns whether the call changes nothing, so that it can run concurrently with others that
    /// change nothing. A plan is changed in the order of the calls.
    pub fn only_reads(&self) -> bool {
        let has_other_effects = matches!(
            self,
            ToolCall::ExecuteCommand { .. }
                | ToolCall::StartBackgroundCommand { .. }
                | ToolCall::StopBackgroundCommand { .. }
                | ToolCall::ExecuteCode { .. }
                | ToolCall::AskVendor { .. }
                | ToolCall::UpdatePlan { .. }
                | ToolCall::CallServer(_)
        );
        let is_read = |access: &RequestedAccess<'_>| access.permission == Permission::Read;
        !has_other_effects && self.accesses().iter().all(is_read)
    }

    /// Returns every path that the call names, in the order of its parameters, with the access that
    /// it needs.
    pub fn accesses(&self) -> Vec<RequestedAccess<'_>> {
        use FinalSymlink::{Followed, NotFollowed};
        use Permission::{Read, Write};
        let access = |path, permission, link| RequestedAccess {
            path,
            permission,
            link,
        };
        match self {
            ToolCall::ReadTextFile { path, .. }
            | ToolCall::ListDirectory { path }
            | ToolCall::DirectoryTree { path, .. }
            | ToolCall::SearchFiles { path, .. }
            | ToolCall::GrepFiles { path, .. }
            | ToolCall::ReadMediaFile { path }
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
            | ToolCall::GenerateMedia { path, .. }
            | ToolCall::DeleteFilesBatch { path, .. } => vec![access(path, Write, Followed)],
            ToolCall::SpawnSubagents { dirs, .. } => {
                let dir_accesses = dirs.iter();
                dir_accesses
                    .map(|dir| access(dir, Write, NotFollowed))
                    .collect()
            }
            ToolCall::ApplyPatch { files, .. } => files.iter().flat_map(patch_accesses).collect(),
            ToolCall::DeleteFile { path, .. } => vec![access(path, Write, NotFollowed)],
            ToolCall::MoveFile {
                source,
                destination,
            } => {
                vec![
                    access(source, Write, NotFollowed),
                    access(destination, Write, NotFollowed),
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
            | ToolCall::ExecuteCode { .. }
            | ToolCall::FetchUrl { .. }
            | ToolCall::AskVendor { .. }
            | ToolCall::UpdatePlan { .. } => Vec::new(),
        }
    }
}

/// Returns the paths that a patch of one file writes. One that disappears is the symlink itself, if it
/// is one.
fn patch_accesses(file: &FilePatch<UserPath>) -> Vec<RequestedAccess<'_>> {
    let access = |path, link| RequestedAccess {
        path,
        permission: Permission::Write,
        link,
    };
    match file {
        FilePatch::Add { path, .. }
        | FilePatch::Update {
            path,
            destination: None,
            ..
        } => vec![access(path, FinalSymlink::Followed)],
        FilePatch::Delete { path } => vec![access(path, FinalSymlink::NotFollowed)],
        FilePatch::Update {
            path,
            destination: Some(destination),
            ..
        } => [path, destination]
            .map(|path| access(path, FinalSymlink::NotFollowed))
            .to_vec(),
    }
}

impl<P> ToolCall<P> {
    /// Returns whether the call runs or manages commands.
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

    /// Returns the operation that the result names, if the result is a JSON object; other results
    /// are text.
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
            | ToolCall::ApplyPatch { .. }
            | ToolCall::ExecuteCode { .. }
            | ToolCall::FetchUrl { .. }
            | ToolCall::AskVendor { .. }
            | ToolCall::GenerateMedia { .. }
            | ToolCall::UpdatePlan { .. }
            | ToolCall::CallServer(_)
            | ToolCall::CreateDirectory { .. }
            | ToolCall::ListDirectory { .. }
            | ToolCall::DirectoryTree { .. }
            | ToolCall::MoveFile { .. }
            | ToolCall::SearchFiles { .. }
            | ToolCall::GrepFiles { .. }
            | ToolCall::ReadMediaFile { .. }
            | ToolCall::GetFileInfo { .. }
            | ToolCall::ListAllowedDirectories
            | ToolCall::ExecuteCommand { .. }
            | ToolCall::StartBackgroundCommand { .. }
            | ToolCall::GetBackgroundOutput { .. }
            | ToolCall::GetBackgroundStatus { .. }
            | ToolCall::StopBackgroundCommand { .. }
            | ToolCall::ListBackgroundCommands => None,
            ToolCall::SpawnSubagents { .. } => Some("spawn_subagents"),
        }
    }

    /// Returns the command line that the call passes to the shell, if any.
    pub fn command(&self) -> Option<&str> {
        if let ToolCall::ExecuteCommand { command, .. }
        | ToolCall::StartBackgroundCommand { command, .. } = self
        {
            Some(command)
        } else {
            None
        }
    }

    /// Returns the page that the call reads, if any.
    pub fn page(&self) -> Option<&PageUrl> {
        if let ToolCall::FetchUrl { url } = self {
            Some(url)
        } else {
            None
        }
    }

    /// Returns whether the call may run for long, and is cancelled when its caller stops waiting
    /// for it.
    pub fn is_long_running(&self) -> bool {
        let may_take_long = matches!(
            self,
            ToolCall::ExecuteCode { .. }
                | ToolCall::FetchUrl { .. }
                | ToolCall::AskVendor { .. }
                | ToolCall::GenerateMedia { .. }
                | ToolCall::SpawnSubagents { .. }
                | ToolCall::CallServer(_)
        );
        may_take_long || self.command().is_some()
    }

    /// Replaces every path with the result of `map_path`, in the order of [`ToolCall::accesses`].
    /// Returns the first error.
    pub fn try_map<Q, E>(
        self,
        mut map_path: impl FnMut(P) -> Result<Q, E>,
    ) -> Result<ToolCall<Q>, E> {
        /// Each row: a variant, its paths in brackets, then the fields that are kept unchanged.
        macro_rules! mapped {
            ($($variant:ident [$($path:ident)*] $($rest:ident)*;)*) => {
                match self {
                    $(ToolCall::$variant { $($path,)* $($rest,)* } => ToolCall::$variant {
                        $($path: map_path($path)?,)*
                        $($rest,)*
                    },)*
                    ToolCall::CallServer(call) => ToolCall::CallServer(call.try_map(map_path)?),
                    ToolCall::ReadMultipleFiles { paths } => ToolCall::ReadMultipleFiles {
                        paths: paths.into_iter().map(map_path).collect::<Result<_, _>>()?,
                    },
                    ToolCall::ApplyPatch { files, text } => ToolCall::ApplyPatch {
                        files: files
                            .into_iter()
                            .map(|file| file.try_map(&mut map_path))
                            .collect::<Result<_, _>>()?,
                        text,
                    },
                    ToolCall::SpawnSubagents { tasks, dirs } => ToolCall::SpawnSubagents {
                        tasks,
                        dirs: dirs.into_iter().map(map_path).collect::<Result<_, _>>()?,
                    },
                }
            };
        }
        Ok(mapped! {
            ReadTextFile [path] lines form;
            WriteFile [path] content;
            EditFile [path] edits mode;
            CreateDirectory [path];
            ListDirectory [path];
            DirectoryTree [path] exclude;
            MoveFile [source destination];
            SearchFiles [path] pattern exclude;
            GrepFiles [path] grep;
            ReadMediaFile [path];
            GetFileInfo [path];
            CopyFile [source destination] existing;
            CopyFilesBatch [source destination] selection existing;
            DeleteFile [path] recursion;
            DeleteFilesBatch [path] selection;
            CompareFiles [first second] context_lines;
            CompareDirectories [first second] content;
            ListAllowedDirectories [];
            ExecuteCommand [dir] command timeout_seconds answer;
            StartBackgroundCommand [dir] command;
            GetBackgroundOutput [] id offset;
            GetBackgroundStatus [] id;
            StopBackgroundCommand [] id;
            ListBackgroundCommands [];
            ExecuteCode [] code timeout_seconds;
            FetchUrl [] url;
            AskVendor [] tool request;
            GenerateMedia [path] order;
            UpdatePlan [] plan;
        })
    }
}
