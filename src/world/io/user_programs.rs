//! Starts programs of the user: the browser and the pager. A page is opened if there is a screen, and
//! never waited for; addresses hold secrets, and all users of the machine can read the arguments of
//! programs: the browser is given a private file that redirects it.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Child;

use url::Url;

use crate::path::AbsPath;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, UserProgramStreams};
use crate::world::sys::state_files::dir::StagingDirectory;
use crate::world::sys::state_files::file;

/// Program that opens a page in the user's default browser.
const OPENER: &str = "xdg-open";
/// If one of these variables is set, there is a screen.
const SCREEN_VARIABLES: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// Beginning of the name of the directory with the file that redirects. It is in the home directory
/// and not hidden, because browsers in a sandbox of their own read neither hidden files nor `/tmp`.
const REDIRECT_DIR_PREFIX: &str = "massgen-page-";
/// Name of the file in it.
const REDIRECT_FILE: &str = "open.html";

/// A browser process that shows a page, and the file that redirects it, which is removed on drop.
#[derive(Debug)]
pub struct WebBrowser {
    process: Child,
    _redirect: StagingDirectory,
}

impl WebBrowser {
    /// Opens the page at `url` on the screen that the process environment `env` names. `None` if
    /// there is no screen, no program that opens pages, or no home directory to write to.
    pub fn open_page(url: &Url, env: &BTreeMap<String, String>) -> Option<Self> {
        let has_screen = |name: &str| env.get(name).is_some_and(|screen| !screen.is_empty());
        let is_page = matches!(url.scheme(), "http" | "https");
        if !is_page || !SCREEN_VARIABLES.iter().any(|name| has_screen(name)) {
            return None;
        }
        let opener = process::find(OPENER, env.get("PATH").map_or("", String::as_str))?;
        let home = AbsPath::new(env.get("HOME")?)?;
        let redirect = StagingDirectory::with_prefix(&home, REDIRECT_DIR_PREFIX).ok()?;
        let redirect_file = redirect.path().join(REDIRECT_FILE);
        let html = redirect_html(url);
        file::replace_unsynced(&redirect_file, html.as_bytes()).ok()?;
        let file_url = Url::from_file_path(redirect_file.as_path()).ok()?;
        let user_env = ProcessEnvironment::inherit_except(env, &[]);
        let start_result = process::start_for_user(
            &opener,
            &[file_url.as_str()],
            &user_env,
            UserProgramStreams::NullDevice,
        );
        start_result.ok().map(|process| Self {
            process,
            _redirect: redirect,
        })
    }
}

/// Returns a page that redirects to `url`.
fn redirect_html(url: &Url) -> String {
    // A parsed URL contains neither quotes nor angle brackets.
    let address = url.as_str().replace('&', "&amp;");
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" \
         content=\"no-referrer\">\n<meta http-equiv=\"refresh\" content=\"0; url={address}\">\n\
         <title>massgen</title>\n<a href=\"{address}\">Continue</a>\n"
    )
}

/// Reaps a browser that has exited; one that still shows a page is left to the user.
impl Drop for WebBrowser {
    fn drop(&mut self) {
        drop(self.process.try_wait());
    }
}

/// Shell that splits the words of `$PAGER`.
const SHELL: &str = "sh";
/// Default pager.
const PAGER: &str = "less";
/// Default options for `less`: exit if everything fits, show colours, and leave the screen as it
/// is.
const LESS: &str = "FRX";
/// The value of `$PAGER` that means no pager.
const NO_PAGER: &str = "cat";

/// A pager that shows what is written to it.
#[derive(Debug)]
pub struct PagerProcess(Child);

impl PagerProcess {
    /// Starts the pager that the process environment `env` names. `None` if there is none.
    pub fn start(env: &BTreeMap<String, String>) -> Option<(Self, impl Write + Send + use<>)> {
        let pager_variable = env.get("PAGER").map(String::as_str);
        let pager = pager_variable.unwrap_or(PAGER).trim();
        if pager.is_empty() || pager == NO_PAGER {
            return None;
        }
        let shell = process::find(SHELL, env.get("PATH").map_or("", String::as_str))?;
        let mut user_env = ProcessEnvironment::inherit_except(env, &[]);
        if user_env.get("LESS").is_none() {
            user_env = user_env.with("LESS", LESS);
        }
        let arguments = ["-c", &format!("exec {pager}")];
        let start_result =
            process::start_for_user(&shell, &arguments, &user_env, UserProgramStreams::InputPipe);
        let mut child = start_result.ok()?;
        let input = child.stdin.take()?;
        Some((Self(child), input))
    }

    /// Waits until the user quits the pager.
    pub fn wait(mut self) {
        // The exit status is ignored: the output was shown or the user quit.
        drop(self.0.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_address_ends_the_attribute_that_it_is_in() {
        let url = Url::parse("https://a.example/\"><p>?a=\"'&b=<p>#\"'<p>").unwrap();
        let html = redirect_html(&url);
        assert!(!html.contains("<p>"), "{html}");
        assert_eq!(html.matches('"').count(), 12, "{html}");
        assert!(html.contains("&amp;b="), "{html}");
    }
}
