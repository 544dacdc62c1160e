//! Owns the user's browser, where there is one to see: it is shown a page, and never waited for.
#![expect(
    clippy::disallowed_methods,
    reason = "the user's own program, on the user's own screen"
)]

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use url::Url;

/// What shows a page in the browser that the user has chosen.
const OPENER: &str = "xdg-open";
/// Where one of these is set, there is a screen.
const SCREENS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// A browser that shows a page.
#[derive(Debug)]
pub struct Browser(Child);

impl Browser {
    /// Shows the page at `url` on the screen that `env` names. `None` if there is none, or nothing that
    /// shows pages.
    pub fn show(url: &Url, env: &BTreeMap<String, String>) -> Option<Self> {
        let has = |name: &str| env.get(name).is_some_and(|screen| !screen.is_empty());
        let is_page = matches!(url.scheme(), "http" | "https");
        if !is_page || !SCREENS.iter().any(|name| has(name)) {
            return None;
        }
        let mut command = Command::new(OPENER);
        command
            .arg(url.as_str())
            .env_clear()
            .envs(env)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().ok().map(Self)
    }
}

/// A browser that has gone leaves nothing; one that still shows something is the user's.
impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.0.try_wait());
    }
}
