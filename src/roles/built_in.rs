//! The table of built-in roles, which every config has: what each is for, what it may do and what
//! it leaves to others.

use crate::roles::{PipelineRole, RoleName, RoleReadAccess, RoleRight, RoleWriteAccess, prompts};

/// A built-in role.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInRole {
    /// Its name.
    pub name: &'static str,
    /// Its purpose, for people.
    pub purpose: &'static str,
    /// Its rights in addition to reading.
    pub rights: &'static [RoleRight],
    /// Where it may use them.
    pub location: RoleLocation,
    /// The file that it leaves in its directory; massgen itself writes that of `understand`.
    pub output: Option<&'static str>,
}

/// Where a built-in role works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleLocation {
    /// In its own directory, named after the role.
    OwnDirectory,
    /// In the project, where the work is.
    Project,
}

/// The role that asks questions before any other works.
pub const UNDERSTAND: &str = "understand";
/// The role that uses the result, and whose verdict ends a pipeline.
pub const USER: &str = "user";

/// The built-in roles in their default order.
pub const ROLES: &[BuiltInRole] = &[
    BuiltInRole {
        name: UNDERSTAND,
        purpose: "collects requirements and open questions; changes nothing",
        rights: &[],
        location: RoleLocation::OwnDirectory,
        output: None,
    },
    BuiltInRole {
        name: "planner",
        purpose: "reads the project and writes the plan",
        rights: &[RoleRight::Write],
        location: RoleLocation::OwnDirectory,
        output: Some("PLAN.md"),
    },
    BuiltInRole {
        name: "implementer",
        purpose: "implements the plan; runs nothing",
        rights: &[RoleRight::Write, RoleRight::Edit],
        location: RoleLocation::Project,
        output: Some("IMPLEMENTATION.md"),
    },
    BuiltInRole {
        name: "reviewer",
        purpose: "reviews the work and lists problems; fixes nothing",
        rights: &[RoleRight::Write],
        location: RoleLocation::OwnDirectory,
        output: Some("REVIEW.md"),
    },
    BuiltInRole {
        name: "tester",
        purpose: "writes and runs tests, and documents the usage",
        rights: &[RoleRight::Write, RoleRight::Edit, RoleRight::Bash],
        location: RoleLocation::OwnDirectory,
        output: Some("USAGE.md"),
    },
    BuiltInRole {
        name: USER,
        purpose: "uses the work as a user would and judges it",
        rights: &[RoleRight::Write, RoleRight::Bash],
        location: RoleLocation::OwnDirectory,
        output: Some("FEEDBACK.md"),
    },
];

/// Returns the built-in role with this name.
pub fn built_in_role(name: &RoleName) -> Option<PipelineRole> {
    let row = ROLES.iter().find(|row| row.name == name.as_str())?;
    Some(PipelineRole {
        name: name.clone(),
        purpose: row.purpose.to_owned(),
        prompt: prompts::built_in_prompt(row.name).map(str::to_owned),
        rights: row.rights.iter().copied().collect(),
        writes: match row.location {
            RoleLocation::OwnDirectory => RoleWriteAccess::OwnDirectory,
            RoleLocation::Project => RoleWriteAccess::Project,
        },
        reads: RoleReadAccess::AllEarlier,
        output: row.output.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_the_documented_system() {
        let rows = ROLES.iter().map(|row| {
            let has = |right| {
                if row.rights.contains(&right) {
                    "x"
                } else {
                    "-"
                }
            };
            let marks = RoleRight::ALL.map(has).join("");
            format!("{} {marks} {}", row.name, row.output.unwrap_or("-"))
        });
        let expected = [
            "understand --- -",
            "planner x-- PLAN.md",
            "implementer xx- IMPLEMENTATION.md",
            "reviewer x-- REVIEW.md",
            "tester xxx USAGE.md",
            "user x-x FEEDBACK.md",
        ];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        for row in ROLES {
            let role = built_in_role(&RoleName::parse(row.name).unwrap()).unwrap();
            assert!(role.prompt.is_some(), "{}", row.name);
        }
    }
}
