//! Tests of the tree that Markdown becomes.

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(text: &str, expected: &Value) {
    let tree = serde_json::to_value(parse(text)).unwrap();
    assert_eq!(tree, *expected, "{text:?}: {tree}");
}

fn words(text: &str) -> Value {
    json!({"kind": "text", "text": text})
}

fn paragraph(text: &str) -> Value {
    json!({"kind": "paragraph", "spans": [words(text)]})
}

#[test]
fn each_kind_of_block_has_its_own_json() {
    check("one\ntwo", &json!([paragraph("one\ntwo")]));
    check("one\n\ntwo", &json!([paragraph("one"), paragraph("two")]));
    check(
        "## Head",
        &json!([{"kind": "heading", "level": 2, "spans": [words("Head")]}]),
    );
    check(
        "```rust ignore\nfn a() {}\n```",
        &json!([{"kind": "code", "language": "rust", "text": "fn a() {}\n"}]),
    );
    check(
        "> quoted",
        &json!([{"kind": "quote", "blocks": [paragraph("quoted")]}]),
    );
    check("a\n\n---\n", &json!([paragraph("a"), {"kind": "rule"}]));
    check(
        "- [x] a\n- b\n  - c",
        &json!([{"kind": "list", "start": null, "items": [
            {"checked": true, "blocks": [paragraph("a")]},
            {"checked": null, "blocks": [paragraph("b"),
                {"kind": "list", "start": null,
                    "items": [{"checked": null, "blocks": [paragraph("c")]}]}]},
        ]}]),
    );
    check(
        "3. a\n\n   b",
        &json!([{"kind": "list", "start": 3,
            "items": [{"checked": null, "blocks": [paragraph("a"), paragraph("b")]}]}]),
    );
    check(
        "| a | b |\n|:-:|--:|\n| 1 | 2 |",
        &json!([{"kind": "table", "alignments": ["center", "right"],
            "head": [{"spans": [words("a")]}, {"spans": [words("b")]}],
            "rows": [[{"spans": [words("1")]}, {"spans": [words("2")]}]]}]),
    );
}

#[test]
fn each_kind_of_span_has_its_own_json() {
    check(
        "a *b* **c** ~~d~~ `e`",
        &json!([{"kind": "paragraph", "spans": [
            words("a "),
            {"kind": "emphasis", "spans": [words("b")]},
            words(" "),
            {"kind": "strong", "spans": [words("c")]},
            words(" "),
            {"kind": "strikethrough", "spans": [words("d")]},
            words(" "),
            {"kind": "code", "text": "e"},
        ]}]),
    );
    check(
        "a  \nb",
        &json!([{"kind": "paragraph",
            "spans": [words("a"), {"kind": "break"}, words("b")]}]),
    );
}

#[test]
fn links_lead_only_to_the_web_or_a_mail_address() {
    let link = |url: &str| {
        json!([{"kind": "paragraph",
            "spans": [{"kind": "link", "url": url, "spans": [words("x")]}]}])
    };
    for url in [
        "https://a.example/",
        "HTTP://a.example",
        "mailto:a@b.example",
    ] {
        check(&format!("[x]({url})"), &link(url));
        check(&format!("![x]({url})"), &link(url));
    }
    for url in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "//a.example",
        "/etc/passwd",
        "vbscript:x",
    ] {
        check(&format!("[x]({url})"), &json!([paragraph("x")]));
        check(&format!("![x]({url})"), &json!([paragraph("x")]));
    }
}

#[test]
fn html_is_text() {
    check(
        "<script>alert(1)</script>",
        &json!([paragraph("<script>alert(1)</script>")]),
    );
    check(
        "a <img src=x onerror=y> b",
        &json!([paragraph("a <img src=x onerror=y> b")]),
    );
}

#[test]
fn deep_and_long_texts_are_bounded_and_complete() {
    fn depth(blocks: &[MarkdownBlock]) -> usize {
        let inner = blocks.iter().map(|block| {
            if let MarkdownBlock::Quote { blocks } = block {
                depth(blocks)
            } else if let MarkdownBlock::List { items, .. } = block {
                let items = items.iter().map(|item| depth(&item.blocks));
                items.max().unwrap_or(0)
            } else {
                0
            }
        });
        inner.max().unwrap_or(0) + 1
    }
    let deep = format!("{}x", "> ".repeat(5000));
    let tree = parse(&deep);
    assert!(depth(&tree) <= DEPTH_MAX + 1, "{}", depth(&tree));
    assert!(serde_json::to_string(&tree).unwrap().contains("\"x\""));
    let lists: Vec<String> = (0..200)
        .map(|n| format!("{}- x\n", "  ".repeat(n)))
        .collect();
    let lists = lists.concat();
    assert!(depth(&parse(&lists)) <= DEPTH_MAX + 1);
    let long = "é".repeat(MARKDOWN_BYTES_MAX);
    let tree = parse(&long);
    let MarkdownBlock::Paragraph { spans } = &tree[1] else {
        panic!("{:?}", tree.len());
    };
    assert_eq!(plain_text(spans).len(), MARKDOWN_BYTES_MAX);
}

#[test]
fn hostile_texts_take_no_more_than_linear_time() {
    for unit in [
        "[", "*a ", "`", "![", "<", "|a", "> - ", "\\", "[a](", "~~x",
    ] {
        let text = unit.repeat(100_000 / unit.len());
        assert!(!parse(&text).is_empty(), "{unit}");
    }
}

#[test]
fn parse_complete_stops_before_blocks_that_more_text_could_change() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let (blocks, length) = parse_complete(text);
        assert_eq!(text.get(..length).unwrap().trim_end(), expected, "{text:?}");
        assert_eq!(blocks, parse(expected), "{text:?}");
    }
    check("", "");
    check("one", "");
    check("one\n\n", "");
    check("one\n\ntwo", "one");
    check("# one\ntwo", "# one");
    check("```\na\n\nb\n", "");
    check("```\na\n```\nb", "```\na\n```");
    check("- a\n- b\n\nc", "- a\n- b");
    check("one\n\n| a |\n|---|\n| 1 |\n", "one");
}
