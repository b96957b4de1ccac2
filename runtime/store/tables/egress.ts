import { sql } from 'kysely'
import { EgressPod } from '../../../contracts/egress.ts'
import { present, toJson, toText } from '../codec.ts'
import { AllowedHosts, PushGrant, RunKinds, RunSettings, RunSetup } from '../columns.ts'
import type { EgressTransaction, LiveNetwork, OpenNetwork } from '../egress.ts'
import type { Scope } from '../engine.ts'
import { RowReader } from '../row-reader.ts'
import { listPushedOf } from './pushed-branches.ts'

/** The numbers of a replica that has ended are kept for this long, because it may repeat its last reports. */
const KEPT_MS = 86_400_000

export async function openNetwork({ db }: Scope, network: OpenNetwork): Promise<void> {
  const { runId, generation, kind, pod } = network
  const row = { run_id: runId, generation, kind, pod_json: toJson(pod) }
  await db
    .insertInto('egress_networks')
    .values(row)
    .onConflict((conflict) => conflict.columns(['run_id', 'generation']).doUpdateSet(row))
    .execute()
}

export async function closeNetwork(
  { db }: Scope,
  { runId, generation }: Pick<OpenNetwork, 'runId' | 'generation'>,
): Promise<void> {
  await db
    .deleteFrom('egress_networks')
    .where('run_id', '=', runId)
    .where('generation', '<=', generation)
    .execute()
}

export async function listNetworks(scope: Scope): Promise<LiveNetwork[]> {
  const networks = await readNetworks(scope)
  const pushed = await listPushedOf(
    scope,
    networks.map((one) => one.push?.runId ?? one.runId),
  )
  return networks.map((one) => ({ ...one, pushed: pushed.get(one.push?.runId ?? one.runId) ?? [] }))
}

async function readNetworks({ db }: Scope): Promise<Omit<LiveNetwork, 'pushed'>[]> {
  const rows = await db
    .selectFrom('egress_networks as network')
    .innerJoin('runs as run', (join) =>
      join.onRef('run.id', '=', 'network.run_id').onRef('run.generation', '=', 'network.generation'),
    )
    .select(['network.run_id', 'network.generation', 'network.kind', 'network.pod_json'])
    .select([
      'run.owner',
      'run.settings_json',
      'run.allowed_hosts_json',
      'run.agent_spec_json',
      'run.push_json',
      'run.setup_json',
    ])
    .where('run.ended_at', 'is', null)
    .where('run.ending_json', 'is', null)
    .orderBy('network.run_id')
    .execute()
  return rows.map((row) => {
    const at = new RowReader('egress_networks', row)
    const run = new RowReader('runs', row)
    return {
      ...present({ push: run.optionalJson('push_json', PushGrant) }),
      runId: at.plain('run_id'),
      generation: at.integer('generation'),
      kind: at.oneOf('kind', RunKinds),
      pod: at.json('pod_json', EgressPod),
      owner: run.plain('owner'),
      settings: run.json('settings_json', RunSettings),
      agentSpec: run.anyJson('agent_spec_json'),
      allowedHosts: run.optionalJson('allowed_hosts_json', AllowedHosts) ?? [],
      ...present({ setup: run.optionalJson('setup_json', RunSetup) }),
    }
  })
}

export async function noteProxy({ db, engine }: Scope, proxy: string, isConnected: boolean): Promise<void> {
  const seen = isConnected ? engine.nowMs : sql<number>`0`
  await db
    .insertInto('egress_proxies')
    .values({ id: proxy, last_report: 0, seen_ms: seen, changed_ms: engine.nowMs })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ seen_ms: seen, changed_ms: engine.nowMs }))
    .execute()
  const old = sql<number>`${engine.nowMs} - ${sql.lit(KEPT_MS)}`
  await db.deleteFrom('egress_proxies').where('changed_ms', '<', old).execute()
}

export async function countProxies({ db, engine }: Scope, ms: number): Promise<number> {
  const since = sql<number>`${engine.nowMs} - ${sql.lit(Math.round(ms))}`
  const row = await db
    .selectFrom('egress_proxies')
    .select(({ fn }) => fn.countAll().as('count'))
    .where('seen_ms', '>=', since)
    .executeTakeFirstOrThrow()
  return Number(row.count)
}

export const takenBytes = ({ db }: Scope): Pick<EgressTransaction, 'readTakenBytes' | 'writeTakenBytes'> => ({
  async readTakenBytes(runId) {
    const row = await db
      .selectFrom('runs')
      .select('egress_bytes')
      .where('id', '=', toText(runId))
      .executeTakeFirst()
    return row ? new RowReader('runs', row).integer('egress_bytes') : 0
  },
  async writeTakenBytes(runId, bytes) {
    await db.updateTable('runs').set({ egress_bytes: bytes }).where('id', '=', toText(runId)).execute()
  },
})

/** One statement, so that only one of two requests with the same report records it. */
export const acceptReport =
  ({ db, engine }: Scope): EgressTransaction['acceptReport'] =>
  async (proxy, number) => {
    const { numInsertedOrUpdatedRows } = await db
      .insertInto('egress_proxies')
      .values({ id: proxy, last_report: number, seen_ms: 0, changed_ms: engine.nowMs })
      .onConflict((conflict) =>
        conflict
          .column('id')
          .doUpdateSet({ last_report: number, changed_ms: engine.nowMs })
          .where('egress_proxies.last_report', '<', number),
      )
      .executeTakeFirstOrThrow()
    return numInsertedOrUpdatedRows === 1n
  }
