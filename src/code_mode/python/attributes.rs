//! Owns which attributes a Python program may name: what leads from values to frames, classes and
//! modules is refused, and so are the members that a module's entry closes.

use crate::code_mode::language::PythonLibraries;
use crate::code_mode::lint::excerpt;
use crate::code_mode::python::modules::find_module;
use crate::code_mode::python::names::{HELD, LEADING_AWAY, PLAIN, PUBLIC, WALKS};

/// What is said of a name that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LintObjection {
    /// What stands there, and why that is refused.
    pub(super) found: String,
    /// What to write instead.
    pub(super) instead: &'static str,
}

/// Whose attribute it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AttributeOwner {
    /// Of the object whose own method asks.
    SelfObject,
    /// Of any other.
    Other,
}

/// What is wrong with an attribute of this name.
pub(super) fn attribute_objection(name: &str, owner: AttributeOwner) -> Option<LintObjection> {
    let special = is_special(name);
    let why = if special && !PLAIN.contains(&name) || LEADING_AWAY.contains(&name) {
        "leads to what lies behind objects"
    } else if HELD.contains(&name) {
        "is a module that is not open to programs"
    } else if name.starts_with('_')
        && !special
        && owner == AttributeOwner::Other
        && !PUBLIC.contains(&name)
    {
        "is private to what it belongs to"
    } else {
        return None;
    };
    Some(LintObjection {
        found: format!("{} {why}", excerpt(name)),
        instead: WALKS,
    })
}

/// What is wrong with `member` of a listed module.
pub(super) fn member_objection(
    libraries: PythonLibraries,
    module: &str,
    member: &str,
) -> Option<LintObjection> {
    let closed =
        find_module(libraries, module).is_some_and(|module| !module.has_open_member(member));
    if closed {
        return Some(LintObjection {
            found: format!("{} is closed", excerpt(&format!("{module}.{member}"))),
            instead: WALKS,
        });
    }
    attribute_objection(member, AttributeOwner::Other)
}

/// Whether Python gives a name a meaning of its own.
pub(super) fn is_special(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}
