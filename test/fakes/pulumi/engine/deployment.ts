import { createHash } from 'node:crypto'
import {
  hasUnknown,
  isObject,
  type Json,
  mapValue,
  type Properties,
  plainProperties,
  secret,
  simplified,
  valueAt,
  withoutNulls,
  withValueAt,
} from '../values.ts'
import { RpcError, STATUS } from '../wire.ts'
import {
  type DiffAnswer,
  InitialisationFailed,
  type Named,
  openProvider,
  type Provider,
} from './provider-host.ts'
import type { ResourceState, StackState } from './state.ts'

export type StepKind = 'same' | 'create' | 'update' | 'replace' | 'delete' | 'forget' | 'refresh'
export interface Step {
  readonly kind: StepKind
  readonly urn: string
  /** Paths that changed, or that made it a replacement. */
  readonly paths: readonly string[]
}

/** What a program asks for, as the monitor reads it from the wire. */
export interface Goal {
  readonly type: string
  readonly name: string
  readonly custom: boolean
  readonly parent?: string
  readonly inputs: Properties
  /** Reference of an explicit provider; empty for the default one. */
  readonly provider?: string
  readonly dependencies?: readonly string[]
  readonly protect?: boolean
  readonly retainOnDelete?: boolean
  readonly deletedWith?: string
  readonly ignoreChanges?: readonly string[]
  readonly replaceOnChanges?: readonly string[]
  readonly deleteBeforeReplace?: boolean
  readonly additionalSecretOutputs?: readonly string[]
}
export interface Registered {
  readonly urn: string
  /** Empty while nobody knows it. */
  readonly id: string
  readonly outputs: Properties
}

export interface DeploymentOptions {
  readonly project: string
  readonly stack: string
  readonly state: StackState
  /** Addresses of the providers, by package. */
  readonly providers: Readonly<Record<string, string>>
  /** Of the stack, keys with their namespace: `azure-native:location`. */
  readonly config?: Readonly<Record<string, string>>
  /** @default false */
  readonly preview?: boolean
}

const STACK = 'pulumi:pulumi:Stack'
const PROVIDER = 'pulumi:providers:'

function urnOf({ stack, project }: DeploymentOptions, { type, name, parent }: Goal): string {
  const [, , parentTypes = ''] = (parent ?? '').split('::')
  const prefix = parentTypes === '' || parentTypes === STACK ? '' : `${parentTypes}$`
  return `urn:pulumi:${stack}::${project}::${prefix}${type}::${name}`
}

/** A path of `ignoreChanges` or `replaceOnChanges` covers what is below it; `*` is any key. */
export function covers(pattern: string, path: string): boolean {
  const escaped = pattern
    .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('\\[*\\]', '\\[\\d+\\]')
    .replaceAll('*', '[^.[\\]]+')
  return pattern === '*' || new RegExp(`^(?:${escaped})(?:$|[.[])`).test(path)
}

/** The engine puts the old value back before any provider sees the new one. */
function withIgnored(news: Properties, olds: Properties, paths: readonly string[]): Properties {
  return paths.reduce<Properties>((inputs, path) => {
    if (path.includes('*'))
      throw new RpcError(STATUS.invalidArgument, `ignoreChanges of ${path} is not taken here`)
    const old = valueAt(olds, path)
    return old === undefined && valueAt(inputs, path) === undefined ? inputs : withValueAt(inputs, path, old)
  }, news)
}

const withSecrets = (outputs: Properties, keys: readonly string[]): Properties =>
  Object.fromEntries(
    Object.entries(outputs).map(([key, value]) => [key, keys.includes(key) ? secret(value) : value]),
  )

const nameOf = (urn: string) => urn.split('::').slice(3).join('::')

/**
 * An engine of the size of a test: the steps that Pulumi's takes for each resource (check, diff, create, update or
 * replace, delete what is left over), against providers on the wire, with a state. It decides by the documented rules
 * of `ignoreChanges`, `replaceOnChanges`, `deleteBeforeReplace`, `protect`, `retainOnDelete` and `deletedWith`. It is no
 * substitute for the real one: it has neither aliases nor targets nor parallel deletes.
 */
export function createDeployment(options: DeploymentOptions) {
  const { state, preview = false } = options
  const seen = new Set<string>()
  const steps: Step[] = []
  const errors: string[] = []
  const open = new Map<string, Promise<Provider>>()
  const planned = new Map<string, Properties>()

  const take = (step: Step) => {
    steps.push(step)
    return step
  }
  function fail(urn: string, error: unknown): never {
    errors.push(`${urn}: ${(error as Error).message}`)
    throw new RpcError(STATUS.unavailable, 'resource monitor shut down while waiting on a step')
  }

  function addressOf(kind: string): string {
    const address = options.providers[kind]
    if (address === undefined)
      throw new RpcError(STATUS.unknown, `no resource plugin 'pulumi-resource-${kind}' is attached`)
    return address
  }
  function providerOf(reference: string, kind: string, args: Properties): Promise<Provider> {
    const known = open.get(reference)
    if (known !== undefined) return known
    const opening = openProvider(addressOf(kind), args)
    open.set(reference, opening)
    return opening
  }

  function configOf(kind: string): Properties {
    const own = Object.entries(options.config ?? {}).filter(([key]) => key.startsWith(`${kind}:`))
    return Object.fromEntries(own.map(([key, value]) => [key.slice(kind.length + 1), value]))
  }
  const kindOf = (type: string) => type.split(':')[0] ?? ''

  /** Reference of the provider that serves a type: the program's own, or the default one of the package. */
  function referenceFor(type: string, explicit: string | undefined): string {
    if (explicit !== undefined && explicit !== '') return explicit
    const kind = kindOf(type)
    const urn = `urn:pulumi:${options.stack}::${options.project}::${PROVIDER}${kind}::default`
    return `${urn}::default`
  }
  function providerAt(reference: string): Promise<Provider> {
    const parts = reference.split('::')
    const type = parts.at(2)?.split('$').at(-1) ?? ''
    const kind = type.slice(PROVIDER.length)
    const urn = parts.slice(0, -1).join('::')
    const args = planned.get(urn) ?? state.get(urn)?.inputs ?? configOf(kind)
    return providerOf(reference, kind, args)
  }

  async function registerProvider(goal: Goal, urn: string): Promise<Registered> {
    const old = state.get(urn)
    const inputs = withoutNulls(simplified(goal.inputs) as Properties)
    const kind = goal.type.slice(PROVIDER.length)
    const id = old?.id || `${createHash('sha256').update(urn).digest('hex').slice(0, 12)}`
    planned.set(urn, inputs)
    const provider = await providerOf(`${urn}::${id}`, kind, inputs)
    if (old !== undefined && provider.isKnown && !hasUnknown(old.inputs)) {
      const answer = await provider.diffConfig(
        { urn, type: goal.type, name: goal.name },
        plainProperties(old.inputs),
        plainProperties(inputs),
      )
      take({ kind: kindOfStep(answer), urn, paths: answer.paths })
    } else take({ kind: old === undefined ? 'create' : 'same', urn, paths: [] })
    if (!preview) state.put(stateOf(goal, { urn, id, outputs: inputs }, inputs))
    return { urn, id, outputs: inputs }
  }
  const kindOfStep = (answer: DiffAnswer): StepKind => {
    if (answer.replaces.length > 0) return 'replace'
    return answer.isChanged ? 'update' : 'same'
  }

  function stateOf(goal: Goal, made: Registered, inputs: Properties): ResourceState {
    return {
      urn: made.urn,
      type: goal.type,
      name: goal.name,
      custom: goal.custom,
      id: made.id,
      inputs,
      outputs: made.outputs,
      dependencies: goal.dependencies ?? [],
      protect: goal.protect === true,
      retainOnDelete: goal.retainOnDelete === true,
      ...(goal.parent === undefined || goal.parent === '' ? {} : { parent: goal.parent }),
      ...(goal.deletedWith ? { deletedWith: goal.deletedWith } : {}),
      ...(goal.custom && !goal.type.startsWith('pulumi:')
        ? { provider: referenceFor(goal.type, goal.provider) }
        : {}),
    }
  }

  /** What is to be done with what exists, and why. */
  async function decide(goal: Goal, old: ResourceState, inputs: Properties) {
    const reference = referenceFor(goal.type, goal.provider)
    const provider = await providerAt(reference)
    const named: Named = { urn: old.urn, type: goal.type, name: goal.name }
    const answer = await provider.diff(named, old, inputs)
    const asked = answer.paths.filter((path) =>
      (goal.replaceOnChanges ?? []).some((pattern) => covers(pattern, path)),
    )
    const isElsewhere = old.provider !== undefined && old.provider !== reference
    const replaces = [...answer.replaces, ...asked, ...(isElsewhere ? ['provider'] : [])]
    const isBroken = (old.initErrors ?? []).length > 0
    const kind = kindOfStep({ ...answer, replaces, isChanged: answer.isChanged || isBroken })
    return {
      kind,
      paths: kind === 'replace' ? [...new Set(replaces)] : answer.paths,
      deleteFirst: goal.deleteBeforeReplace ?? answer.deleteBeforeReplace,
    }
  }

  async function create(goal: Goal, urn: string, inputs: Properties): Promise<Registered> {
    const provider = await providerAt(referenceFor(goal.type, goal.provider))
    const secrets = goal.additionalSecretOutputs ?? []
    try {
      const { id, outputs } = await provider.create(
        { urn, type: goal.type, name: goal.name },
        inputs,
        preview,
      )
      const made = { urn, id, outputs: withSecrets(outputs, secrets) }
      if (!preview) state.put(stateOf(goal, made, inputs))
      return made
    } catch (error) {
      if (error instanceof InitialisationFailed) {
        const made = { urn, id: error.id, outputs: withSecrets(error.outputs, secrets) }
        state.put({ ...stateOf(goal, made, inputs), initErrors: [error.message] })
      }
      throw error
    }
  }

  async function update(goal: Goal, old: ResourceState, inputs: Properties): Promise<Registered> {
    const provider = await providerAt(referenceFor(goal.type, goal.provider))
    const named = { urn: old.urn, type: goal.type, name: goal.name }
    const outputs = withSecrets(
      await provider.update(named, old, { news: inputs, preview }),
      goal.additionalSecretOutputs ?? [],
    )
    const made = { urn: old.urn, id: old.id, outputs }
    if (!preview) state.put(stateOf(goal, made, inputs))
    return made
  }

  async function replace(
    goal: Goal,
    old: ResourceState,
    { inputs, deleteFirst }: { inputs: Properties; deleteFirst: boolean },
  ) {
    if (old.protect)
      throw new Error(`unable to replace resource "${old.urn}" as it is currently marked for protection`)
    if (preview) return create(goal, old.urn, inputs)
    const condemned = state.condemn(old)
    if (deleteFirst) await remove(condemned)
    return create(goal, old.urn, inputs)
  }

  /** The inputs as the provider takes them, after `ignoreChanges` put back what the program does not own. */
  async function checked(goal: Goal, urn: string, old: ResourceState | undefined): Promise<Properties> {
    const provider = await providerAt(referenceFor(goal.type, goal.provider))
    const asked = withoutNulls(simplified(goal.inputs) as Properties)
    const wanted = old === undefined ? asked : withIgnored(asked, old.inputs, goal.ignoreChanges ?? [])
    const named = { urn, type: goal.type, name: goal.name }
    const { inputs, failures } = await provider.check(named, wanted, old?.inputs ?? {})
    if (failures.length > 0) throw new Error(failures.join('; '))
    return inputs
  }

  async function settle(goal: Goal, urn: string): Promise<Registered> {
    const old = state.get(urn)
    const inputs = await checked(goal, urn, old)
    if (old === undefined) {
      take({ kind: 'create', urn, paths: [] })
      return create(goal, urn, inputs)
    }
    const { kind, paths, deleteFirst } = await decide(goal, old, inputs)
    take({ kind, urn, paths })
    if (kind === 'replace') return replace(goal, old, { inputs, deleteFirst })
    if (kind === 'update') return update(goal, old, inputs)
    const made = { urn, id: old.id, outputs: old.outputs }
    if (!preview) state.put(stateOf(goal, made, inputs))
    return made
  }

  /** A component, or the stack: it groups, and no provider knows of it. */
  function group(goal: Goal, urn: string): Registered {
    take({ kind: state.get(urn) === undefined ? 'create' : 'same', urn, paths: [] })
    const outputs = simplified(goal.inputs) as Properties
    if (!preview) state.put(stateOf(goal, { urn, id: '', outputs }, outputs))
    return { urn, id: '', outputs }
  }

  async function remove(old: ResourceState): Promise<void> {
    const isGone =
      old.deletedWith !== undefined &&
      steps.some((step) => step.kind === 'delete' && step.urn === old.deletedWith)
    if (old.provider !== undefined && !old.retainOnDelete && !isGone) {
      const provider = await providerAt(old.provider)
      await provider.delete({ urn: old.urn, type: old.type, name: old.name }, old)
    }
    state.remove(old)
  }

  /** What the program does not ask for any more, and what was replaced: last made, first deleted. */
  async function removeLeftovers(): Promise<void> {
    const leftovers = state.list().filter((one) => one.isCondemned === true || !seen.has(one.urn))
    const guarded = leftovers.find((one) => one.protect && one.isCondemned !== true)
    if (guarded !== undefined) {
      errors.push(`${guarded.urn}: resource cannot be deleted because it is protected`)
      return
    }
    for (const old of leftovers.toReversed()) {
      take({ kind: old.retainOnDelete ? 'forget' : 'delete', urn: old.urn, paths: [] })
      if (!preview) await remove(old).catch((error) => fail(old.urn, error))
    }
  }

  return {
    steps: steps as readonly Step[],
    errors: errors as readonly string[],
    /** Steps that change something, as `create name`. */
    changes: () =>
      steps.filter(({ kind }) => kind !== 'same').map(({ kind, urn }) => `${kind} ${nameOf(urn)}`),
    async register(goal: Goal): Promise<Registered> {
      const urn = urnOf(options, goal)
      if (seen.has(urn))
        throw new RpcError(
          STATUS.alreadyExists,
          `Duplicate resource URN '${urn}'; try giving it a unique name`,
        )
      seen.add(urn)
      if (errors.length > 0) fail(urn, new Error('not started: something else failed'))
      if (!goal.custom || goal.type === STACK) return group(goal, urn)
      const act = goal.type.startsWith(PROVIDER) ? registerProvider : settle
      return await act(goal, urn).catch((error: unknown) => fail(urn, error))
    },
    setOutputs(urn: string, outputs: Properties): void {
      const old = state.get(urn)
      if (!preview && old !== undefined) state.put({ ...old, outputs: simplified(outputs) as Properties })
    },
    async read(goal: Goal, id: string): Promise<Registered> {
      const urn = urnOf(options, goal)
      const provider = await providerAt(referenceFor(goal.type, goal.provider))
      const found = await provider.read(
        { urn, type: goal.type, name: goal.name },
        { id, inputs: {}, outputs: {} },
      )
      if (found.id === '') throw new RpcError(STATUS.unknown, `resource '${id}' does not exist`)
      return { urn, id, outputs: found.outputs }
    },
    async invoke(token: string, args: Properties, explicit?: string): Promise<Properties | undefined> {
      const provider = await providerAt(referenceFor(token, explicit))
      return provider.invoke(token, simplified(args) as Properties)
    },
    removeLeftovers,
    /** Everything that the state holds, gone; nothing at all when one of it is protected. */
    async destroy(): Promise<void> {
      seen.clear()
      await removeLeftovers()
    },
    /** The state as the cloud is. */
    async refresh(): Promise<void> {
      for (const old of state.list().filter((one) => one.provider !== undefined)) {
        const provider = await providerAt(old.provider ?? '')
        const found = await provider.read({ urn: old.urn, type: old.type, name: old.name }, old)
        if (found.id === '') {
          take({ kind: 'delete', urn: old.urn, paths: [] })
          state.remove(old)
        } else if (!isSame(old, found)) {
          take({ kind: 'refresh', urn: old.urn, paths: [] })
          state.put({ ...old, inputs: found.inputs, outputs: found.outputs })
        }
      }
    },
    async [Symbol.asyncDispose]() {
      const all = await Promise.allSettled(open.values())
      for (const one of all) if (one.status === 'fulfilled') one.value[Symbol.dispose]()
    },
  }
}
export type Deployment = ReturnType<typeof createDeployment>

const sorted = (value: Json): Json =>
  mapValue(value, (part) =>
    isObject(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  )
const isSame = (old: ResourceState, found: { inputs: Properties; outputs: Properties }) =>
  JSON.stringify(sorted([old.inputs, old.outputs])) === JSON.stringify(sorted([found.inputs, found.outputs]))
