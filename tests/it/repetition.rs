//! How often a test repeats what depends on chance: a few times at every change, many times in the
//! long suite (`tests/long.sh`).

/// The variable that asks for the long suite.
const LONG: &str = "MASSGEN_TEST_LONG";

/// `often` in the long suite, `seldom` otherwise.
pub(crate) fn repetitions(seldom: usize, often: usize) -> usize {
    if std::env::var_os(LONG).is_some_and(|value| value == "1") {
        often
    } else {
        seldom
    }
}
