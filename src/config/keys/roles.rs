//! The keys of a role of a pipeline.

use crate::config::keys::ValueShape;

section! {
    /// A role of a pipeline, or changes to a built-in one.
    pub static ROLE = "roles[]";

    /// Its name, if roles are a list: letters, digits and `-`.
    const NAME = ["name"] text();

    /// Its purpose, for tables.
    const PURPOSE = ["purpose"] text();

    /// The prompt for its agents. Default: `purpose`, or the prompt of the built-in role.
    const PROMPT = ["prompt"] text();

    /// Its rights in addition to reading; without `bash` it is offered no commands or programs,
    /// whatever its agent may run.
    const RIGHTS = ["rights"] texts_of(&ValueShape::OneOf(&["read", "write", "edit", "bash"]));

    /// Where it may write: in its own directory (`own`), everywhere in a project except the
    /// directories of other roles (`project`), or also in these directories of the tree.
    const WRITES = ["writes"] one_of_or_list(&["own", "project"]);

    /// Roles whose outputs it reads: those of all earlier stages (`all`), or these.
    const READS = ["reads"] one_of_or_list(&["all"]);

    /// The file in its directory for later roles. A custom role without one passes on its answer.
    const OUTPUT = ["output"] text();
}
