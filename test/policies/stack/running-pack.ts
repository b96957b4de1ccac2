import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { isSecret, isUnknown, type PlannedValue } from '../../../contracts/planned-resource.ts'
import type { RuledPlan, RuledResource } from '../../../policies/stack/rule.ts'
import type { Recording } from './recording.ts'

// biome-ignore lint/suspicious/noExplicitAny: the SDK's generated messages are typed for CommonJS only.
type Message = any

const fromSdk = createRequire(createRequire(import.meta.url).resolve('@pulumi/pulumi/package.json'))
const grpc = fromSdk('@grpc/grpc-js')
const structs = fromSdk('google-protobuf/google/protobuf/struct_pb')
const empties = fromSdk('google-protobuf/google/protobuf/empty_pb')
const proto = fromSdk('./proto/analyzer_pb')
const { AnalyzerClient } = fromSdk('./proto/analyzer_grpc_pb')

const UNKNOWN = '04da6b54-80e4-46f7-96ec-b56ff0331ba9'
const SIGNATURE = '4dabf18193072939515e22adb298388d'
const SECRET = '1b47061264138c4ac30d75fd1eb44270'

export interface Diagnostic {
  readonly policy: string
  readonly message: string
  readonly urn: string
  readonly isMandatory: boolean
}

export interface RunningPack {
  readonly startMs: number
  info(): Promise<{ readonly name: string; readonly policies: readonly string[] }>
  configure(config: Readonly<Record<string, Readonly<Record<string, unknown>>>>): Promise<void>
  /** The engine's request before it creates or changes a resource. */
  analyze(resource: RuledResource): Promise<Diagnostic[]>
  /** The request at the end of a run, with the recorded outputs. */
  analyzeStack(plan: RuledPlan, recorded: Recording): Promise<Diagnostic[]>
  stop(): Promise<void>
}

/** The policy pack under the SDK's own loader, as `pulumi … --policy-pack policies/stack` starts it. */
export async function startPack(): Promise<RunningPack> {
  const began = performance.now()
  const folder = fileURLToPath(new URL('../../../policies/stack', import.meta.url))
  const loader = fromSdk.resolve('./cmd/run-policy-pack')
  const child = spawn(process.execPath, [loader, '127.0.0.1:1', '.'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const port = await portOf(child)
  const client = new AnalyzerClient(`127.0.0.1:${port}`, grpc.credentials.createInsecure())
  const call = (method: string, request: Message): Promise<Message> =>
    new Promise((resolve, reject) => {
      client[method](request, (error: Error | null, answer: Message) =>
        error ? reject(error) : resolve(answer),
      )
    })
  return {
    startMs: performance.now() - began,
    info: async () => {
      const answer = await call('getAnalyzerInfo', new empties.Empty())
      return {
        name: answer.getName(),
        policies: answer.getPoliciesList().map((one: Message) => one.getName()),
      }
    },
    configure: async (config) => {
      const request = new proto.ConfigureAnalyzerRequest()
      for (const [rule, properties] of Object.entries(config)) {
        const one = new proto.PolicyConfig()
        one.setEnforcementlevel(proto.EnforcementLevel.MANDATORY)
        one.setProperties(structs.Struct.fromJavaScript(properties))
        request.getPolicyconfigMap().set(rule, one)
      }
      await call('configure', request)
    },
    analyze: async (resource) =>
      diagnostics(await call('analyze', toMessage(new proto.AnalyzeRequest(), resource))),
    analyzeStack: async (plan, { resources }) => {
      const request = new proto.AnalyzeStackRequest()
      const outputs = new Map(resources.map((one) => [one.urn, one.outputs ?? {}]))
      const message = (one: RuledResource) => {
        const made = toMessage(new proto.AnalyzerResource(), one)
        made.setProperties(structs.Struct.fromJavaScript(outputs.get(one.urn) ?? {}))
        made.setParent(one.parent ?? '')
        return withOrigins(made, one)
      }
      request.setResourcesList(plan.resources.map(message))
      return diagnostics(await call('analyzeStack', request))
    },
    stop: async () => {
      client.close()
      const ended = once(child, 'exit')
      child.kill()
      await ended
    },
  }
}

async function portOf(child: ChildProcess): Promise<number> {
  let errors = ''
  child.stderr?.on('data', (chunk) => {
    errors += String(chunk)
  })
  const died = once(child, 'exit').then(([code]) => {
    throw new Error(`the policy pack ended with ${String(code)}: ${errors}`)
  })
  const said = once(child.stdout!, 'data', { signal: AbortSignal.timeout(150_000) })
  died.catch(() => undefined)
  const [chunk] = (await Promise.race([said, died])) as [Buffer]
  return Number(String(chunk).trim())
}

function toMessage(message: Message, resource: RuledResource): Message {
  message.setType(resource.type)
  message.setUrn(resource.urn)
  message.setName(resource.name)
  message.setProperties(structs.Struct.fromJavaScript(toWire(resource.inputs)))
  const options = new proto.AnalyzerResourceOptions()
  options.setProtect(resource.protect)
  options.setIgnorechangesList([...resource.ignoreChanges])
  message.setOptions(options)
  return message
}

/** The origin of each property: the recorded origin, or the origin in a value that a test has set. */
function withOrigins(
  message: Message,
  { dependencies, inputs, propertyDependencies }: RuledResource,
): Message {
  message.setDependenciesList([...dependencies])
  const planted = Object.entries(inputs).map(([key, value]) => {
    const texts = [...JSON.stringify(value).matchAll(/"\$unknown":"([^"#]+)/g)].map(([, text = '']) => text)
    return [key, texts.flatMap((text) => text.split(/[\s,]+(?=urn:)/))] as const
  })
  for (const [key, urns] of Object.entries({ ...Object.fromEntries(planted), ...propertyDependencies })) {
    if (urns.length === 0) continue
    const origins = new proto.AnalyzerPropertyDependencies()
    origins.setUrnsList(urns)
    message.getPropertydependenciesMap().set(key, origins)
  }
  return message
}

function toWire(value: PlannedValue): unknown {
  if (isUnknown(value)) return UNKNOWN
  if (isSecret(value)) return { [SIGNATURE]: SECRET, value: 'a secret' }
  if (Array.isArray(value)) return value.map(toWire)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, toWire(inner as PlannedValue)]))
}

function diagnostics(answer: Message): Diagnostic[] {
  return answer.getDiagnosticsList().map((one: Message) => ({
    policy: one.getPolicyname(),
    message: one.getMessage(),
    urn: one.getUrn(),
    isMandatory: one.getEnforcementlevel() === proto.EnforcementLevel.MANDATORY,
  }))
}
