//! How the run of a cell ended, from its event log: the result in the published schema, and the cost
//! of all its parts.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::batch::next_step::CellRunEnd;
use crate::check_results::ChecksOutcome;
use crate::cli::batch::cell_run::logs_directory;
use crate::cli::result_builder::{ProcessEnd, ResultBuilder, RunStart};
use crate::error::{Error, ExitStatus, Result};
use crate::event::{Event, ModelEvent, RunEvent};
use crate::host::Host;
use crate::id::AgentId;
use crate::spending::money::Money;
use crate::world::io::clock;
use crate::world::store::json_line::JsonLine;
use crate::world::store::redact::Redactor;
use crate::world::store::runs;

/// The end of the run of a cell.
#[derive(Debug)]
pub(super) struct CellRunReport {
    /// How it ended, which decides the next step of the cell.
    pub(super) end: CellRunEnd,
    /// The result in the published schema.
    pub(super) run_result: Value,
    /// How the checks ended.
    pub(super) checks: ChecksOutcome,
    /// The known cost of the run.
    pub(super) cost: Money,
    /// Whether that includes the cost of every request.
    pub(super) cost_is_complete: bool,
    /// How long it worked, in milliseconds.
    pub(super) duration_ms: u64,
}

impl CellRunReport {
    /// Returns the report of a cell that has failed because of `error` outside its run. `redactor`
    /// knows the secrets that the error may contain.
    pub(super) fn from_error(error: &Error, redactor: &Redactor) -> Result<Self> {
        RunRecords::default().report(Some(error), redactor)
    }

    /// Reads the report of the last run in the directory of `host`, which worked for `run_time` and
    /// ended with `error` if there is one. `redactor` knows the secrets of the run.
    pub(super) fn from_records(
        host: &Host,
        run_time: Duration,
        error: Option<&Error>,
        redactor: &Redactor,
    ) -> Result<Self> {
        let last_run = runs::find_last_own(&logs_directory(host))?;
        let mut records = RunRecords {
            run_time,
            ..RunRecords::default()
        };
        if let Some(run) = last_run
            && run.has_log()?
        {
            records.builder = run
                .metadata()
                .map(|metadata| RunStart {
                    session_id: metadata.session_id,
                    log_dir: run.log().to_string(),
                    task: run
                        .manifest()
                        .map_or_else(|_| String::new(), |manifest| manifest.task),
                })
                .map_or_else(ResultBuilder::default, ResultBuilder::new);
            for entry in run.events()?.intact_entries() {
                if let Some(event) = entry?.event {
                    records.add(&event);
                }
            }
        }
        records.report(error, redactor)
    }

    /// Returns the agent that won, if any did.
    pub(super) fn winner(&self) -> Option<String> {
        let winner = self.run_result.pointer("/winner/agent")?.as_str()?;
        Some(winner.to_owned())
    }

    /// Returns how it ended, in one sentence.
    pub(super) fn reason(&self) -> String {
        let summary = self.run_result.get("summary").and_then(Value::as_str);
        summary.unwrap_or_default().to_owned()
    }
}

/// What the records of a run contain.
#[derive(Debug, Default)]
struct RunRecords {
    builder: ResultBuilder,
    warnings: Vec<String>,
    /// The recorded exit status.
    recorded_status: Option<ExitStatus>,
    /// The agents whose last request is being repeated.
    retrying_agents: BTreeSet<AgentId>,
    /// Whether the requests of an agent failed after all repetitions.
    did_endpoints_fail: bool,
    /// How long the run worked, without the time between two attempts at the cell.
    run_time: Duration,
}

impl RunRecords {
    fn add(&mut self, event: &Event) {
        self.builder.apply(event);
        if let Event::Model(event) = event {
            self.add_model_event(event);
        } else if let Event::Run(RunEvent::RunEnded { status, .. }) = event {
            self.recorded_status = Some(*status);
        } else if let Event::Run(RunEvent::Warning { message }) = event {
            self.warnings.push(message.clone());
        }
    }

    /// Follows whether endpoints failed although requests were retried. An endpoint that refuses a
    /// request for good, such as one with a wrong key, is not a reason to wait.
    fn add_model_event(&mut self, event: &ModelEvent) {
        if let ModelEvent::Retrying { agent, .. } = event {
            self.retrying_agents.insert(agent.clone());
        } else if let ModelEvent::Replied { agent, .. } = event {
            self.retrying_agents.remove(agent);
        } else if let ModelEvent::Failed { agent, .. } = event {
            self.did_endpoints_fail |= self.retrying_agents.remove(agent);
        }
    }

    fn report(self, error: Option<&Error>, redactor: &Redactor) -> Result<CellRunReport> {
        let status = match (error, self.recorded_status) {
            (Some(error), _) => error.kind().exit_status(),
            (None, Some(status)) => status,
            (None, None) => return Err(Error::bug("the run of a cell recorded no end")),
        };
        let result = self.builder.build(&ProcessEnd {
            status,
            error,
            warnings: &self.warnings,
            elapsed: self.run_time,
        });
        let has_answer = result.answer.is_some();
        let checks = self.builder.view.checks_outcome();
        let duration_ms = result.duration_ms;
        let line = JsonLine::new(1, &clock::now(), &result, redactor)?;
        let run_result = serde_json::from_str(&line.text()?).map_err(Error::unserializable)?;
        let totals = self.builder.view.usage().run();
        Ok(CellRunReport {
            // The log says nothing about the money of the batch: the caller sets that.
            end: CellRunEnd {
                exit_code: status.code(),
                has_answer,
                is_out_of_money: false,
                did_endpoints_fail: self.did_endpoints_fail,
            },
            run_result,
            checks,
            cost: totals.known_cost(),
            cost_is_complete: totals.cost_is_complete,
            duration_ms,
        })
    }
}
