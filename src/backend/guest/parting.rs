//! Owns the end of a guest's turn before its time: where the protocol has a word for it, the guest is asked
//! to end the turn and gets a moment to do so. Whoever does not react is ended all the same.

use std::time::Duration;

use tokio::time::timeout;

use crate::backend::guest::held::{Held, Progress};
use crate::backend::guest::tongue::{Heard, Life, Trouble};
use crate::backend::guest::wishes::refused;

/// How long a guest may take to end its turn once it is asked to.
const PARTING_TIME_MAX: Duration = Duration::from_secs(2);

/// Asks a guest that is in the middle of its turn to end that, and waits a moment for it; gives what the
/// guest has counted by then.
pub(super) async fn part(held: &mut Held) -> Vec<Heard> {
    let mut counted = Vec::new();
    let asked = held.tongue.cancel();
    if held.progress == Progress::Open && !asked.is_empty() {
        // It is asked once, whatever becomes of that.
        held.progress = Progress::Ended;
        let _in_time = timeout(PARTING_TIME_MAX, ended(held, asked, &mut counted)).await;
    }
    counted
}

/// Waits for the end of the turn. What the guest asks for meanwhile is refused.
async fn ended(
    held: &mut Held,
    mut lines: Vec<String>,
    counted: &mut Vec<Heard>,
) -> Result<(), Trouble> {
    let Some(process) = &mut held.process else {
        return Ok(());
    };
    lines.extend(held.refusal.take());
    // Whoever made these calls reads that nobody waits for them.
    held.waiting.clear();
    loop {
        process.tell(&lines, Life::Whole).await?;
        lines.clear();
        let line = tokio::select! {
            biased;
            Some(call) = held.relay.incoming.recv() => {
                drop(call);
                continue;
            }
            line = process.hear() => line?,
        };
        for heard in held.tongue.hear(&line)? {
            match heard {
                Heard::Usage(_) | Heard::Cost(_) => counted.push(heard),
                Heard::Send(line) => lines.push(line),
                Heard::Wish(id, wish) => lines.extend(refused(&*held.tongue, &id, &wish)),
                Heard::TurnEnded | Heard::Failed(_) => return Ok(()),
                Heard::Text(_) | Heard::Reasoning(_) | Heard::OwnTool(_) => {}
            }
        }
    }
}
