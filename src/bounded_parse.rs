//! Owns the bounded work of a parser on a text that a stranger wrote. What the tree means is for those
//! who asked for it.

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

/// The tree of `text`; `None` where the parser reports on its work more than `reports_max` times, which
/// it does each 100 operations.
pub(crate) fn parse_bounded(parser: &mut Parser, text: &[u8], reports_max: usize) -> Option<Tree> {
    let mut reports = 0_usize;
    let mut report = |_: &ParseState| {
        reports = reports.saturating_add(1);
        if reports > reports_max {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut report);
    let mut rest = |from: usize, _| text.get(from..).unwrap_or_default();
    parser.parse_with_options(&mut rest, None, Some(options))
}
