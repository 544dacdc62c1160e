//! What the short suite does less often than the long one (`tests/long.sh`): repetitions of
//! nondeterministic tests, and cases that each represent similar ones.

/// Environment variable that selects the long suite.
const LONG: &str = "MASSGEN_TEST_LONG";

/// Returns whether this is the long suite.
pub(crate) fn is_long() -> bool {
    std::env::var_os(LONG).is_some_and(|value| value == "1")
}

/// Returns `often` in the long suite, otherwise `seldom`.
pub(crate) fn repetitions(seldom: usize, often: usize) -> usize {
    if is_long() { often } else { seldom }
}

/// Returns `all` in the long suite, otherwise one of them, so that case number `number` meets another
/// one than the case before it.
pub(crate) fn all_or_one<T: Copy>(all: &[T], number: usize) -> Vec<T> {
    if is_long() || all.is_empty() {
        all.to_vec()
    } else {
        vec![all[number % all.len()]]
    }
}
