//! Reads the limits of a run and of its agents from a config, when a run is shown on the whole
//! terminal, and how long its records are kept.

use crate::config::DashboardMode;
use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::MappingView;
use crate::config::keys::shape::Decimal;
use crate::config::keys::{TypedKey, limits, root, ui};
use crate::config::retention::{DAY_SECONDS, RetentionConfig};
use crate::spending::limits::BudgetLimits;
use crate::spending::money::Money;

impl ConfigChecker<'_> {
    /// Returns the section `limits` of the config or of an agent; without it there are no limits.
    pub(super) fn limits(&mut self, parent: &MappingView<'_>) -> BudgetLimits {
        let view = parent.section_or_empty(&limits::KEY);
        self.budget(&view)
    }

    /// Returns the limits of a section.
    pub(super) fn budget(&mut self, view: &MappingView<'_>) -> BudgetLimits {
        BudgetLimits {
            cost: self.dollars(view, &limits::MAX_COST_USD, Money::from_dollars),
            tokens: view.integer(&limits::MAX_TOKENS_TOTAL),
            tool_calls: view.integer(&limits::MAX_TOOL_CALLS),
            user_limits: None,
        }
    }

    /// Returns the amount of a key, as parsed by `parse`. A value that `parse` rejects is an error.
    pub(super) fn dollars(
        &mut self,
        view: &MappingView<'_>,
        key: &TypedKey<Decimal>,
        parse: fn(&str) -> Option<Money>,
    ) -> Option<Money> {
        let decimal = view.decimal(key)?;
        let money = parse(&decimal);
        if money.is_none() {
            let message = format!("`{}` is `{decimal}`, which is too fine", key.name());
            self.refuse(view.at(key), message, "write an amount with fewer decimals");
        }
        money
    }
}

/// Returns the maximum number of requests in a round (`max_steps_per_round` of `limits`), if it is
/// set.
pub(super) fn steps_per_round(parent: &MappingView<'_>) -> Option<u32> {
    let limits = parent.section_or_empty(&limits::KEY);
    limits.integer(&limits::MAX_STEPS_PER_ROUND)
}

/// Returns when runs are shown on the whole terminal (`ui.dashboard`, or else `ui.display_type`).
pub(super) fn dashboard_mode(root: &MappingView<'_>) -> DashboardMode {
    let view = root.section_or_empty(&root::UI);
    match (view.word(&ui::DASHBOARD), view.word(&ui::DISPLAY_TYPE)) {
        (Some("always"), _) => DashboardMode::Always,
        (Some("never"), _) | (None, Some("simple" | "terminal" | "silent" | "none")) => {
            DashboardMode::Never
        }
        _ => DashboardMode::Auto,
    }
}

/// Returns the retention of the project's runs and sessions (`retention`).
pub(super) fn retention(root: &MappingView<'_>) -> RetentionConfig {
    let view = root.section_or_empty(&root::RETENTION);
    let days: Option<u64> = view.integer(&limits::RETENTION_DAYS);
    RetentionConfig {
        unused_seconds: days.map(|days| days.saturating_mul(DAY_SECONDS)),
        bytes: view.size(&limits::RETENTION_SIZE),
    }
}
