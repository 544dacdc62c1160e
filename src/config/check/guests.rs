//! Owns the keys of an agent that is a program of its own: what is started for it, with which
//! variables, and what it reaches of the network.

use std::collections::BTreeMap;

use secrecy::SecretString;

use crate::config::BackendConfig;
use crate::config::check::Checker;
use crate::config::check::commands::of_guest;
use crate::config::check::view::View;
use crate::config::command_line::{CommandLineConfig, Variable};
use crate::config::diagnostic::Diagnostic;
use crate::config::guests::{GuestConfig, Kind, find};
use crate::config::vendors::Tongue;
use crate::confinement::network::{Domain, Network};
use crate::confinement::tier::{Tier, TierChoice};

/// Keys that mean nothing for a program that has tools of its own, and why.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    (
        "enable_mcp_command_line",
        "the program has commands of its own",
    ),
    (
        "enable_code_based_tools",
        "the program has tools of its own",
    ),
    ("fallback", "a program has no other model to go on with"),
    ("base_url", "a program is told by a variable, in `env`"),
];

/// Beginnings of keys about commands that mean nothing for it either, and what does.
const OF_COMMANDS: &[(&str, &str)] = &[
    ("command_line_network", "write `network`"),
    ("command_line_srt_", "write `network`"),
    (
        "command_line_allowed_",
        "write `permissions`: rules hold what it asks about",
    ),
    (
        "command_line_blocked_",
        "write `permissions`: rules hold what it asks about",
    ),
    (
        "command_policy",
        "write `permissions`: rules hold what it asks about",
    ),
    ("command_line_execution_mode", "remove it"),
    ("command_line_docker_", "remove it"),
];

impl Checker<'_> {
    /// Refuses keys of programs where none is started.
    pub(super) fn refuse_keys_of_guests(&mut self, view: &View<'_>) {
        for key in ["command", "network"] {
            if view.get(key).is_some() {
                let message = format!("`{key}` has no effect: no program is started");
                self.refuse_of_guest(view, key, message, "remove it, or write `type: acp`");
            }
        }
    }

    /// The program that speaks for an agent.
    pub(super) fn guest(
        &mut self,
        view: &View<'_>,
        backend: &BackendConfig,
        tongue: Tongue,
    ) -> Option<GuestConfig> {
        let kind = find(backend.vendor.name)?;
        for (key, why) in WITHOUT_EFFECT {
            let is_off = view.flag(key) == Some(false);
            if view.get(key).is_some() && !is_off {
                let warning = format!("`{key}` has no effect: {why}");
                let warning = Diagnostic::warning(view.path_of(key), warning);
                self.findings
                    .push(warning.at(view.span_of(key)).suggest("remove it"));
            }
        }
        for (beginning, remedy) in OF_COMMANDS {
            let why = "it is about commands of massgen's, and the program has its own";
            self.without_effect(view, beginning, why, remedy);
        }
        if !self.has_workspace(view) {
            let message = "`cwd` is missing: a program needs a workspace".to_owned();
            self.refuse_of_guest(view, "cwd", message, "add `cwd: workspace1`");
        }
        let command = self.command_of(view, kind)?;
        let own_model = backend.model != backend.vendor.name;
        if own_model && kind.key.is_none() {
            let message = "`model` says what tokens cost and nothing else: the protocol has no word \
                           for it";
            let warning = Diagnostic::warning(view.path_of("model"), message);
            let hint = "give the program its model by an argument of `command`, or by `env`";
            self.findings
                .push(warning.at(view.span_of("model")).suggest(hint));
        }
        let held = self.held(view, backend, kind);
        Some(GuestConfig {
            vendor: kind.vendor,
            tongue,
            command,
            package: kind.package.filter(|_| view.get("command").is_none()),
            model: own_model.then(|| backend.model.clone()),
            held,
        })
    }

    /// What is started.
    fn command_of(&mut self, view: &View<'_>, kind: &Kind) -> Option<Vec<String>> {
        let mut texts = view.texts("command").into_iter();
        // A program with a path lies where that leads; its arguments are its own.
        let program = texts.next().map(|text| {
            let place = text.written.contains('/').then(|| self.path(&text));
            let place = place.flatten().map(|path| path.to_string());
            place.unwrap_or_else(|| text.written.to_owned())
        });
        let arguments = texts.map(|text| text.written.to_owned());
        let words: Vec<String> = program.into_iter().chain(arguments).collect();
        let first = words.first().map(|word| word.trim().is_empty());
        match (view.get("command"), first) {
            (None, _) if !kind.command.is_empty() => {
                let usual = kind.command.iter().copied();
                return Some(usual.map(str::to_owned).collect());
            }
            (Some(_), Some(false)) => return Some(words),
            (None | Some(_), _) => {}
        }
        let message = "`command` names no program".to_owned();
        let hint = "write `command: [program, argument]`";
        self.refuse_of_guest(view, "command", message, hint);
        None
    }

    /// How it is held. The key that the vendor's variables or the config hold goes to the program and
    /// nowhere else.
    fn held(&mut self, view: &View<'_>, backend: &BackendConfig, kind: &Kind) -> CommandLineConfig {
        let usual = kind.env.iter();
        let usual = usual.map(|(name, value)| {
            let value = Variable::Written((*value).to_owned());
            ((*name).to_owned(), value)
        });
        let mut env: BTreeMap<String, Variable> = usual.collect();
        if let (Some(name), Some(secret)) = (kind.key, self.key_of(backend)) {
            env.insert(name.to_owned(), Variable::Filled(secret));
        }
        env.extend(self.variables(view));
        let network = if view.get("network").is_some() {
            self.network_of(view, "network")
        } else {
            let hosts = kind.hosts.iter().copied();
            match hosts.filter_map(Domain::parse).collect::<Vec<_>>() {
                none if none.is_empty() => Network::Off,
                hosts => Network::Domains(hosts),
            }
        };
        let mut held = of_guest(view);
        if held.sandbox == TierChoice::Only(Tier::Off) {
            let message = "nothing holds the agent's program: it may do whatever you may do";
            let key = "command_line_sandbox";
            let warning = Diagnostic::warning(view.path_of(key), message);
            let hint = "remove it, and see what `massgen doctor` says about the sandbox";
            self.findings
                .push(warning.at(view.span_of(key)).suggest(hint));
        }
        held.env = env;
        held.network = network;
        held
    }

    fn key_of(&self, backend: &BackendConfig) -> Option<SecretString> {
        let variables = backend.vendor.key_variables.iter();
        let mut set = variables.filter_map(|name| self.context.env.get(name));
        let set = set.find(|value| !value.trim().is_empty());
        let written = backend.api_key.clone();
        written.or_else(|| set.map(|value| value.trim().into()))
    }

    fn refuse_of_guest(&mut self, view: &View<'_>, key: &str, message: String, hint: &str) {
        let error = Diagnostic::error(view.path_of(key), message).at(view.span_of(key));
        self.findings.push(error.suggest(hint));
    }
}
