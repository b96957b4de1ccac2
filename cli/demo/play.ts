import type { StartRunInput } from '../../contracts/api.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import { type Client, createClient } from '../../runtime/client/client.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { followRun } from '../follow/follow-run.ts'
import type { Gate, GateAnswer } from '../follow/gates.ts'
import { createPresenter } from '../follow/presenter.ts'
import { spawnService } from '../service/spawn-service.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { missing, missingOfModel } from './checks.ts'
import { leftBehind } from './left-behind.ts'
import { CLEAN_COMMAND, demoPlan, MODEL_CHARTER, TASK, TEST_COMMAND } from './plan.ts'
import { type Stage, setStage } from './stage.ts'
import { refusals, summary } from './summary.ts'

export interface DemoOptions {
  readonly json: boolean
  readonly yes: boolean
  /** Name of a real model. @default the scripted agent */
  readonly model?: string | undefined
}

const SHOWN_OUTPUT_LINES = 13
/** Settings of the caller's shell that the demo's own service takes over. */
const KEPT_SETTINGS = new Set([
  'AGENTWEAVER_ISOLATION',
  'AGENTWEAVER_TOOL_ROOTS',
  'AGENTWEAVER_DIRECT',
  'AGENTWEAVER_LOG_LEVEL',
])

/** Plays the demo and answers its exit status: 0 only if all of it really happened and nothing is left. */
export async function playDemo(terminal: Terminal, options: DemoOptions): Promise<number> {
  checkModelOptions(terminal, options)
  const played = await onStage(terminal, options)
  const left = await leftBehind(played.root)
  if (played.problems === 'interrupted') {
    terminal.note(
      left.length === 0 ? 'Interrupted; nothing is left behind.' : `Interrupted; left: ${left.join(', ')}`,
    )
    return EXIT.interrupted
  }
  const problems = [...played.problems, ...left.map((what) => `everything was cleaned up (left: ${what})`)]
  if (problems.length > 0) {
    terminal.note([
      terminal.notePaint.red('The demo did not show all it should. Not true:'),
      ...problems.map((what) => `  ${what}`),
      ...(played.log === '' ? [] : ["The end of the service's log:", played.log]),
    ])
    return EXIT.runFailed
  }
  if (!options.json)
    terminal.print(terminal.paint.dim('All of it really happened; no process and no file is left.'))
  return EXIT.ok
}

function checkModelOptions({ io }: Terminal, { model }: DemoOptions): void {
  if (model === undefined || io.env['OPENAI_BASE_URL']) return
  throw usageError(
    'A real model needs OPENAI_BASE_URL, and OPENAI_API_KEY where the endpoint asks for one.',
    'Without --model the demo needs neither.',
  )
}

type Played = {
  readonly root: string
  readonly problems: readonly string[] | 'interrupted'
  /** The end of the service's log. */
  readonly log: string
}

async function onStage(terminal: Terminal, options: DemoOptions): Promise<Played> {
  await using stage = await setStage()
  const { root } = stage
  introduce(terminal, options, stage)
  terminal.progress.waitFor('starting the service')
  await using service = await spawnService({
    env: serviceEnv(terminal.io.env, stage),
    cwd: root,
    settings: {
      AGENTWEAVER_STATE_DIR: stage.stateDir,
      AGENTWEAVER_WORKSPACE_ROOTS: root,
      TMPDIR: stage.temporary,
    },
  })
  const client = createClient({ url: service.url, apiKey: service.apiKey })
  const begun = performance.now()
  const { id } = await client.startRun(toRequest(stage, options))
  const { events, isComplete, marks } = await watch({ terminal, client, runId: id, options })
  if (!isComplete) return { root, problems: 'interrupted', log: '' }
  const totalMs = performance.now() - begun
  const evidence = {
    events,
    secret: stage.secret,
    canary: stage.canary,
    hostUrl: stage.hostUrl,
    hostConnections: stage.hostConnections(),
    fixedFile: await stage.fixedFile(),
    buildExists: stage.buildExists(),
  }
  const isScripted = options.model === undefined
  if (!options.json)
    terminal.print([
      '',
      ...summary(terminal, events, {
        sandboxMs: marks.sandbox && marks.sandbox - begun,
        firstEventMs: marks.agent && marks.agent - begun,
        totalMs,
      }),
      ...(isScripted ? refusals(terminal, evidence) : []),
      '',
    ])
  const problems = isScripted ? missing(evidence) : missingOfModel(evidence, await passesTests(client, stage))
  return { root, problems, log: service.log() }
}

/** The host's environment as the service gets it: with bait, without settings that would change the demo. */
function serviceEnv(env: Terminal['io']['env'], { canary }: Stage): Record<string, string | undefined> {
  const kept = Object.entries(env).filter(
    ([key]) => key !== 'DATABASE_URL' && (!key.startsWith('AGENTWEAVER_') || KEPT_SETTINGS.has(key)),
  )
  return { ...Object.fromEntries(kept), [canary.name]: canary.value }
}

function introduce({ print, paint }: Terminal, options: DemoOptions, { workspace }: Stage): void {
  if (options.json) return
  const who = options.model === undefined ? 'A scripted agent' : `The model ${options.model}`
  print([
    paint.bold('Agentweaver Sandbox demo'),
    paint.dim(`${who} works in ${workspace}. Its commands run in the best isolation that works here.`),
    '',
  ])
}

const toRequest = ({ workspace, hostUrl }: Stage, { model }: DemoOptions): StartRunInput => ({
  task: TASK,
  workspace: { kind: 'path', path: workspace },
  agent:
    model === undefined
      ? { kind: 'scripted', plan: demoPlan(hostUrl) }
      : { kind: 'openaiCompatible', model, charter: MODEL_CHARTER },
})

type Watching = { terminal: Terminal; client: Client; runId: string; options: DemoOptions }

/** Follows the run, keeps its events, and notes when the two moments came that the table tells. */
async function watch({ terminal, client, runId, options }: Watching) {
  const events: RunEnvelope[] = []
  const marks: { sandbox?: number; agent?: number } = {}
  const show = createPresenter(terminal, { json: options.json, outputLines: SHOWN_OUTPUT_LINES })
  const ending = await followRun({
    terminal,
    client,
    runId,
    show: (id, envelope) => {
      const { type } = envelope.event
      if (type === 'sandbox.execution_pod.bound') marks.sandbox ??= performance.now()
      if (type.startsWith('agent.') || type === 'tool.call') marks.agent ??= performance.now()
      events.push(envelope)
      show(id, envelope)
    },
    decide: (gate) => decide(gate, terminal, options),
    onInterrupt: 'leave',
    isEmbedded: true,
    suffix: '',
  })
  return { events, marks, isComplete: ending.kind === 'done' }
}

/** The person decides about the one command; by itself the demo approves that one and nothing else. */
function decide(gate: Gate, terminal: Terminal, options: DemoOptions): 'ask' | GateAnswer {
  if (terminal.isInteractive && !options.yes) return 'ask'
  if (gate.type === 'agent.question_asked') return { kind: 'answer', answer: 'Use your own judgement.' }
  if (gate.type !== 'shell.approval_required' || gate.data.command !== CLEAN_COMMAND)
    return { kind: 'deny', reason: `The demo approves only "${CLEAN_COMMAND}".` }
  terminal.note(
    `Approved without asking, ${options.yes ? 'because of --yes' : 'since there is no terminal'}: ${CLEAN_COMMAND}`,
  )
  return { kind: 'approve', scope: 'once' }
}

/** Whether the model's work holds: the tests pass in a sandbox of their own. */
async function passesTests(client: Client, { workspace }: Stage): Promise<boolean> {
  const { id } = await client.createSandbox({ workspace: { kind: 'path', path: workspace } })
  for await (const { event } of client.runCommand(id, { command: TEST_COMMAND })) {
    if (event.type === 'command.exited') return event.data.result.exitCode === 0
  }
  throw new CliError('The sandbox for the last test ended early.', { status: EXIT.runFailed })
}
