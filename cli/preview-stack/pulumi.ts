import * as z from 'zod'
import { PreviewSlug } from '../../contracts/names.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'
import type { CallProgram } from '../program-call/call-program.ts'

/** The policy pack that every change passes: a storage backend enforces none by itself. */
const POLICY_PACK = 'policies/stack'
const PREFIX = 'pr-'

/** One line of `pulumi stack ls --json`. */
const Listed = z.object({
  name: z.string(),
  lastUpdate: z.string().optional(),
  updateInProgress: z.boolean().optional(),
  resourceCount: z.number().optional(),
})
export interface ListedStack {
  readonly stack: string
  readonly slug: string
  /** When its last update ended; absent before the first. */
  readonly updatedAt?: Date
  readonly isBusy: boolean
}

/** What of `pulumi stack export` says when a stack ends. */
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
  /** The latest of the `expires` tags of what it has made. */
  readonly expires?: Date
}

export type Pulumi = ReturnType<typeof createPulumi>

/** The `pulumi` command on stacks of previews. A stack is always named, and none but a preview's is taken. */
export function createPulumi(call: CallProgram, onOutput: (chunk: string) => void) {
  const run = async (args: readonly string[], told = false): Promise<string> => {
    const { status, stdout, stderr } = await call({
      program: 'pulumi',
      args: [...args, '--non-interactive', '--color', 'never'],
      ...(told ? { onOutput } : {}),
    })
    if (status !== 0) throw failure(args, stderr || stdout)
    return stdout
  }
  const on = (stack: string) => ['--stack', checked(stack)]
  return {
    async list(): Promise<ListedStack[]> {
      const listed = z.array(Listed).parse(JSON.parse(await run(['stack', 'ls', '--json'])))
      return listed.flatMap(toListed)
    },
    async select(stack: string, secretsProvider: string | undefined): Promise<void> {
      const provider = secretsProvider === undefined ? [] : ['--secrets-provider', secretsProvider]
      await run(['stack', 'select', ...on(stack), '--create', ...provider])
    },
    async up(stack: string): Promise<void> {
      await run(['up', ...on(stack), '--yes', '--skip-preview', '--policy-pack', POLICY_PACK], true)
    },
    async outputs(stack: string): Promise<Readonly<Record<string, unknown>>> {
      return z
        .record(z.string(), z.unknown())
        .parse(JSON.parse(await run(['stack', 'output', ...on(stack), '--json'])))
    },
    async state(stack: string): Promise<StackState> {
      return stateOf(Exported.parse(JSON.parse(await run(['stack', 'export', ...on(stack)]))))
    },
    /** Destroys what the stack made, then the stack itself with its configuration. */
    async destroy(stack: string): Promise<void> {
      await run(['destroy', ...on(stack), '--yes', '--skip-preview', '--remove'], true)
    },
  }
}

/** `dev` and `prod` are never a preview's, whatever a caller has computed. */
function checked(stack: string): string {
  if (slugOf(stack) === undefined) throw new RangeError(`${stack} is not the stack of a preview`)
  return stack
}

function slugOf(stack: string): string | undefined {
  if (!stack.startsWith(PREFIX)) return undefined
  const slug = PreviewSlug.safeParse(stack.slice(PREFIX.length))
  return slug.success ? slug.data : undefined
}

/** A stack of another kind is nobody's preview, so it is not listed. A full name ends with the stack's own. */
function toListed({ name, lastUpdate, updateInProgress }: z.infer<typeof Listed>): ListedStack[] {
  const stack = name.split('/').at(-1) ?? ''
  const slug = slugOf(stack)
  if (slug === undefined) return []
  const updatedAt = timeOf(lastUpdate)
  return [{ stack, slug, isBusy: updateInProgress === true, ...(updatedAt ? { updatedAt } : {}) }]
}

function stateOf({ deployment }: z.infer<typeof Exported>): StackState {
  const resources = deployment?.resources ?? []
  const times = resources.flatMap(({ inputs, outputs }) =>
    // The tag of what it has made, and the output of the program.
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

/** Lines of a failure that people are shown; the CLI's own log came before. */
const LAST_LINES = 12

function failure(args: readonly string[], said: string): CliError {
  const stack = args[args.indexOf('--stack') + 1] ?? ''
  const words = said.trim().split('\n').slice(-LAST_LINES).join('\n')
  const isLocked = /currently locked by/.test(said)
  return new CliError(`pulumi ${args.slice(0, 2).join(' ')} failed:\n${words}`, {
    status: EXIT.runFailed,
    ...(isLocked
      ? { hint: `Somebody else works on it. If nobody does: pulumi cancel --stack ${stack}` }
      : {}),
  })
}
