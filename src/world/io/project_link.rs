//! Detects that a path of the user leads through a symlink of a project to a place that its name
//! does not show. A project may have come with such symlinks, for example by `git clone`.

use std::iter;

use crate::error::Result;
use crate::mentions::LookupResult;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::protected::{is_within_folded, protected_name};
use crate::text::escape_name;
use crate::world::io::files::inspect;
use crate::world::io::locate::{LocatedPath, locate};

/// Where the user is: it decides which directories are projects.
#[derive(Clone, Copy, Debug)]
pub struct UserLocation<'a> {
    /// The user's current directory.
    pub base: &'a AbsPath,
    /// The user's home directory, if it is known.
    pub home: Option<&'a AbsPath>,
}

/// The place to which symlinks of a project lead, other than the path says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectLink {
    /// An ordinary place of the project.
    Inside,
    /// A detour: the user must confirm it.
    Detour(LinkDetour),
}

impl ProjectLink {
    /// Returns the detour, if the user must confirm it.
    pub fn detour(self) -> Option<LinkDetour> {
        match self {
            ProjectLink::Inside => None,
            ProjectLink::Detour(detour) => Some(detour),
        }
    }
}

/// A place to which a name in a project must not lead without a confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkDetour {
    /// A place outside of this project.
    Outside(RealPath),
    /// A place in the project where this name is protected.
    Protected(&'static str),
}

impl LinkDetour {
    /// Describes the way from `path` to `target`.
    pub fn describe(&self, path: &AbsPath, target: &RealPath) -> String {
        let path = escape_name(&path.to_string());
        let target = escape_name(&target.to_string());
        match self {
            LinkDetour::Outside(project) => format!(
                "`{path}` leads through a symlink out of `{}`, to `{target}`",
                escape_name(&project.to_string())
            ),
            LinkDetour::Protected(name) => format!(
                "`{path}` leads through a symlink to `{target}`, where `{name}` is protected"
            ),
        }
    }
}

/// Returns the description of the detour that `path` makes, if it makes one.
///
/// # Errors
/// `path` or the current directory cannot be resolved.
pub fn describe_detour(path: &AbsPath, location: UserLocation<'_>) -> Result<Option<String>> {
    let (located, link) = follow_user_path(path, location)?;
    let detour = link.and_then(ProjectLink::detour);
    Ok(detour.map(|detour| detour.describe(path, &located.into_real())))
}

/// Resolves `path`, and determines whether symlinks of a project lead it elsewhere than it says: a
/// detour leaves the project, or goes to a protected name that `path` itself does not contain.
/// Symlinks outside of projects are the user's own.
///
/// # Errors
/// `path` or the current directory cannot be resolved.
pub fn follow_user_path(
    path: &AbsPath,
    location: UserLocation<'_>,
) -> Result<(LocatedPath, Option<ProjectLink>)> {
    let located = locate(path)?;
    let real = located.clone().into_real();
    let link = project_link(path, &real, location)?;
    Ok((located, link))
}

/// Returns where symlinks of a project lead on the way from `path` to `real`.
fn project_link(
    path: &AbsPath,
    real: &RealPath,
    location: UserLocation<'_>,
) -> Result<Option<ProjectLink>> {
    let mut link = None;
    let base = locate(location.base)?.into_real();
    let is_base_a_project = !parents(&base.to_abs()).any(|dir| is_repository(&dir, location.home));
    for directory in parents(path) {
        let is_project = is_repository(&directory, location.home);
        if !is_project && !is_base_a_project {
            continue;
        }
        let root = locate(&directory)?.into_real();
        if !is_project && root != base {
            continue;
        }
        let named = path.below(&directory).unwrap_or_default();
        let Some(reached) = real.below(&root) else {
            return Ok(Some(ProjectLink::Detour(LinkDetour::Outside(root))));
        };
        if is_within_folded(&named, &reached) && is_within_folded(&reached, &named) {
            continue;
        }
        let protected = protected_root(&reached);
        if protected != protected_root(&named)
            && let Some(name) = protected.and_then(|root| protected_name(&root, &[]))
        {
            return Ok(Some(ProjectLink::Detour(LinkDetour::Protected(name))));
        }
        link = Some(ProjectLink::Inside);
    }
    Ok(link)
}

/// Returns `path` and the directories above it.
fn parents(path: &AbsPath) -> impl Iterator<Item = AbsPath> {
    iter::successors(Some(path.clone()), AbsPath::parent)
}

/// Returns whether `directory` is the top of a repository. A home directory under version control,
/// or one above it, is more than a project.
fn is_repository(directory: &AbsPath, home: Option<&AbsPath>) -> bool {
    home.is_none_or(|home| !home.is_within(directory))
        && inspect(&directory.join(".git")) != LookupResult::Missing
}

/// Returns the part of `path` that ends with its first protected name.
fn protected_root(path: &RelPath) -> Option<RelPath> {
    iter::successors(Some(path.clone()), RelPath::parent)
        .take_while(|path| protected_name(path, &[]).is_some())
        .last()
}
