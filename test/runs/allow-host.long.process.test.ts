import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { ForkRun } from '../../contracts/api.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { until } from '../helpers/until.ts'
import { alice, aRun, bob, dataOf, follow, operator, shell, startService } from './service-rig.ts'

const USED = 'used.agentweaver-test.com'
const WITHHELD = 'withheld.agentweaver-test.com'
const OTHER = 'other.agentweaver-test.com'
const UNLISTED = 'unlisted.agentweaver-test.com'

/** A run whose settings leave two hosts of the list out, and whose command asks for one of them until it is served. */
async function aPlace(ceiling = 'network_enabled: true\n') {
  const folder = mkdtempSync(join(tmpdir(), 'aw-allow-host-'))
  const server = createServer((_request, response) => response.end('served'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const entry = (host: string) =>
    `    - { host: ${host}, ports: [${port}], mode: read-only, http: allow, addresses: [127.0.0.1], why: a host of the test }\n`
  const files = {
    'egress.yaml': `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent:\n${[USED, WITHHELD, OTHER].map(entry).join('')}  command: []\n`,
    'ceiling.yml': ceiling,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const started = await startService({
    AGENTWEAVER_EGRESS_FILE: join(folder, 'egress.yaml'),
    AGENTWEAVER_CEILING_FILE: join(folder, 'ceiling.yml'),
  })
  onTestFinished(async () => {
    await started.close()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const path = started.aWorkspace()
  const get = (host: string) => `curl -s -o /dev/null -w '%{http_code}' http://${host}:${port}/`
  /** Writes the status of each round to `status`, until `stop` exists. */
  const asking = `while [ ! -e stop ]; do echo "$(${get(WITHHELD)}) $(${get(OTHER)})" > new && mv new status; sleep 0.05; done`
  const start = (policy = {}) =>
    started.service.startRun(alice, {
      ...aRun(path, [shell(asking)]),
      policy: { network_enabled: true, egress_hosts: [USED], ...policy },
    })
  const statusIs = (wanted: string) =>
    until(`the command gets ${wanted}`, () => {
      const file = join(path, 'status')
      return existsSync(file) && readFileSync(file, 'utf8').trim() === wanted
    })
  const stop = (id: string) => {
    writeFileSync(join(path, 'stop'), '')
    return follow(started.service, id)
  }
  const allow = (id: string, host = WITHHELD, caller: Caller = alice) =>
    started.service.allowEgress(caller, id, { host, reason: 'the build needs it' })
  return { ...started, start, statusIs, stop, allow }
}

it('gives a run that works one more host of the list, at once and only that one', async () => {
  const { start, statusIs, stop, allow, service, store } = await aPlace()
  const { id } = await start()
  await statusIs('403 403')

  const allowed = await allow(id)
  await statusIs('200 403')
  const { allowed: shown, denied } = await service.readEgress(alice, id)
  const events = await stop(id)

  expect(shown).toEqual([allowed])
  expect(denied.find(({ host }) => host === WITHHELD)).toMatchObject({
    rule: 'not-listed',
    remedy: `A person can allow it: agentweaver egress allow ${WITHHELD} --run ${id} --reason TEXT.`,
  })
  expect(dataOf(events, 'egress.allowed')).toEqual([
    { host: WITHHELD, by: 'alice', reason: 'the build needs it' },
  ])
  const { items } = await store.readAudit({ runId: id, limit: 100 })
  expect(items.map(({ record }) => JSON.parse(record))).toContainEqual(
    expect.objectContaining({
      kind: 'egress.allowed',
      actor: 'person:alice',
      decision: 'allow',
      reasons: [WITHHELD, 'the build needs it'],
    }),
  )
})

it('stays below a restriction, and applies again when it is lifted', async () => {
  const { start, statusIs, stop, allow, service } = await aPlace()
  const { id } = await start()
  await statusIs('403 403')
  const restrict = (level: 'no-network' | 'normal') =>
    service.setRestriction(operator, { scope: { kind: 'run', id }, level, reason: 'a look' })

  await allow(id, WITHHELD, operator)
  await statusIs('200 403')
  await restrict('no-network')
  await statusIs('403 403')
  await restrict('normal')
  await statusIs('200 403')

  await stop(id)
})

it('is refused beyond the operator, for another person, without effect, and after the end', async () => {
  const { start, statusIs, stop, allow, store } = await aPlace()
  const { id } = await start()
  await statusIs('403 403')

  await expect(allow(id, UNLISTED)).rejects.toMatchObject({
    code: 'policy_denied',
    message: expect.stringMatching(/AGENTWEAVER_EGRESS_FILE.*agentweaver egress suggest run_/),
  })
  await expect(allow(id, UNLISTED, operator)).rejects.toMatchObject({ code: 'policy_denied' })
  await expect(allow(id, WITHHELD, bob)).rejects.toMatchObject({ code: 'not_found' })
  await expect(allow(id, USED)).rejects.toMatchObject({ code: 'conflict' })
  await statusIs('403 403')
  expect((await store.readRun(id))?.allowedHosts).toEqual([])

  // The same call with the right host and person succeeds.
  await allow(id)
  await statusIs('200 403')
  await expect(allow(id)).rejects.toMatchObject({ code: 'conflict' })
  await stop(id)
  await expect(allow(id, OTHER)).rejects.toMatchObject({ code: 'run_ended' })
})

it("is refused for a host that the operator's settings leave out, also to the operator", async () => {
  const { start, statusIs, stop, allow } = await aPlace(
    `network_enabled: true\negress_hosts: [${USED}, ${WITHHELD}]\n`,
  )
  const { id } = await start()
  await statusIs('403 403')

  for (const caller of [alice, operator])
    await expect(allow(id, OTHER, caller)).rejects.toMatchObject({
      code: 'policy_denied',
      message: expect.stringContaining(`The operator's settings do not allow ${OTHER}`),
    })
  await allow(id)
  await statusIs('200 403')

  await stop(id)
})

it('is announced when a suspended run continues', async () => {
  const { start, stop, allow, service, store } = await aPlace()
  const { id } = await start({ require_approval_for_all_shell: true })
  const isIn = async (state: string) => (await service.readRun(alice, id)).state === state
  await until('the run waits for an approval', () => isIn('waiting'))
  await service.suspend(alice, id)
  await until('the run is suspended', () => isIn('suspended'))

  await allow(id)
  const [approval] = await store.listApprovals(id)
  const decision = { outcome: 'approved', scope: 'once', requestId: approval?.requestId ?? '' } as const
  await service.decideShell(alice, id, decision)
  const events = await stop(id)

  // Without a change, the event has the generation alone (suspend.long.process.test.ts).
  expect(dataOf(events, 'run.resumed')).toEqual([{ generation: 2, isEgressChanged: true }])
})

it('is refused for a run without a network, and is not inherited by a fork', async () => {
  const { start, statusIs, stop, allow, service, store } = await aPlace()
  const { id } = await start()
  await statusIs('403 403')
  await allow(id)
  await stop(id)

  const { id: fork } = await service.forkRun(
    alice,
    id,
    ForkRun.parse({ task: 'again', workspace: { kind: 'empty' } }),
  )
  const without = await start({ network_enabled: false })

  expect((await store.readRun(fork))?.allowedHosts).toEqual([])
  expect((await store.readRun(fork))?.settings.egress_hosts).toEqual([USED])
  await expect(allow(without.id)).rejects.toMatchObject({ code: 'conflict' })
})
