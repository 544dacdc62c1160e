//! Owns the look for files that hold secrets by their name, in what a run opens to its agents. It
//! reads no content, and finding nothing promises nothing.

use std::ffi::OsStr;

use crate::path::RealPath;
use crate::permissions::PathPermissionManager;
use crate::permissions::grant::{GrantKind, Permission, Scope};
use crate::permissions::history::is_generated;
use crate::permissions::protected::looks_secret;
use crate::world::sys::dir::Dir;
use crate::world::sys::meta::Kind;
use crate::world::sys::survey::{Found, Keep, Survey};

/// Names that are looked at in one context path, so that a huge tree does not delay a run.
const NAMES_MAX: usize = 20_000;

/// Files in the context paths that an agent may read and that look like secrets, sorted.
pub fn readable_secrets(manager: &PathPermissionManager) -> Vec<RealPath> {
    let context = manager
        .grants()
        .iter()
        .filter(|grant| grant.kind == GrantKind::Context);
    let mut found: Vec<RealPath> = context
        .flat_map(|grant| match grant.scope {
            Scope::File => vec![grant.root.clone()],
            Scope::Tree => secrets_below(&grant.root),
        })
        .filter(|path| path.name().is_some_and(looks_secret))
        .filter(|path| manager.allows(path, Permission::Read))
        .collect();
    found.sort();
    found.dedup();
    found
}

fn secrets_below(root: &RealPath) -> Vec<RealPath> {
    let Ok(start) = Dir::open(root) else {
        return Vec::new();
    };
    let mut names = 0_usize;
    let survey = Survey::of(&start, &mut |found| {
        names = names.saturating_add(1);
        keep(found, names)
    });
    survey
        .found
        .iter()
        .map(|found| root.join(&found.rel))
        .collect()
}

fn keep(found: &Found, names: usize) -> Keep {
    let name = found.rel.name().unwrap_or(OsStr::new(""));
    if found.kind == Kind::Directory {
        let pruned = names > NAMES_MAX || name == ".git" || is_generated(&found.rel);
        if pruned { Keep::Not } else { Keep::Deep }
    } else if found.kind == Kind::File && looks_secret(name) {
        Keep::Shallow
    } else {
        Keep::Not
    }
}
