// The shapes of what the server sends, for the checker of types. They are known in
// all modules; nothing of it exists at run time.
// The sections of a run are those of `src/run_view`; the page renders them and folds nothing.

type Usage = {requests: number, input_tokens: number, output_tokens: number, cached_tokens: number,
  reasoning_tokens: number, cost_usd: number | null, cost_is_complete: boolean};
type UsageRow = Usage & {agent: string, model: string, phase: string};

type Limits = {max_cost_usd?: string | null, max_tokens_total?: number | null, max_tool_calls?: number | null,
  orchestrator_timeout_seconds?: number | null, max_iterations?: number | null};
type RunSection = {limits?: Limits, task: string, agents: string[], restart: number,
  phase: 'starting' | 'coordinating' | 'presenting' | 'delivering' | 'ended', is_stopped: boolean,
  status: string | null, summary: string | null, elapsed_ms: number, usage: Usage,
  tool_calls: number, warnings: string[], more_warnings: number,
  sandbox: {agents: string[], isolation: string, leaves_open: string[]}[],
  server_progress: string | null,
  messages?: {number: number, agent: string | null, text: string, shown_to: string[]}[]};

type Activity = {state: string, detail?: any};
type Call = {tool: string, arguments: string, text: string, note: string, outcome: 'running' | 'succeeded' | 'failed' | 'denied',
  summary?: string, reason?: string, rule?: string | null, started_ms: number,
  elapsed_ms: number | null};
type Speech = {kind: string | null, length: number, text: string};
type PlanEntry = {content: string, status: 'pending' | 'in_progress' | 'completed'};
type AgentSection = {id: string, model: string | null, activity: Activity, since_ms: number,
  answer: string | null, vote: string | null, candidate: string | null, calls: Call[], plan: PlanEntry[] | null, speech: Speech,
  usage: Usage};

type Check = {check: string, need: string, verdict: 'passed' | 'failed' | 'not_run', how?: string,
  why?: string, tail?: string, elapsed_ms: number};
type CheckResults = {checks: Check[], changes: Record<string, number> | null};
type BallotAnswer = {label: string, agent: string, content: string, has_files: boolean, at_ms: number,
  checks: CheckResults | null, plan: PlanEntry[] | null, seen_by: string[], is_replaced: boolean};
type Vote = {voter: string, candidate: string, label: string, reason: string,
  is_void: boolean, voiding_message?: number};
type Winner = {agent: string, label: string, votes: {agent: string, count: number}[],
  reason: string};
type BallotSection = {answers: BallotAnswer[], votes: Vote[], winner: Winner | null};

type Approval = {id?: string, agent: string, call_id?: string | null, tool: string, effects: string[],
  reason: string, since_ms: number};
type DeliveryRow = {path: string, outcome: string, details?: string, reason?: string, kept?: string, before?: string | null,
  after?: string, bytes?: number | null, hunks?: {taken: number, total: number}};
type DeliverySection = {agent: string | null, answer: string | null, rows: DeliveryRow[] | null,
  checks: Check[]};
type Stage = {iteration: number, stage: number, role: string, agents: string[], runs: string[],
  state: 'working' | 'merged' | 'rejected', commit?: string, files?: number, reason?: string,
  attempt?: number, attempts_max?: number};
type PipelineSection = {stages: Stage[], stage_count: number};
type Span = {kind: string, from_ms: number, to_ms: number, label: string};
type OpenSpan = {kind: string, from_ms: number, label: string};
type TimelineSection = {lanes: {agent: string, spans: Span[], dropped: number, open: OpenSpan | null}[]};
type Question = {id?: string, kind: string, text?: string, check?: string,
  detail?: string, choices?: string[]};

type RunRow = {id: string, session: string | null, pipeline: string | null, task: string, state: string, agents: string[],
  started: string | null, duration_ms: number | null, tokens: number, cost_usd: number | null,
  outcome: string | null, winner?: string | null, live: boolean, resumable: boolean};
type Estimate = {value: number, low: number, high: number};
type Figures = {batch: string, team: string, tasks: number, unjudged: string[], pass_at_1: Record<string, Estimate>, selected: Estimate | null, best: Estimate | null,
  votes_alone: Estimate | null, checks_alone: Estimate | null, selection_efficiency: Estimate | null, cost_usd: Estimate | null,
  cost_usd_of_success: Estimate | null, tokens_of_success: Estimate | null, minutes_of_success: Estimate | null,
  selection_share: number | null, presentation_share: number | null};
type ComparisonReply = {batches: Figures[], differences: {first: string, second: string, sentences: string[], only_first: string[], only_second: string[]}[]};
type BatchRow = {id: string, tasks: string, team: string, began: string, cells: number, finished: number, is_cancelled: boolean};
type BatchCell = {id: string, state: string, attempts: number, host: string | null, run: string | null, reason?: string | null,
  since?: string | null, success?: boolean, checks?: string, tags?: string[], winner?: string | null, cost_usd?: number,
  cost_is_complete?: boolean, duration_ms?: number, files?: number};
type TagRow = {tag: string, cells: number, successes: number, completed: number, partial: number, failed: number,
  cost_usd: number, cost_is_complete: boolean, p50_ms: number, p95_ms: number, winners: Record<string, number>};
type BatchReply = {id: string, tasks: string, team: string, began: string, counts: Record<string, number>,
  money: {limit_usd: number | null, spent_usd: number}, is_cancelled: boolean,
  rows: TagRow[], more_rows: number,
  cells: BatchCell[], matching: number};
type Team = Limits & {id: string, name: string, agents: {id: string, model: string | null}[], stages?: string[] | null, review?: boolean};
type Info = {version: string, directory: string, read_only: boolean, teams: Team[],
  limits: Record<string, number>};

type DiffLine = {kind: 'context' | 'added' | 'removed', text: string};
type Hunk = {index: number, digest: string, header: string, old_start: number, new_start: number,
  lines: DiffLine[], above: string[], below: string[]};
type DiffSide = {type: string, size?: number, sha256?: string, target?: string};
type DiffFile = {path: string, change?: string, added?: number, removed?: number, details?: string | null, consent?: string | null, before?: DiffSide, after?: DiffSide, refused?: string | null,
  mode?: {before: string, after: string} | null, conflict?: string | null, undone?: boolean, too_long?: boolean,
  state?: string, binary?: boolean, protected?: boolean, hunks: Hunk[]};
type DiffReply = {state: 'pending' | 'offered' | 'kept' | 'none' | 'answer', files: DiffFile[],
  refused?: {path: string, refused: string}[], applied?: DiffFile[], parts?: string[], may_commit?: boolean};

type FormQuestion = {name: string, key: string, label: string, doc: string, expected: string,
  kind: 'line' | 'paragraph' | 'flag' | 'number' | 'choice' | 'model' | 'list' | 'choice_or_list',
  choices: string[], default: string | null, is_required: boolean, initial: string};
type FormGroup = {id: string, title: string, doc: string | null, noun: string | null,
  initial_entries: number, questions: FormQuestion[]};
type Vendor = {name: string, models: string[], default_model: string | null, is_program: boolean,
  needs_key: boolean, variables: {name: string, is_set: boolean}[]};
type FormKeys = {groups: FormGroup[], vendors: Vendor[], draft: Record<string, Record<string, string>[]>,
  path: string, entries_max: number};
type Finding = {severity: 'error' | 'warning' | 'note', group: string | null, entry: number | null,
  name: string | null, message: string, expected: string | null, suggestion: string | null, line?: number | null};

type BrowseEntry = {name: string, type: 'file' | 'directory', language?: string,
  match?: [number, number][], permission?: string};
type Block = {kind: string, spans?: Inline[], level?: number, start?: number | null,
  items?: {checked: boolean | null, blocks: Block[]}[], language?: string, text?: string,
  alignments?: string[], head?: {spans: Inline[]}[], rows?: {spans: Inline[]}[][],
  blocks?: Block[]};
type Inline = {kind: string, text?: string, url?: string, spans?: Inline[]};



type RunStream = import('./stream.js').RunStream;
type Route = import('./router.js').Route;
type Loaded<T = any> = import('./redraw.js').Loaded<T>;
