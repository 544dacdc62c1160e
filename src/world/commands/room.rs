//! Owns the private directories of one agent's commands: its home, its temporary files, and the
//! layers that keep what it changed apart from the user's trees.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::confinement::Layer;
use crate::error::Result;
use crate::path::{AbsPath, RealPath};
use crate::world::sandbox::home::furnish;
use crate::world::sys::own::dir::{self, Audience};

/// The private directories of one agent. A clone is the same room.
#[derive(Clone, Debug)]
pub struct Room(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: AbsPath,
    layers: Mutex<BTreeMap<RealPath, Layer>>,
    made: AtomicUsize,
}

impl Room {
    /// Makes the directories inside `root`, which is the agent's alone and stays as long as the run.
    pub fn prepare(root: &AbsPath) -> Result<Self> {
        // The sandbox takes no path with a link in it.
        let root = dir::follow(root)?.to_abs();
        let made = Self(Arc::new(Inner {
            root,
            layers: Mutex::default(),
            made: AtomicUsize::default(),
        }));
        furnish(&made.home())?;
        dir::create_all(&made.scratch(), Audience::User)?;
        Ok(made)
    }

    /// What holds all of it. Commands reach only what is in it.
    pub fn root(&self) -> &AbsPath {
        &self.0.root
    }

    /// What `HOME` names.
    pub fn home(&self) -> AbsPath {
        self.0.root.join("home")
    }

    /// What `/tmp` shows, and what `TMPDIR` names where `/tmp` is the machine's.
    pub fn scratch(&self) -> AbsPath {
        self.0.root.join("tmp")
    }

    /// The directory that a program of the agent's begins in, and may write to.
    pub fn program(&self) -> AbsPath {
        self.0.root.join("program")
    }

    /// What a program is made of, which it may read.
    pub fn package(&self) -> AbsPath {
        self.0.root.join("package")
    }

    /// A directory that no other guest uses, for the socket by which one reaches the run.
    pub fn relay(&self) -> Result<AbsPath> {
        let number = self.0.made.fetch_add(1, Ordering::Relaxed);
        let path = self.0.root.join(format!("relay/{number}"));
        dir::create_all(&path, Audience::User)?;
        Ok(path)
    }

    /// Where protected names go that a command made.
    pub fn quarantine(&self) -> AbsPath {
        quarantine(&self.0.root)
    }

    /// A file that no other command uses, for what has to be known if massgen ends before a sweep.
    pub fn note(&self) -> Result<AbsPath> {
        let notes = notes(&self.0.root);
        dir::create_all(&notes, Audience::User)?;
        let number = self.0.made.fetch_add(1, Ordering::Relaxed);
        Ok(notes.join(number.to_string()))
    }

    /// The layer over `root`; the same one in every command that is waited for.
    pub fn layer(&self, root: &RealPath) -> Result<Layer> {
        let mut layers = self.layers();
        if let Some(layer) = layers.get(root) {
            return Ok(layer.clone());
        }
        let layer = self.new_layer(root)?;
        layers.insert(root.clone(), layer.clone());
        Ok(layer)
    }

    /// A layer over `root` that no other command uses.
    pub fn new_layer(&self, root: &RealPath) -> Result<Layer> {
        let number = self.0.made.fetch_add(1, Ordering::Relaxed);
        let place = self.0.root.join(format!("layers/{number}"));
        let layer = Layer::of(root.to_abs(), &place);
        for path in [&layer.upper, &layer.work] {
            dir::create_all(path, Audience::User)?;
        }
        Ok(layer)
    }

    fn layers(&self) -> MutexGuard<'_, BTreeMap<RealPath, Layer>> {
        self.0.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where protected names go that a command made, whose room is or was at `root`.
pub fn quarantine(root: &AbsPath) -> AbsPath {
    root.join("quarantine")
}

/// Where the notes of commands are that are to be swept after, whose room is or was at `root`.
pub fn notes(root: &AbsPath) -> AbsPath {
    root.join("unswept")
}
