//! The text rules, as one table. Each looks at one simple command as it was parsed, and has
//! examples that it refuses and examples that it allows. Also the patterns of allow and block
//! lists.

use std::fmt;

use regex::{Regex, RegexBuilder};

use crate::commands::CommandPolicy::{self, Standard, Strict};
use crate::commands::PrivilegePolicy;
use crate::commands::line::{ForkBomb, ShellWord, SimpleCommand, names_long_option};

/// A text rule.
#[derive(Clone, Copy, Debug)]
pub struct CommandRule {
    /// The name in refusals and in `massgen explain`.
    pub name: &'static str,
    /// The mildest policy under which it applies.
    pub policy: CommandPolicy,
    /// The setting that disables it, if there is one.
    pub lifted_by: Option<PrivilegePolicy>,
    /// The reason, as the end of the sentence "… is refused: …".
    pub because: &'static str,
    /// What to do instead.
    pub suggestion: &'static str,
    /// Returns whether a command is refused.
    pub refuses: fn(&SimpleCommand) -> bool,
    /// Lines that this rule refuses and no earlier rule does.
    pub refused_lines: &'static [&'static str],
    /// Similar lines that it allows.
    pub passed_lines: &'static [&'static str],
}

/// All rules, in the order in which they are checked.
pub static RULES: &[CommandRule] = &[
    CommandRule {
        name: "becomes-root",
        policy: Standard,
        lifted_by: Some(PrivilegePolicy::Allowed),
        because: "commands run with your rights and get no others",
        suggestion: "run it without, in the workspace: packages can be installed there",
        refuses: |command| {
            runs_any_of(
                command,
                &[
                    "sudo", "sudoedit", "su", "doas", "pkexec", "run0", "runuser", "visudo",
                ],
            )
        },
        refused_lines: &[
            "sudo apt install jq",
            "su root",
            "/usr/bin/sudo -n true",
            "ls; s\\udo id",
            "'su'do id",
            "make && $'\\x73udo' make install",
            "echo x | xargs sudo tee f",
            "bash -c 'cd /; sudo id'",
            "timeout 5 nice -n 3 sudo id",
            "env A=b sudo id",
            "find . -exec sudo rm {} \\;",
            "echo \"$(sudo id)\"",
            "f() { sudo id; }; f",
            "su -c 'make install'",
            "bash <<'E'\nsudo id\nE",
            "eval su\"do\" id",
        ],
        passed_lines: &[
            "echo sudo",
            "grep -rn 'sudo ' docs",
            "cat su.txt",
            "menu su x",
            "git commit -m \"explain sudo and su\"",
            "# sudo id\nls",
            "cat > notes <<E\nsudo id\nE",
            "./su-report",
            "man sudo",
        ],
    },
    CommandRule {
        name: "formats-disks",
        policy: Standard,
        lifted_by: None,
        because: "it formats or partitions disks",
        suggestion: "work on files in the workspace",
        refuses: |command| {
            let program = command.program().unwrap_or_default();
            program.starts_with("mkfs.")
                || runs_any_of(
                    command,
                    &[
                        "mkfs",
                        "mke2fs",
                        "mkswap",
                        "fdisk",
                        "sfdisk",
                        "cfdisk",
                        "gdisk",
                        "sgdisk",
                        "parted",
                        "wipefs",
                        "blkdiscard",
                    ],
                )
        },
        refused_lines: &[
            "mkfs.ext4 /dev/x",
            "mkfs -t xfs disk",
            "fdisk -l",
            "xargs wipefs -a < list",
        ],
        passed_lines: &[
            "echo \"format disk\"",
            "ls mkfs.ext4",
            "npm run format",
            "prettier --write .",
        ],
    },
    CommandRule {
        name: "writes-raw-devices",
        policy: Standard,
        lifted_by: None,
        because: "it writes to a raw device",
        suggestion: "write to a file in the workspace",
        refuses: writes_raw_device,
        refused_lines: &[
            "> /dev/sda",
            "cat image > /dev/nvme0n1",
            "cat image > /dev/../dev/sda",
            "dd if=image of=/dev/sdb bs=1M",
            "echo x | tee /dev/mapper/root",
            "cp image /dev/vda",
            "shred -n 1 /dev/sda1",
            "{ echo a; } >> '/dev/mem'",
        ],
        passed_lines: &[
            "echo a > /dev/null",
            "x 2>/dev/null",
            "dd if=/dev/zero of=f bs=1k count=1",
            "ls -l /dev/sda",
            "echo a > /dev/../tmp/sda",
            "echo \"> /dev/sda\"",
            "cat < /dev/urandom > f",
            "echo a > /dev/stderr",
            "cp /dev/sda x",
        ],
    },
    CommandRule {
        name: "fork-bomb",
        policy: Standard,
        lifted_by: None,
        because: "the function calls itself concurrently without end",
        suggestion: "let the function end, or call it from a loop",
        refuses: |command| command.fork_bomb == ForkBomb::Yes,
        refused_lines: &[
            ":(){ :|:& };:",
            "bomb() { bomb | bomb & }; bomb",
            "f() { f & f; }; f",
            "bash -c ':(){ :|:& };:'",
        ],
        passed_lines: &[
            "f() { ls | wc -l; }; f",
            "walk() { for d in */; do walk \"$d\"; done; }; walk",
            "echo ':(){ :|:& };:'",
            "f() { g & }; g() { ls; }; f | f",
        ],
    },
    CommandRule {
        name: "removes-the-root",
        policy: Standard,
        lifted_by: None,
        because: "it removes all that is there",
        suggestion: "name what should go: `rm -r build`",
        refuses: |command| runs_any_of(command, &["rm"]) && removes_root(command),
        refused_lines: &[
            "rm -rf /",
            "rm -fr /",
            "rm -r -f \"/\"",
            "rm -rf /*",
            "rm -rf // --no-preserve-root",
            "rm -rf /../",
            "rm -rf /./..",
        ],
        passed_lines: &[
            "rm -r build",
            "rm -rf ./x",
            "rm -rf /tmp/x",
            "rm -rf /...",
            "rm f",
            "echo 'rm -rf /'",
            "rm -rf -- ./-x",
        ],
    },
    CommandRule {
        name: "removes-files",
        policy: Strict,
        lifted_by: None,
        because: "it removes files",
        suggestion: "use the tool `delete_file`",
        refuses: |command| {
            let moves_to_null = command.operands().next_back().as_deref() == Some("/dev/null");
            runs_any_of(command, &["rm", "rmdir", "del", "unlink", "shred"])
                || (runs_any_of(command, &["mv"]) && moves_to_null)
                || (runs_any_of(command, &["find"])
                    && command.arguments().any(|word| word == "-delete"))
        },
        refused_lines: &[
            "rm x",
            "rm\tx",
            "cd a\nrm x",
            "RM -rf x",
            "xargs rm < l",
            "r\\m -r build",
            "command rm x",
            "rmdir d",
            "mv f /dev/null",
            "find . -name '*.o' -delete",
            "busybox rm x",
            "prlimit --cpu=9 rm x",
            "unbuffer rm x",
            "mapfile -C 'rm x' -c 1 lines",
            "coproc X { rm x; }",
            "$HOME/bin/rm x",
        ],
        passed_lines: &[
            "npm run confirm x",
            "echo \"inform me\"",
            "alarm x",
            "git log --format=%s",
            "docker run --rm alpine",
            "git rm x",
            "mv a b",
            "grep -r 'rm -rf' .",
            "echo form x",
        ],
    },
    CommandRule {
        name: "changes-rights",
        policy: Strict,
        lifted_by: Some(PrivilegePolicy::Allowed),
        because: "it changes rights or owners",
        suggestion: "run a script by its interpreter: `sh script.sh`",
        refuses: |command| runs_any_of(command, &["chmod", "chown", "chgrp", "setfacl", "chattr"]),
        refused_lines: &[
            "chmod +x run.sh",
            "chown ann f",
            "find . -exec chmod 600 {} +",
        ],
        passed_lines: &[
            "git update-index --chmod=+x f",
            "echo chmod",
            "python -m http.server",
        ],
    },
    CommandRule {
        name: "copies-blocks",
        policy: Strict,
        lifted_by: None,
        because: "it can write to any place, block by block",
        suggestion: "use `head -c`, `truncate` or `cp`",
        refuses: |command| runs_any_of(command, &["dd", "format"]),
        refused_lines: &["dd if=a of=b", "format C:"],
        passed_lines: &["echo \"dd\"", "git log --format=dd", "cargo fmt"],
    },
];

/// Returns whether a command runs one of these programs.
fn runs_any_of(command: &SimpleCommand, names: &[&str]) -> bool {
    let program = command.program();
    program.is_some_and(|program| names.contains(&program.as_str()))
}

fn writes_raw_device(command: &SimpleCommand) -> bool {
    let mut redirections = command.redirections.iter();
    let is_redirected = redirections.any(|redirection| {
        let target = redirection.target.known_text().unwrap_or_default();
        redirection.writes() && is_raw_device(&target)
    });
    let names_output = |word: String| word.strip_prefix("of=").is_some_and(is_raw_device);
    let names_device = |word: String| is_raw_device(&word);
    is_redirected
        || (runs_any_of(command, &["dd"]) && command.arguments().any(names_output))
        || (runs_any_of(command, &["tee", "shred", "truncate"])
            && command.operands().any(names_device))
        || (runs_any_of(command, &["cp", "mv", "install", "ln"])
            && command.operands().next_back().is_some_and(names_device))
}

/// Returns whether a path is a disk, a partition, memory or the I/O ports, by the names that Linux
/// uses.
fn is_raw_device(path: &str) -> bool {
    const NAME_PREFIXES: &[&str] = &[
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dm-", "md", "loop", "nbd", "zram", "ram",
        "mapper/", "disk/", "mem", "kmem", "port",
    ];
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    let Some(name) = parts.join("/").strip_prefix("dev/").map(str::to_owned) else {
        return false;
    };
    path.starts_with('/') && NAME_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns whether `rm` is recursive and starts at the root.
fn removes_root(command: &SimpleCommand) -> bool {
    let is_recursive = command
        .arguments()
        .any(|word| match word.strip_prefix("--") {
            Some(long) => names_long_option(long, &["recursive"]),
            None => word
                .strip_prefix('-')
                .is_some_and(|letters| letters.contains(['r', 'R'])),
        });
    let mut words = command.words.iter().skip(1).map(ShellWord::display_text);
    is_recursive
        && words.any(|word| {
            let is_pattern =
                |part: &str| part.contains('*') && part.trim_matches(['*', '.']).is_empty();
            let is_root = |part: &str| matches!(part, "" | "." | "..") || is_pattern(part);
            word.starts_with('/') && word.split('/').all(is_root)
        })
}

/// The most memory that a compiled pattern may use, in bytes.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct CommandRegex(Regex);

impl CommandRegex {
    /// Compiles a pattern from the config. The error gives the cause in one line.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let build_result = RegexBuilder::new(pattern)
            .size_limit(PATTERN_BYTES_MAX)
            .build();
        build_result.map(Self).map_err(|error| {
            if matches!(error, regex::Error::CompiledTooBig(_)) {
                return "it is too large".to_owned();
            }
            let text = error.to_string();
            let last_line = text.lines().last().unwrap_or_default();
            last_line.trim_start_matches("error: ").to_owned()
        })
    }

    /// Returns whether a match begins at the start of the text; it need not reach the end.
    pub fn matches(&self, text: &str) -> bool {
        self.0
            .find(text)
            .is_some_and(|matched| matched.start() == 0)
    }
}

impl fmt::Display for CommandRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: bool) {
        let pattern = CommandRegex::parse(pattern).unwrap();
        assert_eq!(pattern.matches(text), expected, "{pattern} on {text}");
    }

    #[test]
    fn patterns_match_from_the_start_as_in_python() {
        check("python.*", "python", true);
        check("python.*", "python -m pytest", true);
        check("python .*", "python", false);
        check("git push", "git push origin", true);
        check("push", "git push", false);
        check("a|b", "cab", false);
        check("b|ab", "ab", true);
        check("ls$", "lsof", false);
        check("(?i)LS", "ls", true);
        check("", "anything", true);
    }

    #[test]
    fn a_bad_pattern_says_why() {
        assert_eq!(CommandRegex::parse("rm(").unwrap_err(), "unclosed group");
        assert_eq!(
            CommandRegex::parse("rm(?!x)").unwrap_err(),
            "look-around, including look-ahead and look-behind, is not supported"
        );
        assert_eq!(
            CommandRegex::parse("(a{1000}){1000}").unwrap_err(),
            "it is too large"
        );
    }
}
