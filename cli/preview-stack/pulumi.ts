import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import { PreviewSlug } from '../../contracts/names.ts'
import type { CallProgram } from '../program-call/call-program.ts'
import { failureOf } from './failure.ts'

/** The policy pack that every change passes: a storage backend enforces none by itself. */
const POLICY_PACK = 'policies/stack'
const PREFIX = 'pr-'

/** One line of `pulumi stack ls --json`. */
const Listed = z.object({
  name: z.string(),
  lastUpdate: z.string().optional(),
})
export interface ListedStack {
  readonly stack: string
  readonly slug: string
  /** When its last update ended; absent before the first. */
  readonly updatedAt?: Date
}

/** The fields of `pulumi stack export` that determine when a stack expires. */
const Exported = z.object({
  deployment: z
    .object({
      resources: z
        .array(
          z.object({
            type: z.string().optional(),
            inputs: z.record(z.string(), z.unknown()).optional(),
            outputs: z.record(z.string(), z.unknown()).optional(),
          }),
        )
        .nullish(),
    })
    .nullish(),
})
export interface StackState {
  readonly resources: number
  /** The latest `expires` tag of the stack's resources. */
  readonly expires?: Date
}

export type Pulumi = ReturnType<typeof createPulumi>

/** The `pulumi` command on stacks of previews. A stack is always named, and none but a preview's is taken. */
export function createPulumi(call: CallProgram, onOutput: (chunk: string) => void) {
  const run = async (
    words: readonly string[],
    stack: string,
    options: readonly string[],
  ): Promise<string> => {
    const on = stack === '' ? [] : ['--stack', checked(stack)]
    const args = [...words, ...on, ...options, ...PLAIN]
    const { status, stdout, stderr } = await call({ program: 'pulumi', args })
    if (status === 0) return stdout
    throw failureOf({ command: words.join(' '), stack, said: stderr || stdout, events: '' })
  }
  /**
   * Changes a stack. The command includes a preview: a change that a policy or `protect` rejects is rejected before any
   * resource changes.
   */
  const change = async (verb: 'up' | 'destroy', stack: string, options: readonly string[]): Promise<void> => {
    await using log = await eventLog()
    const settings = ['--yes', '--suppress-outputs', '--suppress-progress', '--event-log', log.path]
    const args = [verb, '--stack', checked(stack), ...settings, ...options, ...PLAIN]
    const { status, stdout, stderr } = await call({ program: 'pulumi', args, onOutput, env: EVENT_LOG })
    if (status === 0) return
    throw failureOf({ command: verb, stack, said: stderr || stdout, events: await log.read() })
  }
  return {
    async list(): Promise<ListedStack[]> {
      const listed = z.array(Listed).parse(JSON.parse(await run(['stack', 'ls'], '', ['--json'])))
      return listed.flatMap(toListed)
    },
    async select(stack: string, secretsProvider: string | undefined): Promise<void> {
      const provider = secretsProvider === undefined ? [] : ['--secrets-provider', secretsProvider]
      await run(['stack', 'select'], stack, ['--create', ...provider])
    },
    up: (stack: string) => change('up', stack, ['--policy-pack', POLICY_PACK]),
    async outputs(stack: string): Promise<Readonly<Record<string, unknown>>> {
      return z
        .record(z.string(), z.unknown())
        .parse(JSON.parse(await run(['stack', 'output'], stack, ['--json'])))
    },
    async state(stack: string): Promise<StackState> {
      return stateOf(Exported.parse(JSON.parse(await run(['stack', 'export'], stack, []))))
    },
    /** Destroys the stack's resources, then the stack itself with its configuration. */
    destroy: (stack: string) => change('destroy', stack, ['--remove']),
  }
}

const PLAIN = ['--non-interactive', '--color', 'never']
/** The engine's own record of a run, as the Automation API of Pulumi asks for it. */
const EVENT_LOG = { PULUMI_DEBUG_COMMANDS: 'true' }

async function eventLog() {
  const folder = await mkdtemp(join(tmpdir(), 'agentweaver-events-'))
  const path = join(folder, 'events.jsonl')
  return {
    path,
    read: () => readFile(path, 'utf8').catch(() => ''),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

/** `dev` and `prod` are never stacks of a preview, so no caller can change them by mistake. */
function checked(stack: string): string {
  if (slugOf(stack) === undefined) throw new RangeError(`${stack} is not the stack of a preview`)
  return stack
}

function slugOf(stack: string): string | undefined {
  if (!stack.startsWith(PREFIX)) return undefined
  const slug = PreviewSlug.safeParse(stack.slice(PREFIX.length))
  return slug.success ? slug.data : undefined
}

/** Other kinds of stacks are not previews, so they are not listed. A full name ends with the stack's own name. */
function toListed({ name, lastUpdate }: z.infer<typeof Listed>): ListedStack[] {
  const stack = name.split('/').at(-1) ?? ''
  const slug = slugOf(stack)
  if (slug === undefined) return []
  const updatedAt = timeOf(lastUpdate)
  return [{ stack, slug, ...(updatedAt ? { updatedAt } : {}) }]
}

function stateOf({ deployment }: z.infer<typeof Exported>): StackState {
  const resources = deployment?.resources ?? []
  const times = resources.flatMap(({ inputs, outputs }) =>
    // The tag of a resource, and the output of the program.
    [timeOf(fieldOf(inputs?.['tags'], 'expires')), timeOf(fieldOf(outputs?.['about'], 'expires'))].filter(
      (time) => time !== undefined,
    ),
  )
  const last = times.toSorted((a, b) => b.getTime() - a.getTime())[0]
  return {
    resources: resources.filter(({ type }) => type !== 'pulumi:pulumi:Stack').length,
    ...(last ? { expires: last } : {}),
  }
}

const fieldOf = (value: unknown, key: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined

function timeOf(value: unknown): Date | undefined {
  if (typeof value !== 'string' || !/^\d{4}-\d\d-\d\dT/.test(value)) return undefined
  const time = new Date(value)
  return Number.isNaN(time.getTime()) ? undefined : time
}
