//! What agents have besides their models: uploaded files, media that vendors make, memory, and
//! pauses for tests.

use super::*;

#[test]
fn uploaded_images_are_files_to_read() {
    let backend = |files: &str| {
        format!("agent: {{id: a, backend: {{type: openai, model: m, upload_files: {files}}}}}")
    };
    let opened = |text: &str| {
        let loaded = try_load(text).unwrap();
        let agent = &loaded.config.agents[0];
        // They are files, and context paths are directories.
        assert!(agent.context_paths.is_empty(), "{text}");
        let paths: Vec<String> = agent
            .uploaded_images
            .iter()
            .map(ToString::to_string)
            .collect();
        paths.join(", ")
    };
    let image = backend("[{image_path: pictures/a.png}, {image_path: pictures/a.png}]");
    check(&image, &[]);
    assert!(
        opened(&image).ends_with("/pictures/a.png"),
        "{}",
        opened(&image)
    );
    for (entry, finding) in [
        (
            "{image_path: 'https://example.org/a.png'}",
            "upload_files[0].image_path: `https://example.org/a.png` is not shown",
        ),
        (
            "{image_path: /}",
            "upload_files[0].image_path: `/` is not shown",
        ),
        (
            "{image_url: 'http://example.org/a.png'}",
            "upload_files[0].image_url: `http://example.org/a.png` is not shown: it is not encrypted",
        ),
        (
            "{image_url: a.png}",
            "upload_files[0].image_url: `a.png` is not shown: it is not a complete URL",
        ),
    ] {
        check(&backend(&format!("[{entry}]")), &[finding]);
        assert_eq!(opened(&backend(&format!("[{entry}]"))), "");
    }
    let at_url = backend("[{image_url: 'https://example.org/a.png'}]");
    check(&at_url, &[]);
    let loaded = try_load(&at_url).unwrap();
    let urls: Vec<String> = loaded.config.agents[0]
        .uploaded_image_urls
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(urls, ["https://example.org/a.png"]);
}

#[test]
fn a_folder_guard_closes_uploaded_files_and_not_urls() {
    let guarded = |files: &str| {
        format!(
            "agent: {{id: a, folder_guard: {{read: [src]}}, backend: {{type: openai, model: m, \
             cwd: w, upload_files: [{files}]}}}}"
        )
    };
    let url = "https://example.org/a";
    let urls =
        format!("{{image_url: '{url}.png'}}, {{file_path: '{url}.pdf', audio_path: '{url}'}}");
    check(&guarded(&urls), &[]);
    let warning = "upload_files: `upload_files` are not open to an agent with a `folder_guard`";
    for file in [
        "{image_path: a.png}",
        "{file_path: a.pdf}",
        "{audio_path: a.mp3}",
        "{video_path: a.mp4}",
    ] {
        check(&guarded(file), &[warning]);
        check(&guarded(&format!("{urls}, {file}")), &[warning]);
    }
}

#[test]
fn uploaded_files_are_paths_or_encrypted_urls() {
    let backend = |files: &str| {
        format!("agent: {{id: a, backend: {{type: openai, model: m, upload_files: [{files}]}}}}")
    };
    let uploaded = |files: &str| {
        let loaded = try_load(&backend(files)).unwrap();
        let agent = &loaded.config.agents[0];
        assert!(agent.uploaded_images.is_empty(), "{files}");
        let files: Vec<String> = agent
            .uploaded_files
            .iter()
            .map(|file| format!("{} {}", file.key(), file.source))
            .collect();
        files.join(", ")
    };
    let all = "{file_path: /srv/a.pdf, audio_path: /srv/a}, {video_path: /srv/a.mp4}, \
               {file_path: /srv/a.pdf}, {file_path: 'https://example.org/a.pdf#page=2'}";
    check(&backend(all), &[]);
    let expected = "file_path /srv/a.pdf, audio_path /srv/a, video_path /srv/a.mp4, \
                    file_path https://example.org/a.pdf";
    assert_eq!(uploaded(all), expected);
    for (url, problem) in [
        ("http://example.org/a.pdf", "is not encrypted"),
        (
            "https://u:p@example.org/",
            "holds a user name or a password",
        ),
        (
            "https://127.0.0.1/a.pdf",
            "names no host, or an address instead of a name",
        ),
    ] {
        let file = format!("{{file_path: '{url}'}}");
        let finding = format!("upload_files[0].file_path: `{url}` is not shown: it {problem}");
        check(&backend(&file), &[finding.as_str()]);
        assert_eq!(uploaded(&file), "");
    }
}

#[test]
fn memory_says_when_conversations_are_compacted_and_what_outlives_them() {
    let with = |memory: &str| format!("{}memory: {memory}\n", with_backend("cwd: w"));
    let read = |memory: &str| {
        let rules = try_load(&with(memory)).unwrap().config.orchestrator;
        (
            rules.keeps_memory,
            rules.compaction_threshold,
            rules.compression_target_ratio,
        )
    };
    let compression = "compression: {trigger_threshold: 0.25, target_ratio: 0.1}";
    let persistent = "persistent_memory: {enabled: true, qdrant: {mode: server}}";
    let off = format!("{{enabled: false, {compression}, {persistent}}}");
    check(&with(&off), &[]);
    assert_eq!(read(&off), (false, None, None));
    let short = format!("{{enabled: true, retrieval: {{limit: 5}}, {compression}}}");
    check(
        &with(&short),
        &[
            "warning memory.retrieval: `retrieval` is not supported: an agent has its whole conversation",
        ],
    );
    assert_eq!(read(&short), (false, Some(0.25), Some(0.1)));
    let long = format!("{{enabled: true, {persistent}}}");
    check(
        &with(&long),
        &["warning memory.persistent_memory: long-term memory is notes in files"],
    );
    assert_eq!(read(&long), (true, None, None));
}

#[test]
fn media_is_made_by_vendors_that_make_it() {
    let media = |text: &str| {
        let loaded = try_load(text).unwrap();
        let media = loaded.config.agents[0].backend.media.clone();
        (media.image, media.audio)
    };
    let backend = |keys: &str| format!("agent: {{id: a, backend: {{type: openai, {keys}}}}}");
    let named = |name: &str| Some(name.to_owned());
    for (keys, expected) in [
        ("enable_image_generation: false", (None, None)),
        ("image_generation_model: m", (None, None)),
        (
            "enable_image_generation: true",
            (named("gpt-image-1"), None),
        ),
        (
            "enable_image_generation: true, image_generation_model: m, enable_audio_generation: true",
            (named("m"), named("gpt-4o-mini-tts")),
        ),
    ] {
        check(&backend(keys), &[]);
        assert_eq!(media(&backend(keys)), expected, "{keys}");
    }
    let of_another = backend("enable_audio_generation: true").replace("openai", "gemini");
    check(
        &of_another,
        &[
            "warning agent.backend.enable_audio_generation: `enable_audio_generation` has no effect for `gemini`",
        ],
    );
    assert_eq!(media(&of_another), (None, None));
}
