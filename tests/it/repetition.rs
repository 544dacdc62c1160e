//! Number of repetitions of nondeterministic tests: a few in the short suite, many in the long one
//! (`tests/long.sh`).

/// Environment variable that selects the long suite.
const LONG: &str = "MASSGEN_TEST_LONG";

/// Returns `often` in the long suite, otherwise `seldom`.
pub(crate) fn repetitions(seldom: usize, often: usize) -> usize {
    if std::env::var_os(LONG).is_some_and(|value| value == "1") {
        often
    } else {
        seldom
    }
}
