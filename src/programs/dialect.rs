//! Owns what the programs of an agent are written in, with what they may import besides.

use crate::programs::Language;

/// What the programs of an agent are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Python 3, with these libraries.
    Python(Libraries),
    /// Go, with what comes with it.
    Go,
}

/// What programs may import that does not come with their language. Each brings those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Libraries {
    /// Nothing.
    #[default]
    Standard,
    /// `numpy`.
    Numpy,
    /// `pandas`, which works with `numpy`.
    Pandas,
}

impl Dialect {
    /// The language.
    pub fn language(self) -> Language {
        match self {
            Dialect::Python(_) => Language::Python,
            Dialect::Go => Language::Go,
        }
    }

    /// A program that does nothing but import what has to be there.
    pub fn trial(self) -> &'static str {
        match self {
            Dialect::Python(Libraries::Standard) => "",
            Dialect::Python(Libraries::Numpy) => "import numpy\n",
            Dialect::Python(Libraries::Pandas) => "import numpy, pandas\n",
            Dialect::Go => "package main\n\nimport _ \"workspace_tools\"\n\nfunc main() {}\n",
        }
    }

    /// What the user can do where that does not run.
    pub fn remedy(self) -> String {
        match self {
            Dialect::Python(Libraries::Standard) | Dialect::Go => {
                self.language().remedy().to_owned()
            }
            Dialect::Python(libraries @ (Libraries::Numpy | Libraries::Pandas)) => format!(
                "install `{}` for the `python3` of your `PATH`, which may be that of an active virtual \
                 environment, or remove `code_libraries`",
                libraries.name()
            ),
        }
    }
}

impl From<Language> for Dialect {
    fn from(language: Language) -> Self {
        match language {
            Language::Python => Dialect::Python(Libraries::default()),
            Language::Go => Dialect::Go,
        }
    }
}

impl Libraries {
    /// What they are called in a config.
    pub const NAMES: &'static [&'static str] = &["standard", "numpy", "pandas"];

    /// Those of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "standard" => Some(Libraries::Standard),
            "numpy" => Some(Libraries::Numpy),
            "pandas" => Some(Libraries::Pandas),
            _ => None,
        }
    }

    /// What they are called in a config.
    pub fn name(self) -> &'static str {
        match self {
            Libraries::Standard => "standard",
            Libraries::Numpy => "numpy",
            Libraries::Pandas => "pandas",
        }
    }
}
