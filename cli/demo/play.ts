import type { StartRunInput } from '../../contracts/api.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import type { Client } from '../../runtime/client/client.ts'
import { present } from '../../runtime/kit/present.ts'
import { CliError, usageError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import { followRun } from '../follow/follow-run.ts'
import type { Gate, GateAnswer } from '../follow/gates.ts'
import { createPresenter } from '../follow/presenter.ts'
import { type ServiceProcess, spawnService } from '../service/spawn-service.ts'
import { onInterrupt } from '../terminal/interrupts.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { packFolder } from './archive.ts'
import { type Evidence, missing, missingOfModel } from './checks.ts'
import { clusterSettings, createDemoCluster, type DemoCluster } from './demo-cluster.ts'
import { createDemoSetup, type DemoSetup } from './demo-setup.ts'
import { leftBehind } from './left-behind.ts'
import { CLEAN_COMMAND, demoPlan, MODEL_CHARTER, TASK, TEST_COMMAND } from './plan.ts'
import { changeOf, readResult } from './result.ts'
import { refusals, summary, type Timing } from './summary.ts'

export interface DemoOptions {
  readonly json: boolean
  readonly yes: boolean
  /** Name of a real model. @default the scripted agent */
  readonly model?: string | undefined
  /** In a pod of the cluster that KUBECONFIG names. @default on this machine */
  readonly cluster: boolean
}

const SHOWN_OUTPUT_LINES = 13
/** Settings that the demo's service inherits from the caller's shell. */
const KEPT_SETTINGS = new Set([
  'AGENTWEAVER_ISOLATION',
  'AGENTWEAVER_TOOL_ROOTS',
  'AGENTWEAVER_DIRECT',
  'AGENTWEAVER_LOG_LEVEL',
])

/** Plays the demo. Returns exit status 0 only if every check passed and nothing is left behind. */
export async function playDemo(terminal: Terminal, options: DemoOptions): Promise<number> {
  checkOptions(terminal, options)
  // Installed before the first file is created, so that a signal cannot end the process before the cleanup.
  let isInterrupted = false
  using _interrupts = onInterrupt(() => {
    isInterrupted = true
  })
  const played = await playInSetup(terminal, options, () => isInterrupted)
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
      terminal.notePaint.red('The demo failed. These checks did not pass:'),
      ...problems.map((what) => `  ${what}`),
      ...(played.isDenied
        ? ['You denied the command. Run the demo again and answer y to see everything.']
        : []),
      ...(played.log === '' ? [] : ["The end of the service's log:", played.log]),
    ])
    return EXIT.runFailed
  }
  if (!options.json) terminal.print(terminal.paint.dim('Every check passed; no process and no file is left.'))
  return EXIT.ok
}

function checkOptions({ io }: Terminal, { model, cluster }: DemoOptions): void {
  if (cluster && model !== undefined)
    throw usageError('Give either --model or --cluster, not both: on a cluster the agent is scripted.')
  if (cluster && !io.env['KUBECONFIG'])
    throw usageError('--cluster needs KUBECONFIG.', 'npm run cluster -- exec npm run demo -- --cluster')
  if (model === undefined || io.env['OPENAI_BASE_URL']) return
  throw usageError(
    'A real model needs OPENAI_BASE_URL, and OPENAI_API_KEY if the endpoint asks for a key.',
    'Without --model the demo needs neither.',
  )
}

type Played = {
  readonly root: string
  readonly problems: readonly string[] | 'interrupted'
  /** The end of the service's log. */
  readonly log: string
  /** The person denied the command, so some checks cannot pass. */
  readonly isDenied?: boolean
}

async function playInSetup(
  terminal: Terminal,
  options: DemoOptions,
  isInterrupted: () => boolean,
): Promise<Played> {
  await using setup = await createDemoSetup()
  try {
    return await playWithService(setup, { terminal, options, isInterrupted })
  } catch (error) {
    // Ctrl-C can also reach the service, because it gets its own session only shortly after the fork.
    if (isInterrupted()) return { root: setup.root, problems: 'interrupted', log: '' }
    throw error
  }
}

async function playWithService(
  setup: DemoSetup,
  {
    terminal,
    options,
    isInterrupted,
  }: {
    readonly terminal: Terminal
    readonly options: DemoOptions
    readonly isInterrupted: () => boolean
  },
): Promise<Played> {
  introduce(terminal, options, setup)
  const kubeconfig = options.cluster ? terminal.io.env['KUBECONFIG'] : undefined
  await using cluster = kubeconfig === undefined ? undefined : createDemoCluster(kubeconfig)
  terminal.progress.waitFor('starting the service')
  await using service = await spawnService({
    env: serviceEnv(terminal.io.env, setup),
    cwd: setup.root,
    settings: {
      AGENTWEAVER_STATE_DIR: setup.stateDir,
      ...(kubeconfig === undefined
        ? { AGENTWEAVER_SANDBOXES: 'local', AGENTWEAVER_WORKSPACE_ROOTS: setup.root }
        : clusterSettings(kubeconfig)),
      TMPDIR: setup.temporary,
    },
  })
  if (cluster) terminal.progress.waitFor('waiting for a warm sandbox')
  await cluster?.open(setup.stateDir)
  // Awaited here, because the resources above are disposed when this function returns.
  return await playRun({ terminal, options, setup, service, ...present({ cluster }) }, isInterrupted)
}

type DemoRun = {
  readonly terminal: Terminal
  readonly options: DemoOptions
  readonly setup: DemoSetup
  readonly service: ServiceProcess
  readonly cluster?: DemoCluster
}

type Shown = { readonly timing: Timing; readonly diff: readonly string[] }

function showResult({ terminal, options }: DemoRun, evidence: Evidence, { timing, diff }: Shown): void {
  const refused = options.model === undefined ? refusals(terminal, evidence) : []
  const told = summary(terminal, evidence.events, timing)
  terminal.print(['', ...told, ...refused, ...changeOf(terminal, diff), ''])
}

/** The checks that failed, as text. */
async function problemsOf({ options, setup, cluster }: DemoRun, client: Client, evidence: Evidence) {
  const isScripted = options.model === undefined
  const shown = isScripted ? missing(evidence) : missingOfModel(evidence, await passesTests(client, setup))
  const left = (await cluster?.leftovers()) ?? []
  return [...shown, ...left.map((name) => `the cluster is clean (left: ${name})`)]
}

/** Starts the run, follows it, and checks its results. */
async function playRun(demo: DemoRun, isInterrupted: () => boolean): Promise<Played> {
  const { terminal, options, setup, service, cluster } = demo
  const { root } = setup
  if (isInterrupted()) return { root, problems: 'interrupted', log: '' }
  const { client } = service
  const begun = performance.now()
  const { id } = await client.startRun(toRequest(setup, options))
  if (cluster) await client.uploadWorkspace(id, packFolder(setup.workspace))
  const { events, isComplete, marks } = await watch({ terminal, client, runId: id, options })
  if (!isComplete || isInterrupted()) return { root, problems: 'interrupted', log: '' }
  const timing = {
    sandboxMs: marks.sandbox && marks.sandbox - begun,
    firstEventMs: marks.agent && marks.agent - begun,
    totalMs: performance.now() - begun,
  }
  const { diff, ...result } = await readResult(client, setup, cluster ? id : undefined)
  const { secret, canary, hostUrl } = setup
  const evidence = { events, secret, canary, hostUrl, hostConnections: setup.hostConnections(), ...result }
  if (!options.json) showResult(demo, evidence, { timing, diff })
  const problems = await problemsOf(demo, client, evidence)
  return { root, problems, log: service.log(), isDenied: isAsked(terminal, options) && hasDenial(events) }
}

const isAsked = ({ isInteractive }: Terminal, { yes }: DemoOptions): boolean => isInteractive && !yes
const hasDenial = (events: readonly RunEnvelope[]): boolean =>
  events.some(({ event }) => event.type === 'shell.denied')

/** The service's environment: with the canary, without settings that would change the demo. */
function serviceEnv(
  env: Terminal['io']['env'],
  { canary, temporary }: DemoSetup,
): Record<string, string | undefined> {
  const kept = Object.entries(env).filter(
    ([key]) => key !== 'DATABASE_URL' && (!key.startsWith('AGENTWEAVER_') || KEPT_SETTINGS.has(key)),
  )
  return { ...Object.fromEntries(kept), HOME: temporary, [canary.name]: canary.value }
}

function introduce({ print, paint }: Terminal, options: DemoOptions, { workspace }: DemoSetup): void {
  if (options.json) return
  const who = options.model === undefined ? 'A scripted agent' : `The model ${options.model}`
  const where = options.cluster
    ? 'The project is uploaded to its own pod, and the changes are downloaded at the end.'
    : 'Its commands run in the best isolation that works here.'
  print([paint.bold('Agentweaver Sandbox demo'), paint.dim(`${who} works in ${workspace}. ${where}`), ''])
}

const toRequest = ({ workspace, hostUrl }: DemoSetup, { model, cluster }: DemoOptions): StartRunInput => ({
  task: TASK,
  workspace: cluster ? { kind: 'upload' } : { kind: 'path', path: workspace },
  agent:
    model === undefined
      ? { kind: 'scripted', plan: demoPlan(hostUrl) }
      : { kind: 'openaiCompatible', model, charter: MODEL_CHARTER },
})

type Watching = { terminal: Terminal; client: Client; runId: string; options: DemoOptions }

/** Follows the run, collects its events, and records when the sandbox and the agent's first event came. */
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

/** The person decides about the one command. Without a person, the demo approves only that command. */
function decide(gate: Gate, terminal: Terminal, options: DemoOptions): 'ask' | GateAnswer {
  if (isAsked(terminal, options)) return 'ask'
  if (gate.type === 'agent.question_asked') return { kind: 'answer', answer: 'Use your own judgement.' }
  if (gate.type !== 'shell.approval_required' || gate.data.command !== CLEAN_COMMAND)
    return { kind: 'deny', reason: `The demo approves only "${CLEAN_COMMAND}".` }
  terminal.note(
    `Approved without asking, ${options.yes ? 'because of --yes' : 'since there is no terminal'}: ${CLEAN_COMMAND}`,
  )
  return { kind: 'approve', scope: 'once' }
}

/** Runs the tests in a fresh sandbox to check the model's work. */
async function passesTests(client: Client, { workspace }: DemoSetup): Promise<boolean> {
  const { id } = await client.createSandbox({ workspace: { kind: 'path', path: workspace } })
  for await (const { event } of client.runCommand(id, { command: TEST_COMMAND })) {
    if (event.type === 'command.exited') return event.data.result.exitCode === 0
  }
  throw new CliError('The sandbox for the last test ended early.', { status: EXIT.runFailed })
}
