import type { ErrorCode } from '../../contracts/errors.ts'
import type { HostEvent } from '../../contracts/events.ts'
import type { ToolOutcome } from '../../contracts/tools.ts'
import type { Log } from '../kit/log.ts'
import type { ToolCall, ToolDefinition } from '../tools/tool.ts'
import type { ModelWait } from './model-waits.ts'

/** An agent's conversation as files by relative path. It is saved at checkpoints and can be restored elsewhere. */
export type SessionFiles = ReadonlyMap<string, Uint8Array>

export interface CallError {
  readonly code: string
  readonly message: string
}

export interface AgentDeps {
  readonly tools: readonly ToolDefinition[]
  /**
   * Decides, runs and records one call. It may take minutes, because a person may be asked. `signal` aborts with the turn.
   * The call id is ours and unique within the run; ids from the model are not used.
   */
  readonly callTool: (call: ToolCall, signal: AbortSignal) => Promise<ToolOutcome>
  /**
   * Records an invalid call of the model: an unknown tool, or arguments that are not JSON or too long. Nothing is decided
   * or run. `error` is sent to the model.
   */
  readonly rejectCall: (call: ToolCall, error: CallError, signal: AbortSignal) => Promise<ToolOutcome>
  /** The credential for the model: a GitHub token or an API key. Undefined if none is needed. */
  readonly fetchToken: () => Promise<string | undefined>
  /** The token with which the agent identifies itself to the egress proxy. Waits for the first one. */
  readonly fetchEgressToken: () => Promise<string>
  /**
   * Called when a request to the model has to wait until its server is available again.
   * @default the agent only logs it
   */
  readonly onModelWait?: (message: string) => void
  /** A private folder that the agent's commands can neither read nor write. */
  readonly stateDir: string
  /**
   * Environment variables that the agent runtime needs to reach its servers (`HTTPS_PROXY`, `SSL_CERT_FILE`). It gets
   * nothing else from this process's environment.
   * @default none
   */
  readonly runtimeEnv?: Readonly<Record<string, string>>
  /**
   * The servers can be reached only after the configuration. The session is opened by the first turn then, which fails if a
   * credential is missing.
   * @default false
   */
  readonly opensWithFirstTurn?: boolean
  /** Number of the sandbox within its run, from 1. Part of the call ids from the second sandbox on. */
  readonly generation: number
  /** Files of an earlier `exportSession`, to continue that conversation. */
  readonly sessionFiles?: SessionFiles
  readonly limits: AgentLimits
  readonly log: Log
}

export interface AgentLimits {
  /** Maximum duration of a turn. */
  readonly turnMs: number
  /** Maximum silence of the model while no tool call is open. */
  readonly idleMs: number
  /** Time limit to start the agent runtime and to open the session. */
  readonly startMs: number
  /** Time limit for the agent runtime to stop a turn; after that it is killed. */
  readonly cancelMs: number
}

export const AGENT_LIMITS: AgentLimits = {
  turnMs: 14_400_000,
  idleMs: 240_000,
  startMs: 20_000,
  cancelMs: 1500,
}

export interface Turn {
  readonly turnId: string
  readonly prompt: string
  readonly signal: AbortSignal
  /**
   * Continues the suspended turn of the session: the calls that were open are made again with the same ids, and the prompt
   * is not sent. Without this, a turn drops the calls that were open.
   */
  readonly resumes?: boolean
  /** Called for each event of the agent. The host adds the events of turns and tools. */
  readonly emit: (event: HostEvent) => void
}

export type TurnResult =
  | { readonly state: 'completed' }
  | { readonly state: 'cancelled' }
  | { readonly state: 'failed'; readonly code: ErrorCode; readonly message: string }

/** One conversation with an agent. Only one turn may run at a time. */
export interface AgentSession {
  /** The turn in which the session was exported, until a turn starts. */
  readonly suspendedTurn: string | undefined
  /** Failures of the model, its server and the agent runtime are in the result and are not thrown. */
  runTurn(turn: Turn): Promise<TurnResult>
  /**
   * The conversation so far. Call it between turns, or in a turn while all of its open calls wait for a decision. Throws
   * `conflict` if the conversation cannot be continued from this point.
   */
  exportSession(): Promise<SessionFiles>
  /** A connection to the model waits. Returns the function that ends the wait. */
  waitForModel?(wait: ModelWait): () => void
  /** Ends the session and all of its processes. */
  close(): Promise<void>
}
