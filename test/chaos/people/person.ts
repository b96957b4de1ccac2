import { randomUUID } from 'node:crypto'
import type { CreateSandboxInput, Run, StartRunInput } from '../../../contracts/api.ts'
import { FINAL_STATES } from '../../../contracts/api.ts'
import type { RunEnvelope } from '../../../contracts/events.ts'
import { API_ROUTES } from '../../../contracts/routes.ts'
import { delay } from '../../../runtime/kit/deadline.ts'
import type { RunPlan } from '../plan/plan.ts'
import { createRandom } from '../plan/random.ts'
import { type Script, scriptOf } from '../plan/shapes.ts'
import type { World } from '../world/world.ts'
import { type Answer, type Ask, type Http, isDefinite } from './http.ts'
import { type Reader, startReader } from './reader.ts'

/** A decision that a person has sent, with the response if there was one. */
export type SentDecision = {
  readonly requestId: string
  readonly outcome: 'approved' | 'denied' | 'answered'
  readonly key: string
  readonly status: number | undefined
}

/** A command that a person has sent under one key, however often. */
export type SentCommand = { readonly name: string; readonly commandIds: ReadonlySet<string> }

export type PersonOptions = {
  readonly world: World
  readonly http: Http
  readonly plan: RunPlan
  readonly onEvent: (envelope: RunEnvelope) => void
  readonly signal: AbortSignal
}

export type Person = ReturnType<typeof startPerson>

const POLL_MS = 200
const isFinal = (state: string): boolean => (FINAL_STATES as readonly string[]).includes(state)

/** A person with one run: starts it, follows it with several clients, decides, continues, suspends, cancels. */
export function startPerson({ world, http, plan, onEvent, signal }: PersonOptions) {
  const random = createRandom(plan.seed).fork('person')
  const script: Script = scriptOf(plan)
  const { replicas } = world
  const kind = plan.shape === 'sandbox' ? API_ROUTES.sandboxes : API_ROUTES.runs
  const decisions: SentDecision[] = []
  const decided = new Set<string>()
  const ids = new Set<string>()
  const events: RunEnvelope[] = []
  const readers: Reader[] = []
  const turns = new Map<string, Set<string>>()
  const commands: SentCommand[] = []
  let last: Run | undefined
  let id: string | undefined
  let hasCancelled = false
  let hasSuspended = false
  let isBusy = false

  /** Sends one request until it has a definite response. */
  async function insist(ask: Omit<Ask, 'key'>, key: string): Promise<Answer | undefined> {
    while (!signal.aborted) {
      const answer = await http.ask(random.pick(replicas), { ...ask, key })
      if (isDefinite(answer)) return answer
      await pause(POLL_MS)
    }
    return undefined
  }
  const pause = (ms: number) => delay(ms, signal).catch(() => undefined)

  /** The same request several times at once, under one key. */
  async function insistOnce(ask: Omit<Ask, 'key'>): Promise<readonly Answer[]> {
    const key = randomUUID()
    const answers = await Promise.all(Array.from({ length: plan.copies }, () => insist(ask, key)))
    return answers.filter((answer) => answer !== undefined)
  }

  function request(): CreateSandboxInput | StartRunInput {
    const isOnFolder = plan.workspace === 'path' && !world.cluster
    const common = {
      workspace: isOnFolder
        ? ({ kind: 'path', path: world.workspaceOf(plan.index) } as const)
        : ({ kind: 'empty' } as const),
      labels: { chaos: String(plan.index) },
    }
    if (plan.shape === 'sandbox') return common
    return {
      ...common,
      task: `chaos ${plan.index} ${plan.shape}`,
      agent: { kind: 'scripted', plan: { turns: script.turns.map((turn) => [...turn]) } },
      interactive: plan.shape === 'interactive',
      requireOutcome: true,
    }
  }

  async function start(): Promise<void> {
    await pause(plan.startAfterMs)
    // A request for a sandbox waits until the sandbox serves.
    const ask = { method: 'POST', path: kind, json: request(), timeoutMs: 60_000 } as const
    for (const { body } of (await insistOnce(ask)).filter(({ status }) => status < 300))
      ids.add((body as Run).id)
    id = [...ids][0]
    if (id === undefined) return
    const path = `${API_ROUTES.runs}/${id}/stream`
    for (const [index, reader] of plan.readers.entries()) {
      const onData = (data: string) => (index === 0 ? take(JSON.parse(data) as RunEnvelope) : undefined)
      readers.push(startReader({ http, replicas, path, plan: reader, onEvent: onData, signal }))
    }
  }

  function take(envelope: RunEnvelope): void {
    events.push(envelope)
    onEvent(envelope)
  }

  async function decide(requestId: string, isQuestion: boolean, route: 'shell' | 'tool'): Promise<void> {
    if (decided.has(requestId) || plan.isLeft) return
    decided.add(requestId)
    await pause(plan.decideAfterMs)
    const shared = randomUUID()
    const copies = Array.from({ length: plan.copies }, (_, copy) => {
      const outcome = isQuestion ? 'answered' : outcomeOf(copy)
      return decideOnce({ requestId, outcome, route }, plan.sharesKey ? shared : randomUUID())
    })
    await Promise.all(copies)
  }

  /** Of separate decisions, every other one may say the opposite. */
  function outcomeOf(copy: number): 'approved' | 'denied' {
    const isOpposite = plan.disagrees && !plan.sharesKey && copy % 2 === 1
    return (plan.decision === 'approved') === isOpposite ? 'denied' : 'approved'
  }

  type Decision = Pick<SentDecision, 'requestId' | 'outcome'> & { readonly route: 'shell' | 'tool' }
  async function decideOnce({ requestId, outcome, route }: Decision, key: string): Promise<void> {
    const ask = (() => {
      if (outcome === 'answered')
        return {
          path: `${API_ROUTES.runs}/${id}/questions/${requestId}/answer`,
          json: { answer: 'the first' },
        }
      const name = outcome === 'approved' ? 'approvals' : 'denials'
      return { path: `${API_ROUTES.runs}/${id}/${route}-${name}`, json: { requestId } }
    })()
    const answer = await insist({ method: 'POST', ...ask }, key)
    decisions.push({ requestId, outcome, key, status: answer?.status })
  }

  /** Requests that wait, from the events: each is decided once, in any state of the run. */
  async function decideAll(): Promise<void> {
    const open = events.flatMap(({ event }) => {
      if (event.type === 'agent.question_asked') return [decide(event.data.requestId, true, 'tool')]
      if (event.type === 'shell.approval_required') return [decide(event.data.requestId, false, 'shell')]
      if (event.type === 'tool.approval_required') return [decide(event.data.requestId, false, 'tool')]
      return []
    })
    await Promise.all(open)
  }

  /** The next turn, with a new key. A turn with a lost end is not sent again. */
  async function nextTurn(): Promise<void> {
    const count = turns.size + 1
    const isLast = count >= script.turns.length - 1
    const json = { prompt: `turn ${count}`, final: isLast }
    const answers = await insistOnce({ method: 'POST', path: `${API_ROUTES.runs}/${id}/turns`, json })
    const made = answers.filter(({ status }) => status < 300).map(({ body }) => (body as { id: string }).id)
    turns.set(`turn ${count}`, new Set(made))
  }

  async function useSandbox(): Promise<void> {
    const next = script.commands[commands.length]
    if (next === undefined) {
      await insistOnce({ method: 'DELETE', path: `${API_ROUTES.sandboxes}/${id}` })
      return
    }
    const json = { command: next.command, timeoutMs: 60_000 }
    const answers = await startCommand(json)
    const made = answers
      .filter(({ status }) => status < 300)
      .map(({ body }) => (body as { commandId: string }).commandId)
    commands.push({ name: next.name, commandIds: new Set(made) })
  }

  /** `Prefer: respond-async`, so that the response is the id of the command. */
  const startCommand = (json: object) =>
    insistOnce({ method: 'POST', path: `${API_ROUTES.runs}/${id}/commands`, json, prefersAsync: true })

  const post = (verb: string) => ({ method: 'POST', path: `${API_ROUTES.runs}/${id}/${verb}` }) as const
  /** The service waits for the checkpoint before it responds. */
  const LONG_MS = 55_000

  async function suspendOnce({ state }: Run): Promise<void> {
    if (!plan.isSuspendedByPerson || hasSuspended || state !== 'waiting') return
    hasSuspended = true
    await http.ask(random.pick(replicas), { ...post('suspend'), timeoutMs: LONG_MS })
  }

  /** Acts on the state of the run, one action at a time. */
  async function act(run: Run): Promise<void> {
    if (plan.shape === 'sandbox') return run.state === 'waiting' ? useSandbox() : undefined
    await suspendOnce(run)
    await goOn(run)
    await decideAll()
  }

  async function goOn({ state, waiting }: Run): Promise<void> {
    if (waiting?.for === 'turn' && state !== 'suspending') await nextTurn()
    if (waiting?.for === 'resume' && state === 'suspended')
      await insistOnce({ ...post('resume'), timeoutMs: LONG_MS })
  }

  async function cancelInTime(): Promise<void> {
    if (plan.cancelAfterMs === undefined) return
    await pause(plan.startAfterMs + plan.cancelAfterMs)
    while (id === undefined && !signal.aborted) await pause(POLL_MS)
    hasCancelled = true
    await insistOnce({ method: 'POST', path: `${API_ROUTES.runs}/${id}/cancel` })
  }

  const reads = () => `${kind}/${id}`
  const finished = (async () => {
    const cancelling = cancelInTime()
    await start()
    while (!signal.aborted) {
      const answer = await http.ask(random.pick(replicas), { method: 'GET', path: reads() })
      if (answer?.status === 200) {
        last = answer.body as Run
        if (isFinal(last.state)) break
        isBusy = true
        await act(last)
        isBusy = false
      }
      await pause(POLL_MS)
    }
    await cancelling
  })()

  return {
    plan,
    script,
    id: () => id,
    ids,
    decisions,
    turns,
    commands,
    readers,
    finished,
    hasCancelled: () => hasCancelled,
    last: () => last,
    /** The run waits for a decision that no person of the round makes. */
    isLeftWaiting: () =>
      plan.isLeft &&
      !isBusy &&
      (last?.state === 'waiting' || last?.state === 'suspended') &&
      last.waiting?.for !== 'resume',
  }
}
