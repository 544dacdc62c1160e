//! Generates completion scripts and manual pages from the table of arguments.

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::args::CliArguments;
use crate::cli::output::CliOutput;
use crate::error::{Error, Result};

/// The end of the registration in the script for bash.
const BASH_REGISTRATION: &str = " -o bashdefault -o default massgen";
/// The registration with which bash quotes completions as file names: a file may be called `$(command)`.
const QUOTING_REGISTRATION: &str = " -o filenames -o bashdefault -o default massgen";

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: Shell, output: &mut CliOutput<'_>) -> Result<()> {
    let mut command = CliArguments::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "massgen", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Bash {
        if !script.contains(BASH_REGISTRATION) {
            return Err(Error::bug("the script for bash registers nothing"));
        }
        script = script.replace(BASH_REGISTRATION, QUOTING_REGISTRATION);
    }
    output.result(&script)
}

/// Prints the manual pages of massgen and of each subcommand, one after another.
pub(crate) fn man(output: &mut CliOutput<'_>) -> Result<()> {
    let mut command = CliArguments::command().disable_help_flag(true);
    command.build();
    pages(&command, output)
}

fn pages(command: &Command, output: &mut CliOutput<'_>) -> Result<()> {
    let mut page = Vec::new();
    let name = command
        .get_bin_name()
        .unwrap_or("massgen")
        .replace(' ', "-");
    let titled = command.clone().name(name.clone()).display_name(name);
    Man::new(titled)
        .render(&mut page)
        .map_err(|error| Error::bug("cannot render a manual page").with_source(error))?;
    output.result(&String::from_utf8_lossy(&page))?;
    command
        .get_subcommands()
        .try_for_each(|command| pages(command, output))
}
