//! Calls of the user's own `kubectl`: it knows the kubeconfig, its contexts and the programs that
//! log in. Each call is short, and its output is bounded.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::kubernetes::KubernetesConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::prompts::untrusted_text::escape_notes;
use crate::text::{escape_line, single_line};
use crate::world::sandbox::pod::KUBE_CACHE;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, ProgramExit, ProgramInvocation};

/// The client of Kubernetes.
const KUBECTL: &str = "kubectl";
/// Timeout of one request to the API server, except for commands.
const REQUEST_TIMEOUT: &str = "--request-timeout=20s";
/// Timeout of one call. A call that runs a program in a pod has no other one, and might wait
/// forever for a pod that is lost.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);
/// The largest answer about objects, in bytes.
const OBJECTS_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The most that is shown of why a call failed, in characters.
const FAILURE_CHARS_MAX: usize = 500;

/// The user's `kubectl`, in one context and namespace.
#[derive(Clone, Debug)]
pub(super) struct Kubectl {
    program: AbsPath,
    env: ProcessEnvironment,
    dir: AbsPath,
    /// The options that name the context, the namespace and the cache.
    target_options: Vec<String>,
}

/// Why a call failed, on one line for people.
pub(super) type KubectlFailure = String;

impl Kubectl {
    /// Finds `kubectl`, which gets all variables of `env`: the programs that log in may need any of
    /// them. It runs in `dir`, because `KUBECONFIG` may name a relative path.
    pub(super) fn find(
        config: &KubernetesConfig,
        env: &BTreeMap<String, String>,
        dir: &AbsPath,
    ) -> Result<Self> {
        // As an option, because older versions of `kubectl` do not read `KUBECACHEDIR`.
        let cache = env.get(KUBE_CACHE).filter(|dir| !dir.is_empty());
        let env = ProcessEnvironment::inherit_except(env, &[]);
        let program = process::find(KUBECTL, env.program_path()).ok_or_else(|| {
            Error::new(ErrorKind::Environment, "cannot find `kubectl`")
                .with_hint("install kubectl, and check that `kubectl get pods` works here")
        })?;
        let target = [
            ("context", config.context.as_ref()),
            ("namespace", config.namespace.as_ref()),
            ("cache-dir", cache),
        ];
        let target_options = target
            .into_iter()
            .filter_map(|(flag, value)| Some(format!("--{flag}={}", value?)));
        Ok(Self {
            program,
            env,
            dir: dir.clone(),
            target_options: target_options.collect(),
        })
    }

    /// Calls `kubectl` about objects, and returns what it prints.
    pub(super) async fn ask(
        &self,
        subcommand: &[&str],
        input: &[u8],
    ) -> std::result::Result<Vec<u8>, KubectlFailure> {
        let subcommand = [subcommand, &[REQUEST_TIMEOUT]].concat();
        self.call(&subcommand, &[], input, OBJECTS_BYTES_MAX).await
    }

    /// Runs a program in a container of a pod with this input, and returns at most
    /// `output_bytes_max` of its output.
    pub(super) async fn exec(
        &self,
        pod: &str,
        container: &str,
        program: &[&str],
        input: &[u8],
        output_bytes_max: u64,
    ) -> std::result::Result<Vec<u8>, KubectlFailure> {
        let subcommand = ["exec", "--stdin", pod, "--container", container];
        self.call(&subcommand, program, input, output_bytes_max)
            .await
    }

    async fn call(
        &self,
        subcommand: &[&str],
        program: &[&str],
        input: &[u8],
        output_bytes_max: u64,
    ) -> std::result::Result<Vec<u8>, KubectlFailure> {
        let target_options = self.target_options.iter().map(String::as_str);
        let mut arguments: Vec<&str> = subcommand.iter().copied().chain(target_options).collect();
        if !program.is_empty() {
            arguments.push("--");
            arguments.extend(program);
        }
        let run = process::run(ProgramInvocation {
            path: &self.program,
            arguments: &arguments,
            env: &self.env,
            dir: &self.dir,
            input,
            output_bytes_max,
            time_max: CALL_TIME_MAX,
        });
        let reason = match run.await {
            Ok(ProgramExit::Exited {
                code: Some(0),
                output,
                ..
            }) => return Ok(output),
            Ok(ProgramExit::Exited { errors, .. }) if !errors.trim().is_empty() => errors,
            Ok(ProgramExit::Exited { code, .. }) => code.map_or_else(
                || "a signal ended `kubectl`".to_owned(),
                |code| format!("`kubectl` ended with exit status {code}"),
            ),
            Ok(ProgramExit::Killed) => {
                let seconds = CALL_TIME_MAX.as_secs();
                format!("`kubectl` took longer than {seconds} seconds")
            }
            Err(error) => format!("`kubectl` cannot be run: {error}"),
        };
        Err(cluster_message(&reason))
    }
}

/// Returns a cluster's message as one short line that does not look like a note from massgen.
pub(super) fn cluster_message(text: &str) -> String {
    let text = escape_line(&single_line(text.trim(), FAILURE_CHARS_MAX));
    escape_notes(&text).into_owned()
}
