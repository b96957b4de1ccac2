import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { parse } from 'yaml'
import { openCloud } from '../../fakes/pulumi/cloud.ts'
import type { Json, Properties } from '../../fakes/pulumi/values.ts'
import { writeStackText } from '../../infra/write-stack-text.ts'
import {
  AS_EXTENSION,
  committedConfig,
  ROOT,
  releaseFolder,
  type StackConfig,
} from '../helpers/stack-file.ts'
import { attachProviders } from './attached-providers.ts'
import { copyRepository, fillPluginCache } from './project-copy.ts'

const TIMEOUT_MS = 600_000

/** One resource of `pulumi stack export`. */
export interface Exported {
  readonly urn: string
  readonly type: string
  readonly custom: boolean
  readonly id?: string
  readonly external?: boolean
  readonly protect?: boolean
  readonly inputs?: Properties
  readonly outputs?: Properties
  readonly deletedWith?: string
  readonly initErrors?: readonly string[]
}
export interface Ran {
  readonly status: number | null
  /** Both streams in the order of arrival. */
  readonly text: string
  readonly stdout: string
  readonly stderr: string
}
interface Started {
  readonly child: ChildProcess
  readonly done: Promise<Ran>
}
type Variables = Readonly<Record<string, string>>

/** The text of every file below a folder: everything that an attacker with the backend could read. */
function textBelow(folder: string): string {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  )
  return files.map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1')).join('\n')
}

/**
 * A copy of the project with a separate backend, Pulumi home and cloud, all in one folder that is deleted at the end.
 * The CLI has no network access, and inherits only PATH from the machine.
 */
export async function aWorkspace(copy: (folder: string) => void = copyRepository) {
  const root = mkdtempSync(join(tmpdir(), 'pulumi-lane-'))
  const at = (name: string) => {
    mkdirSync(join(root, name), { recursive: true })
    return join(root, name)
  }
  const project = at('project')
  const backend = at('backend')
  copy(project)
  fillPluginCache(at('home'))
  const cloud = openCloud(at('cloud'))
  const providers = await attachProviders(cloud.folder).catch((error: unknown) => {
    rmSync(root, { recursive: true, force: true })
    throw error
  })
  const passphrase = randomBytes(24).toString('hex')

  const environment = async () => ({
    PATH: [join(ROOT, 'node_modules/.bin'), process.env['PATH'] ?? ''].join(delimiter),
    HOME: at('user'),
    PULUMI_HOME: at('home'),
    PULUMI_BACKEND_URL: `file://${backend}`,
    PULUMI_CONFIG_PASSPHRASE: passphrase,
    PULUMI_SKIP_UPDATE_CHECK: 'true',
    PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION: 'true',
    PULUMI_DEBUG_PROVIDERS: await providers.attachment(),
    NO_COLOR: '1',
  })

  /** Starts a program in a separate process group, so that a kill also ends its child processes. */
  async function startProgram(program: string, argv: readonly string[], variables: Variables = {}) {
    const child = spawn(program, argv, {
      cwd: project,
      env: { ...(await environment()), ...variables },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      timeout: TIMEOUT_MS,
    })
    const all: Buffer[] = []
    const out: Buffer[] = []
    const err: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => {
      all.push(chunk)
      out.push(chunk)
    })
    child.stderr.on('data', (chunk: Buffer) => {
      all.push(chunk)
      err.push(chunk)
    })
    const done = once(child, 'close').then(([status]) => ({
      status: status as number | null,
      text: Buffer.concat(all).toString('utf8'),
      stdout: Buffer.concat(out).toString('utf8'),
      stderr: Buffer.concat(err).toString('utf8'),
    }))
    return { child, done } satisfies Started
  }
  const start = (argv: readonly string[], variables: Variables = {}): Promise<Started> =>
    startProgram('pulumi', [...argv, '--non-interactive', '--color', 'never'], variables)
  const pulumi = async (...argv: string[]): Promise<Ran> => (await start(argv)).done
  /** A script of the project: `infra/outputs/main.ts` is what `npm run environment` starts. */
  const script = async (path: string, ...argv: string[]): Promise<Ran> =>
    (await startProgram(process.execPath, [join(project, path), ...argv])).done

  return {
    root,
    project,
    backend,
    cloud,
    providers,
    start,
    pulumi,
    script,
    ...stateOf(pulumi, root),
    ...stackFilesOf(project, pulumi),
    preview: (stack: string, ...flags: string[]) => pulumi('preview', '--stack', stack, ...flags),
    up: (stack: string, ...flags: string[]) =>
      pulumi('up', '--yes', '--skip-preview', '--stack', stack, ...flags),
    refresh: (stack: string) => pulumi('refresh', '--yes', '--skip-preview', '--stack', stack),
    destroy: (stack: string, ...flags: string[]) => pulumi('destroy', '--yes', '--stack', stack, ...flags),
    /** The backend's files, without the history of older updates. */
    backendText: () => textBelow(backend),
    isLocked: () =>
      existsSync(join(backend, '.pulumi/locks')) && /\.json/.test(filesBelow(join(backend, '.pulumi/locks'))),
    stackFiles: () => filesBelow(join(backend, '.pulumi/stacks')),
    /** Operations that changed the cloud, or tried to, since the last call. */
    writes: counter(() => cloud.log().filter(({ op }) => op !== 'read' && op !== 'invoke')),
    async [Symbol.asyncDispose]() {
      await providers[Symbol.asyncDispose]()
      rmSync(root, { recursive: true, force: true })
    },
  }
}
export type Workspace = Awaited<ReturnType<typeof aWorkspace>>

type RunPulumi = (...argv: string[]) => Promise<Ran>

function stateOf(pulumi: RunPulumi, root: string) {
  /** The state by `stack export`: from a file, because warnings share the CLI's output. */
  async function exported(stack: string, ...flags: string[]): Promise<Exported[]> {
    const file = join(root, 'export.json')
    const { status, text } = await pulumi('stack', 'export', '--stack', stack, '--file', file, ...flags)
    if (status !== 0) throw new Error(`stack export failed: ${text}`)
    const { deployment } = JSON.parse(readFileSync(file, 'utf8')) as {
      deployment: { resources?: Exported[] }
    }
    rmSync(file)
    return deployment.resources ?? []
  }
  return {
    exported,
    /** The cloud objects of this stack: its resources without providers and without external resources. */
    async made(stack: string): Promise<Exported[]> {
      const all = await exported(stack)
      return all.filter((one) => one.custom && one.external !== true && !one.type.startsWith('pulumi:'))
    },
  }
}

function stackFilesOf(project: string, pulumi: RunPulumi) {
  const stackFile = (stack: string) => join(project, `Pulumi.${stack}.yaml`)
  return {
    stackFile,
    /** A stack with the committed file as it is; where the controller's files are not to be had, without them. */
    async init(stack: string, config?: StackConfig): Promise<Ran> {
      const instead = config ?? withoutRelease(stack)
      if (instead !== undefined) writeFileSync(stackFile(stack), writeStackText({ config: instead }))
      const ran = await pulumi('stack', 'init', stack, '--secrets-provider', 'passphrase')
      if (ran.status !== 0) throw new Error(`stack init failed: ${ran.text}`)
      return ran
    },
    /** Edits the stack file as a person does. Values that Pulumi wrote into it stay. */
    edit(stack: string, change: (config: Record<string, Json>) => Record<string, Json>): void {
      const file = parse(readFileSync(stackFile(stack), 'utf8')) as { config: Record<string, Json> }
      writeFileSync(
        stackFile(stack),
        writeStackText({ ...file, config: { ...file.config, ...change(file.config) } }),
      )
    },
  }
}

function withoutRelease(stack: string): StackConfig | undefined {
  const config = committedConfig(stack)
  const isNeeded = config['agentweaver:controller'] !== undefined && releaseFolder() === undefined
  return isNeeded ? { ...config, ...AS_EXTENSION } : undefined
}

const filesBelow = (folder: string): string =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => entry.name)
        .join('\n')
    : ''

function counter<T>(list: () => readonly T[]) {
  let seen = 0
  return (): readonly T[] => {
    const all = list()
    const fresh = all.slice(seen)
    seen = all.length
    return fresh
  }
}
