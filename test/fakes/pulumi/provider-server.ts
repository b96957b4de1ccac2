import { setTimeout as delay } from 'node:timers/promises'
import pluginMessages from '@pulumi/pulumi/proto/plugin_pb.js'
import services from '@pulumi/pulumi/proto/provider_grpc_pb.js'
import messages from '@pulumi/pulumi/proto/provider_pb.js'
import statuses from '@pulumi/pulumi/proto/status_pb.js'
import type { Cloud, Fault, Operation } from './cloud.ts'
import type { Compared, Named, StandIn, StandInFactory, State } from './stand-in.ts'
import { hasSecret, isSecret, type Properties, plainProperties, secret, simplified } from './values.ts'
import {
  empty,
  fromStruct,
  type Handler,
  type Listener,
  listen,
  newAny,
  RpcError,
  STATUS,
  toStruct,
  versionOf,
} from './wire.ts'

export interface ServeOptions {
  readonly cloud: Cloud
  readonly standIn: StandInFactory
  /** Ends the provider at once, as a crash does. @default the listener is cut off */
  readonly crash?: () => void
}

/** Time for a response that was already written to leave the process. */
const FLUSH_MS = 100
const KIND = messages.PropertyDiff.Kind
const CHANGES = messages.DiffResponse.DiffChanges
const KINDS = {
  add: { inPlace: KIND.ADD, replacing: KIND.ADD_REPLACE },
  delete: { inPlace: KIND.DELETE, replacing: KIND.DELETE_REPLACE },
  update: { inPlace: KIND.UPDATE, replacing: KIND.UPDATE_REPLACE },
} as const

function toDiffReply({ changes, replaces, deleteBeforeReplace }: Compared) {
  const reply = new messages.DiffResponse()
  reply.setChanges(changes.size === 0 ? CHANGES.DIFF_NONE : CHANGES.DIFF_SOME)
  reply.setReplacesList([...replaces])
  reply.setDiffsList([...new Set([...changes.keys()].map((path) => path.split(/[.[]/)[0] ?? path))])
  reply.setDeletebeforereplace(deleteBeforeReplace)
  reply.setHasdetaileddiff(true)
  for (const [path, change] of changes) {
    const detail = new messages.PropertyDiff()
    detail.setKind(KINDS[change][replaces.includes(path) ? 'replacing' : 'inPlace'])
    detail.setInputdiff(true)
    reply.getDetaileddiffMap().set(path, detail)
  }
  return reply
}

/**
 * The error for an object that was created but failed to initialize: the engine keeps the object and reports the
 * reason.
 */
function initialisationFailed(state: State, outputs: Properties, reason: string): RpcError {
  const detail = new messages.ErrorResourceInitFailed()
  detail.setId(state.id)
  detail.setProperties(toStruct(outputs))
  detail.setInputs(toStruct(state.inputs))
  detail.setReasonsList([reason])
  const any = newAny()
  any.pack(detail.serializeBinary(), 'pulumirpc.ErrorResourceInitFailed')
  const status = new statuses.Status()
  status.setCode(STATUS.unknown)
  status.setMessage(reason)
  status.addDetails(any as never)
  return new RpcError(STATUS.unknown, reason, status.serializeBinary())
}

/** Marks outputs as secret if the input with the same key is secret. A Kubernetes Secret is always secret. */
function marked(outputs: Properties, inputs: Properties): Properties {
  const isSecretObject = outputs['kind'] === 'Secret' && outputs['apiVersion'] === 'v1'
  const isMarked = (key: string) =>
    hasSecret(inputs[key] ?? null) || (isSecretObject && (key === 'data' || key === 'stringData'))
  return Object.fromEntries(
    Object.entries(outputs).map(([key, value]) => [
      key,
      isMarked(key) && !isSecret(value) ? secret(value) : value,
    ]),
  )
}

// biome-ignore lint/suspicious/noExplicitAny: requests share these getters without sharing a type.
type Request = any
const namedBy = (request: Request): Named => {
  const urn: string = request.getUrn()
  const [, , types = '', ...names] = urn.split('::')
  return {
    urn,
    type: request.getType() || (types.split('$').at(-1) ?? ''),
    name: request.getName() || names.join('::'),
  }
}

/**
 * Serves a fake provider as `pulumirpc.ResourceProvider` on a free port, to which
 * `PULUMI_DEBUG_PROVIDERS=<name>:<port>` attaches an engine. Every operation checks for planted faults and is recorded
 * in the cloud.
 */
export async function serveProvider({ cloud, standIn: make, crash }: ServeOptions): Promise<Listener> {
  const instances = new Map<string, StandIn>()
  const { name } = make(cloud)
  let latest = make(cloud)
  let listener: Listener | undefined
  let cancelled = new AbortController()
  let isFalling = false
  let underWay = 0
  const fall = crash ?? (() => void listener?.[Symbol.asyncDispose]())

  const of = (peer: string) => instances.get(peer) ?? latest
  const secretsIn = (value: Properties) => simplified(value) as Properties
  const hide = (provider: StandIn, outputs: Properties, inputs: Properties) =>
    provider.acceptsSecrets ? marked(outputs, inputs) : outputs

  async function before(fault: Fault | undefined): Promise<void> {
    if (fault?.how === 'slow') await delay(fault.delayMs ?? 200)
    if (fault?.how === 'hang') {
      await new Promise((resolve) => cancelled.signal.addEventListener('abort', resolve, { once: true }))
      throw new RpcError(STATUS.cancelled, 'the operation was cancelled')
    }
    if (fault?.how === 'before')
      throw new RpcError(STATUS.unknown, 'Status=500 Code="InternalServerError" (planted)')
    if (fault?.how === 'crash-before') await fallen()
  }
  /**
   * Ends the provider once all other operations in progress have finished. Then only the planted operation has an
   * unknown result, and a test can state the expected objects. Requests that arrive during the shutdown fail.
   */
  async function fallen(): Promise<never> {
    isFalling = true
    while (underWay > 1) await delay(5)
    await delay(FLUSH_MS)
    fall()
    throw new RpcError(STATUS.unavailable, 'error reading from server: EOF')
  }
  async function after(fault: Fault | undefined): Promise<void> {
    if (fault?.how === 'crash-after') await fallen()
    if (fault?.how === 'after')
      throw new RpcError(
        STATUS.unknown,
        'Status=504 Code="GatewayTimeout" (planted, after the object was made)',
      )
  }

  /** One operation with its fault and its record. */
  async function operate<T>(
    op: Operation,
    { type, id }: { type: string; id: string },
    act: () => T | Promise<T>,
  ) {
    if (isFalling) await new Promise<never>(() => undefined)
    const fault = cloud.strike(op, type)
    underWay += 1
    try {
      await before(fault)
      const result = await act()
      await after(fault)
      if (fault?.how !== 'partial') cloud.record({ provider: name, op, type, id, outcome: 'ok' })
      return { result, isPartial: fault?.how === 'partial' }
    } catch (error) {
      cloud.record({ provider: name, op, type, id, outcome: 'failed' })
      throw error
    } finally {
      underWay -= 1
    }
  }

  function settle(
    state: State,
    outputs: Properties,
    how: { op: Operation; type: string; isPartial: boolean },
  ) {
    if (!how.isPartial) return
    cloud.record({ provider: name, op: how.op, type: how.type, id: state.id, outcome: 'failed' })
    throw initialisationFailed(state, outputs, 'the object was made and did not become ready (planted)')
  }

  const check = (request: Request, peer: string) => {
    const provider = of(peer)
    const news = secretsIn(fromStruct(request.getNews()))
    const open = plainProperties(news)
    const { inputs, failures } = provider.check(
      namedBy(request),
      plainProperties(fromStruct(request.getOlds())),
      open,
    )
    const reply = new messages.CheckResponse()
    reply.setInputs(toStruct(provider.acceptsSecrets ? marked(inputs, news) : inputs))
    for (const { property, reason } of failures) {
      const failure = new messages.CheckFailure()
      failure.setProperty(property)
      failure.setReason(reason)
      reply.addFailures(failure)
    }
    return reply
  }

  const stateOf = (request: Request, outputs: string, inputs: string): State => ({
    id: request.getId(),
    inputs: plainProperties(fromStruct(request[inputs]())),
    outputs: plainProperties(fromStruct(request[outputs]())),
  })

  const create = async (request: Request, peer: string) => {
    const provider = of(peer)
    const named = namedBy(request)
    const news = secretsIn(fromStruct(request.getProperties()))
    const inputs = plainProperties(news)
    const reply = new messages.CreateResponse()
    if (request.getPreview()) {
      reply.setProperties(toStruct(hide(provider, provider.preview(named, inputs), news)))
      return reply
    }
    const { result, isPartial } = await operate('create', { type: named.type, id: named.urn }, () =>
      provider.create(named, inputs),
    )
    const outputs = hide(provider, result.outputs, news)
    settle(result, outputs, { op: 'create', type: named.type, isPartial })
    reply.setId(result.id)
    reply.setProperties(toStruct(outputs))
    return reply
  }

  const update = async (request: Request, peer: string) => {
    const provider = of(peer)
    const named = namedBy(request)
    const old = stateOf(request, 'getOlds', 'getOldInputs')
    const news = secretsIn(fromStruct(request.getNews()))
    const inputs = plainProperties(news)
    const reply = new messages.UpdateResponse()
    if (request.getPreview()) {
      reply.setProperties(toStruct(hide(provider, provider.preview(named, inputs, old), news)))
      return reply
    }
    const { result, isPartial } = await operate('update', { type: named.type, id: old.id }, () =>
      provider.update(named, old, inputs),
    )
    const outputs = hide(provider, result.outputs, news)
    settle(result, outputs, { op: 'update', type: named.type, isPartial })
    reply.setProperties(toStruct(outputs))
    return reply
  }

  const read = async (request: Request, peer: string) => {
    const provider = of(peer)
    const named = namedBy(request)
    const sent = secretsIn(fromStruct(request.getInputs()))
    const old = stateOf(request, 'getProperties', 'getInputs')
    const isImport = request.getProperties() === undefined || Object.keys(old.outputs).length === 0
    const { result } = await operate('read', { type: named.type, id: old.id }, () =>
      provider.read(named, old.id, isImport ? undefined : old),
    )
    const reply = new messages.ReadResponse()
    if (result === undefined) return reply
    reply.setId(old.id)
    reply.setProperties(toStruct(hide(provider, result.outputs, sent)))
    reply.setInputs(toStruct(hide(provider, result.inputs, sent)))
    return reply
  }

  const handlers: Record<string, Handler> = {
    getPluginInfo: () => {
      const info = new pluginMessages.PluginInfo()
      info.setVersion(versionOf(name))
      return info
    },
    attach: empty,
    checkConfig: (request, peer) => {
      const { inputs } = of(peer).checkConfig(fromStruct(request.getNews()))
      return new messages.CheckResponse().setInputs(toStruct(inputs))
    },
    diffConfig: (request, peer) => {
      const olds = request.getOldInputs() ?? request.getOlds()
      return toDiffReply(
        of(peer).diffConfig(
          plainProperties(fromStruct(olds)),
          plainProperties(fromStruct(request.getNews())),
        ),
      )
    },
    configure: (request, peer) => {
      const provider = make(cloud)
      provider.configure(plainProperties(fromStruct(request.getArgs())))
      instances.set(peer, provider)
      latest = provider
      const reply = new messages.ConfigureResponse()
      reply.setAcceptsecrets(provider.acceptsSecrets)
      reply.setSupportspreview(true)
      return reply
    },
    check,
    diff: (request, peer) => {
      const old = stateOf(request, 'getOlds', 'getOldInputs')
      return toDiffReply(of(peer).diff(namedBy(request), old, plainProperties(fromStruct(request.getNews()))))
    },
    create,
    read,
    update,
    delete: async (request, peer) => {
      const named = namedBy(request)
      const old = stateOf(request, 'getProperties', 'getOldInputs')
      await operate('delete', { type: named.type, id: old.id }, () => of(peer).delete(named, old))
      return empty()
    },
    invoke: async (request, peer) => {
      const type: string = request.getTok()
      const { result } = await operate('invoke', { type, id: '' }, () =>
        of(peer).invoke(type, plainProperties(fromStruct(request.getArgs()))),
      )
      return new messages.InvokeResponse().setReturn(toStruct(result))
    },
    cancel: () => {
      cancelled.abort()
      // The next engine that attaches has not cancelled anything.
      cancelled = new AbortController()
      return empty()
    },
  }
  listener = await listen([[services.ResourceProviderService, handlers]])
  return listener
}
