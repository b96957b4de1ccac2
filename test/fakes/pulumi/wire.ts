import { createRequire } from 'node:module'
import type { Properties } from './values.ts'

/**
 * gRPC in the SDK's own versions. Messages and services come from the SDK's protos, and the transport from the copies
 * that those protos use, because another copy of google-protobuf would not recognize their classes.
 */
const own = createRequire(import.meta.url)
const sdk = createRequire(own.resolve('@pulumi/pulumi'))

/** Version of the real provider's package. A fake provider reports this version, so that the engine does not warn. */
export const versionOf = (name: string): string =>
  (own(`@pulumi/${name}/package.json`) as { version: string }).version

interface StructMessage {
  toJavaScript(): Properties
}
const structs = sdk('google-protobuf/google/protobuf/struct_pb.js') as {
  Struct: { fromJavaScript(value: Properties): never }
}
const anys = sdk('google-protobuf/google/protobuf/any_pb.js') as {
  Any: new () => {
    pack(bytes: Uint8Array, name: string): void
    unpack<T>(read: unknown, name: string): T | null
  }
}
const empties = sdk('google-protobuf/google/protobuf/empty_pb.js') as { Empty: new () => never }

export const toStruct = (value: Properties): never => structs.Struct.fromJavaScript(value)
export const fromStruct = (message: unknown): Properties =>
  message === undefined ? {} : (message as StructMessage).toJavaScript()
export const empty = () => new empties.Empty()
export const newAny = () => new anys.Any()

/** A gRPC status: `OK`, and the codes with a meaning in Pulumi. */
export const STATUS = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  alreadyExists: 6,
  unimplemented: 12,
  unavailable: 14,
} as const

interface Metadata {
  add(key: string, value: Buffer): void
  get(key: string): readonly (string | Buffer)[]
}
interface Server {
  addService(service: never, handlers: object): void
  bindAsync(address: string, credentials: unknown, done: (error: Error | null, port: number) => void): void
  tryShutdown(done: (error?: Error) => void): void
  forceShutdown(): void
}
interface Client {
  close(): void
}
const grpc = sdk('@grpc/grpc-js') as {
  Server: new (options: object) => Server
  Metadata: new () => Metadata
  ServerCredentials: { createInsecure(): unknown }
  credentials: { createInsecure(): unknown }
}

/** Plans and kubeconfigs do not fit into gRPC's default of 4 MB; the engine's own limit is 400 MB. */
const OPTIONS = { 'grpc.max_receive_message_length': 400 * 1024 * 1024, 'grpc.max_send_message_length': -1 }

/** A gRPC error response: a code, a message, and details in the field that gRPC reserves for them. */
export class RpcError extends Error {
  readonly code: number
  readonly metadata: Metadata | undefined

  constructor(code: number, message: string, details?: Uint8Array) {
    super(message)
    this.code = code
    this.metadata = details === undefined ? undefined : new grpc.Metadata()
    this.metadata?.add('grpc-status-details-bin', Buffer.from(details ?? []))
  }
}

export const detailsOf = (error: unknown): Uint8Array | undefined => {
  const [details] = (error as { metadata?: Metadata }).metadata?.get('grpc-status-details-bin') ?? []
  return details instanceof Buffer ? new Uint8Array(details) : undefined
}

/** Handles one RPC method. A thrown error becomes the gRPC status. */
// biome-ignore lint/suspicious/noExplicitAny: each method has its own message, which the service definition names.
export type Handler = (request: any, peer: string) => unknown

type Callback = (error: object | null, reply?: unknown) => void
function handle(handler: Handler) {
  return async (call: { request: unknown; getPeer(): string }, callback: Callback) => {
    try {
      callback(null, await handler(call.request, call.getPeer()))
    } catch (error) {
      const { code = STATUS.unknown, message, metadata } = error as Partial<RpcError> & Error
      callback({ code, details: message, ...(metadata === undefined ? {} : { metadata }) })
    }
  }
}

export interface Listener extends AsyncDisposable {
  readonly port: number
  readonly address: string
}

/** Serves one or more services on a free port of the loopback address. */
export async function listen(services: readonly (readonly [object, Record<string, Handler>])[]) {
  const server = new grpc.Server(OPTIONS)
  for (const [service, handlers] of services) {
    const wrapped = Object.entries(handlers).map(([name, handler]) => [name, handle(handler)] as const)
    server.addService(service as never, Object.fromEntries(wrapped))
  }
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  )
  const close = async () => server.forceShutdown()
  return { port, address: `127.0.0.1:${port}`, [Symbol.asyncDispose]: close } satisfies Listener
}

type Calls = { readonly [method: string]: (request: object, done: Callback) => void }
type ClientClass = new (address: string, credentials: never, options: object) => Client

/**
 * Creates a client for any gRPC service of the SDK: `call('create', request)` returns the reply or throws its status.
 */
export function connect(Service: unknown, address: string) {
  // Uses a separate connection, as the engine does for each provider, because a fake provider identifies its
  // configurations by connection.
  const options = { ...OPTIONS, 'grpc.use_local_subchannel_pool': 1 }
  const client = new (Service as ClientClass)(address, grpc.credentials.createInsecure() as never, options)
  const methods = client as unknown as Calls
  const call = <T>(method: string, request: object): Promise<T> =>
    new Promise<T>((resolve, reject) => {
      const send = methods[method]?.bind(client)
      if (send === undefined) throw new TypeError(`the service has no method ${method}`)
      send(request, (error, reply) => (error === null ? resolve(reply as T) : reject(error)))
    })
  return { call, [Symbol.dispose]: () => client.close() }
}
