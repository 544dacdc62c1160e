//! Bounds the work of a parser on untrusted text. The caller interprets the tree.

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, ParseState, Parser, Tree};

/// Parses `text`; `None` if the parser reports progress more than `reports_max` times, which it
/// does every 100 operations.
pub(crate) fn parse_bounded(parser: &mut Parser, text: &[u8], reports_max: usize) -> Option<Tree> {
    let mut reports = 0_usize;
    let mut count_report = |_: &ParseState| {
        reports = reports.saturating_add(1);
        if reports > reports_max {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut count_report);
    let mut text_from = |from: usize, _| text.get(from..).unwrap_or_default();
    parser.parse_with_options(&mut text_from, None, Some(options))
}
