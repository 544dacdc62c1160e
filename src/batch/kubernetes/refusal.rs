//! Why a command of `kubectl` failed: recognizes the cause in its error output, and gives the user
//! a hint.

use crate::text::{escape_line, single_line};

/// Maximum length of what is shown of an error, in characters.
const SHOWN_CHARS_MAX: usize = 500;

/// Why a command of `kubectl` failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubectlRefusal {
    /// The kubeconfig has no such context.
    UnknownContext,
    /// The API server does not answer.
    Unreachable,
    /// The user is not logged in.
    Unauthorized,
    /// A quota of the namespace is used up.
    QuotaExceeded,
    /// The user may not do this.
    Forbidden,
    /// The namespace does not exist.
    NoNamespace,
    /// The manifest has a value that Kubernetes does not accept.
    Invalid,
    /// Something else.
    Unknown,
}

/// The phrases by which each refusal is recognized; the first match counts.
const REFUSAL_PHRASES: &[(&str, KubectlRefusal)] = &[
    ("context was not found", KubectlRefusal::UnknownContext),
    ("no context exists", KubectlRefusal::UnknownContext),
    ("exceeded quota", KubectlRefusal::QuotaExceeded),
    ("(Forbidden)", KubectlRefusal::Forbidden),
    ("(Unauthorized)", KubectlRefusal::Unauthorized),
    ("Unauthorized", KubectlRefusal::Unauthorized),
    ("getting credentials", KubectlRefusal::Unauthorized),
    ("(NotFound): namespaces", KubectlRefusal::NoNamespace),
    (
        "(NotFound): error when creating \"STDIN\": namespaces",
        KubectlRefusal::NoNamespace,
    ),
    (" is invalid: ", KubectlRefusal::Invalid),
    ("(BadRequest)", KubectlRefusal::Invalid),
    ("was refused", KubectlRefusal::Unreachable),
    ("connection refused", KubectlRefusal::Unreachable),
    ("Unable to connect", KubectlRefusal::Unreachable),
    ("no such host", KubectlRefusal::Unreachable),
    ("timeout", KubectlRefusal::Unreachable),
    ("timed out", KubectlRefusal::Unreachable),
    ("EOF", KubectlRefusal::Unreachable),
    ("ServiceUnavailable", KubectlRefusal::Unreachable),
    ("unable to handle the request", KubectlRefusal::Unreachable),
];

impl KubectlRefusal {
    /// Returns what the error output of `kubectl` means.
    pub fn from_output(errors: &str) -> Self {
        let error_text = remove_log_lines(errors);
        // `error: context "lab" does not exist`.
        if error_text.contains("context \"") && error_text.contains("does not exist") {
            return KubectlRefusal::UnknownContext;
        }
        let first_match = REFUSAL_PHRASES
            .iter()
            .find(|(phrase, _)| error_text.contains(phrase));
        first_match.map_or(KubectlRefusal::Unknown, |(_, refusal)| *refusal)
    }

    /// Returns the cause, as the beginning of a message.
    pub fn cause(self) -> &'static str {
        match self {
            KubectlRefusal::UnknownContext => "the kubeconfig has no such context",
            KubectlRefusal::Unreachable => "the API server of the cluster does not answer",
            KubectlRefusal::Unauthorized => "the cluster does not know this user",
            KubectlRefusal::QuotaExceeded => "the quota of the namespace is used up",
            KubectlRefusal::Forbidden => "this user has no permission for that",
            KubectlRefusal::NoNamespace => "the namespace does not exist",
            KubectlRefusal::Invalid => "the cluster does not accept the Job",
            KubectlRefusal::Unknown => "`kubectl` failed",
        }
    }

    /// Returns the next action of the user.
    pub fn hint(self) -> &'static str {
        match self {
            KubectlRefusal::UnknownContext => {
                "see `kubectl config get-contexts`, and name one: `context` in the file of \
                 `--kubernetes`"
            }
            KubectlRefusal::Unreachable | KubectlRefusal::Unknown => {
                "try `kubectl get jobs` with the same kubeconfig"
            }
            KubectlRefusal::Unauthorized => "log in to the cluster, and try `kubectl get jobs`",
            KubectlRefusal::QuotaExceeded => {
                "see `kubectl describe quota`; lower `--parallel`, or `requests` and `limits` in \
                 the file of `--kubernetes`"
            }
            KubectlRefusal::Forbidden => {
                "ask for the verbs `create`, `get`, `list` and `delete` of `jobs.batch`, and `list` \
                 of `pods` and `events`, in this namespace"
            }
            KubectlRefusal::NoNamespace => "name another `namespace` in the file of `--kubernetes`",
            KubectlRefusal::Invalid => "change the value in the file of `--kubernetes`",
        }
    }
}

/// Returns the error output of `kubectl` as one line, without lines of its log.
pub fn shown_error(errors: &str) -> String {
    escape_line(&single_line(&remove_log_lines(errors), SHOWN_CHARS_MAX))
}

/// Removes lines of the log of `kubectl`, which repeat the error with more words, unless there are
/// no other lines.
fn remove_log_lines(errors: &str) -> String {
    let mut error_lines: Vec<&str> = errors.lines().filter(|line| !is_log_line(line)).collect();
    // Some versions print an error twice.
    error_lines.dedup();
    if error_lines.iter().all(|line| line.trim().is_empty()) {
        errors.to_owned()
    } else {
        error_lines.join("\n")
    }
}

/// Returns whether a line looks like `E1126 10:16:47.157601    9801 memcache.go:265] …`.
fn is_log_line(line: &str) -> bool {
    let mut chars = line.chars();
    chars.next().is_some_and(|c| "IWEF".contains(c))
        && chars.by_ref().take(4).all(|c| c.is_ascii_digit())
        && chars.next() == Some(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_errors_are_classified_by_their_cause() {
        for (errors, expected) in [
            (
                "error: no context exists with the name: \"x\"",
                KubectlRefusal::UnknownContext,
            ),
            (
                "error: context \"x\" does not exist\nerror: context \"x\" does not exist",
                KubectlRefusal::UnknownContext,
            ),
            (
                "Error in configuration: context was not found for specified context: nope",
                KubectlRefusal::UnknownContext,
            ),
            (
                "The connection to the server 127.0.0.1:1 was refused - did you specify the right \
                 host or port?",
                KubectlRefusal::Unreachable,
            ),
            (
                "Unable to connect to the server: dial tcp: lookup k.example.org: no such host",
                KubectlRefusal::Unreachable,
            ),
            (
                "Unable to connect to the server: getting credentials: exec: executable aws failed \
                 with exit code 255",
                KubectlRefusal::Unauthorized,
            ),
            (
                "error: You must be logged in to the server (Unauthorized)",
                KubectlRefusal::Unauthorized,
            ),
            (
                "Error from server (Forbidden): jobs.batch is forbidden: User \"u\" cannot list \
                 resource \"jobs\" in API group \"batch\" in the namespace \"default\"",
                KubectlRefusal::Forbidden,
            ),
            (
                "Error from server (Forbidden): error when creating \"STDIN\": jobs.batch \"a\" is \
                 forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: \
                 count/jobs.batch=2, limited: count/jobs.batch=2",
                KubectlRefusal::QuotaExceeded,
            ),
            (
                "Error from server (NotFound): error when creating \"STDIN\": namespaces \"x\" not \
                 found",
                KubectlRefusal::NoNamespace,
            ),
            (
                "The Job \"a\" is invalid: spec.template.spec.containers[0].image: Required value",
                KubectlRefusal::Invalid,
            ),
            ("error: unknown flag: --x", KubectlRefusal::Unknown),
            ("", KubectlRefusal::Unknown),
        ] {
            assert_eq!(KubectlRefusal::from_output(errors), expected, "{errors}");
        }
        let both = "E1126 10:16:47.309657    9807 memcache.go:265] \"Unhandled Error\"\n\
                    The connection to the server 127.0.0.1:1 was refused\n";
        assert_eq!(
            shown_error(both),
            "The connection to the server 127.0.0.1:1 was refused"
        );
        assert_eq!(
            KubectlRefusal::from_output(both),
            KubectlRefusal::Unreachable
        );
        assert_eq!(shown_error("error: a\nerror: a\n"), "error: a");
        assert!(shown_error("E1126 10:16:47 only a log").contains("only a log"));
    }
}
