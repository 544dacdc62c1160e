//! Ids of calls as Mistral's models require them: nine letters and digits. Another vendor that answered
//! before, or a server without ids, has other ones.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::config::BackendConfig;
use crate::text::to_hex;

const ID_CHARS: usize = 9;

/// Returns whether a model requires them. All of Mistral's names end so, with a size or a version after.
pub(super) fn requires_short_ids(config: &BackendConfig) -> bool {
    let name = config.model.to_lowercase();
    ["stral", "xtral"].iter().any(|end| name.contains(end))
}

/// Shortens the ids in a message, each always to the same one.
pub(super) fn shorten_ids(message: &mut Value) {
    if let Some(id) = message.get_mut("tool_call_id") {
        shorten(id);
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for id in calls
        .into_iter()
        .flatten()
        .filter_map(|call| call.get_mut("id"))
    {
        shorten(id);
    }
}

fn shorten(id: &mut Value) {
    let text = id.as_str().unwrap_or_default();
    if text.len() == ID_CHARS && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return;
    }
    let digest = to_hex(&Sha256::digest(text));
    *id = Value::String(digest.chars().take(ID_CHARS).collect());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_and_its_result_have_the_same_short_id() {
        let mut call = json!({"tool_calls": [{"id": "functions.x:0"}, {"id": "abcDEF123"}]});
        let mut result = json!({"tool_call_id": "functions.x:0"});
        shorten_ids(&mut call);
        shorten_ids(&mut result);
        let short_id = &call["tool_calls"][0]["id"];
        assert_eq!(*short_id, result["tool_call_id"]);
        assert_eq!(short_id.as_str().map(str::len), Some(ID_CHARS));
        assert_eq!(call["tool_calls"][1]["id"], "abcDEF123");
    }
}
