//! Owns the table of the roles that every config has: what each is for, what it may do and what it
//! leaves to others.

use crate::roles::{Reads, Right, Role, RoleName, Writes, prompts};

/// A role of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What it is for, for people.
    pub purpose: &'static str,
    /// What it may do beside reading.
    pub rights: &'static [Right],
    /// Where it may do that.
    pub place: Place,
    /// The file that it leaves in its directory; for `understand`, one that massgen writes.
    pub output: Option<&'static str>,
}

/// Where a role of the table works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the directory that has its name.
    Own,
    /// In a project, where the work is.
    Project,
}

/// The role that asks before anybody works.
pub const UNDERSTAND: &str = "understand";
/// The role that uses what was made, and whose word ends a pipeline.
pub const USER: &str = "user";

/// The roles in the order in which they work where a config does not say otherwise.
pub const ROLES: &[Row] = &[
    Row {
        name: UNDERSTAND,
        purpose: "gathers what is asked and what is unclear; changes nothing",
        rights: &[],
        place: Place::Own,
        output: None,
    },
    Row {
        name: "planner",
        purpose: "reads what is there and writes the plan",
        rights: &[Right::Write],
        place: Place::Own,
        output: Some("PLAN.md"),
    },
    Row {
        name: "implementer",
        purpose: "does what the plan says; runs nothing",
        rights: &[Right::Write, Right::Edit],
        place: Place::Project,
        output: Some("IMPLEMENTATION.md"),
    },
    Row {
        name: "reviewer",
        purpose: "reads the work and writes what is wrong with it; mends nothing",
        rights: &[Right::Write],
        place: Place::Own,
        output: Some("REVIEW.md"),
    },
    Row {
        name: "tester",
        purpose: "writes tests, runs them, and tells how the work is used",
        rights: &[Right::Write, Right::Edit, Right::Bash],
        place: Place::Own,
        output: Some("USAGE.md"),
    },
    Row {
        name: USER,
        purpose: "uses the work as its user would, and says whether it is good",
        rights: &[Right::Write, Right::Bash],
        place: Place::Own,
        output: Some("FEEDBACK.md"),
    },
];

/// The role of this name in the table.
pub fn built_in(name: &RoleName) -> Option<Role> {
    let row = ROLES.iter().find(|row| row.name == name.as_str())?;
    Some(Role {
        name: name.clone(),
        purpose: row.purpose.to_owned(),
        prompt: prompts::of(row.name).map(str::to_owned),
        rights: row.rights.iter().copied().collect(),
        writes: match row.place {
            Place::Own => Writes::OwnDirectory,
            Place::Project => Writes::Project,
        },
        reads: Reads::AllEarlier,
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
            let marks = Right::ALL.map(has).join("");
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
            let role = built_in(&RoleName::parse(row.name).unwrap()).unwrap();
            assert!(role.prompt.is_some(), "{}", row.name);
        }
    }
}
