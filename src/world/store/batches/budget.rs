//! The money of a batch as files: each token is a share of the limit. A cell moves tokens from the
//! free ones to its own by `rename` before it asks a model, and gives back at its end what it did
//! not use. There is no coordinator and no lock, and a process that is killed keeps what it held
//! until its cell is claimed again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::batch::task::CellId;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::spending::money::Money;
use crate::spending::shared_budget::SharedBudget;
use crate::world::store::batches::BatchDir;
use crate::world::sys::state_files::create_once::move_token;
use crate::world::sys::state_files::dir;
use crate::world::sys::state_files::file::{self, FileDurability};
use crate::world::sys::state_files::file_error;

/// Number of tokens into which the first limit is divided.
const TOKENS: u64 = 1000;
/// Maximum number of tokens.
const TOKENS_MAX: u64 = 100_000;
/// The file with the limit and the value of a token.
const LIMIT: &str = "limit.json";
/// Maximum size of that file, in bytes.
const LIMIT_BYTES_MAX: u64 = 4096;
/// How often a cell looks for a free token while others take those that it has seen.
const TAKE_TRIES_MAX: u32 = 16;

/// The limit of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BudgetFile {
    /// The value of a token, in millionths of a millionth of a US dollar.
    token_picodollars: u64,
    /// The number of tokens.
    tokens: u64,
}

/// What a batch may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchBudget {
    /// The limit.
    pub limit: Money,
    /// What cells have taken and not given back: what is spent, and what running cells hold.
    pub taken: Money,
}

impl BatchDir {
    /// Sets the limit of the batch, or raises it.
    ///
    /// # Errors
    /// The new limit is lower than the present one, or so much higher that there would be too many
    /// tokens.
    pub fn raise_limit(&self, limit: Money) -> Result<()> {
        let (token, tokens) = match self.budget_file()? {
            None => (limit.picodollars().div_euclid(TOKENS).max(1), 0),
            Some(budget) => (budget.token_picodollars, budget.tokens),
        };
        let all = limit.picodollars().div_euclid(token);
        if all < tokens {
            let now = Money::from_picodollars(token.saturating_mul(tokens));
            let message = format!("the batch has a limit of ${now}, which cannot be lowered");
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint("cancel the batch to stop it: massgen batch cancel"));
        }
        if all > TOKENS_MAX {
            let message = format!("`--max-cost-usd {limit}` is too much for this batch");
            let most = Money::from_picodollars(token.saturating_mul(TOKENS_MAX));
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint(format!("its limit can be raised to ${most}")));
        }
        let budget = BudgetFile {
            token_picodollars: token,
            tokens: all,
        };
        let text = serde_json::to_vec(&budget)
            .map_err(|error| Error::bug("a budget has no JSON form").with_source(error))?;
        // In this order, so that a crash in between loses tokens and never makes one twice.
        file::replace(&self.money().join(LIMIT), &text, FileDurability::Power)?;
        for number in tokens..all {
            let path = self.free().join(format!("{number:06}"));
            file::replace(&path, b"", FileDurability::Process)?;
        }
        Ok(())
    }

    /// Returns what the batch may spend; `None` without a limit.
    pub fn budget(&self) -> Result<Option<BatchBudget>> {
        let Some(budget) = self.budget_file()? else {
            return Ok(None);
        };
        let free = u64::try_from(self.free_tokens()?.len()).unwrap_or(u64::MAX);
        let value =
            |tokens: u64| Money::from_picodollars(budget.token_picodollars.saturating_mul(tokens));
        Ok(Some(BatchBudget {
            limit: value(budget.tokens),
            taken: value(budget.tokens.saturating_sub(free)),
        }))
    }

    /// Opens the share of `cell`, which has `spent` money in runs that are not resumed. When the
    /// money of the batch is spent, `stop` is cancelled. `None` if the batch has no limit.
    pub fn cell_budget(
        &self,
        cell: &CellId,
        spent: Money,
        stop: CancellationToken,
    ) -> Result<Option<CellBudget>> {
        let Some(budget) = self.budget_file()? else {
            return Ok(None);
        };
        let held = self.held_tokens(cell)?.len();
        Ok(Some(CellBudget {
            batch: self.clone(),
            cell: cell.clone(),
            token: budget.token_picodollars,
            spent_before: spent,
            held: Mutex::new(u64::try_from(held).unwrap_or(u64::MAX)),
            stop,
            is_exhausted: AtomicBool::new(false),
        }))
    }

    /// Makes the tokens of `cell` those that `spent` money in all uses: takes what its last requests
    /// cost beyond its tokens, as far as there are free ones, and gives the others back. Several
    /// processes may do so at the same time.
    pub fn settle(&self, cell: &CellId, spent: Money) -> Result<()> {
        let Some(budget) = self.budget_file()? else {
            return Ok(());
        };
        let used = spent.picodollars().div_ceil(budget.token_picodollars);
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        for _ in self.held_tokens(cell)?.len()..used {
            if !self.take_token(cell)? {
                break;
            }
        }
        let mut held = self.held_tokens(cell)?;
        held.sort_unstable();
        for name in held.into_iter().skip(used) {
            let token = name
                .rsplit_once('.')
                .map_or(name.as_str(), |(_, token)| token);
            move_token(&self.held().join(&name), &self.free().join(token))?;
        }
        Ok(())
    }

    /// Gives the tokens back that finished cells hold and did not use: their processes may have been
    /// killed before they did so.
    pub fn settle_finished(&self) -> Result<()> {
        let mut owners = BTreeSet::new();
        for name in dir::names_if_exists(&self.held())? {
            let owner = name
                .rsplit_once('.')
                .and_then(|(owner, _)| CellId::parse(owner));
            owners.extend(owner);
        }
        for cell in owners {
            if let Some((result, _)) = self.result(&cell)? {
                self.settle(&cell, result.cost_usd)?;
            }
        }
        Ok(())
    }

    /// Returns the names of the free tokens.
    fn free_tokens(&self) -> Result<Vec<String>> {
        let mut names = dir::names_if_exists(&self.free())?;
        // A token that is being created has another name.
        names.retain(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        Ok(names)
    }

    /// Returns the names of the tokens that `cell` holds.
    fn held_tokens(&self, cell: &CellId) -> Result<Vec<String>> {
        let mut names = dir::names_if_exists(&self.held())?;
        let is_own =
            |name: &String| name.rsplit_once('.').map(|(owner, _)| owner) == Some(cell.as_str());
        names.retain(is_own);
        Ok(names)
    }

    /// Moves a free token to `cell`; returns whether there was one.
    fn take_token(&self, cell: &CellId) -> Result<bool> {
        for _ in 0..TAKE_TRIES_MAX {
            let names = self.free_tokens()?;
            if names.is_empty() {
                return Ok(false);
            }
            // Processes begin at different tokens, so that they rarely meet.
            let process = usize::try_from(std::process::id()).unwrap_or(0);
            let first = process.checked_rem(names.len()).unwrap_or(0);
            for name in names.iter().cycle().skip(first).take(names.len()) {
                let own = self.held().join(format!("{cell}.{name}"));
                if move_token(&self.free().join(name), &own)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn budget_file(&self) -> Result<Option<BudgetFile>> {
        let path = self.money().join(LIMIT);
        let bytes = match file::read_regular_capped(&path, LIMIT_BYTES_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| file_error("read", path.as_path(), error))?,
        };
        let budget = bytes.and_then(|bytes| serde_json::from_slice::<BudgetFile>(&bytes).ok());
        let is_valid = |budget: &BudgetFile| budget.token_picodollars > 0;
        let budget = budget.filter(is_valid).ok_or_else(|| {
            Error::new(ErrorKind::Environment, format!("`{path}` is damaged"))
                .with_hint("no model is asked while the limit of the batch is unknown")
        })?;
        Ok(Some(budget))
    }

    fn money(&self) -> AbsPath {
        self.dir.join("money")
    }

    fn free(&self) -> AbsPath {
        self.money().join("free")
    }

    fn held(&self) -> AbsPath {
        self.money().join("held")
    }
}

/// The share of a cell in the money of its batch.
#[derive(Debug)]
pub struct CellBudget {
    batch: BatchDir,
    cell: CellId,
    /// The value of a token, in millionths of a millionth of a US dollar.
    token: u64,
    spent_before: Money,
    /// The number of tokens that the cell holds.
    held: Mutex<u64>,
    stop: CancellationToken,
    is_exhausted: AtomicBool,
}

impl CellBudget {
    /// Returns whether a request was not covered.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.load(Ordering::Relaxed)
    }
}

impl SharedBudget for CellBudget {
    /// Takes tokens until they are more than what is spent. An error of the disk counts as spent
    /// money, because no further request is covered.
    fn covers(&self, spent: Money) -> bool {
        let spent = self.spent_before.saturating_add(spent).picodollars();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while held.saturating_mul(self.token) <= spent {
            if !matches!(self.batch.take_token(&self.cell), Ok(true)) {
                self.is_exhausted.store(true, Ordering::Relaxed);
                self.stop.cancel();
                return false;
            }
            *held = held.saturating_add(1);
        }
        true
    }
}
