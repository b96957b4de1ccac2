import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'

/**
 * gRPC as the SDK itself speaks it. Messages, services and transport are the copies that the SDK loads: another copy of
 * google-protobuf would not know their classes.
 */
const own = createRequire(import.meta.url)
const sdk = createRequire(own.resolve('@pulumi/pulumi'))

/** Any message of the SDK's protos; its proto defines the methods. */
// biome-ignore lint/suspicious/noExplicitAny: the SDK publishes no types for a third of its protos
export type Message = any

const messages = (file: string): Message => sdk(`@pulumi/pulumi/proto/${file}_pb.js`)
const services = (file: string): Record<string, object> => sdk(`@pulumi/pulumi/proto/${file}_grpc_pb.js`)

export const RESOURCE = messages('resource')
export const ENGINE = messages('engine')
export const MONITOR_SERVICE = services('resource')['ResourceMonitorService'] as object
export const ENGINE_SERVICE = services('engine')['EngineService'] as object

const { Struct } = sdk('google-protobuf/google/protobuf/struct_pb.js') as {
  Struct: { fromJavaScript(value: object): Message }
}
const { Empty } = sdk('google-protobuf/google/protobuf/empty_pb.js') as { Empty: new () => Message }
const grpc = sdk('@grpc/grpc-js') as {
  Server: new (options: object) => Message
  ServerCredentials: { createInsecure(): object }
}

/** Program that the language host starts: it runs the program of a folder against a monitor and an engine. */
export const RUNNER: string = own.resolve('@pulumi/pulumi/cmd/run/index.js')

export const toStruct = (value: object): Message => Struct.fromJavaScript(value)
export const fromStruct = (message: Message): Record<string, unknown> =>
  message === undefined ? {} : message.toJavaScript()
export const empty = (): Message => new Empty()

/** gRPC's codes that the SDK gives meaning to. */
export const STATUS = { unknown: 2, alreadyExists: 6, unimplemented: 12 } as const

/** An error response on the wire. */
export class RpcError extends Error {
  readonly code: number

  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

export type Handlers = Readonly<Record<string, (request: Message) => Message | Promise<Message>>>
type Reply = (error: object | null, message?: Message) => void

function answer(handler: Handlers[string]) {
  return async (call: { request: Message }, reply: Reply) => {
    try {
      reply(null, await handler(call.request))
    } catch (error) {
      const { code = STATUS.unknown, message } = error as Partial<RpcError> & Error
      reply({ code, details: message })
    }
  }
}

/** The engine's own limits: a program may send many megabytes of manifests at once. */
const OPTIONS = { 'grpc.max_receive_message_length': 400 * 1024 * 1024, 'grpc.max_send_message_length': -1 }

export interface Endpoint extends AsyncDisposable {
  readonly address: string
}

/** Serves services on a free port of the loopback address, until it is disposed of. */
export async function serve(
  served: readonly (readonly [service: object, handlers: Handlers])[],
): Promise<Endpoint> {
  const server = new grpc.Server(OPTIONS)
  for (const [service, handlers] of served) {
    const answers = Object.entries(handlers).map(([name, handler]) => [name, answer(handler)] as const)
    server.addService(service, Object.fromEntries(answers))
  }
  const port = await new Promise<AddressInfo['port']>((resolve, reject) =>
    server.bindAsync(
      '127.0.0.1:0',
      grpc.ServerCredentials.createInsecure(),
      (error: Error | null, bound: number) => (error === null ? resolve(bound) : reject(error)),
    ),
  )
  return { address: `127.0.0.1:${port}`, [Symbol.asyncDispose]: async () => server.forceShutdown() }
}
