import * as z from 'zod'
import { HeldEntries, SandboxWarningCategory } from './events.ts'
import { ExecRequest, ExecResult, Isolation, OutputStream } from './exec.ts'
import { FileError, FileOperation, FileResult } from './files.ts'
import { WorkspaceLayout } from './workspace-layout.ts'

/**
 * Frames between AgentHost and a runner, over one duplex byte stream.
 *
 * A frame is: 4 bytes length of what follows (big endian), 4 bytes length of the header, the header as UTF-8
 * JSON, then the payload bytes. `id` is chosen by AgentHost and names one request for its whole life; an id is
 * never used twice on a connection.
 */
export const RUNNER_FRAME = {
  lengthBytes: 4,
  maxHeaderBytes: 1_048_576,
  /** A whole frame: the largest file plus its header. */
  maxFrameBytes: 16_777_216 + 1_048_576 + 4,
  /** Payload of one `chunk` or `data` frame. */
  maxChunkBytes: 65_536,
  /** Bytes a sender of a stream (`chunk`, `data`) may have under way before it waits for `credit`. */
  windowBytes: 1_048_576,
  /** What each such frame counts beside its payload, in the window and in `credit`: tiny pieces cost memory too. */
  costBytes: 128,
} as const

const Id = z.string().min(1).max(128)
/** In the place of a request's id, which is a number. */
export const HELD_ID = 'held'

/** The form of the network a runner's commands have: per command, none, or the sandbox's. */
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
    /** What it cannot keep, where nobody outside knows that. */
    warnings: z.array(RunnerWarning).max(16).optional(),
  }),
  z.strictObject({ type: z.literal('opened'), id: Id, error: FileError.optional() }),
  z.strictObject({ type: z.literal('chunk'), id: Id, stream: OutputStream }),
  z.strictObject({ type: z.literal('exit'), id: Id, result: ExecResult }),
  /** Git directories that commands left behind and that were renamed. It belongs to no request. */
  z.strictObject({ type: z.literal('held'), id: z.literal(HELD_ID), held: HeldEntries }),
  /** The answer to `file`; a `read` has the bytes as payload. */
  z.strictObject({ type: z.literal('file-result'), id: Id, result: FileResult }),
  /** A piece of an outgoing tar stream. */
  z.strictObject({ type: z.literal('data'), id: Id }),
  /** End of a tar stream in either direction, with its outcome. */
  z.strictObject({
    type: z.literal('tar-result'),
    id: Id,
    entries: z.int(),
    bytes: z.int(),
    error: FileError.optional(),
  }),
  z.strictObject({ type: z.literal('credit'), id: Id, bytes: z.int().positive() }),
])
export type RunnerToHost = z.infer<typeof RunnerToHost>

/** Frames from AgentHost to a runner. */
export const HostToRunner = z.discriminatedUnion('type', [
  /**
   * Binds the workspace, once, before anything else is served. In a pod the root is fixed and `root` must be
   * equal to it; on a laptop it is the folder of the run, which may come with a layout.
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
  /** Input of a running command as payload; `end` closes it. */
  z.strictObject({ type: z.literal('stdin'), id: Id, end: z.boolean().default(false) }),
  z.strictObject({ type: z.literal('kill'), id: Id }),
  /** A `write` has the content as payload. */
  z.strictObject({ type: z.literal('file'), id: Id, operation: FileOperation }),
  /** Starts an incoming tar stream: `data` frames follow, then `end`. */
  z.strictObject({ type: z.literal('tar-in'), id: Id }),
  z.strictObject({ type: z.literal('tar-out'), id: Id }),
  z.strictObject({ type: z.literal('data'), id: Id }),
  z.strictObject({ type: z.literal('end'), id: Id }),
  z.strictObject({ type: z.literal('credit'), id: Id, bytes: z.int().positive() }),
])
export type HostToRunner = z.infer<typeof HostToRunner>
export type HostToRunnerInput = z.input<typeof HostToRunner>
