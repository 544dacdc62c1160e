//! Finds the file that a path means if there is none of that very name: models and people write names
//! in the usual form, files have others.

use std::path::Path;

use crate::path::RealPath;
use crate::permissions::grant::Permission;
use crate::permissions::path_rules::CallApproval;
use crate::text::name_spelling::may_be_respelled;
use crate::tools::call::{FinalSymlink, UserPath};
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::access::policy::ParentDirPolicy;
use crate::world::access::verdict::{AccessRefusal, PathError};
use crate::world::io::files::respelled_below;
use crate::world::sys::follow::FollowedPath;

/// The part of the real path that could be resolved, and the resolved path if the access is allowed.
type PathResolution = (Option<RealPath>, Result<ResolvedPath, PathError>);

impl Gate {
    /// Resolves as much of `path` as exists. The access must be allowed both to the path as written
    /// and to the one that it means.
    pub(super) fn resolve_path(
        &self,
        path: &UserPath,
        requested: Permission,
        link: FinalSymlink,
        approval: CallApproval,
    ) -> PathResolution {
        let resolve = |path: &Path| self.resolve_spelling(path, requested, link, approval);
        let (real, outcome) = resolve(Path::new(path.as_str()));
        let respelled = outcome
            .as_ref()
            .ok()
            .filter(|_| may_be_respelled(path.as_str()))
            .and_then(|resolved| {
                let below = respelled_below(resolved.dir(), &resolved.below())?;
                Some(resolved.grant().root.join(&below))
            });
        match respelled {
            Some(respelled) => resolve(respelled.as_path()),
            None => (real, outcome),
        }
    }

    /// Resolves as much of `path` as exists, as it is spelled.
    fn resolve_spelling(
        &self,
        path: &Path,
        requested: Permission,
        link: FinalSymlink,
        approval: CallApproval,
    ) -> PathResolution {
        let refuse = |refusal| Err(PathError::Refused(refusal));
        let spelling = path.to_string_lossy();
        if spelling.split(['/', '\\']).any(|name| name == "..")
            && self.state.policy.parent_dirs == ParentDirPolicy::Refused
        {
            let refusal = AccessRefusal::new("parent-names", "`..` is not allowed in a path");
            return (None, refuse(refusal));
        }
        let followed = self
            .state
            .policy
            .follow(&self.state.follow_base, path, link);
        let (real, obstacle) = match followed {
            Ok(FollowedPath::Place(real)) => (real, None),
            Ok(FollowedPath::Blocked(real, obstacle)) => (real, Some(obstacle)),
            Ok(FollowedPath::Broken) => return (None, refuse(AccessRefusal::outside())),
            Err(error) if error.is_exhaustion() => return (None, Err(PathError::Exhausted(error))),
            Err(error) => {
                let refusal = AccessRefusal::new("not-followed", error.to_string());
                return (None, refuse(refusal));
            }
        };
        let decision = self.decide(&real, requested, link, approval);
        let mut outcome = decision.map_err(PathError::Refused);
        if let (Ok(_), Some(obstacle)) = (&outcome, obstacle) {
            outcome = refuse(AccessRefusal::new("not-followed", obstacle.to_string()));
        }
        (Some(real), outcome)
    }
}
