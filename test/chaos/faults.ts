import { DatabaseSync } from 'node:sqlite'
import pg from 'pg'
import type { RunEnvelope } from '../../contracts/events.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import type { Person } from './people/person.ts'
import type { Action, Fault, Trigger } from './plan/faults.ts'
import { signal, targetsOf } from './world/processes.ts'
import type { Replica } from './world/replica.ts'
import type { World } from './world/world.ts'

export type FaultLine = { readonly atMs: number; readonly what: string }

/** A step that never comes does not keep the round waiting for longer. */
const STEP_WAIT_MS = 40_000
/** How often to look whether the step can still come. */
const LOOK_MS = 200

/** Injects the faults of a plan. */
export function startFaults(
  world: World,
  faults: readonly Fault[],
  { people, isOver }: { readonly people: readonly Person[]; readonly isOver: () => boolean },
) {
  const startedAt = performance.now()
  const lines: FaultLine[] = []
  const seen = new Map<string, number>()
  const waiting = new Set<() => void>()
  const note = (what: string) => void lines.push({ atMs: Math.round(performance.now() - startedAt), what })

  /** False if the step does not come. */
  const untilStep = async ({ type, nth }: Extract<Trigger, { kind: 'step' }>): Promise<boolean> => {
    const giveUpAt = performance.now() + STEP_WAIT_MS
    while ((seen.get(type) ?? 0) < nth) {
      if (performance.now() > giveUpAt || isOver()) return false
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting.add(resolve)
      await Promise.race([promise, delay(LOOK_MS)])
      waiting.delete(resolve)
    }
    return true
  }

  const untilTriggered = async ({ trigger }: Fault): Promise<boolean> => {
    if (trigger.kind === 'step' && !(await untilStep(trigger))) return false
    const waitMs = trigger.kind === 'step' ? trigger.delayMs : trigger.afterMs
    if (waitMs > 0) await delay(waitMs)
    return true
  }

  const inject = async (fault: Fault): Promise<void> => {
    if (!(await untilTriggered(fault))) return note(`not reached: ${JSON.stringify(fault)}`)
    note(`${describe(fault)}: ${await strike(world, fault, people)}`)
  }
  const finished = Promise.all(faults.map(inject))
  return {
    lines,
    finished,
    onEvent({ event }: RunEnvelope): void {
      seen.set(event.type, (seen.get(event.type) ?? 0) + 1)
      for (const wake of waiting) wake()
    },
  }
}

const describe = ({ trigger, action }: Fault): string => {
  const when =
    trigger.kind === 'time' ? 'by time' : `at ${trigger.type} ${trigger.nth} + ${trigger.delayMs} ms`
  return `${JSON.stringify(action)} ${when}`
}

const chosen = <T>(list: readonly T[], choice: number): T | undefined =>
  list[Math.floor(choice * list.length)]

async function strike(world: World, { action, choice }: Fault, people: readonly Person[]): Promise<string> {
  const replica = chosen(world.replicas, choice) as Replica
  switch (action.kind) {
    case 'kill':
    case 'stop':
      return strikeProcess(world, replica, { action, choice })
    case 'restart':
      await replica.endAndStart('SIGTERM', action.restartAfterMs)
      return replica.name
    case 'cut-streams':
      for (const reader of people.flatMap(({ readers }) => readers)) reader.cut()
      return 'done'
    case 'fill-disk':
    case 'lock-store':
      return strikeEmbeddedStore(world, action)
    case 'reset-sandbox-connections':
    case 'reset-watches':
    case 'delete-pod':
      return strikeCluster(world, { action, choice })
    default:
      return strikeDatabase(world, replica, { action, choice })
  }
}

function strikeCluster({ cluster }: World, { action, choice }: Struck): string {
  if (!cluster) return 'there is no cluster'
  if (action.kind === 'delete-pod') return cluster.deletePod(choice) ? 'done' : 'there was no pod'
  if (action.kind === 'reset-watches') cluster.fake.watches.reset()
  else for (const pod of cluster.pods()) pod.cutConnections()
  return 'done'
}

type Struck = { readonly action: Action; readonly choice: number }

async function strikeProcess(world: World, replica: Replica, { action, choice }: Struck): Promise<string> {
  if (action.kind !== 'kill' && action.kind !== 'stop') return 'nothing'
  if (action.target === 'api') {
    if (action.kind === 'kill') await replica.endAndStart('SIGKILL', action.restartAfterMs)
    else await pauseProcess(replica.pid(), action.forMs)
    return replica.name
  }
  const roots = [
    ...world.replicas.map(({ pid }) => pid()),
    ...(world.cluster?.pods().map(({ pid }) => pid) ?? []),
  ]
  const target = chosen(targetsOf(action.target, roots), choice)
  if (!target) return `there was no ${action.target}`
  if (action.kind === 'kill') signal(target.pid, 'SIGKILL')
  else await pauseProcess(target.pid, action.forMs)
  return `${target.pid} ${target.command.slice(0, 80)}`
}

async function pauseProcess(pid: number, forMs: number): Promise<void> {
  signal(pid, 'SIGSTOP')
  await delay(forMs)
  signal(pid, 'SIGCONT')
}

async function strikeEmbeddedStore(
  world: World,
  action: Extract<Action, { kind: 'fill-disk' | 'lock-store' }>,
) {
  if (action.kind === 'fill-disk') {
    if (!world.disk) return 'left out: this program may not mount'
    world.disk.fill()
    await delay(action.forMs)
    world.disk.free()
    return 'done'
  }
  const other = new DatabaseSync(world.storeFile, { timeout: 5_000 })
  try {
    other.exec('begin immediate')
    await delay(action.forMs)
    other.exec('rollback')
    return 'done'
  } catch (error) {
    return String(error)
  } finally {
    other.close()
  }
}

async function strikeDatabase(world: World, replica: Replica, { action, choice }: Struck): Promise<string> {
  const proxy = chosen(world.proxies, choice)
  if (!proxy || !world.databaseUrl) return 'there is no database'
  switch (action.kind) {
    case 'refuse-database':
      await Promise.all(world.proxies.map(({ refuse }) => refuse()))
      await delay(action.forMs)
      await Promise.all(world.proxies.map(({ accept }) => accept()))
      return 'done'
    case 'silence-database':
      proxy.silence()
      return replica.name
    case 'slow-database':
      proxy.slowDown(action.delayMs)
      await delay(action.forMs)
      proxy.slowDown(0)
      return replica.name
    case 'terminate-connections':
      return terminateConnections(world.databaseUrl)
    case 'kill-at-commit':
      return killAtCommit(proxy, replica, action)
    default:
      return 'nothing'
  }
}

async function terminateConnections(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const others = 'datname = current_database() and pid <> pg_backend_pid()'
    const { rowCount } = await client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where ${others}`,
    )
    return `${rowCount} connections`
  } finally {
    await client.end()
  }
}

const COMMIT_WAIT_MS = 10_000

async function killAtCommit(
  proxy: World['proxies'][number],
  replica: Replica,
  { nth, when, restartAfterMs }: Extract<Action, { kind: 'kill-at-commit' }>,
): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let isStruck = false
  const disarm = proxy.strikeAtCommit({
    when,
    left: nth,
    strike: () => {
      // At once: a promise later, the process could already have the response.
      replica.strike()
      isStruck = true
      resolve()
    },
  })
  await Promise.race([promise, delay(COMMIT_WAIT_MS)])
  // A later commit would kill a process that nothing starts again.
  disarm()
  if (!isStruck) return `${replica.name} made fewer commits`
  await replica.endAndStart('SIGKILL', restartAfterMs)
  return replica.name
}
