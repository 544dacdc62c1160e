//! Runs the setup command of the config: once a run, on a layer of its own that lies read-only below
//! every attempt and every check; where nothing can be mounted, in each copy.

use std::future::{Future, pending};
use std::sync::Arc;

use crate::agent::deadline::RunDeadline;
use crate::answer_changes::{ChangeLayer, ChangeLayers};
use crate::check_results::CheckVerdict;
use crate::error::{Error, ErrorKind, Result};
use crate::event::RunEvent;
use crate::orchestrator::PreparedTurn;
use crate::orchestrator::check_runner::{run_command, user_path};
use crate::orchestrator::grants::{first_write_tree, permission_manager};
use crate::orchestrator::overlays::{OverlayFactory, TreeSetup, setup_error};
use crate::permissions::grant::{Grant, Phase};
use crate::tools::call::ToolCall;
use crate::world::access::gate::Gate;
use crate::world::access::policy::GatePolicy;
use crate::world::io::run_blocking;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::setup::SetupLayers;
use crate::world::sandbox::overlay::{OverlaidTree, OverlayMethod, WriteOverlay};

/// The longest time that the command may take, in seconds.
const SETUP_SECONDS_MAX: u64 = 60 * 60;
impl PreparedTurn {
    /// Runs the setup command of the config, if it has one.
    ///
    /// # Errors
    /// It fails, or cannot run: no agent has worked.
    pub(super) async fn run_setup(&self, deadline: &RunDeadline) -> Result<()> {
        let setup = self.config.checks.setup.clone();
        let (Some(command), Some(overlays)) = (setup, self.team.overlays()) else {
            return Ok(());
        };
        let mut members = self.team.members.iter();
        let member = members.find(|member| first_write_tree(&member.grants).is_some());
        let member = member.ok_or_else(|| {
            let message = "`setup` needs a directory that is open for writing";
            Error::new(ErrorKind::Config, message)
                .with_hint("open one with `permission: write`, or remove `setup`")
        })?;
        let environment = self.team.check_environment(member);
        let environment = environment.ok_or_else(|| setup_error("no sandbox is available"))?;
        self.emit(RunEvent::SetupStarted { command }).await;
        let stop = async {
            let _cause = deadline.wait().await;
        };
        let result = overlays.run_setup(&member.grants, environment, stop).await;
        // The coordination reports that the run was stopped.
        if deadline.stop.is_cancelled() {
            return Ok(());
        }
        result
    }
}

impl OverlayFactory {
    /// Runs the setup command in a sandbox like that of `environment` until `stop` ends.
    async fn run_setup(
        &self,
        grants: &[Grant],
        environment: &ExecEnvironment,
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        let Some(setup) = self.setup() else {
            return Ok(());
        };
        let (preparing, environment) = (Arc::clone(setup), environment.clone());
        let all_grants = grants.to_vec();
        let prepare = move || preparing.prepare(&all_grants, &environment);
        let (directories, environment, overlay) = run_blocking(prepare).await?;
        run_on(setup, &overlay, grants, &environment, stop).await?;
        if has_copy(&overlay) {
            setup.left.get_or_init(|| None);
            return Ok(());
        }
        let layer = |tree: OverlaidTree<'_>| ChangeLayer {
            root: tree.root.to_abs(),
            path: tree.upper.clone(),
        };
        let layers = SetupLayers {
            trees: ChangeLayers(overlay.trees().map(layer).collect()),
            home: environment.home(),
        };
        setup.left.get_or_init(|| Some((layers, directories)));
        Ok(())
    }

    /// Runs the setup command on `overlay`, whose trees are copies, in the sandbox and with the
    /// home directory of `environment`. What it does there is not part of any change.
    pub(super) async fn set_up_copies(
        &self,
        overlay: &WriteOverlay,
        grants: &[Grant],
        environment: &ExecEnvironment,
    ) -> Result<()> {
        let is_needed = |setup: &&Arc<TreeSetup>| setup.left.get().is_some() && has_copy(overlay);
        let Some(setup) = self.setup().filter(is_needed) else {
            return Ok(());
        };
        let environment = environment.for_setup(None)?;
        run_on(setup, overlay, grants, &environment, pending()).await?;
        let overlay = overlay.clone();
        run_blocking(move || overlay.rebase()).await
    }
}

/// Runs the setup command on `overlay` until `stop` ends.
async fn run_on(
    setup: &TreeSetup,
    overlay: &WriteOverlay,
    grants: &[Grant],
    environment: &ExecEnvironment,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let tree = first_write_tree(grants);
    let tree = tree.ok_or_else(|| Error::bug("a setup command without a write path"))?;
    let call = ToolCall::ExecuteCommand {
        command: setup.line.clone(),
        timeout_seconds: Some(SETUP_SECONDS_MAX),
        dir: user_path(tree)?,
        answer: None,
    };
    let policy = GatePolicy {
        commands: Some(environment.clone()),
        overlay: Some(overlay.clone()),
        ..GatePolicy::minimal(tree.clone())
    };
    let gate = Gate::open(permission_manager(grants, Phase::Final), policy)?;
    match run_command(gate, call, stop).await {
        (CheckVerdict::Passed, _) => Ok(()),
        (CheckVerdict::NotRun { reason }, _) => Err(setup_error(&reason)),
        (CheckVerdict::Failed { failure }, tail) => {
            let output = tail.lines().collect::<Vec<_>>().join(" | ");
            let message = format!("the setup command failed: {failure}; its output ends: {output}");
            Err(Error::new(ErrorKind::Environment, message)
                .with_hint("it has the sandbox and the network of the agents' commands"))
        }
    }
}

fn has_copy(overlay: &WriteOverlay) -> bool {
    overlay.trees().any(|tree| tree.kind == OverlayMethod::Copy)
}
