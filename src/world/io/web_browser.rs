//! Opens a page in the user's browser if there is a screen, and never waits for it.

use std::collections::BTreeMap;
use std::process::Child;

use url::Url;

use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, UserProgramStreams};

/// Program that opens a page in the user's default browser.
const OPENER: &str = "xdg-open";
/// If one of these variables is set, there is a screen.
const SCREEN_VARIABLES: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// A browser process that shows a page.
#[derive(Debug)]
pub struct WebBrowser(Child);

impl WebBrowser {
    /// Opens the page at `url` on the screen that the process environment `env` names. `None` if
    /// there is no screen or no program that opens pages.
    pub fn open_page(url: &Url, env: &BTreeMap<String, String>) -> Option<Self> {
        let has_screen = |name: &str| env.get(name).is_some_and(|screen| !screen.is_empty());
        let is_page = matches!(url.scheme(), "http" | "https");
        if !is_page || !SCREEN_VARIABLES.iter().any(|name| has_screen(name)) {
            return None;
        }
        let opener = process::find(OPENER, env.get("PATH").map_or("", String::as_str))?;
        let user_env = ProcessEnvironment::inherit_except(env, &[]);
        let start_result = process::start_for_user(
            &opener,
            &[url.as_str()],
            &user_env,
            UserProgramStreams::NullDevice,
        );
        start_result.ok().map(Self)
    }
}

/// Reaps a browser that has exited; one that still shows a page is left to the user.
impl Drop for WebBrowser {
    fn drop(&mut self) {
        drop(self.0.try_wait());
    }
}
