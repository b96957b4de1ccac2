import { buffer } from 'node:stream/consumers'
import type { Command } from 'commander'
import * as z from 'zod'
import { FINAL_STATES, type Run, type StartCommandInput } from '../../contracts/api.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import { EXEC_LIMITS, type ExecResult } from '../../contracts/exec.ts'
import type { Client } from '../../runtime/client/client.ts'
import { commandEvents } from '../../runtime/kit/command-events.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { untilReady } from '../service/ready-sandbox.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import { quoteWord } from '../terminal/shell-word.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { colourless, harmless, visible } from '../terminal/visible.ts'
import {
  type CliContext,
  newServiceCommand,
  openConnection,
  parseOptions,
  ServiceOptions,
  serviceSuffix,
} from './command.ts'
import { collectPairs } from './pairs.ts'
import { statusOf, toLine } from './shell-words.ts'

const ExecOptions = ServiceOptions.extend({
  cwd: z.string().default('.'),
  env: z.record(z.string(), z.string()).default({}),
  timeout: z.coerce
    .number()
    .positive()
    .max(EXEC_LIMITS.maxTimeoutMs / 1000)
    .default(EXEC_LIMITS.defaultTimeoutMs / 1000),
  network: z.boolean().default(false),
  stdin: z.boolean().default(false),
})
type ExecOptions = z.infer<typeof ExecOptions>

const MEBIBYTE = 1_048_576
const MAX_OUTPUT = `${EXEC_LIMITS.defaultMaxOutputBytes / MEBIBYTE} MiB`
const EXIT_STATUS = `
Exit status: the exit status of the command; 124 timed out, 128 + n ended by signal n, 125 stopped or
not started because the workspace is full, or succeeded but wrote more than ${MAX_OUTPUT} to stdout or
to stderr: later output is lost.`

/** Registered as `exec` and as `sandbox exec`. */
export function execCommand(context: CliContext): Command {
  const command = newServiceCommand({
    usage: 'exec',
    about:
      'Run a command in the sandbox of a run, or with the files of a run that has none any more. Exits with the status of that command.',
    example: 'agentweaver exec sbx_0197f6f2… -- npm test\nagentweaver exec sbx_0197f6f2… "ls | wc -l"',
  })
    .argument('<run>', 'id of the run or sandbox')
    .argument('<command...>', 'a program and its arguments after --, or a shell command line in quotes')
    .option('-C, --cwd <dir>', 'working directory, relative to the workspace', '.')
    .option('-e, --env <key=value>', 'an environment variable of the command; may be repeated', collectPairs)
    .option(
      '-t, --timeout <seconds>',
      'the command is ended after this time',
      String(EXEC_LIMITS.defaultTimeoutMs / 1000),
    )
    .option('--network', "allow the sandbox's network, as far as the policy allows it")
    .option('--stdin', 'pass the standard input of this command on')
    .addHelpText('after', EXIT_STATUS)
  command.action(async (runId: string, words: string[]) => {
    const options = parseOptions(ExecOptions, command)
    await using connection = await openConnection(context, options)
    const { terminal } = context
    const request = await toRequest(words, options, terminal)
    const { client } = connection
    await using place = await startIn(terminal, client, { runId, request, suffix: serviceSuffix(options) })
    context.exit(await follow(terminal, client, { ...place, json: options.json }))
  })
  return command
}

async function toRequest(
  words: readonly string[],
  options: ExecOptions,
  { io }: Terminal,
): Promise<StartCommandInput> {
  const stdin = options.stdin ? (await buffer(io.stdin)).toString('base64') : undefined
  return {
    command: toLine(words),
    directory: options.cwd,
    environment: options.env,
    timeoutMs: Math.ceil(options.timeout * 1000),
    network: options.network,
    ...(stdin === undefined ? {} : { stdin }),
  }
}

/** A command that has been started, and where. It must be disposed of. */
interface Started extends AsyncDisposable {
  readonly runId: string
  readonly commandId: string
  readonly afterSequence: number
}

type Starting = { readonly runId: string; readonly request: StartCommandInput; readonly suffix: string }

/** Starts the command in the sandbox of the run. If the run has none any more, in a new one with its last files. */
async function startIn(terminal: Terminal, client: Client, starting: Starting): Promise<Started> {
  const { runId, request, suffix } = starting
  try {
    const started = await client.startCommand(runId, request)
    return { ...started, runId, [Symbol.asyncDispose]: async () => undefined }
  } catch (error) {
    const run = await runWithoutSandbox(client, runId, error)
    if (!run) throw error
    if (run.workspace.kind === 'path') throw onFolder(run.workspace, suffix)
    return startInNew(terminal, client, starting)
  }
}

/** Reads a run whose command was refused. Undefined if the reason is not that it has no sandbox. */
async function runWithoutSandbox(client: Client, runId: string, error: unknown): Promise<Run | undefined> {
  if (!(error instanceof SandboxError) || !['run_ended', 'conflict'].includes(error.code)) return undefined
  const run = await client.readRun(runId)
  const { state } = run
  return state === 'suspended' || FINAL_STATES.some((final) => final === state) ? run : undefined
}

/** The service stores no files of such a run. */
const onFolder = ({ path }: Extract<Run['workspace'], { kind: 'path' }>, suffix: string): CliError =>
  new CliError(
    `The run has no sandbox, and it worked on the folder ${visible(path)}, so the service has no files of it.`,
    {
      status: EXIT.refused,
      hint: `Create a sandbox on the folder, and run the command there: agentweaver sandbox create --workspace ${visible(quoteWord(path))}${suffix}`,
    },
  )

async function startInNew(
  terminal: Terminal,
  client: Client,
  { runId, request }: Starting,
): Promise<Started> {
  const { id } = await client.createSandbox({
    workspace: { kind: 'run', runId },
    ...(request.network && { policy: { network_enabled: true } }),
  })
  const remove = async () => void (await client.destroySandbox(id))
  try {
    terminal.note(
      `The run has no sandbox. The command runs in a new one with the last files of the run: ${id}`,
    )
    terminal.progress.waitFor('waiting for a sandbox')
    await untilReady(client, id)
    return { ...(await client.startCommand(id, request)), runId: id, [Symbol.asyncDispose]: remove }
  } catch (error) {
    await remove()
    throw error
  }
}

type Following = Omit<Started, typeof Symbol.asyncDispose> & { readonly json: boolean }

/** Shows the output of a command until it exits. Ctrl-C cancels it and waits for its end. */
async function follow(
  terminal: Terminal,
  client: Client,
  { runId, commandId, afterSequence, json }: Following,
): Promise<number> {
  const stop = new AbortController()
  let isInterrupted = false
  using _interrupts = onInterrupt(() => {
    if (isInterrupted) stop.abort(new CliError('Interrupted.', { status: EXIT.interrupted }))
    isInterrupted = true
    client.cancelCommand(runId, commandId).catch((error: unknown) => stop.abort(error))
  })
  const stream = client.streamEvents(runId, { after: afterSequence, signal: stop.signal })
  const show = json ? (envelope: RunEnvelope) => terminal.json({ runId, ...envelope }) : printer(terminal)
  terminal.progress.waitFor('the command is running')
  for await (const envelope of commandEvents(stream, commandId)) {
    show(envelope)
    if (envelope.event.type !== 'command.exited') continue
    const { result } = envelope.event.data
    if (result.outputTruncated) terminal.note(cutLines(result))
    return isInterrupted ? EXIT.interrupted : statusOf(result)
  }
  throw new CliError('The sandbox ended before the command did.', { status: EXIT.runFailed })
}

/** Reports which stream was cut, and how to keep all output. */
function cutLines({ stdoutBytes, stderrBytes }: ExecResult): string[] {
  const max = EXEC_LIMITS.defaultMaxOutputBytes
  const cut = Object.entries({ stdout: stdoutBytes, stderr: stderrBytes }).filter(([, bytes]) => bytes > max)
  return [
    ...cut.map(
      ([name, bytes]) =>
        `${name} was cut: the command wrote ${bytes} bytes, and only the first ${max} are kept.`,
    ),
    'To keep all of it, write it to a file in the workspace: agentweaver exec RUN "COMMAND > FILE".',
  ]
}

const printer =
  (terminal: Terminal) =>
  ({ event }: RunEnvelope): void => {
    if (event.type === 'command.output') writeChunk(terminal, event.data)
    if (event.type === 'command.exited' && event.data.result.message)
      terminal.note(visible(event.data.result.message))
  }

/** Escapes control characters for a terminal. Files and pipes get the bytes unchanged. */
function writeChunk(
  { io, progress, ...terminal }: Terminal,
  { stream, chunk }: { stream: 'stdout' | 'stderr'; chunk: string },
) {
  progress.clear()
  const target = io[stream]
  const { isColoured } = stream === 'stdout' ? terminal.paint : terminal.notePaint
  const shown = isColoured ? harmless : colourless
  target.write(target.isTTY ? shown(chunk) : chunk)
}
