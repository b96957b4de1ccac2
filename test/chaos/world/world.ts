import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeKeys } from '../../../tools/make-keys.ts'
import { freePort } from '../../helpers/free-port.ts'
import type { RoundPlan } from '../plan/plan.ts'
import { type DatabaseProxy, startDatabaseProxy } from './database-proxy.ts'
import { marksIn, type PodCluster, startPodCluster } from './pod-cluster.ts'
import { type Query, queryEmbedded, queryPostgres } from './query.ts'
import { type Replica, startReplica } from './replica.ts'
import { mountSmallDisk } from './small-disk.ts'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
const SKEWED_CLOCK = fileURLToPath(new URL('../../fixtures/skewed-clock.mjs', import.meta.url))

/** What all rounds share. */
export type Ground = {
  /** Folder with the built programs. */
  readonly programs: string
  /** Creates an empty database; absent if no round needs one. */
  readonly createDatabase?: () => Promise<Database>
}
export type Database = { readonly url: string; readonly drop: () => Promise<void> }

export type World = Awaited<ReturnType<typeof startWorld>>

type Site = {
  readonly ground: Ground
  readonly plan: RoundPlan
  readonly at: (name: string) => string
  readonly database: Database | undefined
  readonly problems: string[]
  readonly stack: AsyncDisposableStack
}

const worlds = new Map<AsyncDisposableStack, Promise<unknown>>()

/** Ends everything that the rounds of this process have started, and deletes their folders. */
export async function closeWorlds(): Promise<void> {
  const close = async ([stack, started]: [AsyncDisposableStack, Promise<unknown>]) => {
    // A process that is just being started can only be ended afterwards.
    await Promise.allSettled([started])
    await stack.disposeAsync()
  }
  await Promise.allSettled([...worlds].map(close))
}

/** The parts of the product of one round, in a separate folder. */
export function startWorld(ground: Ground, plan: RoundPlan) {
  const stack = new AsyncDisposableStack()
  const started = assemble(ground, plan, stack)
  worlds.set(stack, started)
  stack.defer(() => void worlds.delete(stack))
  return started
}

async function assemble(ground: Ground, plan: RoundPlan, stack: AsyncDisposableStack) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-chaos-'))
  const at = (name: string) => join(folder, name)
  stack.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  try {
    for (const name of ['workspaces', 'tmp', 'state']) mkdirSync(at(name), { mode: 0o700 })
    const isEmbedded = plan.backend === 'sqlite'
    const disk = isEmbedded ? mountSmallDisk(at('state')) : undefined
    stack.defer(() => disk?.unmount())
    const database = isEmbedded ? undefined : await ground.createDatabase?.()
    stack.defer(() => database?.drop())
    const problems: string[] = []
    const site: Site = { ground, plan, at, database, problems, stack }
    const cluster = plan.backend === 'two-replicas' ? await addCluster(site) : undefined
    const services = await addServices(site, cluster)
    const storeFile = at('state/s/store.db')
    return {
      folder,
      /** A name that no other process of this machine has. */
      token: basename(folder),
      ...services,
      cluster,
      disk,
      problems,
      databaseUrl: database?.url,
      storeFile,
      workspaceOf(index: number): string {
        const path = at(`workspaces/w${index}`)
        mkdirSync(path, { recursive: true })
        return path
      },
      marksOf: (index: number): string[] => cluster?.marks() ?? marksIn(at(`workspaces/w${index}`)),
      /** Folders of sandboxes and of isolated copies that are left. */
      foldersLeft: (): string[] =>
        ['tmp', 'state/s/workspaces'].flatMap((place) =>
          listed(at(place)).map(
            (name) => `${name} with ${listed(at(`${place}/${name}`)).join(', ') || 'nothing'}`,
          ),
        ),
      filesLeft: (): string[] =>
        listed(at('state/s')).filter((name) => /sock|service\.json|\.tmp/.test(name)),
      query: <T>(work: (query: Query) => Promise<T>): Promise<T> =>
        database ? queryPostgres(database.url, work) : queryEmbedded(storeFile, work),
      logs: () => services.replicas.map(({ name, logText }) => `--- ${name}\n${logText()}`).join('\n'),
      /** Ends everything that is left. The folder goes too. */
      close: () => stack.disposeAsync(),
    }
  } catch (error) {
    await stack.disposeAsync()
    throw error
  }
}

async function addCluster({ ground, plan, at, problems, stack }: Site): Promise<PodCluster> {
  const { jwks } = await makeKeys(at('keys'))
  writeFileSync(at('jwks.json'), JSON.stringify(jwks))
  const cluster = await startPodCluster({
    folder: at('pods'),
    repository: REPOSITORY,
    program: join(ground.programs, 'agent-host.js'),
    jwksFile: at('jwks.json'),
    warm: plan.warm,
    onProblem: (how) => problems.push(how),
  })
  stack.defer(() => cluster.close())
  return cluster
}

async function addServices(site: Site, cluster: PodCluster | undefined) {
  const { plan, at } = site
  const proxies: DatabaseProxy[] = []
  const replicas: Replica[] = []
  const add = async (name: string, env: Record<string, string>) => {
    const service = await addService(site, { name, env, skewMs: replicas.length > 0 ? plan.skewMs : 0 })
    replicas.push(service.replica)
    if (service.proxy) proxies.push(service.proxy)
  }
  if (cluster) {
    for (const name of ['api-1', 'api-2']) {
      const own = { AGENTWEAVER_STATE_DIR: at(`state-${name}`), AGENTWEAVER_KEYS_DIR: at('keys') }
      await add(name, { ...cluster.env, ...own })
    }
  } else {
    await add('api-1', {
      AGENTWEAVER_STATE_DIR: at('state/s'),
      AGENTWEAVER_WORKSPACE_ROOTS: at('workspaces'),
      AGENTWEAVER_LOCAL_WARM: String(plan.warm),
    })
  }
  const apiKey = readFileSync(at(cluster ? 'keys/api-key' : 'state/s/api-key'), 'utf8').trim()
  return { replicas, proxies, apiKey }
}

type Service = { readonly name: string; readonly env: Record<string, string>; readonly skewMs: number }

async function addService(
  { ground, plan, at, database, problems, stack }: Site,
  { name, env, skewMs }: Service,
) {
  const proxy = database && (await startDatabaseProxy(database.url))
  stack.defer(() => proxy?.close())
  const replica = await startReplica({
    name,
    program: join(ground.programs, 'api.js'),
    port: await freePort('127.0.0.1'),
    logFile: at(`${name}.log`),
    env: {
      HOME: at(''),
      TMPDIR: at('tmp'),
      AGENTWEAVER_READY_FORMAT: 'json',
      AGENTWEAVER_SUSPEND_AFTER_SECONDS: String(plan.suspendAfterSeconds),
      AGENTWEAVER_MAX_RUNS: '64',
      AGENTWEAVER_MAX_RUNS_PER_OWNER: '64',
      AGENTWEAVER_RATE_LIMIT_PER_MINUTE: '1000000',
      NODE_COMPILE_CACHE: join(ground.programs, 'cache'),
      ...env,
      ...(proxy && { DATABASE_URL: proxy.url }),
      ...(skewMs !== 0 && { TEST_CLOCK_SKEW_MS: String(skewMs) }),
    },
    nodeArguments: skewMs === 0 ? [] : ['--import', SKEWED_CLOCK],
    onUnasked: (how) => problems.push(how),
  })
  stack.defer(() => replica.kill())
  return { replica, proxy }
}

const listed = (folder: string): string[] => {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
