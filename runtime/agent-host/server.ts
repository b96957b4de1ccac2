import { rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DECISION_LIMITS } from '../../contracts/limits.ts'
import type { HostRoot } from '../../contracts/paths.ts'
import { bestEffort } from '../kit/best-effort.ts'
import { messageOf } from '../kit/errors.ts'
import { createLog } from '../kit/log.ts'
import { present } from '../kit/present.ts'
import { createGrowingRedactor } from '../redaction/growing-redactor.ts'
import { assets } from './assets.ts'
import { parseAgentHostConfig } from './config.ts'
import { azureSettings } from './credential/azure-settings.ts'
import { DecisionTable } from './decisions/decision-table.ts'
import { Outbox } from './outbox.ts'
import { reachEnv } from './reach-env.ts'
import { createHostStateMachine } from './state.ts'
import type { RunnerLink } from './toolbox/runner-link.ts'

const EX_CONFIG = 78

function readConfig() {
  try {
    return parseAgentHostConfig(process.env)
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n`)
    return process.exit(EX_CONFIG)
  }
}

const config = readConfig()
/** Redacts the log: secrets by their pattern, and the secrets of the run by their value. */
const redactor = createGrowingRedactor({ pii: false })
const log = createLog({
  level: config.AGENT_HOST_LOG_LEVEL,
  write: (line) => process.stderr.write(line),
  redact: (line) => redactor.text(line),
})

/** On a laptop the runner is a child of this process. In a pod, two runners connect from the other container. */
async function startRunner(): Promise<RunnerLink> {
  const backend = config.AGENT_HOST_RUNNER_BACKEND
  if (backend === undefined) return (await import('./toolbox/await-runners.ts')).awaitRunners()
  const toolRoots = JSON.parse(config.AGENT_HOST_RUNNER_TOOL_ROOTS) as string[]
  const hostRoots = JSON.parse(config.AGENT_HOST_RUNNER_HOST_ROOTS) as HostRoot[]
  const { spawnRunner } = await import('./toolbox/spawn-runner.ts')
  const egressFolder = config.AGENT_HOST_RUNNER_EGRESS_FOLDER
  return spawnRunner({ backend, entry: assets.runnerEntry, toolRoots, hostRoots, egressFolder, log })
}

// The runner takes as long to start as this process, so it starts first.
const startingRunner = startRunner()
// `start` awaits the runner and reports the error; this only prevents an unhandled rejection.
startingRunner.catch(() => undefined)
const machine = createHostStateMachine()
const outbox = new Outbox({
  maxEvents: DECISION_LIMITS.outboxEvents,
  maxBytes: DECISION_LIMITS.outboxBytes,
})
const decisions = new DecisionTable({ timeoutMs: config.AGENT_HOST_DECISION_TIMEOUT_MS })
const policy = assets.agentPolicy()

/** Modules that only a configured sandbox needs. */
async function loadSessionParts() {
  const { createRunSession } = await import('./session/run-session.ts')
  const { loadShellGrammar } = await import('../governance/shell/grammar.ts')
  return { createRunSession, shell: await loadShellGrammar(await assets.grammarModules()) }
}
let sessionParts: ReturnType<typeof loadSessionParts> | undefined
const readySessionParts = () => {
  sessionParts ??= loadSessionParts()
  return sessionParts
}

/** Loads the route handlers' modules. No request needs them before standby. */
const loadHandlers = () =>
  Promise.all([
    import('./configure/check-request.ts'),
    import('./turn/a2a-calls.ts'),
    import('./routes/files-queries.ts'),
    import('../../contracts/decisions.ts'),
  ])

const ticket = {
  jwksFile: config.AGENT_HOST_JWKS_FILE,
  instanceId: config.AGENT_HOST_INSTANCE_ID,
  now: () => new Date(),
}
async function buildApp() {
  const { buildAgentHost } = await import('./app.ts')
  return buildAgentHost({
    machine,
    outbox,
    decisions,
    log,
    ...present({ identityTokenFile: config.AGENT_HOST_IDENTITY_TOKEN_FILE }),
    ticket,
    setUp: async (request, toolbox, archive) => {
      const stateDir = config.AGENT_HOST_STATE_DIR
      const { createRunSession, shell } = await readySessionParts()
      const runtimeEnv = reachEnv(process.env)
      const parts = { toolbox, outbox, decisions, policy, shell, stateDir, runtimeEnv, log }
      const azure = azureSettings(config)
      return createRunSession(request, { ...parts, azure, onSecret: redactor.learn }, archive)
    },
  })
}

/** Time and memory since the start of this process. */
function startCost() {
  const { user, system } = process.cpuUsage()
  return {
    afterMs: Math.round(performance.now()),
    processorMs: Math.round((user + system) / 1000),
    residentBytes: process.memoryUsage.rss(),
  }
}

let app: Awaited<ReturnType<typeof buildApp>> | undefined
let runner: RunnerLink | undefined
let leaving = false
/** Ends this process and everything that it started. */
async function leave(why: string, exitCode: number): Promise<void> {
  if (leaving) return
  leaving = true
  log.info('leaving', { why })
  setTimeout(() => process.exit(exitCode), 1500).unref()
  const { status } = machine
  machine.leave(`AgentHost is leaving: ${why}`)
  outbox.close()
  if (status.state === 'ready') await status.session.close()
  await runner?.close()
  await app?.close()
  process.exit(exitCode)
}

const { AGENT_HOST_SOCKET: path, AGENT_HOST_PORT: port } = config

async function start(): Promise<void> {
  app = await buildApp()
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void leave(signal, 0))
  await app.listen(path === undefined ? { host: '::', port: port ?? 0 } : { path })
  log.debug('waiting for the runner', { afterMs: Math.round(performance.now()) })
  // Loads the code that admits the runners while they are still starting.
  if (config.AGENT_HOST_RUNNER_BACKEND === undefined) await import('./toolbox/admission.ts')
  runner = await startingRunner
  void runner.closed.then((why) => leave(`the runner ended: ${why}`, 1))
  machine.standby(runner)
  process.stdout.write('standby\n')
  log.info('standby', startCost())
}

/** If the parent dies, stdin ends. Nothing else removes the sandbox's folder then. */
function leaveWithLifeline(): void {
  process.stdin.resume().on('end', async () => {
    if (path !== undefined) await rm(dirname(path), { recursive: true, force: true })
    await leave('the lifeline ended', 0)
  })
}

/** Loads the modules of a run after standby is announced. Only a run that starts at once waits for them. */
async function prepare(): Promise<void> {
  await loadHandlers()
  const { createRunSession, shell } = await readySessionParts()
  const { warmUp } = await import('./warm-up.ts')
  const { AGENT_HOST_STATE_DIR: stateDir } = config
  const { importKeys } = await import('./configure/ticket.ts')
  await bestEffort(log, "import the executor's public keys", () => importKeys(ticket))
  await bestEffort(log, 'warm up for a run', () => warmUp({ createRunSession, policy, shell, stateDir }))
  log.debug('settled', startCost())
}

async function main(): Promise<void> {
  await start()
  if (config.AGENT_HOST_LIFELINE) leaveWithLifeline()
  await prepare()
}

main().catch((error: unknown) => {
  log.error('AgentHost failed and exits', { error })
  process.exit(1)
})
