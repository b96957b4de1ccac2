import engineMessages from '@pulumi/pulumi/proto/engine_pb.js'
import messages from '@pulumi/pulumi/proto/resource_pb.js'
import { type Properties, simplified } from '../values.ts'
import { empty, fromStruct, type Handler, RpcError, STATUS, toStruct } from '../wire.ts'
import type { Deployment, Goal } from './deployment.ts'

/** What the SDK may use of this engine. */
const FEATURES = new Set([
  'secrets',
  'resourceReferences',
  'outputValues',
  'deletedWith',
  'aliasSpecs',
  'parameterization',
])
const STACK = 'pulumi:pulumi:Stack'
const STACK_REFERENCE = 'pulumi:pulumi:StackReference'

export interface MonitorOptions {
  /** Outputs of another stack by its full name. @default no other stack is there */
  readonly stackOutputs?: (name: string) => Properties | undefined
}

type RegisterRequest = InstanceType<typeof messages.RegisterResourceRequest>

const goalOf = (request: RegisterRequest): Goal => ({
  type: request.getType(),
  name: request.getName(),
  custom: request.getCustom(),
  parent: request.getParent(),
  inputs: fromStruct(request.getObject()),
  provider: request.getProvider(),
  dependencies: request.getDependenciesList(),
  protect: request.getProtect() === true,
  retainOnDelete: request.getRetainondelete() === true,
  deletedWith: request.getDeletedwith(),
  ignoreChanges: request.getIgnorechangesList(),
  replaceOnChanges: request.getReplaceonchangesList(),
  additionalSecretOutputs: request.getAdditionalsecretoutputsList(),
  ...(request.getDeletebeforereplacedefined()
    ? { deleteBeforeReplace: request.getDeletebeforereplace() }
    : {}),
})

/** The engine's side of a program that runs: each registration is carried out before it is answered. */
export function monitorHandlers(
  deployment: Deployment,
  { stackOutputs }: MonitorOptions,
): Record<string, Handler> {
  function readReference(properties: Properties, id: string) {
    const name = String(properties['name'] ?? id)
    const outputs = stackOutputs?.(name)
    if (outputs === undefined) throw new RpcError(STATUS.unknown, `stack '${name}' has no outputs`)
    return { ...properties, name, outputs, secretOutputNames: [] }
  }
  return {
    supportsFeature: (request) =>
      new messages.SupportsFeatureResponse().setHassupport(FEATURES.has(request.getId())),
    registerResource: async (request) => {
      const made = await deployment.register(goalOf(request))
      const reply = new messages.RegisterResourceResponse()
      reply.setUrn(made.urn)
      reply.setId(made.id)
      reply.setObject(toStruct(made.outputs))
      return reply
    },
    readResource: async (request) => {
      const reply = new messages.ReadResourceResponse()
      const properties = simplified(fromStruct(request.getProperties())) as Properties
      if (request.getType() === STACK_REFERENCE) {
        reply.setUrn(`urn:pulumi:other::other::${STACK_REFERENCE}::${request.getName()}`)
        return reply.setProperties(toStruct(readReference(properties, request.getId())))
      }
      const goal = {
        type: request.getType(),
        name: request.getName(),
        custom: true,
        inputs: {},
        provider: request.getProvider(),
      }
      const found = await deployment.read({ ...goal, parent: request.getParent() }, request.getId())
      reply.setUrn(found.urn)
      return reply.setProperties(toStruct(found.outputs))
    },
    registerResourceOutputs: (request) => {
      if (request.getUrn().includes(`::${STACK}::`))
        deployment.setOutputs(request.getUrn(), fromStruct(request.getOutputs()))
      return empty()
    },
    invoke: async (request) => {
      const result = await deployment.invoke(
        request.getTok(),
        fromStruct(request.getArgs()),
        request.getProvider(),
      )
      const reply = new messages.ResourceInvokeResponse()
      reply.setUnknown(result === undefined)
      return reply.setReturn(toStruct(result ?? {}))
    },
    registerPackage: (request) => new messages.RegisterPackageResponse().setRef(request.getName()),
    signalAndWaitForShutdown: empty,
  }
}

/** The log and the root of the stack. Errors that the program logs are kept in order. */
export function engineHandlers(errors: string[]): Record<string, Handler> {
  let root = ''
  return {
    log: (request) => {
      if (request.getSeverity() >= engineMessages.LogSeverity.ERROR)
        errors.push(String(request.getMessage()).trim())
      return empty()
    },
    getRootResource: () => new engineMessages.GetRootResourceResponse().setUrn(root),
    setRootResource: (request) => {
      root = request.getUrn()
      return new engineMessages.SetRootResourceResponse()
    },
  }
}
