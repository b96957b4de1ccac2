import type { PlannedResource, PlannedValue } from '../../../contracts/planned-resource.ts'
import { withUnknowns } from './computed.ts'
import { toPlanned, UNKNOWN, withoutMarks } from './values.ts'
import {
  ENGINE,
  empty,
  fromStruct,
  type Handlers,
  type Message,
  RESOURCE,
  RpcError,
  STATUS,
  toStruct,
} from './wire.ts'

const STACK_TYPE = 'pulumi:pulumi:Stack'
const STACK_REFERENCE = 'pulumi:pulumi:StackReference'

/** Features that the SDK may use. If a monitor denies parameterization, a program that needs it waits for ever. */
const FEATURES = ['secrets', 'deletedWith', 'aliasSpecs', 'parameterization']

export interface Recording {
  readonly resources: PlannedResource[]
  /** URN of a resource's provider, which must exist before the resource. */
  readonly providers: Map<string, string>
  readonly outputs: Record<string, PlannedValue>
  /** What the program logged as an error. */
  readonly errors: string[]
}

export interface MonitorOptions {
  readonly project: string
  readonly stack: string
}

/**
 * The engine's side of a dry run: records each registered resource and responds as if nothing existed yet. It has no
 * provider and no state, so it makes a plan and never a preview.
 */
export function createMonitor(options: MonitorOptions, recording: Recording): Handlers {
  const urns = new Set<string>()
  return {
    supportsFeature: (request) =>
      reply('SupportsFeatureResponse', { Hassupport: FEATURES.includes(request.getId()) }),
    registerResource: (request) => {
      const urn = urnOf(options, request)
      if (urns.has(urn)) throw new RpcError(STATUS.alreadyExists, `Duplicate resource URN '${urn}'`)
      urns.add(urn)
      const inputs = fromStruct(request.getObject())
      if (request.getType() !== STACK_TYPE) recording.resources.push(toResource(urn, request, inputs))
      recording.providers.set(urn, String(request.getProvider()).split('::').slice(0, -1).join('::'))
      const state = withUnknowns(request.getType(), withoutMarks(inputs) as Record<string, unknown>)
      return reply('RegisterResourceResponse', { Urn: urn, Object: toStruct(state) })
    },
    // Only outputs of another stack may be read, and they stay unknown. A plan does not know any other existing
    // resource, and its content would change the plan.
    readResource: (request) => {
      if (request.getType() !== STACK_REFERENCE)
        throw new RpcError(
          STATUS.unimplemented,
          `a plan cannot read ${request.getType()} ${request.getName()}`,
        )
      const urn = urnOf(options, request)
      const name = { name: request.getId() }
      recording.resources.push({ ...toReference(urn, request), inputs: name })
      const state = { ...name, outputs: UNKNOWN, secretOutputNames: UNKNOWN }
      return reply('ReadResourceResponse', { Urn: urn, Properties: toStruct(state) })
    },
    registerResourceOutputs: (request) => {
      if (request.getUrn().includes(`::${STACK_TYPE}::`)) {
        const outputs = Object.entries(fromStruct(request.getOutputs()))
        for (const [key, value] of outputs) recording.outputs[key] = toPlanned(value, 'this stack')
      }
      return empty()
    },
    // No provider is called, so its result is unknown.
    invoke: () => reply('ResourceInvokeResponse', { Unknown: true, Return: toStruct({}) }),
    registerPackage: (request) =>
      reply('RegisterPackageResponse', { Ref: `${request.getName()}@${request.getVersion()}` }),
    signalAndWaitForShutdown: () => empty(),
  }
}

export function createEngine(recording: Recording): Handlers {
  let root = ''
  return {
    log: (request) => {
      const isError = request.getSeverity() >= ENGINE.LogSeverity.ERROR
      if (isError) recording.errors.push(String(request.getMessage()).trim())
      return empty()
    },
    getRootResource: () => reply('GetRootResourceResponse', { Urn: root }, ENGINE),
    setRootResource: (request) => {
      root = request.getUrn()
      return reply('SetRootResourceResponse', {}, ENGINE)
    },
  }
}

function reply(
  name: string,
  fields: Readonly<Record<string, unknown>>,
  messages: Message = RESOURCE,
): Message {
  const message = new messages[name]()
  for (const [field, value] of Object.entries(fields)) message[`set${field}`](value)
  return message
}

/** Types of a resource's parents, but for the stack's, stand before its own: `urn:pulumi:dev::agentweaver::a$b::name`. */
function urnOf({ project, stack }: MonitorOptions, request: Message): string {
  const [, , parentType = ''] = String(request.getParent()).split('::')
  const prefix = parentType === '' || parentType === STACK_TYPE ? '' : `${parentType}$`
  return `urn:pulumi:${stack}::${project}::${prefix}${request.getType()}::${request.getName()}`
}

/** Outputs of another stack, which are only read. */
function toReference(urn: string, request: Message): Omit<PlannedResource, 'inputs'> {
  return {
    urn,
    type: request.getType(),
    name: request.getName(),
    custom: true,
    dependencies: [],
    protect: false,
    ignoreChanges: [],
    retainOnDelete: false,
  }
}

function toResource(
  urn: string,
  request: Message,
  inputs: Readonly<Record<string, unknown>>,
): PlannedResource {
  const parent = String(request.getParent())
  const sources = new Map<string, string>()
  request.getPropertydependenciesMap().forEach((dependencies: Message, property: string) => {
    sources.set(property, dependencies.getUrnsList().toSorted().join(', '))
  })
  const values = Object.entries(inputs).map(
    ([key, value]) => [key, toPlanned(value, sources.get(key) || 'the provider')] as const,
  )
  return {
    urn,
    type: request.getType(),
    name: request.getName(),
    custom: request.getCustom(),
    ...(parent.includes(`::${STACK_TYPE}::`) || parent === '' ? {} : { parent }),
    inputs: Object.fromEntries(values.toSorted(([a], [b]) => (a < b ? -1 : 1))),
    dependencies: request.getDependenciesList().toSorted(),
    protect: request.getProtect() === true,
    ignoreChanges: request.getIgnorechangesList(),
    retainOnDelete: request.getRetainondelete() === true,
    ...(request.getDeletedwith() === '' ? {} : { deletedWith: request.getDeletedwith() }),
  }
}
