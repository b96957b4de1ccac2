import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import services from '@pulumi/pulumi/proto/provider_grpc_pb.js'
import messages from '@pulumi/pulumi/proto/provider_pb.js'
import { openCloud } from '../../fakes/pulumi/cloud.ts'
import { serveProvider } from '../../fakes/pulumi/provider-server.ts'
import type { StandInFactory } from '../../fakes/pulumi/stand-in.ts'
import type { Properties } from '../../fakes/pulumi/values.ts'
import { connect, empty, fromStruct, toStruct } from '../../fakes/pulumi/wire.ts'

/** A fake cloud in a temporary folder that is deleted on disposal. */
export function temporaryCloud() {
  const folder = mkdtempSync(join(tmpdir(), 'cloud-'))
  return Object.assign(openCloud(folder), {
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  })
}

export const urnOf = (type: string, name: string) => `urn:pulumi:test::agentweaver::${type}::${name}`

/** Type and logical name. */
type Ref = readonly [type: string, name: string]
interface Addressed {
  setUrn(urn: string): unknown
  setType(type: string): unknown
  setName(name: string): unknown
}

/** The engine's side of the protocol, written by hand, to test the fake providers. */
export function providerClient(address: string) {
  const client = connect(services.ResourceProviderClient, address)
  const named = <T extends Addressed>(request: T, type: string, name: string): T => {
    request.setUrn(urnOf(type, name))
    request.setType(type)
    request.setName(name)
    return request
  }
  return {
    ...client,
    configure: (args: Properties) =>
      client.call<InstanceType<typeof messages.ConfigureResponse>>(
        'configure',
        new messages.ConfigureRequest().setArgs(toStruct(args)).setAcceptsecrets(true),
      ),
    async check([type, name]: Ref, news: Properties, olds: Properties = {}) {
      const request = named(new messages.CheckRequest(), type, name)
      request.setNews(toStruct(news)).setOlds(toStruct(olds))
      const reply = await client.call<InstanceType<typeof messages.CheckResponse>>('check', request)
      return {
        inputs: fromStruct(reply.getInputs()),
        failures: reply.getFailuresList().map((f) => f.getReason()),
      }
    },
    async create([type, name]: Ref, inputs: Properties, preview = false) {
      const request = named(new messages.CreateRequest(), type, name)
      request.setProperties(toStruct(inputs)).setPreview(preview)
      const reply = await client.call<InstanceType<typeof messages.CreateResponse>>('create', request)
      return { id: reply.getId(), outputs: fromStruct(reply.getProperties()) }
    },
    async diff([type, name]: Ref, { id, old, news }: { id: string; old: Properties; news: Properties }) {
      const request = named(new messages.DiffRequest(), type, name)
      request.setId(id)
      request.setOldInputs(toStruct(old)).setOlds(toStruct(old)).setNews(toStruct(news))
      const reply = await client.call<InstanceType<typeof messages.DiffResponse>>('diff', request)
      const details: Record<string, number> = {}
      reply.getDetaileddiffMap().forEach((detail, path) => {
        details[path] = detail.getKind()
      })
      return {
        changes: reply.getChanges() === messages.DiffResponse.DiffChanges.DIFF_SOME,
        replaces: reply.getReplacesList(),
        diffs: reply.getDiffsList(),
        deleteBeforeReplace: reply.getDeletebeforereplace(),
        details,
      }
    },
    async read([type, name]: Ref, state: { id: string; inputs?: Properties; outputs?: Properties }) {
      const request = named(new messages.ReadRequest(), type, name)
      request.setId(state.id)
      if (state.inputs !== undefined) request.setInputs(toStruct(state.inputs))
      if (state.outputs !== undefined) request.setProperties(toStruct(state.outputs))
      const reply = await client.call<InstanceType<typeof messages.ReadResponse>>('read', request)
      return {
        id: reply.getId(),
        inputs: fromStruct(reply.getInputs()),
        outputs: fromStruct(reply.getProperties()),
      }
    },
    async update([type, name]: Ref, { id, old, news }: { id: string; old: Properties; news: Properties }) {
      const request = named(new messages.UpdateRequest(), type, name)
      request.setId(id)
      request.setOldInputs(toStruct(old)).setOlds(toStruct(old)).setNews(toStruct(news))
      const reply = await client.call<InstanceType<typeof messages.UpdateResponse>>('update', request)
      return fromStruct(reply.getProperties())
    },
    async delete(
      [type, name]: Ref,
      { id, inputs, outputs }: { id: string; inputs: Properties; outputs: Properties },
    ) {
      const request = named(new messages.DeleteRequest(), type, name)
      request.setId(id)
      request.setOldInputs(toStruct(inputs)).setProperties(toStruct(outputs))
      await client.call('delete', request)
    },
    async invoke(token: string, args: Properties) {
      const request = new messages.InvokeRequest().setTok(token)
      request.setArgs(toStruct(args))
      const reply = await client.call<InstanceType<typeof messages.InvokeResponse>>('invoke', request)
      return fromStruct(reply.getReturn())
    },
    cancel: () => client.call('cancel', empty()),
  }
}
export type ProviderClient = ReturnType<typeof providerClient>

/** A fake provider, served and configured, with its cloud and one client. */
export async function aProvider(standIn: StandInFactory, args: Properties = {}) {
  const cloud = temporaryCloud()
  const listener = await serveProvider({ cloud, standIn })
  const provider = providerClient(listener.address)
  await provider.configure(args)
  return {
    cloud,
    provider,
    address: listener.address,
    async [Symbol.asyncDispose]() {
      provider[Symbol.dispose]()
      await listener[Symbol.asyncDispose]()
      cloud[Symbol.dispose]()
    },
  }
}
