import services from '@pulumi/pulumi/proto/provider_grpc_pb.js'
import messages from '@pulumi/pulumi/proto/provider_pb.js'
import statuses from '@pulumi/pulumi/proto/status_pb.js'
import { hasUnknown, isObject, isSecret, type Properties, plainProperties, secret } from '../values.ts'
import { connect, detailsOf, fromStruct, toStruct } from '../wire.ts'
import type { ResourceState } from './state.ts'

/** A resource that exists and failed to become what it should: what the provider says of it. */
export class InitialisationFailed extends Error {
  readonly id: string
  readonly outputs: Properties

  constructor(message: string, id: string, outputs: Properties) {
    super(message)
    this.id = id
    this.outputs = outputs
  }
}

function initialisationIn(error: unknown): InitialisationFailed | undefined {
  const bytes = detailsOf(error)
  if (bytes === undefined) return undefined
  const [any] = statuses.Status.deserializeBinary(bytes).getDetailsList()
  const { ErrorResourceInitFailed } = messages
  const detail = any?.unpack(ErrorResourceInitFailed.deserializeBinary, 'pulumirpc.ErrorResourceInitFailed')
  if (detail === undefined || detail === null) return undefined
  return new InitialisationFailed(
    detail.getReasonsList().join('; '),
    detail.getId(),
    fromStruct(detail.getProperties()),
  )
}

/** Outputs of a provider that does not take secrets, marked where the input of the same name was one. */
function annotated(outputs: Properties, inputs: Properties): Properties {
  const mark = (key: string, value: Properties[string]) => {
    const input = inputs[key]
    if (input === undefined) return value
    if (isSecret(input)) return secret(value)
    return isObject(value) && isObject(input) ? annotated(value, input) : value
  }
  return Object.fromEntries(Object.entries(outputs).map(([key, value]) => [key, mark(key, value)]))
}

export interface Named {
  readonly urn: string
  readonly type: string
  readonly name: string
}
export interface DiffAnswer {
  readonly isChanged: boolean
  readonly paths: readonly string[]
  readonly replaces: readonly string[]
  readonly deleteBeforeReplace: boolean
}
const NOTHING: DiffAnswer = { isChanged: false, paths: [], replaces: [], deleteBeforeReplace: false }

const named = <
  T extends { setUrn(v: string): unknown; setType(v: string): unknown; setName(v: string): unknown },
>(
  request: T,
  { urn, type, name }: Named,
): T => {
  request.setUrn(urn)
  request.setType(type)
  request.setName(name)
  return request
}

/**
 * One configured provider, as the engine holds it. While its configuration is not known (a kubeconfig of a cluster that
 * is only planned) it is not asked anything, and everything that it would say is unknown.
 */
export async function openProvider(address: string, args: Properties) {
  const client = connect(services.ResourceProviderClient, address)
  const isKnown = !hasUnknown(args)
  let acceptsSecrets = false
  if (isKnown) {
    const request = new messages.ConfigureRequest()
    request.setArgs(toStruct(args)).setAcceptsecrets(true).setAcceptresources(false).setSendsOldInputs(true)
    const reply = await client.call<InstanceType<typeof messages.ConfigureResponse>>('configure', request)
    acceptsSecrets = reply.getAcceptsecrets()
  }
  const send = (value: Properties) => toStruct(acceptsSecrets ? value : plainProperties(value))
  const receive = (outputs: Properties, inputs: Properties) =>
    acceptsSecrets ? outputs : annotated(outputs, inputs)
  function toDiff(reply: InstanceType<typeof messages.DiffResponse>): DiffAnswer {
    const paths: string[] = []
    reply.getDetaileddiffMap().forEach((_, path) => {
      paths.push(path)
    })
    return {
      isChanged: reply.getChanges() === messages.DiffResponse.DiffChanges.DIFF_SOME,
      paths,
      replaces: reply.getReplacesList(),
      deleteBeforeReplace: reply.getDeletebeforereplace(),
    }
  }
  async function guarded<T>(method: string, request: object): Promise<T> {
    try {
      return await client.call<T>(method, request)
    } catch (error) {
      throw initialisationIn(error) ?? error
    }
  }
  return {
    isKnown,
    async check(of: Named, news: Properties, olds: Properties) {
      if (!isKnown) return { inputs: news, failures: [] }
      const request = named(new messages.CheckRequest(), of)
      request.setNews(send(news)).setOlds(send(olds))
      const reply = await client.call<InstanceType<typeof messages.CheckResponse>>('check', request)
      return {
        inputs: receive(fromStruct(reply.getInputs()), news),
        failures: reply.getFailuresList().map((failure) => failure.getReason()),
      }
    },
    async diff(of: Named, old: ResourceState, news: Properties): Promise<DiffAnswer> {
      if (!isKnown) return NOTHING
      const request = named(new messages.DiffRequest(), of)
      request.setId(old.id)
      request.setOlds(send(old.outputs)).setOldInputs(send(old.inputs)).setNews(send(news))
      return toDiff(await client.call('diff', request))
    },
    async diffConfig(of: Named, olds: Properties, news: Properties): Promise<DiffAnswer> {
      const request = named(new messages.DiffRequest(), of)
      request.setOldInputs(toStruct(olds)).setOlds(toStruct(olds)).setNews(toStruct(news))
      return toDiff(await client.call('diffConfig', request))
    },
    async create(of: Named, inputs: Properties, preview: boolean) {
      if (!isKnown) return { id: '', outputs: inputs }
      const request = named(new messages.CreateRequest(), of)
      request.setProperties(send(inputs)).setPreview(preview)
      const reply = await guarded<InstanceType<typeof messages.CreateResponse>>('create', request)
      return { id: reply.getId(), outputs: receive(fromStruct(reply.getProperties()), inputs) }
    },
    async update(of: Named, old: ResourceState, { news, preview }: { news: Properties; preview: boolean }) {
      const request = named(new messages.UpdateRequest(), of)
      request.setId(old.id)
      request
        .setOlds(send(old.outputs))
        .setOldInputs(send(old.inputs))
        .setNews(send(news))
        .setPreview(preview)
      const reply = await guarded<InstanceType<typeof messages.UpdateResponse>>('update', request)
      return receive(fromStruct(reply.getProperties()), news)
    },
    async read(of: Named, old: Pick<ResourceState, 'id' | 'inputs' | 'outputs'>) {
      const request = named(new messages.ReadRequest(), of)
      request.setId(old.id)
      request.setProperties(send(old.outputs)).setInputs(send(old.inputs))
      const reply = await client.call<InstanceType<typeof messages.ReadResponse>>('read', request)
      const inputs = receive(fromStruct(reply.getInputs()), old.inputs)
      return { id: reply.getId(), inputs, outputs: receive(fromStruct(reply.getProperties()), old.inputs) }
    },
    async delete(of: Named, old: ResourceState) {
      const request = named(new messages.DeleteRequest(), of)
      request.setId(old.id)
      request.setProperties(send(old.outputs)).setOldInputs(send(old.inputs))
      await client.call('delete', request)
    },
    async invoke(token: string, args: Properties): Promise<Properties | undefined> {
      if (!isKnown || hasUnknown(args)) return undefined
      const request = new messages.InvokeRequest().setTok(token)
      request.setArgs(send(args))
      const reply = await client.call<InstanceType<typeof messages.InvokeResponse>>('invoke', request)
      return fromStruct(reply.getReturn())
    },
    [Symbol.dispose]: () => client[Symbol.dispose](),
  }
}
export type Provider = Awaited<ReturnType<typeof openProvider>>
