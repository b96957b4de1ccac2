import type { ErrorCode } from '../../contracts/errors.ts'
import type { HostEvent } from '../../contracts/events.ts'
import type { ToolOutcome } from '../../contracts/tools.ts'
import type { Log } from '../kit/log.ts'
import type { ToolCall, ToolDefinition } from '../tools/tool.ts'

/** An agent's conversation as files, by relative path: what is checkpointed and restored elsewhere. */
export type SessionFiles = ReadonlyMap<string, Uint8Array>

export interface CallError {
  readonly code: string
  readonly message: string
}

export interface AgentDeps {
  readonly tools: readonly ToolDefinition[]
  /**
   * Decides, runs and records one call. It may take minutes, since a person may be asked; `signal` ends with the
   * turn. The id is ours and is used once in a run, whatever ids the model makes up.
   */
  readonly callTool: (call: ToolCall, signal: AbortSignal) => Promise<ToolOutcome>
  /**
   * Records what a model wrote in place of a call: an unknown tool, arguments that are no JSON or too long. Nothing is
   * decided or run; `error` is what the model is told.
   */
  readonly rejectCall: (call: ToolCall, error: CallError, signal: AbortSignal) => Promise<ToolOutcome>
  /** The credential for the model: a GitHub token, or an endpoint's key; undefined where none is needed. */
  readonly fetchToken: () => Promise<string | undefined>
  /** A private folder that the agent's commands can neither read nor write. */
  readonly stateDir: string
  /**
   * What the agent runtime needs to reach its servers (`HTTPS_PROXY`, `SSL_CERT_FILE`). It sees nothing else of
   * this process's environment.
   * @default none
   */
  readonly runtimeEnv?: Readonly<Record<string, string>>
  /** The files of an earlier `exportSession`, to go on from there. */
  readonly sessionFiles?: SessionFiles
  readonly limits: AgentLimits
  readonly log: Log
}

export interface AgentLimits {
  /** Longest turn. */
  readonly turnMs: number
  /** Longest silence of the model while no tool call is open. */
  readonly idleMs: number
  /** Time that the agent runtime has to start and to open the session. */
  readonly startMs: number
  /** Time that the agent runtime has to stop its work before it is killed. */
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
  /** Takes an event of the agent; the host adds those of the turn and of the tools. */
  readonly emit: (event: HostEvent) => void
}

export type TurnResult =
  | { readonly state: 'completed' }
  | { readonly state: 'cancelled' }
  | { readonly state: 'failed'; readonly code: ErrorCode; readonly message: string }

/** One agent's conversation. Turns run one after another; a second one at the same time is a mistake. */
export interface AgentSession {
  /** Never throws for what the model, its server or the agent runtime did. */
  runTurn(turn: Turn): Promise<TurnResult>
  /** The conversation so far. Between turns only. */
  exportSession(): Promise<SessionFiles>
  /** Ends the session and every process of it. */
  close(): Promise<void>
}
