use std::collections::BTreeMap;

use super::*;
