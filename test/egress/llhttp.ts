import { createRequire } from 'node:module'

/** A request as llhttp reads it. */
export interface LlhttpMessage {
  method: string
  url: string
  readonly headers: [string, string][]
  readonly trailers: [string, string][]
  body: string
  hasHead: boolean
  isComplete: boolean
}

export interface LlhttpReading {
  readonly messages: readonly LlhttpMessage[]
  /** The parser ended with an error. */
  readonly isRefused: boolean
}

type Callback = (parser: number, at: number, length: number) => number

interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer }
  readonly malloc: (bytes: number) => number
  readonly llhttp_alloc: (type: number) => number
  readonly llhttp_free: (parser: number) => void
  readonly llhttp_execute: (parser: number, at: number, length: number) => number
  readonly llhttp_get_method: (parser: number) => number
  readonly llhttp_method_name: (method: number) => number
}

interface Wasm {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (
    module: object,
    imports: Record<string, Record<string, Callback>>,
  ) => { readonly exports: unknown }
}

const REQUEST = 1
const OK = 0
/** llhttp stops after a request that asks for another protocol. */
const PAUSED_UPGRADE = 22
const CAPACITY = 65_536

const { Module, Instance } = (globalThis as unknown as { readonly WebAssembly: Wasm }).WebAssembly
const compiled = new Module(createRequire(import.meta.url)('undici/lib/llhttp/llhttp-wasm.js') as Uint8Array)

let messages: LlhttpMessage[] = []
let isInValue = false
const last = () => messages.at(-1) as LlhttpMessage
const fields = () => (last().hasHead ? last().trailers : last().headers)
const lastField = () => fields().at(-1) as [string, string]

const withText =
  (take: (text: string) => void): Callback =>
  (_parser, at, length) => {
    take(Buffer.from(llhttp.memory.buffer, at, length).toString('latin1'))
    return 0
  }
const event =
  (take: (parser: number) => void): Callback =>
  (parser) => {
    take(parser)
    return 0
  }

function methodOf(parser: number): string {
  const text = Buffer.from(
    llhttp.memory.buffer,
    llhttp.llhttp_method_name(llhttp.llhttp_get_method(parser)),
    32,
  )
  return text.toString('latin1', 0, text.indexOf(0))
}

const env: Record<string, Callback> = {
  wasm_on_message_begin: event(() => {
    messages.push({
      method: '',
      url: '',
      headers: [],
      trailers: [],
      body: '',
      hasHead: false,
      isComplete: false,
    })
    isInValue = true
  }),
  wasm_on_url: withText((text) => {
    last().url += text
  }),
  wasm_on_status: event(() => undefined),
  wasm_on_header_field: withText((text) => {
    if (isInValue) fields().push(['', ''])
    isInValue = false
    lastField()[0] += text
  }),
  wasm_on_header_value: withText((text) => {
    isInValue = true
    lastField()[1] += text
  }),
  wasm_on_headers_complete: event((parser) => {
    Object.assign(last(), { hasHead: true, method: methodOf(parser) })
  }),
  wasm_on_body: withText((text) => {
    last().body += text
  }),
  wasm_on_message_complete: event(() => {
    last().isComplete = true
    isInValue = true
  }),
}

const llhttp = new Instance(compiled, { env }).exports as Exports
const input = llhttp.malloc(CAPACITY)

/** Reads requests with the parser of undici, which is the parser of Node in another build. */
export function readByLlhttp(bytes: Uint8Array): LlhttpReading {
  if (bytes.length > CAPACITY) throw new RangeError(`at most ${CAPACITY} bytes`)
  new Uint8Array(llhttp.memory.buffer, input, CAPACITY).set(bytes)
  messages = []
  const parser = llhttp.llhttp_alloc(REQUEST)
  const result = llhttp.llhttp_execute(parser, input, bytes.length)
  llhttp.llhttp_free(parser)
  return { messages, isRefused: result !== OK && result !== PAUSED_UPGRADE }
}
