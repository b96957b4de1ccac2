import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { holdStore } from '../../runtime/api/runs/replicas/store-lease.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { until } from '../helpers/until.ts'

const postgres = await requestPostgres()
const reason = 'unavailable' in postgres ? postgres.unavailable : undefined

/**
 * The holder of the store keeps it even if it renews its lease late. A waiting process waits no longer than necessary.
 */
const LONG_MS = 120_000
const SHORT_MS = 400

describe.skipIf(reason !== undefined)(
  `a database that several services could use${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    const aDatabase = async () => {
      if (!('url' in postgres)) throw new Error('no PostgreSQL')
      const url = await createDatabase(postgres.url)
      const open = async () => {
        const store = await openStore({ kind: 'postgres', url }, { log: silentLog })
        onTestFinished(() => store.close())
        return store
      }
      return { open, url }
    }
    const options = (ttlMs: number, onLost: () => void = () => undefined) => ({
      ttlMs,
      onLost,
      log: silentLog,
    })

    it('is held by one process, and by the next one after it ended', async () => {
      const { open } = await aDatabase()
      const [one, two] = [await open(), await open()]
      const held = await holdStore(one, options(LONG_MS))

      await expect(holdStore(two, options(SHORT_MS))).rejects.toThrow('Another service uses this database')
      await held.release()
      const next = await holdStore(two, options(LONG_MS))

      await next.release()
    })

    it('is taken over when its holder was killed and could not release it', async () => {
      const { open } = await aDatabase()
      const [one, two] = [await open(), await open()]
      expect(await one.acquireLease('api', 'a killed holder', 300)).toBe(true)

      const held = await holdStore(two, options(LONG_MS))

      await held.release()
    })

    it('is shared only by processes that ask to share it', async () => {
      const { open, url } = await aDatabase()
      const [one, two, three] = [await open(), await open(), await open()]
      const shared = { ...options(LONG_MS), isShared: true }
      const held = [await holdStore(one, shared), await holdStore(two, shared)]

      await held[0]?.release()
      await expect(holdStore(three, options(SHORT_MS))).rejects.toThrow('Another service uses this database')
      await held[1]?.release()
      // As its time to live has it, some time after the last of them.
      await query(url, 'update leases set expires_ms = 0')
      const alone = await holdStore(three, options(LONG_MS))

      const another = { ...shared, ttlMs: SHORT_MS }
      await expect(holdStore(one, another)).rejects.toThrow('Another service uses this database')
      await alone.release()
    })

    it('calls onLost when another holder takes the lease', async () => {
      const { open, url } = await aDatabase()
      let isLost = false
      const onLost = () => {
        isLost = true
      }
      const held = await holdStore(await open(), options(300, onLost))

      await query(url, "update leases set holder = 'a thief', expires_ms = expires_ms + 600000")

      await until('the holder is told', () => isLost)
      await held.release()
    })
  },
)

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(text)
  await client.end()
}
