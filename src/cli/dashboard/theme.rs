//! How styles look on the dashboard: in the 16 colours of the user's terminal, or without colours
//! as bold, underlined and reversed text; borders as lines or in ASCII.

use std::collections::BTreeMap;

use ratatui_core::style::{Color, Modifier, Style};

use crate::cli::output::{ColourChoice, TextStyle};

/// The colours of agents, as in the lines of a run: none is the red of errors.
const AGENT_COLOURS: [Color; 8] = [
    Color::Cyan,
    Color::Magenta,
    Color::Blue,
    Color::Yellow,
    Color::Green,
    Color::LightCyan,
    Color::LightMagenta,
    Color::LightBlue,
];
/// The variables that name the character encoding, the strongest first; see `locale(7)`.
const LOCALE_VARIABLES: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// Characters that the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CharacterSet {
    /// All of Unicode.
    Unicode,
    /// ASCII alone for borders and signs.
    Ascii,
}

impl CharacterSet {
    /// Returns the set that the locale in the environment `env` has.
    pub(crate) fn from_env(env: &BTreeMap<String, String>) -> Self {
        let mut locales = LOCALE_VARIABLES.iter().filter_map(|name| env.get(*name));
        let locale = locales.find(|locale| !locale.is_empty());
        let is_utf8 = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        if is_utf8 {
            CharacterSet::Unicode
        } else {
            CharacterSet::Ascii
        }
    }
}

/// The look of the dashboard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    /// Whether colours are used.
    pub(crate) colours: ColourChoice,
    /// The characters of borders.
    pub(crate) characters: CharacterSet,
}

/// The characters of a border.
#[derive(Clone, Copy, Debug)]
pub(super) struct BorderCharacters {
    pub(super) horizontal: &'static str,
    pub(super) vertical: &'static str,
    pub(super) top_left: &'static str,
    pub(super) top_right: &'static str,
    pub(super) bottom_left: &'static str,
    pub(super) bottom_right: &'static str,
}

impl Theme {
    /// Returns the style of text.
    pub(super) fn style(self, style: TextStyle) -> Style {
        match self.colours {
            ColourChoice::Terminals => colour_style(style),
            ColourChoice::Never => plain_style(style),
        }
    }

    /// Returns the style of what is selected, on top of its other styles.
    pub(super) fn selection() -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Returns the characters of a border.
    pub(super) fn border(self) -> BorderCharacters {
        match self.characters {
            CharacterSet::Unicode => BorderCharacters {
                horizontal: "─",
                vertical: "│",
                top_left: "┌",
                top_right: "┐",
                bottom_left: "└",
                bottom_right: "┘",
            },
            CharacterSet::Ascii => BorderCharacters {
                horizontal: "-",
                vertical: "|",
                top_left: "+",
                top_right: "+",
                bottom_left: "+",
                bottom_right: "+",
            },
        }
    }
}

fn colour_style(style: TextStyle) -> Style {
    match style {
        TextStyle::Plain => Style::new(),
        TextStyle::Strong | TextStyle::AgentName => Style::new().add_modifier(Modifier::BOLD),
        TextStyle::Faint => Style::new().add_modifier(Modifier::DIM),
        TextStyle::Good => Style::new().fg(Color::Green),
        TextStyle::Warn => Style::new().fg(Color::Yellow),
        TextStyle::Bad => Style::new().fg(Color::Red),
        TextStyle::Title => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        TextStyle::Emphasis => Style::new().add_modifier(Modifier::ITALIC),
        TextStyle::Code | TextStyle::HunkHeader => Style::new().fg(Color::Cyan),
        TextStyle::Link => Style::new().add_modifier(Modifier::UNDERLINED),
        TextStyle::AgentFrame(index) => {
            let index = index.checked_rem(AGENT_COLOURS.len()).unwrap_or_default();
            let colour = AGENT_COLOURS.get(index).copied();
            Style::new().fg(colour.unwrap_or(Color::Reset))
        }
    }
}

fn plain_style(style: TextStyle) -> Style {
    match style {
        TextStyle::Plain
        | TextStyle::Faint
        | TextStyle::Good
        | TextStyle::Code
        | TextStyle::AgentFrame(_) => Style::new(),
        TextStyle::Emphasis | TextStyle::Link | TextStyle::Warn => {
            Style::new().add_modifier(Modifier::UNDERLINED)
        }
        TextStyle::Strong | TextStyle::HunkHeader | TextStyle::AgentName => {
            Style::new().add_modifier(Modifier::BOLD)
        }
        TextStyle::Title | TextStyle::Bad => {
            Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
        }
    }
}
