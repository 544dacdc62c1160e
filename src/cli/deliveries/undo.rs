//! Owns `massgen undo`.

use crate::cli::args::UndoArguments;
use crate::cli::deliveries::{chosen, expect_known, shown, typed};
use crate::cli::output::{Output, Style};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::wording::counted;
use crate::world::delivery::store::{Delivery, Use};
use crate::world::delivery::undo::{Delivered, Direction, Outcome, Row, Since, refuse_outside};

/// Takes a delivery back.
pub(crate) fn run(
    host: &Host,
    asked: &UndoArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let (deliveries, name) = chosen(&asked.run, Use::TakeBack, host, output)?;
    let delivery = Delivery::open(&deliveries, &name)?;
    let commit = delivery.commit()?;
    let Some(mut delivered) = Delivered::open(delivery)? else {
        let message = format!("nothing of `{name}` was applied");
        return Err(Error::new(ErrorKind::Usage, message)
            .hint(format!("`massgen diff {name}` shows what it would deliver")));
    };
    let paths = typed(&asked.path, host);
    refuse_outside(&delivered.roots(), &host.cwd, &paths)?;
    let known = delivered.names().map(|(path, ..)| path).collect();
    expect_known(&paths, (&name, &known), &host.cwd)?;
    let since = if asked.force {
        Since::Replaced
    } else {
        Since::Kept
    };
    let rows = delivered.take(Direction::Back, &paths, since)?;
    let remedy = match since {
        Since::Kept => Remedy::Force,
        Since::Replaced => Remedy::None,
    };
    if let Some(commit) = commit {
        output.note(&format!(
            "their commit stays, and is taken back by git alone: git revert {commit} (or, to have the files \
             back: git restore FILE)"
        ));
    }
    tell((&name, &host.cwd), &rows, remedy, output)
}

/// What the user can do about names that stayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// `--force` replaces them.
    Force,
    /// Nothing with this command.
    None,
}

/// Says what was done, and what was not.
pub(super) fn tell(
    (name, here): (&str, &AbsPath),
    rows: &[Row],
    remedy: Remedy,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let mut left = 0_usize;
    for row in rows {
        let path = shown(&row.path, here);
        let (style, word, note) = match row.outcome {
            Outcome::Restored => (Style::Good, "restored", String::new()),
            Outcome::Removed => (Style::Good, "removed", String::new()),
            Outcome::Left(why) => {
                left = left.saturating_add(1);
                (Style::Warn, "left", format!(": {why}"))
            }
        };
        output.result_line(&[(style, word), (Style::Plain, &format!(" {path}{note}"))])?;
    }
    if rows.is_empty() {
        output.note(&format!("there is nothing left to do about `{name}`"));
    }
    if left > 0 {
        let left = counted(left, "name");
        output.warning(&match remedy {
            Remedy::Force => format!("{left} stayed; `--force` replaces what was changed since"),
            Remedy::None => format!("{left} stayed"),
        });
        return Ok(ExitStatus::Denied);
    }
    Ok(ExitStatus::Delivered)
}
