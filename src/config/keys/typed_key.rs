//! Keys that massgen acts on: each is declared once, as a constant that the table lists and that
//! readers pass to `MappingView`.

use std::marker::PhantomData;
use std::ops::Deref;

use crate::config::keys::found_config::FoundConfigUse;
use crate::config::keys::shape::TypedShape;
use crate::config::keys::{ConfigKey, ForeignValue, KeyStatus};

/// A key that massgen acts on and whose value is read as `V`.
#[derive(Debug)]
pub struct TypedKey<V> {
    row: ConfigKey,
    value: PhantomData<V>,
}

impl<V> TypedKey<V> {
    /// Creates a key that may be left out.
    pub(super) const fn new(
        names: &'static [&'static str],
        shape: TypedShape<V>,
        doc: &'static str,
    ) -> Self {
        Self {
            row: ConfigKey::new(names, shape.shape, doc, KeyStatus::Supported),
            value: PhantomData,
        }
    }

    /// Returns its row of the table.
    pub(super) const fn row(self) -> ConfigKey {
        self.row
    }

    /// Returns its name; readers find the value by its other names too.
    pub(crate) const fn name(&self) -> &'static str {
        self.row.name()
    }

    /// Adds the default.
    pub(super) const fn with_default(mut self, default: &'static str) -> Self {
        self.row.default = Some(default);
        self
    }

    /// Sets what is allowed in a found config.
    pub(super) const fn in_found(mut self, allowed: FoundConfigUse) -> Self {
        self.row.found_config_use = allowed;
        self
    }

    /// Adds the values of MassGen that are read as others.
    pub(super) const fn with_foreign_values(mut self, values: &'static [ForeignValue]) -> Self {
        self.row.foreign_values = values;
        self
    }

    /// Returns the same key with the description for another section.
    pub(super) const fn with_doc(mut self, doc: &'static str) -> Self {
        self.row.doc = doc;
        self
    }

    /// Returns the same key for a section that needs it.
    pub(super) const fn make_required(mut self) -> Self {
        self.row.status = KeyStatus::Required;
        self
    }

    /// Returns the same key for a section that does not need it.
    pub(super) const fn make_optional(mut self) -> Self {
        self.row.status = KeyStatus::Supported;
        self
    }
}

impl<V> Deref for TypedKey<V> {
    type Target = ConfigKey;

    fn deref(&self) -> &ConfigKey {
        &self.row
    }
}
