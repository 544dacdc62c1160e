//! Opens the records of a run: new ones, or those of the interrupted turn that it resumes.

use crate::config::Config;
use crate::error::Result;
use crate::layout::{RunLayout, WorkspaceOwner};
use crate::orchestrator::resumed_turn::ResumedTurn;
use crate::orchestrator::run_directories::replay_manifest;
use crate::path::AbsPath;
use crate::world::store::diagnostic_log::{self, DiagnosticLog, LogDetail};
use crate::world::store::records::Recorder;
use crate::world::store::records::metadata::{self, RunMetadata};
use crate::world::store::records::record_paths::RunRecordPaths;
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::session::{Session, TurnContext};

/// Command line and config with which a run was started.
#[derive(Clone, Debug, Default)]
pub struct RunInvocation {
    /// The config file, if there was one.
    pub config_path: Option<AbsPath>,
    /// The config's text, before variables were expanded.
    pub config_text: Option<String>,
    /// The files that later runs obey in the same way: the config, and those of other teams.
    pub own_files: Vec<AbsPath>,
    /// The command-line arguments.
    pub arguments: Vec<String>,
    /// How much is logged.
    pub detail: LogDetail,
}

/// Context of a run for its records.
#[derive(Clone, Copy)]
pub(super) struct RecordContext<'a> {
    pub(super) config: &'a Config,
    pub(super) layout: &'a RunLayout,
    pub(super) session: &'a Session,
    pub(super) turn_context: &'a TurnContext,
    pub(super) task: &'a str,
    pub(super) redactor: &'a Redactor,
}

impl RecordContext<'_> {
    /// Starts the records, or resumes those of the interrupted turn.
    pub(super) fn open_records(
        self,
        paths: RunRecordPaths,
        resumed: Option<ResumedTurn>,
        invocation: RunInvocation,
    ) -> Result<(Recorder, DiagnosticLog)> {
        // Before the log exists, which others may follow.
        metadata::write_limits(paths.turn(), &self.config.limits)?;
        match resumed {
            None => self.start_records(paths, invocation),
            Some(resumed) => self.resume_records(paths, resumed, invocation.detail),
        }
    }

    /// Starts the records.
    fn start_records(
        self,
        paths: RunRecordPaths,
        invocation: RunInvocation,
    ) -> Result<(Recorder, DiagnosticLog)> {
        let meta = RunMetadata {
            query: self.task.to_owned(),
            config_path: invocation.config_path,
            config: invocation.config_text,
            cli_args: invocation.arguments,
            cwd: self.turn_context.cwd.clone(),
            session_id: self.session.id(),
        };
        let log_guard =
            diagnostic_log::begin(paths.turn(), invocation.detail, self.redactor.clone())?;
        let opened_paths = &self.turn_context.opened;
        let manifest = replay_manifest(&meta, self.layout, self.config, opened_paths)?;
        let mut recorder = Recorder::start(paths, &meta, self.redactor.clone())?;
        recorder.write_manifest(&manifest)?;
        let workspaces = self.layout.workspaces.values();
        let own_workspaces = workspaces
            .filter(|workspace| workspace.owner == WorkspaceOwner::Massgen)
            .map(|workspace| workspace.path.clone());
        recorder.add_unsynced([self.session.turn_dir()]);
        recorder.add_unsynced(own_workspaces);
        Ok((recorder, log_guard))
    }

    /// Resumes the records of the interrupted turn.
    fn resume_records(
        self,
        paths: RunRecordPaths,
        resumed: ResumedTurn,
        detail: LogDetail,
    ) -> Result<(Recorder, DiagnosticLog)> {
        let ResumedTurn { log, events, .. } = resumed;
        let log_guard = diagnostic_log::begin(paths.turn(), detail, self.redactor.clone())?;
        let redactor = self.redactor.clone();
        let recorder = Recorder::resume(paths, log, self.session.id(), &events, redactor)?;
        Ok((recorder, log_guard))
    }
}
