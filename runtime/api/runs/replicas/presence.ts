import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Replica } from '../../../../contracts/diagnostics.ts'
import { bestEffort } from '../../../kit/best-effort.ts'
import { VERSION } from '../../version.ts'
import type { RunDeps } from '../deps.ts'
import { repeat } from '../repeat.ts'

const HEARTBEAT_MS = 5_000
/** Three heartbeats, and a little for a slow store. */
const SILENT_MS = 20_000

/** This process among those that share the store. A process that shares with no other one writes nothing. */
export function createPresence({
  store,
  provider,
  clock,
  log,
}: Pick<RunDeps, 'store' | 'provider' | 'clock' | 'log'>) {
  const own = { id: randomUUID(), name: hostname(), version: VERSION }
  const startedAt = clock().toISOString()
  const beat = () => bestEffort(log, 'store the heartbeat of this replica', () => store.noteReplica(own))
  let beats: ReturnType<typeof repeat> | undefined

  const alone = (): Replica => {
    const { name, version } = own
    const lastHeartbeatAt = clock().toISOString()
    return { name, version, startedAt, lastHeartbeatAt, isAlive: true, isThis: true }
  }

  return {
    async start(): Promise<void> {
      await beat()
      beats = repeat(beat, HEARTBEAT_MS)
    },
    async stop(): Promise<void> {
      await beats?.stop()
      await bestEffort(log, 'remove the heartbeat of this replica', () => store.removeReplica(own.id))
    },
    async list(): Promise<Replica[]> {
      if (!provider.shared) return [alone()]
      const rows = await store.listReplicas()
      return rows.map(({ id, name, version, startedAt: since, seenAt, silentMs }) => ({
        ...{ name, version, startedAt: since, lastHeartbeatAt: seenAt },
        isAlive: silentMs < SILENT_MS,
        isThis: id === own.id,
      }))
    },
    alone,
  }
}

export type Presence = ReturnType<typeof createPresence>
