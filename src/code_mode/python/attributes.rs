//! Checks the attributes that a Python program uses: those that lead from values to frames, classes
//! and modules are refused, and so are the closed members of a module.

use crate::code_mode::language::PythonLibraries;
use crate::code_mode::lint::excerpt;
use crate::code_mode::python::modules::find_module;
use crate::code_mode::python::names::{HELD, LEADING_AWAY, PLAIN, PUBLIC, WALKS};

/// The objection to a refused name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LintObjection {
    /// What was found, and why it is refused.
    pub(super) found: String,
    /// What to write instead.
    pub(super) instead: &'static str,
}

/// The object that an attribute belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AttributeOwner {
    /// The object whose own method accesses it.
    SelfObject,
    /// Any other object.
    Other,
}

/// Returns the objection to an attribute of this name, if any.
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

/// Returns the objection to `member` of a listed module, if any.
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

/// Returns whether a name has a special meaning in Python (`__name__`).
pub(super) fn is_special(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}
