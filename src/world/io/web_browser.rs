//! Owns the user's browser, where there is one to see: it is shown a page, and never waited for.

use std::collections::BTreeMap;
use std::process::Child;

use url::Url;

use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, UserProgramStreams};

/// What shows a page in the browser that the user has chosen.
const OPENER: &str = "xdg-open";
/// Where one of these is set, there is a screen.
const SCREENS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// A browser that shows a page.
#[derive(Debug)]
pub struct WebBrowser(Child);

impl WebBrowser {
    /// Shows the page at `url` on the screen that `env`, the environment of the process, names. `None` if there is none, or nothing that
    /// shows pages.
    pub fn open_page(url: &Url, env: &BTreeMap<String, String>) -> Option<Self> {
        let has = |name: &str| env.get(name).is_some_and(|screen| !screen.is_empty());
        let is_page = matches!(url.scheme(), "http" | "https");
        if !is_page || !SCREENS.iter().any(|name| has(name)) {
            return None;
        }
        let opener = process::find(OPENER, env.get("PATH").map_or("", String::as_str))?;
        let of_user = ProcessEnvironment::inherit_except(env, &[]);
        let started = process::start_for_user(
            &opener,
            &[url.as_str()],
            &of_user,
            UserProgramStreams::Silent,
        );
        started.ok().map(Self)
    }
}

/// A browser that has gone leaves nothing; one that still shows something is the user's.
impl Drop for WebBrowser {
    fn drop(&mut self) {
        drop(self.0.try_wait());
    }
}
