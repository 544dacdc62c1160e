//! Owns which attributes a Python program may name: what leads from values to frames, classes and
//! modules is refused, and so are the members that a module's entry closes.

use crate::programs::dialect::Libraries;
use crate::programs::finding::excerpt;
use crate::programs::python::modules::find;
use crate::programs::python::names::{HELD, LEADING_AWAY, PLAIN, PUBLIC, WALKS};

/// What is said of a name that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Objection {
    /// What stands there, and why that is refused.
    pub(super) found: String,
    /// What to write instead.
    pub(super) instead: &'static str,
}

/// Whose attribute it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// Of the object whose own method asks.
    Itself,
    /// Of any other.
    Other,
}

/// What is wrong with an attribute of this name.
pub(super) fn attribute(name: &str, owner: Owner) -> Option<Objection> {
    let special = is_special(name);
    let why = if special && !PLAIN.contains(&name) || LEADING_AWAY.contains(&name) {
        "leads to what lies behind objects"
    } else if HELD.contains(&name) {
        "is a module that is not open to programs"
    } else if name.starts_with('_') && !special && owner == Owner::Other && !PUBLIC.contains(&name)
    {
        "is private to what it belongs to"
    } else {
        return None;
    };
    Some(Objection {
        found: format!("{} {why}", excerpt(name)),
        instead: WALKS,
    })
}

/// What is wrong with `member` of a listed module.
pub(super) fn member(libraries: Libraries, module: &str, member: &str) -> Option<Objection> {
    let closed = find(libraries, module).is_some_and(|module| !module.opens(member));
    if closed {
        return Some(Objection {
            found: format!("{} is closed", excerpt(&format!("{module}.{member}"))),
            instead: WALKS,
        });
    }
    attribute(member, Owner::Other)
}

/// Whether Python gives a name a meaning of its own.
pub(super) fn is_special(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}
