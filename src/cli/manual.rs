//! Generates completion scripts and manual pages from the table of arguments.

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::args::CliArguments;
use crate::cli::output::CliOutput;
use crate::error::{Error, Result};

/// The registration in the script for bash.
const BASH_REGISTRATION: &str = "complete -F _massgen -o nosort -o bashdefault -o default massgen";
/// The same for versions of bash without `nosort`.
const OLD_BASH_REGISTRATION: &str = "complete -F _massgen -o bashdefault -o default massgen";
/// The function in the script for zsh.
const ZSH_FUNCTION: &str = "\n_massgen() {";

/// Adds what `massgen __complete` prints to the completions of bash. The part of a word before its
/// last `@`, `:` or `=` is a word of its own for bash, but a completion replaces the `@` as well.
/// Bash quotes the completions as file names: a file may be called `$(command)`. Values need no
/// quotes, and get none if no file is among them; otherwise `@` becomes `\@`, which the next
/// completion has to read. The generated function splits the names of files at spaces, and offers
/// them for options that take none.
const BASH_VALUES: &str = r#"
_massgen_values() {
    local line cur whole head files option=$3
    local -a before split
    _massgen "$@"
    [[ $option == = ]] && option=${COMP_WORDS[COMP_CWORD-2]}
    case $option in
        --agent|--sandbox|--session-id)
            COMPREPLY=()
            compopt +o bashdefault +o default 2>/dev/null ;;
        *)
            split=($(compgen -f -- "$2"))
            if (( ${#split[@]} )) && [[ ${split[*]} == "${COMPREPLY[*]}" ]]; then
                mapfile -t COMPREPLY < <(compgen -f -- "$2")
            fi ;;
    esac
    cur=${COMP_WORDS[COMP_CWORD]}
    case $cur in @|:|=|=@) cur= ;; esac
    whole=${COMP_LINE:0:COMP_POINT}
    whole=${whole##*[[:space:]]}
    read -ra before <<< "${COMP_LINE:0:COMP_POINT-${#whole}}"
    before=("${before[@]//\\@/@}")
    whole=${whole//\\@/@}
    cur=${cur//\\@/@}
    head=${whole%"$cur"}
    head=${head%@}
    files=${#COMPREPLY[@]}
    while IFS= read -r line; do
        COMPREPLY+=("${line#"$head"}")
    done < <(command massgen __complete -- "${before[@]:1}" "$whole" 2>/dev/null)
    if (( !files && ${#COMPREPLY[@]} )); then
        compopt +o filenames 2>/dev/null
    fi
}
"#;
/// Adds what `massgen __complete` prints to the completions of zsh.
const ZSH_VALUES: &str = r#"
_massgen() {
    local -a found
    found=(${(f)"$(command massgen __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    (( $#found )) && compadd -- $found
    _massgen_arguments "$@"
}
"#;
/// Adds what `massgen __complete` prints to the completions of fish. Fish completes the value of
/// `--OPTION=VALUE` by itself.
const FISH_VALUES: &str = r"
function __massgen_values
    set -l words (commandline -opc)
    command massgen __complete -- $words[2..-1] (commandline -ct) 2>/dev/null |
        string replace -r -- '^--[a-z-]+=' ''
end
complete -c massgen -a '(__massgen_values)'
complete -c massgen -s c -l config -r -a '(__massgen_values)'
complete -c massgen -s m -l model -r -a '(__massgen_values)'
complete -c massgen -l agent -r -a '(__massgen_values)'
complete -c massgen -l session-id -r -a '(__massgen_values)'
complete -c massgen -l sandbox -r -a '(__massgen_values)'
";

/// Prints the completion script of a shell.
pub(crate) fn print_completions(shell: Shell, output: &mut CliOutput<'_>) -> Result<()> {
    let mut command = CliArguments::command();
    let mut script_bytes = Vec::new();
    clap_complete::generate(shell, &mut command, "massgen", &mut script_bytes);
    let script = String::from_utf8_lossy(&script_bytes).into_owned();
    output.result(&if shell == Shell::Bash {
        with_bash_values(&script)?
    } else if shell == Shell::Zsh {
        with_zsh_values(&script)?
    } else if shell == Shell::Fish {
        script + FISH_VALUES
    } else {
        script
    })
}

fn with_bash_values(script: &str) -> Result<String> {
    let with_values = |registration: &str| {
        registration
            .replace("_massgen ", "_massgen_values ")
            .replace("-o bashdefault", "-o filenames -o bashdefault")
    };
    let new_script = script
        .replace(BASH_REGISTRATION, &with_values(BASH_REGISTRATION))
        .replace(OLD_BASH_REGISTRATION, &with_values(OLD_BASH_REGISTRATION));
    if new_script == script {
        return Err(Error::bug("the script for bash registers nothing"));
    }
    Ok(BASH_VALUES.to_owned() + &new_script)
}

fn with_zsh_values(script: &str) -> Result<String> {
    let (before, after) = script
        .split_once(ZSH_FUNCTION)
        .ok_or_else(|| Error::bug("the script for zsh has no function"))?;
    Ok(format!(
        "{before}\n{ZSH_VALUES}\n_massgen_arguments() {{{after}"
    ))
}

/// Prints the manual pages of massgen and of each subcommand, one after another.
pub(crate) fn print_manual_pages(output: &mut CliOutput<'_>) -> Result<()> {
    let mut command = CliArguments::command().disable_help_flag(true);
    command.build();
    print_pages(&command, output)
}

fn print_pages(command: &Command, output: &mut CliOutput<'_>) -> Result<()> {
    let mut page = Vec::new();
    let name = command
        .get_bin_name()
        .unwrap_or("massgen")
        .replace(' ', "-");
    let titled_command = command.clone().name(name.clone()).display_name(name);
    Man::new(titled_command)
        .render(&mut page)
        .map_err(|error| Error::bug("cannot render a manual page").with_source(error))?;
    output.result(&String::from_utf8_lossy(&page))?;
    command
        .get_subcommands()
        .try_for_each(|command| print_pages(command, output))
}
