//! Programs that the user starts on their own terminal from a session: the editor for a long
//! prompt, and shell commands. They run as the user, outside every sandbox, and massgen reads no
//! output of them.

use std::collections::BTreeMap;
use std::io;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, UserProgramStreams};
use crate::world::sys::state_files::file;

/// The shell if `$SHELL` names none.
const SHELL: &str = "sh";
/// The editor if neither `$VISUAL` nor `$EDITOR` names one.
const EDITOR: &str = "vi";

/// Lets the user edit `text` in the editor that the process environment `env` names. Returns the
/// new text.
///
/// # Errors
/// The editor cannot be started, or reports a failure.
pub fn edit_text(text: &str, env: &BTreeMap<String, String>) -> Result<String> {
    let named_editor = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|name| non_empty_variable(env, name));
    let editor = named_editor.unwrap_or(EDITOR);
    let command = format!("exec {editor} \"$0\"");
    let edit =
        |path: &AbsPath| match run_on_terminal(SHELL, &["-c", &command, &path.to_string()], env)? {
            Some(0) => Ok(()),
            _ => Err(io::Error::other("it reported a failure")),
        };
    file::edit_temporary(text, edit).map_err(|error| {
        Error::new(
            ErrorKind::Environment,
            format!("cannot edit with `{editor}`"),
        )
        .with_source(error)
        .with_hint("set `VISUAL` or `EDITOR` to an editor")
    })
}

/// Runs `command` in the user's shell, and waits for it. Returns its exit status; `None` if a
/// signal ended it.
///
/// # Errors
/// The shell cannot be started.
pub fn run_shell_command(command: &str, env: &BTreeMap<String, String>) -> Result<Option<i32>> {
    let shell = non_empty_variable(env, "SHELL").unwrap_or(SHELL);
    run_on_terminal(shell, &["-c", command], env).map_err(|error| {
        Error::new(
            ErrorKind::Environment,
            format!("cannot start the shell `{shell}`"),
        )
        .with_source(error)
    })
}

fn non_empty_variable<'e>(env: &'e BTreeMap<String, String>, name: &str) -> Option<&'e str> {
    let value = env.get(name)?.trim();
    (!value.is_empty()).then_some(value)
}

/// Starts a program on the user's terminal, and waits for it.
fn run_on_terminal(
    program: &str,
    arguments: &[&str],
    env: &BTreeMap<String, String>,
) -> io::Result<Option<i32>> {
    let path = env.get("PATH").map_or("", String::as_str);
    let program_path = AbsPath::new(program).or_else(|| process::find(program, path));
    let program_path = program_path.ok_or(io::ErrorKind::NotFound)?;
    let environment = ProcessEnvironment::inherit_except(env, &[]);
    let mut child = process::start_for_user(
        &program_path,
        arguments,
        &environment,
        UserProgramStreams::Terminal,
    )?;
    Ok(child.wait()?.code())
}
