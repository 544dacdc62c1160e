//! `limits.json`: what a run or a pipeline may use, as it was when it began or was resumed last,
//! for those who watch it from another process. A stage of a pipeline has what the pipeline had
//! left then.

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::spending::limits::BudgetLimits;
use crate::world::sys::state_files::file;

/// The name of the file.
const LIMITS_FILE: &str = "limits.json";
/// The largest file that is read, in bytes.
const LIMITS_BYTES_MAX: u64 = 4096;

/// Writes the limits in force to the directory of a run's records or of a pipeline.
pub fn write(dir: &AbsPath, limits: &BudgetLimits) -> Result<()> {
    let text = serde_json::to_string(limits)
        .map_err(|error| Error::bug("the limits have no JSON form").with_source(error))?;
    file::replace_unsynced(&dir.join(LIMITS_FILE), text.as_bytes())
}

/// Reads the limits in a directory; `None` if it has none that can be read.
pub fn read(dir: &AbsPath) -> Option<BudgetLimits> {
    let bytes = file::read_regular_capped(&dir.join(LIMITS_FILE), LIMITS_BYTES_MAX);
    serde_json::from_slice(&bytes.ok()??).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spending::money::Money;

    #[test]
    fn limits_are_read_as_they_were_written_last() {
        let dir = tempfile::tempdir().unwrap();
        let run_dir = AbsPath::new(dir.path()).unwrap();
        assert_eq!(read(&run_dir), None);
        for (cost, tokens, tool_calls) in [
            (None, None, None),
            (Money::from_dollars("0.083"), Some(u64::MAX), Some(0)),
            (Some(Money::ZERO), None, Some(7)),
        ] {
            let limits = BudgetLimits {
                cost,
                tokens,
                tool_calls,
                user_limits: None,
            };
            write(&run_dir, &limits).unwrap();
            assert_eq!(read(&run_dir), Some(limits));
        }
        let write_text = |text: &str| {
            let file = run_dir.join(LIMITS_FILE);
            file::replace_unsynced(&file, text.as_bytes()).unwrap();
        };
        for damaged_text in ["", "[1]", "{\"max_tokens_total\": -1}"] {
            write_text(damaged_text);
            assert_eq!(read(&run_dir), None, "{damaged_text}");
        }
        write_text(&(" ".repeat(5000) + "{}"));
        assert_eq!(read(&run_dir), None);
    }
}
