import type { BackendName } from '../../contracts/backends.ts'
import { SandboxError } from '../kit/errors.ts'
import { bwrapBackend } from './bwrap.ts'
import { directBackend } from './direct.ts'
import type { Backend, Detection } from './executor.ts'
import { namespacesBackend } from './namespaces.ts'

/** Strongest isolation first. `direct` is last and must be enabled by the operator. */
const LADDER: readonly Backend[] = [bwrapBackend, namespacesBackend, directBackend]

export interface SelectOptions {
  /** Considers only this backend. It must still pass its proof. */
  readonly only?: BackendName
  /** Whether the operator allowed commands without isolation. */
  readonly allowDirect: boolean
  readonly toolRoots: readonly string[]
  readonly signal?: AbortSignal
}

type Proven = Extract<Detection, { ok: true }>

export interface PassedOver {
  readonly name: BackendName
  readonly reason: string
  readonly remedy?: string
}

export interface Selection {
  readonly backend: Backend
  readonly detection: Proven
  /** Stronger backends that were not selected, with the reasons. */
  readonly passedOver: readonly PassedOver[]
}

/** One backend in the output of `agentweaver doctor`. */
export interface Rung {
  readonly name: BackendName
  readonly isChosen: boolean
  readonly detection: Detection
}

/**
 * Returns the first backend that passes its proof. Throws `isolation_unavailable` with the reason and remedy of
 * every backend.
 */
export async function selectBackend(options: SelectOptions): Promise<Selection> {
  const passedOver: PassedOver[] = []
  for (const backend of candidates(options.only)) {
    const detection = await examine(backend, options)
    if (detection.ok) return { backend, detection: explained(detection, passedOver), passedOver }
    passedOver.push(toPassedOver(backend.name, detection))
  }
  throw new SandboxError(
    'isolation_unavailable',
    `No backend can isolate commands on this machine.\n${passedOver.map(describe).join('\n')}`,
  )
}

/** Checks every backend, also those after the selected one. */
export async function explainLadder(options: SelectOptions): Promise<Rung[]> {
  const rungs: Rung[] = []
  for (const backend of candidates(options.only)) {
    const detection = await examine(backend, options)
    const isChosen = detection.ok && !rungs.some((rung) => rung.isChosen)
    rungs.push({ name: backend.name, isChosen, detection })
  }
  return rungs
}

/** Formats one backend for display: the reason and the remedy. */
export const describe = ({ name, reason, remedy }: PassedOver): string =>
  `  ${name}: ${reason}${remedy === undefined ? '' : `\n    to fix it: ${remedy}`}`

function candidates(only: BackendName | undefined): readonly Backend[] {
  if (only === undefined) return LADDER
  const backend = LADDER.find(({ name }) => name === only)
  if (backend === undefined)
    throw new SandboxError('isolation_unavailable', `This version has no backend ${only} for this machine.`)
  return [backend]
}

async function examine(backend: Backend, options: SelectOptions): Promise<Detection> {
  options.signal?.throwIfAborted()
  if (backend.name === 'direct' && !options.allowDirect) return DIRECT_NOT_ALLOWED
  const { toolRoots, signal } = options
  return backend.detect(signal === undefined ? { toolRoots } : { toolRoots, signal })
}

const DIRECT_NOT_ALLOWED: Detection = {
  ok: false,
  reason: 'it would run commands without isolation, which only the operator may allow',
  remedy:
    'start the service with AGENTWEAVER_DIRECT=true if you accept that commands have all permissions of this user',
}

function toPassedOver(name: BackendName, { reason, remedy }: Extract<Detection, { ok: false }>): PassedOver {
  return remedy === undefined ? { name, reason } : { name, reason, remedy }
}

/** Adds the reasons why stronger backends were not selected. */
function explained(detection: Proven, passedOver: readonly PassedOver[]): Proven {
  if (passedOver.length === 0) return detection
  const others = passedOver.map(({ name, reason }) => `${name}: ${reason}`).join('; ')
  const reason = `${detection.isolation.reason} (passed over: ${others})`
  return { ...detection, isolation: { ...detection.isolation, reason } }
}
