//! Owns what a seat is told: its part, where it may write, what it is to leave, and what earlier roles
//! have left, within a budget. It is the same text whenever the same part begins.

use crate::config::Config;
use crate::error::Result;
use crate::path::RelPath;
use crate::pipeline::ground::{CUMULATIVE, Ground, SHARED, TASK};
use crate::pipeline::seat::{Reach, Seat};
use crate::roles::context::{Document, Told, within};
use crate::roles::sections::{ASSUMPTION, OPEN_QUESTIONS, PART, SELF_REVIEW, parts};
use crate::roles::table::{UNDERSTAND, USER};
use crate::roles::trail::{Entry, Merge};
use crate::roles::{Pipeline, Right, Role, Stage};
use crate::world::git::object::ObjectId;

/// The largest file that is told, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 256 * 1024;
/// The most files of a role that are told or named.
const FILES_MAX: usize = 200;
/// The most files that are named of what the pipeline has changed.
const CHANGED_NAMED_MAX: usize = 200;

/// What a pipeline has come to when a part begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now<'a> {
    pub(super) ground: &'a Ground,
    pub(super) pipeline: &'a Pipeline,
    /// The newest commit of the shared branch.
    pub(super) tip: &'a ObjectId,
    /// What that branch says of the course.
    pub(super) trail: &'a [(Entry, String)],
}

impl Now<'_> {
    /// The parts of the plan that copies of a role work on at the same time; empty if there are none.
    pub(super) async fn parts_for(&self, stage: usize) -> Result<Vec<String>> {
        for earlier in self.pipeline.told_to(stage) {
            if let Some(plan) = self.output(&earlier.role).await? {
                let found = parts(&plan);
                if found.len() > 1 {
                    return Ok(found);
                }
            }
        }
        Ok(Vec::new())
    }

    /// What `role` has left for others, if it has.
    async fn output(&self, role: &Role) -> Result<Option<String>> {
        let Some(output) = &role.output else {
            return Ok(None);
        };
        let path = self.ground.directory_of(&role.name);
        self.text(&path.join(&RelPath::new(output).unwrap_or_default()))
            .await
    }

    async fn text(&self, path: &RelPath) -> Result<Option<String>> {
        let hub = &self.ground.hub;
        let tree = hub.tree_of(self.tip).await?;
        let bytes = hub.file(&tree, path, DOCUMENT_BYTES_MAX).await?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// What the agents of a seat are told in the place of a task; `part` is its part of the plan.
    pub(super) async fn question(
        &self,
        (stage, seat): (&Stage, &Seat),
        config: &Config,
        part: Option<&str>,
    ) -> Result<String> {
        let mut told = vec![self.role_text(stage, seat, part)];
        let has_commands = stage.role.may(Right::Bash);
        let reach = Reach::of(&stage.role, &self.ground.record.directory);
        told.push(place_text(&reach, has_commands));
        if let Some(output) = seat.output(&stage.role) {
            let dir = self.ground.directory_of(&stage.role.name);
            let path = dir.join(&RelPath::new(&output).unwrap_or_default());
            told.push(format!(
                "Leave `{path}` for the roles after you: write it again if it is there from an \
                 earlier iteration."
            ));
        }
        told.push(ending(&stage.role, self.pipeline));
        if !config.checks.list.is_empty() {
            let checks: Vec<&str> = (config.checks.list.iter())
                .map(|check| check.command.as_str())
                .collect();
            told.push(format!(
                "Before your work is merged, these commands are run on the whole tree and must \
                 pass: {}",
                checks.join("; ")
            ));
        }
        told.push(self.documents(seat).await?);
        Ok(told.join("\n\n"))
    }

    fn role_text(&self, stage: &Stage, seat: &Seat, part: Option<&str>) -> String {
        let role = &stage.role;
        let stages = self.pipeline.stages.iter();
        let names: Vec<&str> = stages.map(|stage| stage.role.name.as_str()).collect();
        let mut text = format!(
            "You are the role `{}` in a pipeline of roles that build one thing in stages: {}. This \
             is iteration {} of at most {}.",
            role.name,
            names.join(", "),
            seat.iteration,
            self.pipeline.iterations_max
        );
        let prompt = role.prompt.as_deref().unwrap_or(&role.purpose);
        text.push_str("\n\n");
        text.push_str(prompt.trim());
        let copies = self.pipeline.stages.iter().map(|stage| stage.copies).max();
        let copies = copies.unwrap_or(1);
        if copies > 1 && role.name.as_str() == "planner" {
            text.push_str(&format!(
                "\n\nUp to {copies} implementers work at the same time. Divide the plan into \
                 sections `## {PART} 1` to `## {PART} {copies}` that touch different files; each \
                 implementer is given one."
            ));
        }
        if let Some(part) = part {
            text.push_str(&format!(
                "\n\nYou are copy {} of {} of this role; all work at the same time. Do this part of \
                 the plan and leave the others to the others:\n\n{}",
                seat.copy,
                seat.copies,
                part.trim()
            ));
        }
        text
    }

    /// What earlier roles have left, the most important first.
    async fn documents(&self, seat: &Seat) -> Result<String> {
        let mut documents = Vec::new();
        for name in [TASK, SHARED] {
            self.add(&self.ground.shared_file(name), &mut documents).await?;
        }
        if let Some((iteration, text)) = self.feedback(seat.iteration) {
            documents.push(Document {
                path: format!("feedback of iteration {iteration}"),
                text: text.to_owned(),
            });
        }
        let earlier = self.pipeline.told_to(seat.stage);
        for stage in &earlier {
            self.add_output(&stage.role, &mut documents).await?;
        }
        if let Some(own) = self.pipeline.stage(seat.stage).filter(|_| seat.iteration > 1) {
            self.add_output(&own.role, &mut documents).await?;
        }
        for stage in &earlier {
            self.add_files(&stage.role, &mut documents).await?;
        }
        self.add(&self.ground.shared_file(CUMULATIVE), &mut documents).await?;
        let budget = self.pipeline.context_tokens_max;
        let mut text = String::from("What the roles before you have left:\n");
        for told in within(documents, budget) {
            text.push_str(&match told {
                Told::Whole(document) => element(&document, ""),
                Told::Beginning(document) => element(&document, " only_the_beginning=\"true\""),
                Told::Named(path) => format!("\n(`{path}` is there too; read it if you need it)\n"),
            });
        }
        text.push_str(&self.changed().await?);
        Ok(text)
    }

    /// What the role whose word ends the pipeline said at the end of the last iteration.
    fn feedback(&self, iteration: u32) -> Option<(u32, &str)> {
        let before = iteration.checked_sub(1)?;
        let until = self.pipeline.until.as_ref()?;
        self.trail.iter().rev().find_map(|(entry, text)| match entry {
            Entry::Merge(Merge {
                iteration, role, ..
            }) if *iteration == before && role == until => Some((before, text.as_str())),
            _ => None,
        })
    }

    async fn add(&self, path: &RelPath, documents: &mut Vec<Document>) -> Result<()> {
        let is_known = documents
            .iter()
            .any(|known| known.path == path.to_string());
        if let Some(text) = self.text(path).await?.filter(|_| !is_known) {
            documents.push(Document {
                path: path.to_string(),
                text,
            });
        }
        Ok(())
    }

    /// Adds what `role` leaves; of one that leaves no file, what it answered last.
    async fn add_output(&self, role: &Role, documents: &mut Vec<Document>) -> Result<()> {
        let dir = self.ground.directory_of(&role.name);
        if let Some(output) = &role.output {
            let path = dir.join(&RelPath::new(output).unwrap_or_default());
            return self.add(&path, documents).await;
        }
        let last = self.trail.iter().rev().find_map(|(entry, text)| match entry {
            Entry::Merge(merge) if merge.role == role.name => Some(text),
            _ => None,
        });
        if let Some(text) = last.filter(|_| role.name.as_str() != UNDERSTAND) {
            documents.push(Document {
                path: format!("answer of {}", role.name),
                text: text.clone(),
            });
        }
        Ok(())
    }

    /// Adds the other files in the directory of `role`.
    async fn add_files(&self, role: &Role, documents: &mut Vec<Document>) -> Result<()> {
        let dir = self.ground.directory_of(&role.name);
        let tree = self.ground.hub.tree_of(self.tip).await?;
        let files = self.ground.hub.files_below(&tree, &dir).await?;
        for file in files.iter().take(FILES_MAX) {
            let path = dir.join(&RelPath::new(file).unwrap_or_default());
            self.add(&path, documents).await?;
        }
        Ok(())
    }

    /// The names of files outside the roles' directories that the pipeline has changed in a project.
    async fn changed(&self) -> Result<String> {
        let head = self.ground.record.project.as_ref();
        let head = head.and_then(|project| ObjectId::parse(project.head.as_ref()?));
        let Some(head) = head else {
            return Ok(String::new());
        };
        let directory = &self.ground.record.directory;
        let changed = self.ground.hub.changed(&head, self.tip).await?;
        let is_work = |path: &String| {
            RelPath::new(path).is_some_and(|path| directory.is_root() || !path.is_within(directory))
        };
        let names: Vec<String> = changed
            .into_iter()
            .map(|changed| changed.path)
            .filter(is_work)
            .collect();
        if names.is_empty() {
            return Ok(String::new());
        }
        let shown = names.get(..CHANGED_NAMED_MAX).unwrap_or(&names);
        let more = names.len().saturating_sub(shown.len());
        let more = if more > 0 {
            format!(", and {more} more")
        } else {
            String::new()
        };
        let list = shown.join(", ");
        Ok(format!(
            "\nFiles of the project that the pipeline has changed so far: {list}{more}\n"
        ))
    }
}

fn element(document: &Document, more: &str) -> String {
    let Document { path, text } = document;
    format!("\n<document path=\"{path}\"{more}>\n{}\n</document>\n", text.trim_end())
}

/// Says where a role may write.
fn place_text(reach: &Reach, has_commands: bool) -> String {
    let name = |dir: &RelPath| match dir.is_root() {
        true => "the whole tree".to_owned(),
        false => format!("`{dir}/`"),
    };
    let mut text = String::from(
        "You stand in a checkout of the tree that all roles share. You may read all of it. ",
    );
    if reach.write.is_empty() {
        text.push_str("You write no files: your answer is what you leave.");
        return text;
    }
    let write: Vec<String> = reach.write.iter().map(name).collect();
    text.push_str(&format!("You may write only in {}", write.join(" and ")));
    if !reach.read.is_empty() {
        let read: Vec<String> = reach.read.iter().map(name).collect();
        text.push_str(&format!(", but not elsewhere in {}", read.join(", ")));
    }
    text.push('.');
    if has_commands {
        text.push_str(
            " Commands are held to that too: what builds write elsewhere goes to `$TMPDIR`. There \
             is a git repository of your own; massgen takes up the files, not your commits.",
        );
    }
    text
}

/// Says what an answer ends with.
fn ending(role: &Role, pipeline: &Pipeline) -> String {
    let mut text = String::new();
    if role.name.as_str() == UNDERSTAND {
        text.push_str(&format!(
            "List what is unclear in a section `## {OPEN_QUESTIONS}` of your answer, each as an item \
             `- question` with a line `  {ASSUMPTION} …` below it, which holds if nobody answers. "
        ));
    }
    if pipeline.until.as_ref() == Some(&role.name) || role.name.as_str() == USER {
        text.push_str(
            "If the work is good, begin your answer with a line that holds `SATISFIED` and nothing \
             else. If it is not, say what you tried, what happened and what you expected instead. ",
        );
    }
    text.push_str(&format!(
        "Let the first line of your answer say what you did, and end it with a section `## {SELF_REVIEW}` of three items: what was missing, what would \
         have helped, and how sure you are, from 1 to 10."
    ));
    text
}
