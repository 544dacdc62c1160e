//! Owns the Agent Client Protocol, as its client: JSON-RPC in lines. Guests work with tools of their
//! own; a permission that they ask for is answered by the gate, and files that they ask massgen for
//! are read and written through it. <https://agentclientprotocol.com/protocol/overview>

use serde_json::{Value, json};

use crate::backend::guest::permission;
use crate::backend::guest::tongue::{
    Around, Heard, Launch, Life, SERVER, Tongue, Trouble, Wish, own_tool, parsed, text_at,
};
use crate::spending::money::Money;
use crate::spending::{Usage, token_count};

/// The version of the protocol that is spoken.
const VERSION: u64 = 1;
/// JSON-RPC: there is no such method; the arguments are wrong.
const NO_METHOD: i64 = -32601;
const FAILED: i64 = -32000;
/// The ids of what is asked of the guest.
const INITIALIZE: u64 = 0;
const NEW_SESSION: u64 = 1;
const FIRST_PROMPT: u64 = 2;

/// A conversation with a guest that speaks it.
#[derive(Debug)]
pub(super) struct Acp {
    /// What is started besides its command, for the vendor's own program.
    launch: fn(&Around) -> Launch,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    session: String,
    /// What `session/new` is asked with.
    place: Value,
    /// What waits until the session is there.
    first: Option<String>,
    prompt_id: u64,
    /// What all turns of the session have cost that are charged.
    charged: Money,
    /// What they have cost by now, if that was told in this turn.
    told: Option<Money>,
}

impl Acp {
    /// A guest that is started with what `launch` says.
    pub(super) fn new(launch: fn(&Around) -> Launch) -> Self {
        Self {
            launch,
            state: State::default(),
        }
    }

    fn heard_update(&mut self, update: &Value) -> Option<Heard> {
        let text = || text_at(update, "/content/text").to_owned();
        match text_at(update, "/sessionUpdate") {
            "agent_message_chunk" => Some(Heard::Text(text())),
            "agent_thought_chunk" => Some(Heard::Reasoning(text())),
            "tool_call" => {
                let kind = text_at(update, "/kind");
                let tool = if kind.is_empty() { "tool" } else { kind };
                let title = json!({ "title": text_at(update, "/title") });
                Some(Heard::OwnTool(own_tool(tool, &title)))
            }
            "usage_update" => {
                self.state.told = cost(update).or(self.state.told);
                None
            }
            _ => None,
        }
    }

    /// What the end of a turn says.
    fn ended(&mut self, result: &Value) -> Vec<Heard> {
        let usage = usage(result);
        let counted = (usage != Usage::default()).then_some(Heard::Usage(usage));
        let cost = self.state.told.take().map(|all| {
            let charged = std::mem::replace(&mut self.state.charged, all);
            Heard::Cost(all.less(charged))
        });
        let heard = counted.into_iter().chain(cost);
        heard.chain([Heard::TurnEnded]).collect()
    }

    /// What the answer to a request of massgen's says.
    fn answered(&mut self, id: u64, message: &Value) -> Result<Vec<Heard>, Trouble> {
        if let Some(error) = message.get("error") {
            let said = text_at(error, "/message");
            let more = error.pointer("/data/details").and_then(Value::as_str);
            let why = format!("{said} {}", more.unwrap_or_default());
            let why = format!("the program refuses: {}", why.trim());
            return if id >= FIRST_PROMPT {
                Ok(vec![Heard::Failed(Trouble::Passing(why))])
            } else {
                Err(Trouble::Lasting(why))
            };
        }
        let result = message.get("result").unwrap_or(&Value::Null);
        match id {
            INITIALIZE if result.get("protocolVersion") != Some(&json!(VERSION)) => {
                let why = "the program speaks another version of the Agent Client Protocol";
                Err(Trouble::Lasting(why.to_owned()))
            }
            INITIALIZE => {
                let new = request(NEW_SESSION, "session/new", &self.state.place);
                Ok(vec![Heard::Send(new)])
            }
            NEW_SESSION => {
                text_at(result, "/sessionId").clone_into(&mut self.state.session);
                let first = self.state.first.take().unwrap_or_default();
                Ok(self.prompt(first).into_iter().map(Heard::Send).collect())
            }
            id if id == self.state.prompt_id => Ok(self.ended(result)),
            _ => Ok(Vec::new()),
        }
    }
}

/// What a turn has used, as far as the end of a turn says so.
fn usage(result: &Value) -> Usage {
    let at = |pointer: &str| result.pointer(pointer).and_then(token_count);
    let count = |name: &str| at(&format!("/usage/{name}")).unwrap_or_default();
    let (cached, written) = (count("cachedReadTokens"), count("cachedWriteTokens"));
    let (input, output, thought) = (
        count("inputTokens"),
        count("outputTokens"),
        count("thoughtTokens"),
    );
    if input == 0 && output == 0 {
        // Google's program tells it in a place of its own.
        let quota = |name: &str| at(&format!("/_meta/quota/token_count/{name}"));
        return Usage {
            input_tokens: quota("input_tokens").unwrap_or_default(),
            output_tokens: quota("output_tokens").unwrap_or_default(),
            ..Usage::default()
        };
    }
    // Whether the parts are in the whole is not settled; the sum tells, where there is one.
    let cache = cached.saturating_add(written);
    let beside = count("totalTokens").saturating_sub(input.saturating_add(output));
    let is_beside = |part: u64, other: u64| beside == part || beside == part.saturating_add(other);
    let apart = |part: u64, is_apart: bool| if is_apart { part } else { 0 };
    Usage {
        input_tokens: input
            .saturating_add(apart(cache, cache > input || is_beside(cache, thought))),
        cached_tokens: cached,
        cache_write_tokens: written,
        output_tokens: output.saturating_add(apart(thought, is_beside(thought, cache))),
        reasoning_tokens: thought,
    }
}

/// What the session has cost by now, where a guest says so in the money that massgen counts.
fn cost(update: &Value) -> Option<Money> {
    let dollars = update.pointer("/cost/amount").and_then(Value::as_f64);
    let dollars = dollars.filter(|_| text_at(update, "/cost/currency") == "USD");
    Money::from_dollars(&format!("{:.9}", dollars?))
}

impl Tongue for Acp {
    fn launch(&self, around: &Around) -> Launch {
        (self.launch)(around)
    }

    fn begin(&mut self, around: &Around, text: String) -> Vec<String> {
        let server = json!({
            "name": SERVER, "command": around.ours.to_string(), "args": around.relay(), "env": [],
        });
        self.state = State {
            place: json!({"cwd": around.dir.to_string(), "mcpServers": [server]}),
            first: Some(text),
            ..State::default()
        };
        let able = json!({
            "protocolVersion": VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": true, "writeTextFile": true},
                "terminal": false,
            },
            "clientInfo": {"name": SERVER, "version": env!("CARGO_PKG_VERSION")},
        });
        vec![request(INITIALIZE, "initialize", &able)]
    }

    fn prompt(&mut self, text: String) -> Vec<String> {
        self.state.prompt_id = FIRST_PROMPT.max(self.state.prompt_id.saturating_add(1));
        let asked = json!({
            "sessionId": self.state.session, "prompt": [{"type": "text", "text": text}],
        });
        vec![request(self.state.prompt_id, "session/prompt", &asked)]
    }

    fn hear(&mut self, line: &str) -> Result<Vec<Heard>, Trouble> {
        // Programs greet people on the same stream.
        let Some(message) = parsed(line) else {
            return Ok(Vec::new());
        };
        let asked = message.get("params").unwrap_or(&Value::Null);
        let method = message.get("method").and_then(Value::as_str);
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        match (method, id) {
            (None, Some(id)) => match id.as_u64() {
                Some(id) => self.answered(id, &message),
                None => Ok(Vec::new()),
            },
            (Some("session/update"), None) => {
                let update = asked.get("update").unwrap_or(&Value::Null);
                Ok(self.heard_update(update).into_iter().collect())
            }
            (Some(_) | None, None) => Ok(Vec::new()),
            (Some("session/request_permission"), Some(id)) => {
                let wish = Wish::Permission(permission::asked(asked, &self.state.place));
                Ok(vec![Heard::Wish(id, Box::new(wish))])
            }
            (Some("fs/read_text_file"), Some(id)) => {
                let number = |name: &str| asked.get(name).and_then(Value::as_u64);
                let path = text_at(asked, "/path").to_owned();
                let wish = Wish::Read(path, number("line"), number("limit"));
                Ok(vec![Heard::Wish(id, Box::new(wish))])
            }
            (Some("fs/write_text_file"), Some(id)) => {
                let (path, text) = (text_at(asked, "/path"), text_at(asked, "/content"));
                let wish = Wish::Write(path.to_owned(), text.to_owned());
                Ok(vec![Heard::Wish(id, Box::new(wish))])
            }
            (Some(_), Some(id)) => {
                let no = failure(&id, NO_METHOD, "massgen does not offer this");
                Ok(vec![Heard::Send(no)])
            }
        }
    }

    fn cancel(&self) -> Vec<String> {
        if self.state.session.is_empty() {
            return Vec::new();
        }
        let asked = json!({"sessionId": self.state.session});
        let told = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": asked});
        vec![told.to_string()]
    }

    fn permit(&self, id: &Value, option: Option<&str>) -> Option<String> {
        let outcome = match option {
            Some(option) => json!({"outcome": "selected", "optionId": option}),
            None => json!({"outcome": "cancelled"}),
        };
        Some(success(id, &json!({ "outcome": outcome })))
    }

    fn grant(&self, id: &Value, given: Result<Value, String>) -> Option<String> {
        Some(match given {
            Ok(value) => success(id, &value),
            Err(why) => failure(id, FAILED, &why),
        })
    }

    fn life(&self) -> Life {
        Life::Whole
    }
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn success(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

fn failure(id: &Value, code: i64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

/// What Google's program is started with: its key, and nothing that was asked before.
pub(super) fn gemini(around: &Around) -> Launch {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
        "general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
    });
    let model = around.model.iter();
    let model = model.flat_map(|model| ["--model".to_owned(), model.clone()]);
    Launch {
        arguments: model.collect(),
        files: vec![(".gemini/settings.json", settings.to_string())],
    }
}

/// What a program that nothing is known of is started with.
pub(super) fn plain(_around: &Around) -> Launch {
    Launch::default()
}
