//! The prompt of a role instance: what it does, where it may write, which file it leaves for later
//! roles, and what earlier roles have left, within a budget. The same stage run always has the same
//! prompt.

use crate::config::Config;
use crate::error::Result;
use crate::path::RelPath;
use crate::pipeline::instructions;
use crate::pipeline::repository::{
    CUMULATIVE_FILE, PipelineRepository, SHARED_FILE, TASK_FILE, base_commit,
};
use crate::pipeline::role_instance::{RoleInstance, WriteScope};
use crate::prompts::untrusted_text::{TextFrame, UntrustedText};
use crate::roles::built_in::UNDERSTAND;
use crate::roles::context::{DocumentInclusion, StageDocument, select_documents};
use crate::roles::journal::JournalEntry;
use crate::roles::sections::plan_parts;
use crate::roles::{PipelineRole, PipelineSpec, PipelineStage, RoleRight};
use crate::world::git::object::ObjectId;

/// Maximum size of a file that is included, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 256 * 1024;
/// Maximum number of files of a role that are included or named.
const FILES_MAX: usize = 200;
/// Maximum number of files changed by the pipeline that are named.
const CHANGED_NAMED_MAX: usize = 200;

/// The state of a pipeline when a stage run starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PipelineState<'a> {
    pub(super) repository: &'a PipelineRepository,
    pub(super) pipeline: &'a PipelineSpec,
    /// The newest commit of the shared branch, and its tree.
    pub(super) tip: &'a ObjectId,
    pub(super) tree: &'a ObjectId,
    /// The journal entries of that branch.
    pub(super) journal: &'a [(JournalEntry, String)],
}

impl PipelineState<'_> {
    /// Returns the parts of the plan that copies of a role work on at the same time; empty if there
    /// are none.
    pub(super) async fn plan_parts(&self, stage: usize) -> Result<Vec<String>> {
        for earlier_stage in self.pipeline.context_stages(stage) {
            if let Some(plan) = self.role_output(&earlier_stage.role).await? {
                let parts = plan_parts(&plan);
                if parts.len() > 1 {
                    return Ok(parts);
                }
            }
        }
        Ok(Vec::new())
    }

    /// Returns the file that `role` has left for others, if there is one.
    async fn role_output(&self, role: &PipelineRole) -> Result<Option<String>> {
        let Some(output) = &role.output else {
            return Ok(None);
        };
        let dir = self.repository.role_directory(&role.name);
        self.read_text(&dir.join(&RelPath::new(output).unwrap_or_default()))
            .await
    }

    async fn read_text(&self, path: &RelPath) -> Result<Option<String>> {
        let bare_repository = &self.repository.bare_repository;
        let bytes = bare_repository
            .file(self.tree, path, DOCUMENT_BYTES_MAX)
            .await?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// Returns the prompt of an instance's agents, in place of a task; `part` is its part of the
    /// plan.
    pub(super) async fn question(
        &self,
        stage: &PipelineStage,
        instance: &RoleInstance,
        config: &Config,
        part: Option<&str>,
    ) -> Result<String> {
        let mut paragraphs = instructions::role_instructions(self.pipeline, stage, instance, part);
        let has_commands = stage.role.has_right(RoleRight::Bash);
        let write_scope = WriteScope::for_role(&stage.role, &self.repository.record.directory);
        paragraphs.push(instructions::write_instructions(&write_scope, has_commands));
        if let Some(output) = instance.output_path(&stage.role) {
            let dir = self.repository.role_directory(&stage.role.name);
            let path = dir.join(&RelPath::new(&output).unwrap_or_default());
            paragraphs.push(format!(
                "Leave `{path}` for the roles after you: write it again if it is there from an \
                 earlier iteration."
            ));
        }
        paragraphs.push(instructions::answer_instructions(
            &stage.role,
            self.pipeline,
        ));
        if !config.checks.list.is_empty() {
            let checks: Vec<&str> = (config.checks.list.iter())
                .map(|check| check.command.as_str())
                .collect();
            paragraphs.push(format!(
                "Before your work is merged, these commands are run on the whole tree and must \
                 pass: {}",
                checks.join("; ")
            ));
        }
        paragraphs.push(self.describe_documents(instance).await?);
        Ok(paragraphs.join("\n\n"))
    }

    /// Returns what earlier roles have left, the most important first.
    async fn describe_documents(&self, instance: &RoleInstance) -> Result<String> {
        let mut documents = Vec::new();
        for name in [TASK_FILE, SHARED_FILE] {
            self.add_document(&self.repository.shared_file(name), &mut documents)
                .await?;
        }
        if let Some((iteration, text)) = self.feedback(instance.iteration) {
            documents.push(StageDocument {
                path: format!("feedback of iteration {iteration}"),
                text: text.to_owned(),
            });
        }
        let earlier_stages = self.pipeline.context_stages(instance.stage);
        for stage in &earlier_stages {
            self.add_output(&stage.role, &mut documents).await?;
        }
        if let Some(own_stage) = self
            .pipeline
            .stage(instance.stage)
            .filter(|_| instance.iteration > 1)
        {
            self.add_output(&own_stage.role, &mut documents).await?;
        }
        for stage in &earlier_stages {
            self.add_files(&stage.role, &mut documents).await?;
        }
        self.add_document(
            &self.repository.shared_file(CUMULATIVE_FILE),
            &mut documents,
        )
        .await?;
        let budget = self.pipeline.context_tokens_max;
        let elements = select_documents(documents, budget)
            .into_iter()
            .map(|inclusion| match inclusion {
                DocumentInclusion::Full(document) => document_element(&document, ""),
                DocumentInclusion::Excerpt(document) => {
                    document_element(&document, " only_the_beginning=\"true\"")
                }
                DocumentInclusion::Omitted(path) => {
                    let path = UntrustedText::from(path).in_backticks();
                    format!("\n({path} is there too; read it if you need it)\n")
                }
            });
        let elements: String = elements.collect();
        let changes = self.describe_changes().await?;
        Ok(format!(
            "What the roles before you have left:\n{elements}{changes}"
        ))
    }

    /// Returns the answer, at the end of the last iteration, of the role that decides about the end
    /// of the pipeline.
    fn feedback(&self, iteration: u32) -> Option<(u32, &str)> {
        let previous_iteration = iteration.checked_sub(1)?;
        let until = self.pipeline.until.as_ref()?;
        self.journal.iter().rev().find_map(|(entry, text)| {
            let merge = entry.merge()?;
            let is_previous = merge.iteration == previous_iteration && merge.role == *until;
            is_previous.then_some((previous_iteration, text.as_str()))
        })
    }

    async fn add_document(&self, path: &RelPath, documents: &mut Vec<StageDocument>) -> Result<()> {
        let name = path.to_string();
        if documents.iter().any(|document| document.path == name) {
            return Ok(());
        }
        let text = self.read_text(path).await?;
        documents.extend(text.map(|text| StageDocument { path: name, text }));
        Ok(())
    }

    /// Adds the file that `role` leaves, or its last answer if it leaves none.
    async fn add_output(
        &self,
        role: &PipelineRole,
        documents: &mut Vec<StageDocument>,
    ) -> Result<()> {
        let dir = self.repository.role_directory(&role.name);
        if let Some(output) = &role.output {
            let path = dir.join(&RelPath::new(output).unwrap_or_default());
            return self.add_document(&path, documents).await;
        }
        let last_answer = self.journal.iter().rev().find_map(|(entry, text)| {
            let merge = entry.merge()?;
            (merge.role == role.name).then_some(text)
        });
        // The answer of this role is in the shared understanding already.
        if let Some(text) = last_answer.filter(|_| role.name.as_str() != UNDERSTAND) {
            documents.push(StageDocument {
                path: format!("answer of {}", role.name),
                text: text.clone(),
            });
        }
        Ok(())
    }

    /// Adds the other files in the directory of `role`.
    async fn add_files(
        &self,
        role: &PipelineRole,
        documents: &mut Vec<StageDocument>,
    ) -> Result<()> {
        let dir = self.repository.role_directory(&role.name);
        let files = self
            .repository
            .bare_repository
            .files_below(self.tree, &dir)
            .await?;
        for file in files.iter().take(FILES_MAX) {
            let path = dir.join(&RelPath::new(file).unwrap_or_default());
            self.add_document(&path, documents).await?;
        }
        Ok(())
    }

    /// Returns the names of the project's files outside the roles' directories that the pipeline
    /// has changed.
    async fn describe_changes(&self) -> Result<String> {
        let Some(head) = base_commit(&self.repository.record) else {
            return Ok(String::new());
        };
        let directory = &self.repository.record.directory;
        let changed_files = self
            .repository
            .bare_repository
            .changed_files(&head, self.tip)
            .await?;
        let is_project_file = |path: &String| {
            RelPath::new(path).is_some_and(|path| directory.is_root() || !path.is_within(directory))
        };
        let names: Vec<String> = changed_files
            .into_iter()
            .map(|changed| changed.path)
            .filter(is_project_file)
            .collect();
        if names.is_empty() {
            return Ok(String::new());
        }
        let shown = names.iter().take(CHANGED_NAMED_MAX);
        let more_count = names.len().saturating_sub(shown.len());
        let more = if more_count > 0 {
            format!(", and {more_count} more")
        } else {
            String::new()
        };
        let quoted_names = shown.map(|name| UntrustedText::from(name.as_str()).in_backticks());
        let list = quoted_names.collect::<Vec<_>>().join(", ");
        Ok(format!(
            "\nFiles of the project that the pipeline has changed so far: {list}{more}\n"
        ))
    }
}

fn document_element(document: &StageDocument, more_attributes: &str) -> String {
    let StageDocument { path, text } = document;
    let path = UntrustedText::from(path.as_str()).in_quotes();
    let text = UntrustedText::from(text.as_str()).in_frame(
        TextFrame::Document,
        &format!(" path={path}{more_attributes}"),
    );
    format!("\n{text}\n")
}
