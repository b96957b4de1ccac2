import * as z from 'zod'
import { EgressAccess } from './egress-control.ts'
import { HeldEntries, SandboxWarningCategory } from './events.ts'
import { ExecRequest, ExecResult, Isolation, OutputStream, WorkspaceUsage } from './exec.ts'
import { FileError, FileOperation, FileResult } from './files.ts'
import { WorkspaceLayout } from './workspace-layout.ts'
import { PackRequest } from './workspace-manifest.ts'

/**
 * Frames between AgentHost and a runner, over one duplex byte stream.
 *
 * A frame consists of the length of the rest (4 bytes, big endian), the length of the header (4 bytes), the header as
 * UTF-8 JSON, and the payload. AgentHost chooses `id`. It identifies one request and is never reused on a connection.
 */
export const RUNNER_FRAME = {
  lengthBytes: 4,
  maxHeaderBytes: 1_048_576,
  /** A whole frame: the largest file plus its header. */
  maxFrameBytes: 16_777_216 + 1_048_576 + 4,
  /** Payload of one `chunk` or `data` frame. */
  maxChunkBytes: 65_536,
  /** Unacknowledged bytes that a sender of `chunk` or `data` frames may have in flight before it waits for `credit`. */
  windowBytes: 1_048_576,
  /** Overhead counted per frame in the window and in `credit`, because many tiny frames cost memory too. */
  costBytes: 128,
} as const

const Id = z.string().min(1).max(128)
/** These take the place of a request id. Request ids are numbers, so they cannot collide. */
export const HELD_ID = 'held'
export const EGRESS_ID = 'egress'
export const USAGE_ID = 'usage'

/** Network access of a runner's commands: `offline` none, `online` the sandbox's, `per-command` as requested. */
export const RunnerRole = z.enum(['offline', 'online', 'per-command'])
export type RunnerRole = z.infer<typeof RunnerRole>

export const RunnerWarning = z.strictObject({
  category: SandboxWarningCategory,
  message: z.string().max(4096),
})
export type RunnerWarning = z.infer<typeof RunnerWarning>

/** Frames from a runner to AgentHost. */
export const RunnerToHost = z.discriminatedUnion('type', [
  /** First frame of a connection. */
  z.strictObject({
    type: z.literal('hello'),
    role: RunnerRole,
    isolation: Isolation,
    /** Which path engine is active. */
    pathEngine: z.enum(['openat2', 'walk']),
    /** Guarantees that this runner cannot give and that AgentHost cannot detect itself. */
    warnings: z.array(RunnerWarning).max(16).optional(),
  }),
  z.strictObject({ type: z.literal('opened'), id: Id, error: FileError.optional() }),
  z.strictObject({ type: z.literal('chunk'), id: Id, stream: OutputStream }),
  z.strictObject({ type: z.literal('exit'), id: Id, result: ExecResult }),
  /** Git directories that commands left behind and that were renamed. Not tied to a request. */
  z.strictObject({ type: z.literal('held'), id: z.literal(HELD_ID), held: HeldEntries }),
  /** The use of the workspace reaches another level. Not tied to a request. */
  z.strictObject({ type: z.literal('usage'), id: z.literal(USAGE_ID), usage: WorkspaceUsage }),
  /** Reply to `file`; for a `read` the payload is the content. */
  z.strictObject({ type: z.literal('file-result'), id: Id, result: FileResult }),
  /** A piece of an outgoing stream. */
  z.strictObject({ type: z.literal('data'), id: Id }),
  /** End of a stream in either direction, with its outcome. */
  z.strictObject({
    type: z.literal('tar-result'),
    id: Id,
    entries: z.int(),
    bytes: z.int(),
    error: FileError.optional(),
  }),
  z.strictObject({ type: z.literal('credit'), id: Id, bytes: z.int().positive() }),
  /** The request to stop or continue commands is carried out. */
  z.strictObject({ type: z.literal('frozen'), id: Id }),
])
export type RunnerToHost = z.infer<typeof RunnerToHost>

/** Frames from AgentHost to a runner. */
export const HostToRunner = z.discriminatedUnion('type', [
  /**
   * Opens the workspace, once, before any other request. In a pod the root is fixed and `root` must be equal to it. On a
   * laptop it is the folder of the run, and a layout may come with it.
   */
  z.strictObject({
    type: z.literal('open'),
    id: Id,
    root: z.string().min(1).max(4096),
    layout: WorkspaceLayout.optional(),
  }),
  z.strictObject({
    type: z.literal('exec'),
    id: Id,
    request: ExecRequest,
    stdin: z.boolean().default(false),
  }),
  /** Standard input of a running command as payload; `end` closes it. */
  z.strictObject({ type: z.literal('stdin'), id: Id, end: z.boolean().default(false) }),
  z.strictObject({ type: z.literal('kill'), id: Id }),
  /** Access of commands to the egress proxy. Not tied to a request. */
  z.strictObject({ type: z.literal('egress'), id: z.literal(EGRESS_ID), access: EgressAccess }),
  /** Stops all commands with SIGSTOP, or lets them continue. Commands that are requested while stopped start afterwards. */
  z.strictObject({ type: z.literal('freeze'), id: Id, isFrozen: z.boolean() }),
  /** For a `write`, the payload is the content. */
  z.strictObject({ type: z.literal('file'), id: Id, operation: FileOperation }),
  /** Starts an incoming tar stream: `data` frames follow, then `end`. */
  z.strictObject({ type: z.literal('tar-in'), id: Id }),
  z.strictObject({ type: z.literal('tar-out'), id: Id }),
  /** Starts an outgoing stream: the manifest of the workspace. */
  z.strictObject({ type: z.literal('manifest'), id: Id }),
  /** Starts an outgoing stream: contents of files in the last manifest. */
  z.strictObject({ type: z.literal('pack'), id: Id, contents: PackRequest.shape.contents }),
  z.strictObject({ type: z.literal('data'), id: Id }),
  z.strictObject({ type: z.literal('end'), id: Id }),
  z.strictObject({ type: z.literal('credit'), id: Id, bytes: z.int().positive() }),
])
export type HostToRunner = z.infer<typeof HostToRunner>
export type HostToRunnerInput = z.input<typeof HostToRunner>
