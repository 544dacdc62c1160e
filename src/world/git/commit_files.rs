//! The files of a commit of a user's repository, written to another directory. The repository is
//! only read, and nothing of its settings applies.

use crate::config::storage_path::STATE_DIR;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::git::project::ProjectRepository;
use crate::world::git::{GitInvocation, GitProgram};

impl ProjectRepository {
    /// Writes the files of `commit`, a full name, into the empty directory `target`, without a
    /// state directory of massgen; `scratch` is an empty directory for git's own files.
    pub async fn write_commit_files(
        &self,
        git: &GitProgram,
        commit: &str,
        target: &AbsPath,
        scratch: &AbsPath,
    ) -> Result<()> {
        let (repository, index) = (scratch.join("repository"), scratch.join("index"));
        let (git_dir, index, tree) = (
            repository.to_string(),
            index.to_string(),
            target.to_string(),
        );
        let objects = self.objects.to_string();
        let format = format!("--object-format={}", self.format);
        let init = ["init", "--quiet", "--bare", &format, &git_dir];
        git.run(GitInvocation::new(scratch, &init)).await?;
        let env = [
            ("GIT_DIR", git_dir.as_str()),
            ("GIT_WORK_TREE", &tree),
            ("GIT_INDEX_FILE", &index),
            ("GIT_OBJECT_DIRECTORY", &objects),
        ];
        let commit_name = format!("{commit}^{{commit}}");
        for (step, arguments) in [
            &["read-tree", commit_name.as_str()][..],
            // A state directory in a commit is not the cell's.
            &[
                "rm",
                "-r",
                "--force",
                "--cached",
                "--quiet",
                "--ignore-unmatch",
                "--",
                STATE_DIR,
            ],
            &["checkout-index", "--all", "--quiet"],
        ]
        .into_iter()
        .enumerate()
        {
            let invocation = GitInvocation {
                env: &env,
                ..GitInvocation::new(target, arguments)
            };
            git.run(invocation).await.map_err(|error| {
                if step > 0 {
                    return error;
                }
                let message = format!("`{}` has no commit `{commit}`", self.root);
                Error::new(ErrorKind::Usage, message)
                    .with_source(error)
                    .with_hint("fetch it, or correct `commit` of the task")
            })?;
        }
        Ok(())
    }
}
