//! A cache of what git has printed about trees and commits. An object never changes, so git is run
//! only once for each: starting git costs more than most queries.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::world::git::object::ObjectId;

/// Maximum number of trees, and of commits, that are kept. Before one more is added, all are
/// removed.
const OBJECTS_MAX: usize = 64;
/// Maximum size of a listing that is kept, in bytes.
const LISTING_BYTES_MAX: usize = 64 * 1024;

/// The objects of one repository; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct GitObjectCache(Arc<Mutex<KnownObjects>>);

#[derive(Debug, Default)]
struct KnownObjects {
    /// The entries directly in each tree, as `git ls-tree -z` prints them.
    listings: BTreeMap<ObjectId, Arc<[u8]>>,
    /// The tree of each commit.
    trees: BTreeMap<ObjectId, ObjectId>,
}

impl GitObjectCache {
    /// Returns the entries of a tree if they are kept.
    pub(super) fn listing(&self, tree: &ObjectId) -> Option<Arc<[u8]>> {
        self.lock().listings.get(tree).cloned()
    }

    /// Keeps the entries of a tree unless they are too long.
    pub(super) fn keep_listing(&self, tree: &ObjectId, listing: &Arc<[u8]>) {
        if listing.len() <= LISTING_BYTES_MAX {
            insert_bounded(&mut self.lock().listings, tree, Arc::clone(listing));
        }
    }

    /// Returns the tree of a commit if it is kept.
    pub(super) fn tree(&self, commit: &ObjectId) -> Option<ObjectId> {
        self.lock().trees.get(commit).cloned()
    }

    /// Keeps the tree of a commit.
    pub(super) fn keep_tree(&self, commit: &ObjectId, tree: &ObjectId) {
        insert_bounded(&mut self.lock().trees, commit, tree.clone());
    }

    fn lock(&self) -> MutexGuard<'_, KnownObjects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn insert_bounded<T>(cache: &mut BTreeMap<ObjectId, T>, object: &ObjectId, value: T) {
    if cache.len() >= OBJECTS_MAX {
        cache.clear();
    }
    cache.insert(object.clone(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(number: usize) -> ObjectId {
        ObjectId::parse(&format!("{number:040x}")).unwrap()
    }

    #[test]
    fn a_bounded_number_of_objects_is_kept() {
        let cache = GitObjectCache::default();
        for number in 0..=OBJECTS_MAX {
            cache.keep_tree(&object(number), &object(number + 1));
            assert_eq!(cache.tree(&object(number)), Some(object(number + 1)));
        }
        assert_eq!(cache.lock().trees.len(), 1);
        assert_eq!(cache.tree(&object(0)), None);
    }

    #[test]
    fn a_long_listing_is_not_kept() {
        let cache = GitObjectCache::default();
        for (number, bytes) in [LISTING_BYTES_MAX, LISTING_BYTES_MAX + 1]
            .into_iter()
            .enumerate()
        {
            let listing: Arc<[u8]> = vec![b'x'; bytes].into();
            cache.keep_listing(&object(number), &listing);
        }
        assert!(cache.clone().listing(&object(0)).is_some());
        assert_eq!(cache.listing(&object(1)), None);
    }
}
