//! The money of a batch as files: each token is a share of the limit. Before a cell asks a model,
//! it takes free tokens by `rename`; when it ends, it gives back what it did not use, down to a
//! part of a token. There is no coordinator, and the tokens of a killed process stay with its cell
//! until the cell is claimed again. Files that add money are prepared in a directory where they do
//! not count, and are made free by `rename` after the file that the money comes from has been
//! changed: a process that is killed at any point neither loses nor creates money.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::batch::task::CellId;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::spending::money::Money;
use crate::spending::shared_budget::SharedBudget;
use crate::world::store::batches::BatchDir;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::create_once::move_exclusively;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;
use crate::world::sys::state_files::file_error;
use crate::world::sys::state_files::sync::sync_directory;

/// Number of tokens into which the first limit is divided.
const INITIAL_TOKENS: u64 = 1000;
/// Maximum number of tokens.
const TOKENS_MAX: u64 = 100_000;
/// The file with the limit and the value of a token.
const LIMIT_FILE: &str = "limit.json";
/// Maximum size of that file, in bytes.
const LIMIT_BYTES_MAX: u64 = 4096;
/// Maximum number of listings of tokens, because other processes may move the listed ones.
const TAKE_TRIES_MAX: u32 = 16;
/// The end of the name of the part of a divided token that its cell gives back.
const REST_SUFFIX: &str = "-rest";

/// The limit of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BudgetFile {
    /// The value of a token, in millionths of a millionth of a US dollar.
    token_picodollars: u64,
    /// The number of tokens.
    tokens: u64,
}

/// A token: a file whose name gives its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MoneyToken {
    /// The value, in millionths of a millionth of a US dollar.
    picodollars: u64,
    /// The name: a number, or for a part of a token its value and a unique suffix.
    name: String,
}

impl MoneyToken {
    /// Reads the name of a token; those that are not parts of a token are worth
    /// `token_picodollars`.
    fn parse(name: &str, token_picodollars: u64) -> Option<Self> {
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let picodollars = match name.split_once('-') {
            None if is_number(name) && !name.is_empty() => token_picodollars,
            Some((value, _)) if is_number(value) => value.parse().ok()?,
            None | Some(_) => return None,
        };
        Some(Self {
            picodollars,
            name: name.to_owned(),
        })
    }

    /// Returns the two parts of a token: one of `used` picodollars, and the rest.
    fn divide(&self, used: u64) -> [Self; 2] {
        let id = Uuid::new_v4().simple();
        let rest = self.picodollars.saturating_sub(used);
        [(used, ""), (rest, REST_SUFFIX)].map(|(picodollars, suffix)| Self {
            picodollars,
            name: format!("{picodollars}-{id}{suffix}"),
        })
    }

    /// Returns whether this prepared token counts as money: a new one if the limit has more
    /// `tokens` than its number, and the rest of a divided one if a cell holds its other part, whose
    /// file is among `held_names`.
    fn counts(&self, tokens: u64, held_names: &[String]) -> bool {
        let Some((_, part)) = self.name.split_once('-') else {
            return self.name.parse::<u64>().is_ok_and(|number| number < tokens);
        };
        let id = part.strip_suffix(REST_SUFFIX);
        id.is_some_and(|id| {
            held_names
                .iter()
                .any(|name| name.ends_with(&format!("-{id}")))
        })
    }

    fn is_part(&self) -> bool {
        self.name.contains('-')
    }

    /// Returns the value of all `tokens`.
    fn sum(tokens: &[Self]) -> u64 {
        let values = tokens.iter().map(|token| token.picodollars);
        values.fold(0, u64::saturating_add)
    }
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
        // Two processes would make the same tokens, and those of the second would be new money.
        let _lock = dir::lock(&self.money_dir())?;
        let (token_picodollars, token_count) = match self.budget_file()? {
            None => (limit.picodollars().div_euclid(INITIAL_TOKENS).max(1), 0),
            Some(budget) => (budget.token_picodollars, budget.tokens),
        };
        let new_count = limit.picodollars().div_euclid(token_picodollars);
        if new_count < token_count {
            let current_limit =
                Money::from_picodollars(token_picodollars.saturating_mul(token_count));
            let message =
                format!("the batch has a limit of ${current_limit}, which cannot be lowered");
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint("cancel the batch to stop it: massgen batch cancel"));
        }
        if new_count > TOKENS_MAX {
            let message = format!("`--max-cost-usd {limit}` is too much for this batch");
            let highest_limit =
                Money::from_picodollars(token_picodollars.saturating_mul(TOKENS_MAX));
            return Err(Error::new(ErrorKind::Usage, message)
                .with_hint(format!("its limit can be raised to ${highest_limit}")));
        }
        let budget = BudgetFile {
            token_picodollars,
            tokens: new_count,
        };
        let text = serde_json::to_vec(&budget)
            .map_err(|error| Error::bug("a budget has no JSON form").with_source(error))?;
        dir::create_all(&self.prepared_dir(), DirectoryAudience::User)?;
        for number in token_count..new_count {
            let path = self.prepared_dir().join(format!("{number:06}"));
            file::replace_unsynced(&path, b"")?;
        }
        sync_directory(&self.prepared_dir())?;
        file::replace(&self.money_dir().join(LIMIT_FILE), &text)?;
        self.free_prepared(&budget)
    }

    /// Frees the prepared tokens that count. Any process may do so, for itself or for one that was
    /// killed: each token is moved once.
    fn free_prepared(&self, budget: &BudgetFile) -> Result<()> {
        let names = dir::names_if_exists(&self.prepared_dir())?;
        if names.is_empty() {
            return Ok(());
        }
        // They are listed after the prepared ones: a rest that is prepared later counts later.
        let held_names = dir::names_if_exists(&self.held_dir())?;
        let tokens = names
            .iter()
            .filter_map(|name| MoneyToken::parse(name, budget.token_picodollars));
        for token in tokens.filter(|token| token.counts(budget.tokens, &held_names)) {
            move_exclusively(&self.prepared_file(&token), &self.free_file(&token))?;
        }
        Ok(())
    }

    /// Returns what the batch may spend; `None` without a limit.
    pub fn budget(&self) -> Result<Option<BatchBudget>> {
        let Some(budget) = self.budget_file()? else {
            return Ok(None);
        };
        let value =
            |tokens: u64| Money::from_picodollars(budget.token_picodollars.saturating_mul(tokens));
        let limit = value(budget.tokens);
        let free_picodollars = MoneyToken::sum(&self.free_tokens(budget.token_picodollars)?);
        Ok(Some(BatchBudget {
            limit,
            taken: limit.saturating_sub(Money::from_picodollars(free_picodollars)),
        }))
    }

    /// Opens the share of `cell`. Its earlier runs have cost `spent`, without one that is resumed,
    /// which counts its own cost. When the money of the batch is spent, `stop` is cancelled. `None`
    /// if the batch has no limit.
    pub fn cell_budget(
        &self,
        cell: &CellId,
        spent: Money,
        stop: CancellationToken,
    ) -> Result<Option<CellBudget>> {
        let Some(budget) = self.budget_file()? else {
            return Ok(None);
        };
        let tokens = self.held_tokens(cell, budget.token_picodollars)?;
        Ok(Some(CellBudget {
            batch: self.clone(),
            cell: cell.clone(),
            token_picodollars: budget.token_picodollars,
            spent_before: spent,
            held_value: Mutex::new(MoneyToken::sum(&tokens)),
            stop,
            is_exhausted: AtomicBool::new(false),
        }))
    }

    /// Makes the tokens of `cell` worth what it has `spent` in all uses: takes what its last
    /// requests cost beyond its tokens, as far as there are free ones, and gives the rest back.
    /// Several processes may do so at the same time.
    pub fn settle(&self, cell: &CellId, spent: Money) -> Result<()> {
        let Some(budget) = self.budget_file()? else {
            return Ok(());
        };
        let (token_picodollars, spent) = (budget.token_picodollars, spent.picodollars());
        let mut tokens = self.held_tokens(cell, token_picodollars)?;
        // The rests of the cell's tokens are freed before its tokens are moved, because afterwards
        // nothing shows that they count.
        self.free_prepared(&budget)?;
        while MoneyToken::sum(&tokens) < spent {
            match self.take_token(cell, token_picodollars)? {
                Some(token) => tokens.push(token),
                None => break,
            }
        }
        tokens.sort_unstable();
        let mut total: u64 = 0;
        let mut token_to_divide = None;
        let mut unused_tokens = Vec::new();
        for token in tokens {
            let missing_amount = spent.saturating_sub(total);
            total = total.saturating_add(token.picodollars);
            if missing_amount == 0 {
                unused_tokens.push(token);
            } else if token.picodollars > missing_amount {
                token_to_divide = Some((token, missing_amount));
            }
        }
        // Unused tokens are given back first, so that another process that settles the cell in
        // between keeps and divides the same tokens.
        for token in &unused_tokens {
            move_exclusively(&self.held_file(cell, token), &self.free_file(token))?;
        }
        match token_to_divide {
            Some((token, part)) => self.divide_token(cell, &token, part),
            None => Ok(()),
        }
    }

    /// Divides a token that `cell` holds: the cell keeps a `part` of its value.
    fn divide_token(&self, cell: &CellId, token: &MoneyToken, part: u64) -> Result<()> {
        let [share, rest] = token.divide(part);
        let prepared_file = self.prepared_file(&rest);
        dir::create_all(&self.prepared_dir(), DirectoryAudience::User)?;
        file::replace_unsynced(&prepared_file, b"")?;
        // Once this is done, the rest counts.
        if move_exclusively(&self.held_file(cell, token), &self.held_file(cell, &share))? {
            // Another process may have done this already.
            return move_exclusively(&prepared_file, &self.free_file(&rest)).map(drop);
        }
        clear::remove(&prepared_file)
    }

    /// Gives back the unused tokens of finished cells, and frees prepared ones, in case their
    /// processes were killed before they did so.
    pub fn settle_finished(&self) -> Result<()> {
        let Some(budget) = self.budget_file()? else {
            return Ok(());
        };
        self.free_prepared(&budget)?;
        let mut cells = BTreeSet::new();
        for name in dir::names_if_exists(&self.held_dir())? {
            let cell = name
                .rsplit_once('.')
                .and_then(|(cell, _)| CellId::parse(cell));
            cells.extend(cell);
        }
        for cell in cells {
            if let Some((result, _)) = self.result(&cell)? {
                self.settle(&cell, result.cost_usd)?;
            }
        }
        Ok(())
    }

    /// Returns the free tokens; those that are not parts of a token are worth `token_picodollars`.
    fn free_tokens(&self, token_picodollars: u64) -> Result<Vec<MoneyToken>> {
        let names = dir::names_if_exists(&self.free_dir())?.into_iter();
        // Files with other names are not tokens.
        let tokens = names.filter_map(|name| MoneyToken::parse(&name, token_picodollars));
        Ok(tokens.collect())
    }

    /// Returns the tokens that `cell` holds; those that are not parts of a token are worth
    /// `token_picodollars`.
    fn held_tokens(&self, cell: &CellId, token_picodollars: u64) -> Result<Vec<MoneyToken>> {
        let mut tokens = Vec::new();
        for _ in 0..TAKE_TRIES_MAX {
            let names = dir::names_if_exists(&self.held_dir())?;
            let own_tokens = names.iter().filter_map(|name| {
                let (owner, token) = name.rsplit_once('.')?;
                MoneyToken::parse(token, token_picodollars).filter(|_| owner == cell.as_str())
            });
            tokens = own_tokens.collect();
            // A token that was divided during the listing may be listed under both names.
            let mut are_all_held = true;
            for token in &tokens {
                are_all_held &= file::exists(&self.held_file(cell, token))?;
            }
            if are_all_held {
                break;
            }
        }
        Ok(tokens)
    }

    /// Moves a free token to `cell` and returns it, if there was one.
    fn take_token(&self, cell: &CellId, token_picodollars: u64) -> Result<Option<MoneyToken>> {
        for _ in 0..TAKE_TRIES_MAX {
            let mut tokens = self.free_tokens(token_picodollars)?;
            if tokens.is_empty() {
                return Ok(None);
            }
            // Processes begin at different tokens, so that they rarely meet.
            let process = usize::try_from(std::process::id()).unwrap_or(0);
            let first_token = process.checked_rem(tokens.len()).unwrap_or(0);
            tokens.rotate_left(first_token);
            // Parts are used first, so that they stay few.
            tokens.sort_by_key(|token| !token.is_part());
            for token in tokens {
                if move_exclusively(&self.free_file(&token), &self.held_file(cell, &token))? {
                    return Ok(Some(token));
                }
            }
        }
        Ok(None)
    }

    fn budget_file(&self) -> Result<Option<BudgetFile>> {
        let path = self.money_dir().join(LIMIT_FILE);
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

    fn money_dir(&self) -> AbsPath {
        self.dir.join("money")
    }

    fn free_dir(&self) -> AbsPath {
        self.money_dir().join("free")
    }

    fn held_dir(&self) -> AbsPath {
        self.money_dir().join("held")
    }

    fn prepared_dir(&self) -> AbsPath {
        self.money_dir().join("prepared")
    }

    fn prepared_file(&self, token: &MoneyToken) -> AbsPath {
        self.prepared_dir().join(&token.name)
    }

    fn free_file(&self, token: &MoneyToken) -> AbsPath {
        self.free_dir().join(&token.name)
    }

    fn held_file(&self, cell: &CellId, token: &MoneyToken) -> AbsPath {
        self.held_dir().join(format!("{cell}.{}", token.name))
    }
}

/// The share of a cell in the money of its batch.
#[derive(Debug)]
pub struct CellBudget {
    batch: BatchDir,
    cell: CellId,
    /// The value of a whole token, in millionths of a millionth of a US dollar.
    token_picodollars: u64,
    /// What the cell spent in runs that are not resumed.
    spent_before: Money,
    /// The value of the tokens that the cell holds.
    held_value: Mutex<u64>,
    /// Cancelled when the money of the batch is spent.
    stop: CancellationToken,
    /// Whether a request was not covered.
    is_exhausted: AtomicBool,
}

impl CellBudget {
    /// Returns whether a request was not covered.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.load(Ordering::Relaxed)
    }
}

impl SharedBudget for CellBudget {
    /// Takes tokens until they are worth more than what is spent. If the disk fails, no further
    /// request is covered, as if the money were spent.
    fn covers(&self, spent: Money) -> bool {
        let spent = self.spent_before.saturating_add(spent).picodollars();
        let mut held_value = self
            .held_value
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while *held_value <= spent {
            let Ok(Some(token)) = self.batch.take_token(&self.cell, self.token_picodollars) else {
                self.is_exhausted.store(true, Ordering::Relaxed);
                self.stop.cancel();
                return false;
            };
            *held_value = held_value.saturating_add(token.picodollars);
        }
        true
    }
}
