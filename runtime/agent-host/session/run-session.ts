import { createHash } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ConfigureRequest } from '../../../contracts/configure.ts'
import type { EgressGrant } from '../../../contracts/egress-control.ts'
import type { HeldEntries, HostEvent } from '../../../contracts/events.ts'
import { TOOL_ARGUMENTS, type ToolOutcome } from '../../../contracts/tools.ts'
import type { AgentPolicy } from '../../../policies/agent/load.ts'
import { AGENT_LIMITS, type AgentSession, type SessionFiles } from '../../agents/agent.ts'
import { createAgent } from '../../agents/registry.ts'
import { createGovernance } from '../../governance/governance.ts'
import { refuseCommand } from '../../governance/refuse-command.ts'
import type { ShellGrammar } from '../../governance/shell/grammar.ts'
import { createTouchTracker } from '../../governance/touched.ts'
import { deadline } from '../../kit/deadline.ts'
import { SandboxError } from '../../kit/errors.ts'
import type { Log } from '../../kit/log.ts'
import { present } from '../../kit/present.ts'
import { EventRedactor } from '../../redaction/event-redactor.ts'
import { createGrowingRedactor, type GrowingRedactor } from '../../redaction/growing-redactor.ts'
import { cleanIntent } from '../../tools/report-tools.ts'
import type { ToolCall } from '../../tools/tool.ts'
import { createToolRegistry } from '../../tools/tool-registry.ts'
import { type Commands, createCommands } from '../commands/commands.ts'
import type { AzureSettings } from '../credential/azure-settings.ts'
import { openRunCredential, type RunCredential } from '../credential/run-credential.ts'
import type { DecisionTable } from '../decisions/decision-table.ts'
import { EgressToken } from '../egress/egress-token.ts'
import { openWayOut, type WayOut } from '../egress/way-out.ts'
import type { Outbox } from '../outbox.ts'
import type { RunnerLink } from '../toolbox/runner-link.ts'
import { createTurns, type RunTurn, type Turns } from '../turn/turns.ts'
import { atRest } from './at-rest.ts'
import { GovernedCalls, idsOf } from './governed-calls.ts'
import { openRedactedText } from './output-filter.ts'
import { packSession, unpackSession, withoutSecrets } from './session-archive.ts'
import { usageReports } from './usage-reports.ts'

/** A killed command ends within milliseconds. A cancelled turn must end within two seconds in total. */
const OPEN_CALLS_MS = 1_000

export type RunSession = {
  readonly runId: string
  readonly toolbox: RunnerLink
  /** Undefined if the sandbox has no agent. */
  readonly turns: Turns | undefined
  readonly commands: Commands
  readonly exportSession: () => Promise<Uint8Array>
  /** Gives the agent and its commands their access to the egress proxy, or renews it. */
  readonly giveEgress: (grant: EgressGrant) => Promise<void>
  readonly close: () => Promise<void>
}

export type SessionDeps = {
  readonly toolbox: RunnerLink
  readonly outbox: Outbox
  readonly decisions: DecisionTable
  readonly policy: AgentPolicy
  readonly shell: ShellGrammar
  /** Private working directory of the agent runtime, which never runs in the workspace. */
  readonly stateDir: string
  /** The only environment variables that the agent runtime gets. */
  readonly runtimeEnv: Readonly<Record<string, string>>
  /** Undefined if this AgentHost has no Azure identity. */
  readonly azure?: AzureSettings | undefined
  /** Called with every secret value, so that the log redacts it too. */
  readonly onSecret: (value: string) => void
  readonly log: Log
}

/** Opens the workspace, creates governance and redaction for the run, and starts its agent. */
export async function createRunSession(
  request: ConfigureRequest,
  deps: SessionDeps,
  archive?: Promise<Uint8Array>,
): Promise<RunSession> {
  const { toolbox, outbox, log } = deps
  const { settings } = request.governance
  const { redactor, learn } = openRedaction(request, deps.onSecret)
  const egressToken = new EgressToken(learn)
  let waiting: AgentSession | undefined
  const wayOut = await openWayOut(request.agent, deps, {
    ...{ fetchToken: () => egressToken.fetch(), learn },
    onWait: (wait) => waiting?.waitForModel?.(wait) ?? (() => undefined),
  })
  const { azure, isOpenedLater } = wayOut
  // The runner opens the workspace in parallel with reading the credential and creating the tools.
  const { layout } = request
  const onHeld = (held: HeldEntries) => void outbox.emit({ type: 'workspace.held', data: held })
  toolbox.onUsage(usageReports(outbox))
  const opening = toolbox.open(request.workingDirectory, layout && { layout, onHeld })
  opening.catch(() => undefined)
  const credential = await openRunCredential(request, {
    ...{ azure, onValue: learn, log, isReadOnUse: isOpenedLater },
  })
  const openFilter = () => openRedactedText(redactor.stream())
  const callTool = createCallTool(request, deps, { redactor, openFilter })
  await opening
  const { backend } = toolbox.isolation
  for (const warning of toolbox.warnings)
    await outbox.emit({ type: 'sandbox.warning', data: { ...warning, backend } })

  const commands = createCommands({
    toolbox,
    outbox,
    openFilter,
    refusal: (command) => refuseCommand(command, settings, toolbox.isolation),
  })
  const sessionFiles = archive && (await readSession(await archive, request))
  let turns: Turns | undefined
  const agent = await startAgent(request, deps, {
    ...{ callTool, credential, egressToken, redactor, wayOut },
    activeTurn: () => turns?.active?.id,
    ...present({ sessionFiles }),
  })
  waiting = agent
  if (agent) {
    const runTurn = createRunTurn(agent, { redactor, calls: callTool.calls, log })
    turns = createTurns(outbox, { runTurn, suspendedTurn: () => agent.suspendedTurn })
  }

  return {
    runId: request.runId,
    toolbox,
    turns,
    commands,
    exportSession: async () => {
      if (!agent) throw new SandboxError('not_found', 'this sandbox has no agent')
      const files = await atRest(
        () => restingState(turns, callTool.calls),
        () => agent.exportSession(),
      )
      return packSession(withoutSecrets(files, redactor.known))
    },
    giveEgress: (grant) => giveEgress(grant, egressToken, toolbox),
    close: async () => {
      await agent?.close()
      wayOut.close()
    },
  }
}

function createRunTurn(
  agent: AgentSession,
  { redactor, calls, log }: { redactor: GrowingRedactor; calls: GovernedCalls; log: Log },
): RunTurn {
  return async (turn) => {
    const events = new EventRedactor(redactor)
    const emit = (event: HostEvent) => {
      for (const redacted of events.redact(event)) void turn.emit(redacted)
    }
    const end = await agent.runTurn({ ...turn, emit })
    // The turn's end must be its last event, so cancelled calls get a second to emit their results first.
    await deadline('the end of the open calls', OPEN_CALLS_MS, calls.settled()).catch((error) =>
      log.warn('a call was still open when its turn ended', { error }),
    )
    return 'message' in end ? { ...end, message: redactor.text(end.message) } : end
  }
}

/** The redactor of a run, which knows the secrets of its configuration. */
function openRedaction(
  { governance, turnBearerToken, digestKey, credential }: ConfigureRequest,
  onSecret: SessionDeps['onSecret'],
) {
  const redactor = createGrowingRedactor({ pii: governance.settings.redact_pii })
  const learn = (value: string) => {
    redactor.learn(value)
    onSecret(value)
  }
  learn(turnBearerToken)
  learn(digestKey)
  if (credential.kind === 'keyVault') learn(credential.secretName)
  return { redactor, learn }
}

/** Unpacks the session, after checking it against the digest in the signed request. */
async function readSession(archive: Uint8Array, { session }: ConfigureRequest): Promise<SessionFiles> {
  const digest = createHash('sha256').update(archive).digest('hex')
  if (digest !== session?.sha256) {
    throw new SandboxError('configure_failed', 'the session archive does not match the announced digest')
  }
  return unpackSession(archive)
}

/** The runner serves commands, so it does not get the token of this process. */
async function giveEgress(
  { agentHostToken, commandsToken, ...rest }: EgressGrant,
  egressToken: EgressToken,
  toolbox: RunnerLink,
): Promise<void> {
  if (agentHostToken !== undefined) egressToken.use(agentHostToken)
  if (commandsToken !== undefined) await toolbox.giveEgress({ commandsToken, ...rest })
}

type CallTool = ReturnType<typeof createCallTool>
type Redaction = {
  readonly redactor: GrowingRedactor
  readonly openFilter: () => ReturnType<typeof openRedactedText>
}

/** Describes the state in which the agent's session can be exported. Throws `conflict` in any other state. */
function restingState(turns: Turns | undefined, { waiting }: GovernedCalls): string {
  const turnId = turns?.active?.id
  if (turnId === undefined) return 'between turns'
  if (waiting) return [turnId, ...waiting].join(' ')
  throw new SandboxError(
    'conflict',
    `the session can only be exported between turns, or while all open calls wait for a decision; turn ${turnId} works`,
  )
}

function createCallTool(request: ConfigureRequest, deps: SessionDeps, { redactor, openFilter }: Redaction) {
  const { toolbox, outbox, decisions, policy, shell, log } = deps
  const { settings } = request.governance
  const { isRealIsolation, shell: runs } = toolbox.isolation
  const governance = createGovernance({ policy, settings, shell, log })
  const tracker = createTouchTracker(policy)
  const registry = createToolRegistry({
    toolbox,
    settings,
    shellAcceptable: isRealIsolation || settings.direct,
    openFilter,
  })
  const calls = new GovernedCalls({
    decide: (call) =>
      governance.decide(call, { isRealIsolation, shell: runs, phase: 'work', touched: tracker.touched }),
    onReleased: (call) => tracker.observe(call),
    redact: (value) => redactor.json(value),
    run: async (call, { signal, answer, ...io }) => {
      const ids = idsOf(call, { ...io, signal })
      const outcome = await registry.run(call, {
        signal,
        ...present({ answer }),
        emitOutput: (stream, chunk) => {
          const data = { commandId: call.callId, callId: call.callId, stream, chunk }
          return outbox.emit({ type: 'command.output', data }, ids)
        },
      })
      if (outcome.ok) tracker.observe(call, outcome.content)
      const intent = intentOf(call, outcome)
      if (intent)
        await outbox.emit(
          { type: 'agent.intent', data: { intent: redactor.text(intent), callId: call.callId } },
          ids,
        )
      return outcome
    },
    outbox,
    decisions,
    digestKey: Buffer.from(request.digestKey, 'base64url'),
    now: () => performance.now(),
  })
  return { definitions: registry.definitions, calls }
}

/** The intent that the agent reported with this call, if any. */
function intentOf(call: ToolCall, outcome: ToolOutcome): string | undefined {
  if (call.tool !== 'report_intent' || !outcome.ok) return undefined
  const said = TOOL_ARGUMENTS.report_intent.safeParse(call.arguments)
  return said.success ? cleanIntent(said.data.intent) : undefined
}

type AgentParts = {
  /** Id of the running turn, to which the agent's calls are attributed. */
  readonly activeTurn: () => string | undefined
  readonly callTool: CallTool
  readonly credential: RunCredential
  readonly egressToken: EgressToken
  readonly redactor: GrowingRedactor
  readonly wayOut: WayOut
  readonly sessionFiles?: SessionFiles
}

async function startAgent(
  request: ConfigureRequest,
  deps: SessionDeps,
  parts: AgentParts,
): Promise<AgentSession | undefined> {
  if (request.agent.kind === 'none') return undefined
  const stateDir = join(deps.stateDir, 'agent')
  await mkdir(stateDir, { recursive: true, mode: 0o700 })
  const { callTool, credential, egressToken, wayOut, sessionFiles, activeTurn } = parts
  const io = (signal: AbortSignal) => ({ signal, ...present({ taskId: activeTurn() }) })
  return createAgent(request.agent, {
    tools: callTool.definitions,
    callTool: (call, signal) => callTool.calls.call(call, io(signal)),
    rejectCall: (call, error, signal) => callTool.calls.reject(call, io(signal), error),
    fetchToken: () => credential.fetch(),
    fetchEgressToken: () => egressToken.fetch(),
    generation: request.generation,
    stateDir,
    runtimeEnv: wayOut.runtimeEnv,
    opensWithFirstTurn: wayOut.isOpenedLater,
    onModelWait: (text) => {
      const message = parts.redactor.text(text)
      const { backend } = deps.toolbox.isolation
      void deps.outbox.emit({ type: 'sandbox.warning', data: { category: 'model-waits', message, backend } })
    },
    ...(sessionFiles && { sessionFiles }),
    limits: AGENT_LIMITS,
    log: deps.log,
  })
}
