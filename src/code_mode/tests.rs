//! Which programs are refused before they run.

use super::*;

const PYTHON: ProgramLanguage = ProgramLanguage::Python;
const GO: ProgramLanguage = ProgramLanguage::Go;

/// Checks whether `program` may run: `expected` is empty, or the place and the beginning of the
/// finding.
#[track_caller]
fn check(language: ProgramLanguage, program: &str, expected: &str) {
    let message = match lint_program(language.into(), program, CommandOffering::Offered) {
        Ok(()) => String::new(),
        Err(refusal) => {
            let first = &refusal.findings[0];
            format!(
                "{}:{} {}: {}",
                first.line, first.column, first.problem, first.advice
            )
        }
    };
    assert!(
        if expected.is_empty() {
            message.is_empty()
        } else {
            message.starts_with(expected)
        },
        "{program}\n  is: {message}\n  not: {expected}"
    );
}

#[test]
fn files_processes_and_texts_that_run_are_refused_with_the_place() {
    check(
        PYTHON,
        "x = open('a')",
        "1:5 `open` is not allowed: use `workspace_tools.read_text_file`",
    );
    check(
        PYTHON,
        "def f():\n    return eval('1')",
        "2:12 `eval` is not allowed: write the code itself",
    );
    check(
        PYTHON,
        "import os",
        "1:8 the module `os` is not allowed: use `workspace_tools",
    );
    check(
        PYTHON,
        "import json, subprocess as s",
        "1:14 the module `subprocess`",
    );
    check(
        PYTHON,
        "from os.path import join",
        "1:6 the module `os.path`",
    );
    check(PYTHON, "from . import x", "1:6 the module `.`");
    check(PYTHON, "(o := open)", "1:7 `open`");
    check(PYTHON, "print(open)", "1:7 `open`");
    check(PYTHON, "f(*[compile])", "1:5 `compile`");
    check(PYTHON, "x = 'a' if exec else 'b'", "1:12 `exec`");
    check(PYTHON, "print 'x'", "1:1 `print` is a function");
    check(PYTHON, "f\"{open('a')}\"", "1:4 `open`");
    check(PYTHON, "# eval\nx = 'exec open'", "");
    check(PYTHON, "x.open = 1\nx.compile()", "");
    check(PYTHON, "f(input=3)\nre_compile = 1", "");
}

#[test]
fn members_that_open_files_and_parts_of_the_package_are_refused() {
    for closed in [
        "__builtins__",
        "__import__('os')",
        "import random\nrandom._os",
        "from random import _os",
        "import io\nio.open('a')",
        "import io as files\nfiles.open('a')",
        "from io import FileIO",
        "import concurrent.futures as c\nc.ProcessPoolExecutor()",
        "from concurrent import futures",
        "import workspace_tools\nworkspace_tools._call",
        "import workspace_tools as w\nw._READ.append('/')",
    ] {
        let refused = lint_program(PYTHON.into(), closed, CommandOffering::Offered).is_err();
        assert!(refused, "{closed}");
    }
    for ordinary in [
        "class A:\n    def __init__(self):\n        self._x = 1\n    def f(self):\n        return self._x",
        "getattr(x, 'name', None)",
        "import io\nio.StringIO('a')",
        "import string\nstring.ascii_letters",
        "import concurrent.futures\nwith concurrent.futures.ThreadPoolExecutor() as p: pass",
        "from concurrent.futures import ThreadPoolExecutor",
        "import urllib.parse\nurllib.parse.quote('a')",
        "from collections import namedtuple\nnamedtuple('P', 'x')(1)._asdict()",
        "if __name__ == '__main__':\n    print(1)",
        "import datetime as dt\ndt.datetime.now()",
        "import collections\nimport collections.abc\nimport json\ndef f():\n    import json",
        "table.to_csv('a')\ntable.apply('f', 1)\nx = table.query",
        "import io\nisinstance(x, io.StringIO)",
        "from workspace_tools import write_file, ToolError",
        "import workspace_tools as w\nw.write_file('a', 'b')",
        "def f(*, key=None): return key\nsorted([], key=len)",
        "x.__class__.__name__\ngetattr(x, n)\ny = x._private",
        "import operator\noperator.attrgetter('a')",
        "from functools import singledispatch",
        "import json as format\nprint(format.__name__)\nf = format",
        "größe = 1",
        "class A:\n    def open(self): pass",
    ] {
        check(PYTHON, ordinary, "");
    }
}

#[test]
fn a_program_that_does_not_parse_is_refused_with_the_place() {
    check(PYTHON, "x = 1\nif x\n  y", "2:");
    check(PYTHON, "x = (1,\n", "1:");
    check(GO, "package main\nfunc main() {", "2:");
    check(GO, "x", "1:");
    check(PYTHON, "a\0b", "1:1 the program holds a NUL byte");
    let long = "x = 1\n".repeat(PROGRAM_BYTES_MAX);
    check(PYTHON, &long, "1:1 the program is longer than");
    check(PYTHON, "", "");
}

#[test]
fn a_go_program_imports_what_is_listed() {
    let importing = |spec: &str| format!("package main\n\nimport {spec}\n\nfunc main() {{}}\n");
    for spec in [
        "\"os\"",
        "\"os/exec\"",
        "\"unsafe\"",
        "\"plugin\"",
        "\"syscall\"",
        "\"C\"",
        "\"net/http\"",
        "\"reflect\"",
        "\"runtime/debug\"",
        "`os`",
        "f \"os\"",
        ". \"os\"",
        "\"path/filepath\"",
        "\"\\x6fs\"",
        "\"./x\"",
        "\"example.org/x\"",
    ] {
        assert!(
            lint_program(GO.into(), &importing(spec), CommandOffering::Offered).is_err(),
            "{spec}"
        );
    }
    for spec in [
        "\"fmt\"",
        "w \"workspace_tools\"",
        "_ \"fmt\"",
        "(\n\t\"sort\"\n\t\"encoding/json\"\n)",
    ] {
        check(GO, &importing(spec), "");
    }
    check(
        GO,
        &importing("\"os\""),
        "3:8 the package `os` is not allowed: use `workspace_tools.ReadTextFile`",
    );
    check(GO, "package tools\n", "1:1 the package is called `tools`");
}

#[test]
fn a_go_template_is_not_read_from_a_file() {
    let template = "package main\nimport \"text/template\"\nfunc main() {\n\t\
                    template.New(\"a\").ParseFiles(\"b\")\n}\n";
    check(
        GO,
        template,
        "4:20 `template.New(\"a\").ParseFiles` is not allowed",
    );
}

#[test]
fn refusals_recommend_commands_only_if_they_are_offered() {
    let programs = [
        (
            PYTHON,
            "import subprocess\n",
            "use `workspace_tools.execute_command`",
        ),
        (
            GO,
            "package main\n\nimport \"os/exec\"\n",
            "use `workspace_tools.ExecuteCommand`",
        ),
    ];
    for (language, program, suggestion) in programs {
        let refusal_text = |commands| {
            lint_program(language.into(), program, commands)
                .unwrap_err()
                .to_string()
        };
        assert!(
            refusal_text(CommandOffering::Offered).ends_with(suggestion),
            "{program}"
        );
        let without = refusal_text(CommandOffering::NotOffered);
        assert!(without.ends_with(NO_COMMANDS_ADVICE), "{without}");
    }
    let files = lint_program(PYTHON.into(), "open('a')", CommandOffering::NotOffered).unwrap_err();
    assert!(files.to_string().contains("workspace_tools.read_text_file"));
}

#[test]
fn a_refusal_names_all_places_up_to_some() {
    let program = "open('a')\n".repeat(12);
    let message = lint_program(PYTHON.into(), &program, CommandOffering::Offered)
        .unwrap_err()
        .to_string();
    assert_eq!(message.lines().count(), 11);
    assert!(message.ends_with("and 2 more"), "{message}");
}

#[test]
fn a_chain_of_any_length_is_read() {
    let chain = ".b".repeat(20_000);
    check(PYTHON, &format!("x = 1\nx{chain}"), "");
    check(PYTHON, &format!("import os.path{chain}"), "1:8 the module");
    let open = format!("import json\njson.decoder{chain}");
    check(PYTHON, &open, "");
}
