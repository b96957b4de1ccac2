import type { RequestedAgent } from '../../contracts/agents.ts'
import { FINAL_STATES } from '../../contracts/api.ts'
import type { OfferedModel } from '../../contracts/models.ts'
import type { Client } from '../../runtime/client/client.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { present } from '../../runtime/kit/present.ts'
import { toCliError } from '../cli-error.ts'
import { visible } from '../terminal/visible.ts'

export interface Asking {
  readonly client: Pick<Client, 'startRun' | 'streamEvents' | 'readRun' | 'cancel'>
  /** Option that selects the service in printed commands. */
  readonly suffix: string
  /** A run that takes longer is ended. */
  readonly timeoutMs: number
  /** Ends the run at once. */
  readonly signal: AbortSignal
}

/** What became of one run. */
export interface Asked {
  readonly kind: OfferedModel['kind']
  readonly model?: string
  readonly ok: boolean
  readonly seconds: number
  readonly runId?: string
  readonly detail: string
  /** What to do next. */
  readonly remedy?: string
}

const TASK =
  'Answer with the single word "ready". Use no tool, except that you report the outcome "succeeded" if you have a tool for it.'
/** A service that does not respond within this time is not reachable. */
const START_MS = 30_000
/** A run that is cancelled ends within seconds. */
const END_MS = 20_000
const POLL_MS = 200
const SHOWN_CHARACTERS = 60

/** Runs one short prompt as a user would, and reads its answer. The run has ended when it resolves. */
export async function askModel(item: Pick<OfferedModel, 'kind' | 'model'>, asking: Asking): Promise<Asked> {
  const { client, suffix, timeoutMs, signal } = asking
  const begun = performance.now()
  const about = { kind: item.kind, ...present({ model: item.model }) }
  const finish = (ok: boolean, result: Pick<Asked, 'detail' | 'remedy' | 'runId'>): Asked => ({
    ...about,
    ok,
    seconds: Math.round((performance.now() - begun) / 100) / 10,
    ...result,
  })
  let runId: string
  try {
    runId = (await client.startRun(requestOf(item), { signal: AbortSignal.timeout(START_MS) })).id
  } catch (error) {
    return finish(false, { detail: wordsOf(error) })
  }
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  const show = `agentweaver show ${runId}${suffix}`
  try {
    const { state, text, failure } = await follow(client, runId, limit)
    if (state === 'succeeded') return finish(true, { runId, detail: answered(text) })
    const detail =
      failure === undefined ? `the run ended as ${state}` : `${failure.message} (${failure.code})`
    return finish(false, { runId, detail: visible(detail), remedy: remedyFor(failure?.code) ?? show })
  } catch (error) {
    const last = await client.readRun(runId).catch(() => undefined)
    await end(client, runId)
    if (signal.aborted) return finish(false, { runId, detail: 'interrupted; its run was ended' })
    const detail = limit.aborted
      ? `no answer within ${timeoutMs / 1000} s; the run was ${last?.state ?? 'unreachable'} and was ended`
      : wordsOf(error)
    return finish(false, { runId, detail, remedy: show })
  }
}

const PLAN = { turns: [[{ kind: 'say', text: 'ready' }]] } satisfies Extract<
  RequestedAgent,
  { kind: 'scripted' }
>['plan']

const requestOf = ({ kind, model }: Pick<OfferedModel, 'kind' | 'model'>) => ({
  task: TASK,
  workspace: { kind: 'empty' } as const,
  agent: kind === 'scripted' ? { kind, plan: PLAN } : { kind, ...present({ model }) },
  requireOutcome: false,
  labels: { purpose: 'doctor' },
})

type Failure = { readonly code: string; readonly message: string }

async function follow(client: Asking['client'], runId: string, signal: AbortSignal) {
  let text = ''
  let failure: Failure | undefined
  for await (const { event } of client.streamEvents(runId, { signal })) {
    if (event.type === 'agent.message') text = event.data.text
    if (event.type === 'run.failed') failure = event.data
    if (event.type === 'done') return { state: event.data.state, text, failure }
  }
  throw new Error('the events of the run ended before the run did')
}

function answered(text: string): string {
  const word = visible(text.replaceAll(/\s+/g, ' ').trim())
  if (word === '') return 'succeeded'
  return `answered "${word.length > SHOWN_CHARACTERS ? `${word.slice(0, SHOWN_CHARACTERS)}…` : word}"`
}

/** Cancels a run and waits until it is final. Never throws: the result of the prompt is already known. */
async function end(client: Asking['client'], runId: string): Promise<void> {
  const until = performance.now() + END_MS
  try {
    let { state } = await client.cancel(runId)
    while (!FINAL_STATES.some((final) => final === state) && performance.now() < until) {
      await delay(POLL_MS)
      state = (await client.readRun(runId)).state
    }
  } catch {
    // The run may have ended by itself, or the service is gone.
  }
}

const REMEDIES: Readonly<Record<string, string>> = {
  credential_absent: 'agentweaver credential set github',
  credential_forbidden: 'check the Azure identity of the pods and its roles (docs/credentials.md)',
  credential_unavailable:
    'check that the vault and the login host are in the egress list and reachable (docs/credentials.md)',
  agent_quota_exceeded: 'wait, or raise the quota of the account at the provider of the model',
}

const remedyFor = (code: string | undefined) => (code === undefined ? undefined : REMEDIES[code])

const wordsOf = (error: unknown): string => toCliError(error)?.message ?? messageOf(error)
