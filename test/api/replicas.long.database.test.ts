import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { API_KEY_FILE } from '../../contracts/api-env.ts'
import { createClient } from '../../runtime/client/client.ts'
import { makeKeys } from '../../tools/make-keys.ts'
import { startFakeCluster } from '../fakes/kube/fake-cluster.ts'
import { createDatabase, requestPostgres } from '../helpers/postgres.ts'
import { until } from '../helpers/until.ts'
import { makeStateDir, startService } from './service-process.ts'

const offer = await requestPostgres()
const serverUrl = 'url' in offer ? offer.url : ''

/** The value of a sample on the metrics page. */
async function sampleOf(url: string, name: string): Promise<number> {
  const page = await (await fetch(`${url}/metrics`)).text()
  const line = page.split('\n').find((text) => text.startsWith(`${name} `))
  return Number(line?.slice(name.length + 1))
}

test.skipIf(!serverUrl)(
  'a replica that was killed is shown as gone, and the other one counts the takeover of its run',
  { timeout: 300_000 },
  async ({ onTestFinished }) => {
    const DATABASE_URL = await createDatabase(serverUrl)
    const folder = await makeStateDir(onTestFinished)
    const cluster = await startFakeCluster(dirname(folder))
    onTestFinished(() => cluster.close())
    const keysFolder = `${folder}-keys`
    await makeKeys(keysFolder)
    const keys = { AGENTWEAVER_KEYS_DIR: keysFolder }
    const start = async (name: string) => {
      const env = { ...cluster.env, ...keys, DATABASE_URL, AGENTWEAVER_STATE_DIR: `${folder}-${name}` }
      const service = startService(env, onTestFinished)
      return { ...service, ...(await service.ready) }
    }
    const first = await start('first')
    const apiKey = (await readFile(join(keysFolder, API_KEY_FILE), 'utf8')).trim()
    const second = await start('second')
    const client = createClient({ url: first.url, apiKey })
    const { id } = await client.startRun({
      task: 'work',
      workspace: { kind: 'empty' },
      agent: { kind: 'scripted', plan: { turns: [[{ kind: 'say', text: 'done' }]] } },
    })
    await until('the run works', async () => (await client.readRun(id)).state === 'running')
    const drives = async ({ url }: { url: string }) => (await sampleOf(url, 'agentweaver_places_taken')) > 0
    const [killed, left] = (await drives(first)) ? [first, second] : [second, first]
    const other = createClient({ url: left.url, apiKey })
    const alive = async () => (await other.readDiagnostics()).replicas.map(({ isAlive }) => isAlive)
    expect(await alive()).toEqual([true, true])

    killed.child.kill('SIGKILL')

    await until('it is gone', async () => (await alive()).includes(false), 120_000)
    await until(
      'its run was taken over',
      async () => (await sampleOf(left.url, 'agentweaver_takeovers_total')) === 1,
      120_000,
    )
    const { replicas, work } = await other.readDiagnostics()
    expect(replicas.filter(({ isAlive }) => isAlive)).toEqual([expect.objectContaining({ isThis: true })])
    expect(work?.overdue.run_takeover).toBe(0)
  },
)
