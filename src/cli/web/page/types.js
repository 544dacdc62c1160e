// The shapes of what the server sends, for the checker of types. Nothing of it exists at run time.
// The sections of a run are those of `src/run_view`; the page renders them and folds nothing.

/** @typedef {{requests: number, input_tokens: number, output_tokens: number, cached_tokens: number,
 *   reasoning_tokens: number, cost_usd: number | null, cost_is_complete: boolean}} Usage */
/** @typedef {Usage & {agent: string, model: string, phase: string}} UsageRow */

/** @typedef {{task: string, agents: string[], attempt: number,
 *   phase: 'starting' | 'coordinating' | 'presenting' | 'delivering' | 'ended', is_stopped: boolean,
 *   status: string | null, summary: string | null, elapsed_ms: number, usage: Usage,
 *   tool_calls: number, warnings: string[], more_warnings: number,
 *   sandbox: {agents: string[], isolation: string, leaves_open: string[]}[],
 *   server_progress: string | null}} RunSection */

/** @typedef {{state: string, detail?: any}} Activity */
/** @typedef {{tool: string, arguments: string, outcome: 'running' | 'succeeded' | 'failed' | 'denied',
 *   summary?: string, reason?: string, rule?: string | null, started_ms: number,
 *   elapsed_ms: number | null}} Call */
/** @typedef {{kind: string | null, length: number, text: string}} Speech */
/** @typedef {{id: string, model: string | null, activity: Activity, since_ms: number,
 *   answer: string | null, vote: string | null, calls: Call[], speech: Speech,
 *   usage: Usage}} AgentSection */

/** @typedef {{check: string, need: string, verdict: 'passed' | 'failed' | 'not_run', how?: string,
 *   why?: string, tail?: string, elapsed_ms: number}} Check */
/** @typedef {{checks: Check[], changes: Record<string, number> | null}} CheckResults */
/** @typedef {{label: string, agent: string, content: string, has_files: boolean, at_ms: number,
 *   checks: CheckResults | null, seen_by: string[], is_replaced: boolean}} BallotAnswer */
/** @typedef {{voter: string, candidate: string, label: string, reason: string,
 *   is_void: boolean}} Vote */
/** @typedef {{agent: string, label: string, votes: {agent: string, count: number}[],
 *   reason: string}} Winner */
/** @typedef {{answers: BallotAnswer[], votes: Vote[], winner: Winner | null}} BallotSection */

/** @typedef {{id?: string, agent: string, call_id?: string | null, tool: string, effects: string[],
 *   reason: string, since_ms: number}} Approval */
/** @typedef {{path: string, outcome: string, reason?: string, kept?: string, before?: string | null,
 *   after?: string, bytes?: number | null}} DeliveryRow */
/** @typedef {{agent: string | null, answer: string | null, rows: DeliveryRow[] | null,
 *   checks: Check[]}} DeliverySection */
/** @typedef {{iteration: number, stage: number, role: string, agents: string[],
 *   state: 'working' | 'merged' | 'rejected', commit?: string, files?: number, reason?: string,
 *   attempt?: number, attempts_max?: number}} Stage */
/** @typedef {{stages: Stage[], stage_count: number}} PipelineSection */
/** @typedef {{kind: string, from_ms: number, to_ms: number, label: string}} Span */
/** @typedef {{lanes: {agent: string, spans: Span[], dropped: number}[]}} TimelineSection */
/** @typedef {{id?: string, kind: string, text?: string, check?: string,
 *   detail?: string, choices?: string[]}} Question */

/** @typedef {{id: string, session: string | null, task: string, state: string, agents: string[],
 *   started: string | null, duration_ms: number | null, tokens: number, cost_usd: number | null,
 *   outcome: string | null, winner?: string | null, live: boolean}} RunRow */
/** @typedef {{id: string, name: string, agents: {id: string, model: string | null}[],
 *   max_cost_usd?: string | null, is_pipeline?: boolean}} Team */
/** @typedef {{version: string, directory: string, read_only: boolean, teams: Team[],
 *   limits: Record<string, number>}} Info */

/** @typedef {{kind: 'context' | 'added' | 'removed', text: string}} DiffLine */
/** @typedef {{index: number, digest: string, header?: string, old_start: number, new_start: number,
 *   lines: DiffLine[]}} Hunk */
/** @typedef {{type: string, size?: number, sha256?: string, target?: string}} DiffSide */
/** @typedef {{path: string, change?: string, before?: DiffSide, after?: DiffSide, refused?: string | null,
 *   mode?: {before: string, after: string} | null, conflict?: string | null, too_long?: boolean,
 *   state?: string, hunks: Hunk[]}} DiffFile */
/** @typedef {{state: 'pending' | 'kept' | 'none' | 'answer', files: DiffFile[],
 *   refused?: {path: string, refused: string}[], applied?: DiffFile[]}} DiffReply */

/** @typedef {{name: string, type: 'file' | 'directory', language?: string,
 *   match?: [number, number][], permission?: string}} BrowseEntry */
/** @typedef {{kind: string, spans?: Inline[], level?: number, start?: number | null,
 *   items?: {checked: boolean | null, blocks: Block[]}[], language?: string, text?: string,
 *   alignments?: string[], head?: {spans: Inline[]}[], rows?: {spans: Inline[]}[][],
 *   blocks?: Block[]}} Block */
/** @typedef {{kind: string, text?: string, url?: string, spans?: Inline[]}} Inline */

export {};
