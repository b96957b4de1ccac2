import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Run } from '../../contracts/api.ts'
import type { Client } from '../../runtime/client/client.ts'
import { messageOf, SandboxError } from '../../runtime/kit/errors.ts'
import { FileFault } from '../../runtime/workspace/file-fault.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { settingsFor } from './held-settings.ts'
import { planUpload, type UploadPlan } from './plan-upload.ts'
import { sizeWords } from './size-words.ts'
import { planLines, refuseOversize, tooLarge } from './upload-lines.ts'

export interface Uploading {
  readonly terminal: Terminal
  readonly client: Client
  readonly folder: string
  readonly withHistory: boolean
  readonly secrets: readonly string[]
  readonly acceptsSettings: boolean
  /** Prints no progress. */
  readonly json: boolean
}

/**
 * Starts a run or a sandbox on a copy of a folder of this machine, for a service on another one. The folder is listed and judged
 * before it is created; if the upload does not succeed, it is ended.
 */
export async function uploadRun(uploading: Uploading, start: StartUpload): Promise<string> {
  const scratch = await mkdtemp(join(tmpdir(), 'agentweaver-upload-'))
  const stop = new AbortController()
  // Without it, Ctrl-C would leave the folder of this command.
  using _interrupts = onInterrupt(() => stop.abort(new Interrupted()))
  try {
    const { id, plan } = await begin({ ...uploading, scratch, signal: stop.signal }, start)
    using _plan = plan
    await send(uploading, { plan, id, signal: stop.signal })
    return id
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

/** Creates the run or the sandbox that waits for the upload. */
export type StartUpload = (settings: string | undefined, signal: AbortSignal) => Promise<Pick<Run, 'id'>>

type Beginning = Uploading & { readonly scratch: string; readonly signal: AbortSignal }

async function begin(beginning: Beginning, start: StartUpload): Promise<{ id: string; plan: UploadPlan }> {
  try {
    return await planAndStart(beginning, start)
  } catch (error) {
    if (!beginning.signal.aborted) throw error
    throw new CliError('The upload was interrupted before it began.', {
      status: EXIT.interrupted,
      cause: error,
    })
  }
}

async function planAndStart(beginning: Beginning, start: StartUpload) {
  const { terminal, folder, signal, json } = beginning
  terminal.progress.waitFor('listing the files')
  const plan = await planUpload(terminal.io, beginning).catch(asCliError)
  try {
    signal.throwIfAborted()
    refuseOversize(plan)
    const lines = planLines(plan, terminal.notePaint)
    terminal.note(json ? lines.slice(1) : lines)
    const settings = await settingsFor(terminal.io, { folder, accepts: beginning.acceptsSettings })
    if (settings.note !== undefined) terminal.note(settings.note)
    terminal.progress.waitFor('asking the service')
    const { id } = await start(settings.text, signal)
    return { id, plan }
  } catch (error) {
    plan[Symbol.dispose]()
    throw error
  }
}

function asCliError(error: unknown): never {
  if (!(error instanceof FileFault)) throw error
  throw new CliError(`The folder cannot be uploaded: ${error.message}`, { status: EXIT.usage, cause: error })
}

class Interrupted extends Error {}

const isSandbox = (id: string) => id.startsWith('sbx_')
const named = (id: string) => `${isSandbox(id) ? 'Sandbox' : 'Run'} ${id}`

type Sending = { readonly plan: UploadPlan; readonly id: string; readonly signal: AbortSignal }

async function send({ terminal, client, json }: Uploading, { plan, id, signal }: Sending): Promise<void> {
  terminal.progress.waitFor(words(0, plan))
  try {
    await client.uploadWorkspace(id, counted(plan.open(signal), plan, terminal), { signal })
  } catch (error) {
    const ended = isSandbox(id) ? client.destroySandbox(id) : client.cancel(id)
    await ended.catch((failure: unknown) => {
      terminal.note(`${named(id)} could not be ended: ${messageOf(failure)}. It ends by itself.`)
    })
    throw failureOf(error, { id, plan, isInterrupted: signal.aborted })
  }
  terminal.progress.clear()
  if (!json) terminal.note(terminal.notePaint.dim('The folder is uploaded.'))
}

const words = (sent: number, { archiveBytes }: UploadPlan): string => {
  const percent = Math.min(100, Math.floor((100 * sent) / archiveBytes))
  return `uploading ${sizeWords(sent)} of ${sizeWords(archiveBytes)} (${percent} %)`
}

async function* counted(
  archive: AsyncIterable<Uint8Array>,
  plan: UploadPlan,
  { progress }: Terminal,
): AsyncGenerator<Uint8Array> {
  let sent = 0
  for await (const piece of archive) {
    yield piece
    sent += piece.length
    progress.update(words(sent, plan))
  }
}

type Failed = { readonly id: string; readonly plan: UploadPlan; readonly isInterrupted: boolean }

function failureOf(error: unknown, { id, plan, isInterrupted }: Failed): unknown {
  if (isInterrupted)
    return new CliError(`The upload was interrupted. ${named(id)} was ended.`, {
      status: EXIT.interrupted,
      cause: error,
    })
  const cause = error instanceof Error && error.cause instanceof FileFault ? error.cause : error
  if (cause instanceof FileFault)
    return new CliError(`The folder changed during the upload: ${cause.message}. ${named(id)} was ended.`, {
      status: EXIT.runFailed,
      hint: 'Start it again.',
      cause: error,
    })
  if (error instanceof SandboxError && (error.code === 'storage_full' || error.code === 'payload_too_large'))
    return tooLarge(`The service did not take the upload: ${error.message}`, plan.largest)
  return error
}
