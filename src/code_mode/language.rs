//! Owns what the programs of an agent are written in, with what they may import besides.

use crate::code_mode::ProgramLanguage;

/// What the programs of an agent are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramDialect {
    /// Python 3, with these libraries.
    Python(PythonLibraries),
    /// Go, with what comes with it.
    Go,
}

/// What programs may import that does not come with their language. Each brings those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PythonLibraries {
    /// Nothing.
    #[default]
    Standard,
    /// `numpy`.
    Numpy,
    /// `pandas`, which works with `numpy`.
    Pandas,
}

impl ProgramDialect {
    /// The language.
    pub fn language(self) -> ProgramLanguage {
        match self {
            ProgramDialect::Python(_) => ProgramLanguage::Python,
            ProgramDialect::Go => ProgramLanguage::Go,
        }
    }

    /// A program that does nothing but import what has to be there.
    pub fn probe_program(self) -> &'static str {
        match self {
            ProgramDialect::Python(PythonLibraries::Standard) => "",
            ProgramDialect::Python(PythonLibraries::Numpy) => "import numpy\n",
            ProgramDialect::Python(PythonLibraries::Pandas) => "import numpy, pandas\n",
            ProgramDialect::Go => {
                "package main\n\nimport _ \"workspace_tools\"\n\nfunc main() {}\n"
            }
        }
    }

    /// What the user can do where that does not run.
    pub fn remedy(self) -> String {
        match self {
            ProgramDialect::Python(PythonLibraries::Standard) | ProgramDialect::Go => {
                self.language().remedy().to_owned()
            }
            ProgramDialect::Python(
                libraries @ (PythonLibraries::Numpy | PythonLibraries::Pandas),
            ) => format!(
                "install `{}` for the `python3` of your `PATH`, which may be that of an active virtual \
                 environment, or remove `code_libraries`",
                libraries.name()
            ),
        }
    }
}

impl From<ProgramLanguage> for ProgramDialect {
    fn from(language: ProgramLanguage) -> Self {
        match language {
            ProgramLanguage::Python => ProgramDialect::Python(PythonLibraries::default()),
            ProgramLanguage::Go => ProgramDialect::Go,
        }
    }
}

impl PythonLibraries {
    /// What they are called in a config.
    pub const NAMES: &'static [&'static str] = &["standard", "numpy", "pandas"];

    /// Those of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "standard" => Some(PythonLibraries::Standard),
            "numpy" => Some(PythonLibraries::Numpy),
            "pandas" => Some(PythonLibraries::Pandas),
            _ => None,
        }
    }

    /// What they are called in a config.
    pub fn name(self) -> &'static str {
        match self {
            PythonLibraries::Standard => "standard",
            PythonLibraries::Numpy => "numpy",
            PythonLibraries::Pandas => "pandas",
        }
    }
}
