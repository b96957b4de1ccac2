import type { OfferedModel } from '../../contracts/models.ts'
import type { Client } from '../../runtime/client/client.ts'
import { toCliError } from '../cli-error.ts'
import { visible } from '../terminal/visible.ts'
import { nameOf } from '../view/agent-names.ts'
import { type Asked, type Asking, askModel } from './ask-model.ts'
import type { Finding } from './finding.ts'

export interface ClusterExamination extends Omit<Asking, 'client'> {
  readonly client: Client
  /** Called before each step that takes a while. */
  readonly onStep: (what: string) => void
}

export interface Examined {
  readonly findings: readonly Finding[]
  readonly models: readonly Asked[]
}

/** Checks the service that the commands use: its health, the credential, and one run with each model. */
export async function examineCluster({ onStep, ...asking }: ClusterExamination): Promise<Examined> {
  const { client, signal } = asking
  onStep('checking the service')
  const findings = await examineAccess(client)
  if (findings.some(({ state }) => state === 'fault')) return { findings, models: [] }
  const { items } = await client.listModels()
  const models: Asked[] = []
  // One after the other, because a service limits the runs of an owner, and so that the times can be compared.
  for (const item of items.filter(isAskable)) {
    if (signal.aborted) break
    onStep(item.kind === 'scripted' ? 'starting a sandbox' : `asking ${titleOf(item)}`)
    models.push(await askModel(item, asking))
  }
  return { findings: [...findings, ...models.map(toFinding), ...items.flatMap(whyNotAsked)], models }
}

async function examineAccess(client: Client): Promise<Finding[]> {
  const service = await attempt('service', async () => {
    const { ready, checks } = await client.ready()
    const bad = checks.filter(({ ok }) => !ok).map(({ name, detail }) => `\n${name}: ${detail}`)
    return ready
      ? { state: 'ok', detail: `ready (${checks.map(({ name }) => name).join(', ')})` }
      : { state: 'fault', detail: `not ready${bad.join('')}`, remedy: 'look at the log of the service' }
  })
  if (service.state === 'fault') return [service]
  const signIn = await attempt('sign-in', async () => {
    const { owner, role, expiresAt } = await client.readMe()
    const detail = `${visible(owner)}, role ${role}, valid until ${expiresAt ?? 'it is revoked'}`
    return role === 'auditor'
      ? { state: 'fault', detail: `${detail}; this role starts no runs`, remedy: 'use a key of another role' }
      : { state: 'ok', detail }
  })
  return [service, signIn]
}

/** An expected error of the service becomes a fault with the hint that a command would print. */
async function attempt(about: string, check: () => Promise<Omit<Finding, 'about'>>): Promise<Finding> {
  try {
    return { about, ...(await check()) }
  } catch (error) {
    const known = toCliError(error)
    if (!known) throw error
    return { about, state: 'fault', detail: known.message, ...(known.hint && { remedy: known.hint }) }
  }
}

const isAskable = ({ kind, model, usable }: OfferedModel) =>
  usable && (kind === 'scripted' || model !== undefined)

const titleOf = ({ kind, model }: Pick<OfferedModel, 'kind' | 'model'>): string =>
  model === undefined ? nameOf(kind) : `${nameOf(kind)} ${visible(model)}`

function toFinding({ ok, seconds, detail, remedy, ...item }: Asked): Finding {
  return {
    about: item.kind === 'scripted' ? 'sandbox' : 'model',
    state: ok ? 'ok' : 'fault',
    detail: `${item.kind === 'scripted' ? 'a run without a model' : titleOf(item)}, ${seconds} s: ${detail}`,
    ...(remedy !== undefined && { remedy }),
  }
}

function whyNotAsked(item: OfferedModel): Finding[] {
  const about = 'model'
  if (isAskable(item)) return []
  if (!item.usable)
    return [{ about, state: 'missing', detail: `${titleOf(item)}: ${visible(item.reason ?? '')}` }]
  const detail = `${nameOf(item.kind)}: the service has no list of its models, so none is asked`
  return [
    { about, state: 'off', detail, remedy: 'list them in the settings of the service (docs/deployment.md)' },
  ]
}
