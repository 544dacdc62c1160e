//! Money that several runs share, such as those of a batch.

use std::fmt::Debug;

use crate::spending::money::Money;

/// The share of a run in money that other runs use too. An implementation knows what the other runs
/// have spent.
pub trait SharedBudget: Debug + Send + Sync {
    /// Returns whether it limits what the run may cost.
    fn limits_cost(&self) -> bool;

    /// Returns whether a run that has spent `spent` may make a further request. If it may not, the
    /// run is stopped from outside, so that it can be resumed when there is more money.
    fn covers(&self, spent: Money) -> bool;
}
