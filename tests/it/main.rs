//! The only integration test binary: each file has one subject; massgen's own code is never mocked.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests prepare a disk and look at it, and start the real binary"
)]

mod dashboard;
mod decoding;
mod helper_driver;
mod mention_origin;
mod message_memory;
mod git_settings;
mod nested_repositories;
mod project;
mod project_directory;
mod project_instructions;
mod repetition;
mod source_tree;
mod http_server;
mod terminal;
mod wire;

mod agreement;
mod asking;
mod broken_off;
mod chaos;
mod chat_faults;
mod chat_wire;
mod claude_faults;
mod claude_runs;
mod claude_wire;
mod checks;
mod cli;
mod code;
mod code_attacks;
mod code_runs;
mod command_plan;
mod command_runs;
mod completions;
mod config;
mod corpus;
mod credentials;
mod custom_tools;
mod delivery;
mod differential;
mod disk;
mod docker;
mod docker_corpus;
mod docker_faults;
mod docs;
mod dotenv;
mod doctor;
mod edits;
mod encodings;
mod endpoint_runs;
mod explain;
mod floods;
mod folding_disk;
mod fault_runs;
mod foreign;
mod foreign_text;
mod found_config;
mod gate;
mod git;
mod git_trail;
mod gemini_faults;
mod gemini_runs;
mod gemini_wire;
mod guard;
mod guest_ends;
mod guest_packages;
mod guest_runs;
mod guests;
mod hooks;
mod hostile;
mod init;
mod interactive;
mod limits;
mod mcp;
mod mcp_forms;
mod image_files;
mod mcp_images;
mod mcp_lifecycle;
mod mcp_login;
mod mcp_conformance;
mod mcp_packages;
mod mcp_servers;
mod mcp_sse;
mod logs;
mod massgen_configs;
mod mcp_orchestrate;
mod mcp_serve;
mod mcp_serve_http;
mod memory;
mod names;
mod oauth_server;
mod openai_replies;
mod openai_runs;
mod openai_wire;
mod output_formats;
mod patience;
mod picker;
mod planted_records;
mod planted_state;
mod pipeline;
mod pipeline_apply;
mod pipeline_kept;
mod pipeline_kills;
mod pipeline_leavings;
mod pipeline_projects;
mod pipeline_repository;
mod pipeline_rights;
mod program_scene;
mod proxy;
mod races;
mod read_only_files;
mod reasoning_echo;
mod records;
mod replay;
mod resource_limits;
mod resume;
mod rules;
mod runs;
mod sandbox_helper;
mod sandbox;
mod sandboxes;
mod sandbox_tier_c;
mod scripted_team;
mod selftest;
mod sessions;
mod single_calls;
mod skills;
mod stage;
mod starts;
mod steering;
mod store;
mod telemetry;
mod tidy;
mod tools;
mod tools_doc;
mod trail;
mod undo;
mod unread_files;
mod web;
mod web_config;
mod web_data;
mod web_page;
mod web_runs;
mod web_server;
mod web_streams;
