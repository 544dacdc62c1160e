//! Owns what the stages of a run are made from: one for each final phase, beside the user's trees.

use std::time::{Duration, Instant};

use crate::confinement::tier::{Enclosure, Tier};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Grant;
use crate::world::commands::Commands;
use crate::world::locate::{Located, locate};
use crate::world::stage::{self, Audience, Order, Stage};
use crate::world::store::workspace::make_new;

/// How long a stage may take to open without a word.
const SILENT_MAX: Duration = Duration::from_secs(1);

/// What every stage of a run is made from.
#[derive(Clone, Debug)]
pub struct Wings {
    executable: AbsPath,
    place: AbsPath,
    state: AbsPath,
}

impl Wings {
    /// For a run with this layout; `executable` is massgen itself.
    pub fn new(layout: &Layout, executable: &AbsPath) -> Self {
        Self {
            executable: executable.clone(),
            place: layout.deliveries.clone(),
            state: layout.state.clone(),
        }
    }

    /// Removes what was changed on the stages: it was delivered, or refused and told.
    pub fn clear(&self) -> Result<()> {
        stage::clear(&self.place)
    }

    /// Opens the stage `name` for an agent with these grants and commands in the final phase, and
    /// says what the user should know. Where nothing holds commands, there is none: they write to the
    /// user's paths, and so do the file tools, or they would not see each other's files.
    pub async fn open(
        &self,
        name: &str,
        grants: &[Grant],
        commands: Option<&Commands>,
    ) -> Result<(Option<Stage>, Vec<String>)> {
        let audience = match commands.map(Commands::enclosure) {
            Some(Enclosure::Sandbox {
                tier: Tier::Off, ..
            }) => return Ok((None, Vec::new())),
            Some(Enclosure::Container { .. }) => Audience::Container,
            Some(Enclosure::Sandbox { .. }) | None => Audience::Sandbox,
        };
        let wings = self.clone();
        let grants = grants.to_vec();
        let place = self.place.join(name);
        let begun = Instant::now();
        let work = move || {
            Stage::open(Order {
                executable: &wings.executable,
                place: &place,
                grants: &grants,
                state: &wings.state,
                audience,
            })
        };
        let opened = tokio::task::spawn_blocking(work).await;
        let stage = opened.map_err(|_| Error::bug("the stage could not be opened"))??;
        let mut notes = stage.as_ref().map(Stage::notes).unwrap_or_default();
        if begun.elapsed() > SILENT_MAX {
            let seconds = begun.elapsed().as_secs_f64();
            notes.push(format!("it took {seconds:.1} seconds to stage the write paths"));
        }
        Ok((stage, notes))
    }

    /// Makes a directory `name` beside the stages.
    pub fn room(&self, name: &str) -> Result<RealPath> {
        let path = self.place.join(name);
        make_new(&path)?;
        locate(&path).map(Located::into_real)
    }
}
