//! The language of an agent's programs, and the additional libraries that they may import.

use crate::code_mode::ProgramLanguage;

/// The language of an agent's programs, with the libraries that they may import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramDialect {
    /// Python 3, with these libraries.
    Python(PythonLibraries),
    /// Go, with its standard library.
    Go,
}

/// Additional libraries that programs may import. Each variant includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PythonLibraries {
    /// None.
    #[default]
    Standard,
    /// `numpy`.
    Numpy,
    /// `pandas`, which needs `numpy`.
    Pandas,
}

impl ProgramDialect {
    /// Returns the language.
    pub fn language(self) -> ProgramLanguage {
        match self {
            ProgramDialect::Python(_) => ProgramLanguage::Python,
            ProgramDialect::Go => ProgramLanguage::Go,
        }
    }

    /// Returns a program that only imports what must be installed.
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

    /// Returns what the user can do if that program fails.
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
    /// Their names in a config.
    pub const NAMES: &'static [&'static str] = &["standard", "numpy", "pandas"];

    /// Returns the libraries of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "standard" => Some(PythonLibraries::Standard),
            "numpy" => Some(PythonLibraries::Numpy),
            "pandas" => Some(PythonLibraries::Pandas),
            _ => None,
        }
    }

    /// Returns their name in a config.
    pub fn name(self) -> &'static str {
        match self {
            PythonLibraries::Standard => "standard",
            PythonLibraries::Numpy => "numpy",
            PythonLibraries::Pandas => "pandas",
        }
    }
}
