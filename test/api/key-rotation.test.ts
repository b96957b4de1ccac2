import { createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { importKeys, verifyTicket } from '../../runtime/agent-host/configure/ticket.ts'
import type { DeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { followKeys } from '../../runtime/api/keys/follow-keys.ts'
import { loadKeys } from '../../runtime/api/keys/load-keys.ts'
import { signTicket } from '../../runtime/api/keys/ticket.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { until } from '../helpers/until.ts'

const now = () => new Date()
const instanceId = 'instance-1'
const aKey = (): KeyObject => generateKeyPairSync('ed25519').privateKey
const aRoot = () => randomBytes(32).toString('base64')
const pkcs8 = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'der' }).toString('base64')

/** A service whose keys are given in a folder, which it follows; `log` keeps what it says. */
async function aService() {
  const folder = mkdtempSync(join(tmpdir(), 'aw-rotation-'))
  const put = (name: string, text: string) => writeFileSync(join(folder, name), text)
  put('deployment-key', aRoot())
  put('ticket-key', pkcs8(aKey()))
  const context = { stateDir: folder, slice: { kind: 'base' }, identity: undefined } as const
  const loaded = await loadKeys({ kind: 'folder', directory: folder }, context)
  const said: string[] = []
  const note = (message: string, facts?: object) =>
    void said.push(`${message} ${JSON.stringify(facts ?? {})}`)
  const following = followKeys(loaded.reread, { ...silentLog, info: note, error: note }, 5)
  onTestFinished(async () => {
    await following.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  return { keys: loaded.keys, put, said }
}

const aTicket = ({ ticketKey }: DeploymentKeys) =>
  signTicket(ticketKey, { instanceId, runId: 'run-1', body: Buffer.from('{}'), now: now() })
const check = ({ jwksFile }: DeploymentKeys) => ({ jwksFile, instanceId, now })

it('signs with a new key as soon as one is given, and what is warm takes tickets of both', async () => {
  const { keys, put } = await aService()
  const former = keys.ticketKey.kid
  const old = await aTicket(keys)

  put('ticket-key', pkcs8(aKey()))
  await until('the new key is in use', () => keys.ticketKey.kid !== former)
  const fresh = await aTicket(keys)

  for (const ticket of [old, fresh])
    expect(await verifyTicket(ticket, check(keys))).toMatchObject({ sub: 'run-1' })
})

it('is followed by a sandbox that has read the keys before', async () => {
  const { keys, put } = await aService()
  const mounted = check(keys)
  await importKeys(mounted)
  const first = await aTicket(keys)
  expect(await verifyTicket(first, mounted)).toMatchObject({ sub: 'run-1' })

  for (let round = 0; round < 2; round += 1) {
    const { kid } = keys.ticketKey
    put('ticket-key', pkcs8(aKey()))
    await until('the next key is in use', () => keys.ticketKey.kid !== kid)
  }

  expect(await verifyTicket(await aTicket(keys), mounted)).toMatchObject({ sub: 'run-1' })
  await expect(verifyTicket(first, mounted)).rejects.toMatchObject({ code: 'unauthenticated' })
  rmSync(keys.jwksFile)
  await expect(verifyTicket(await aTicket(keys), mounted)).rejects.toMatchObject({ code: 'unavailable' })
})

it('lets go of a key with the rotation after the next', async () => {
  const { keys, put } = await aService()
  const first = await aTicket(keys)

  for (let round = 0; round < 2; round += 1) {
    const { kid } = keys.ticketKey
    put('ticket-key', pkcs8(aKey()))
    await until('the next key is in use', () => keys.ticketKey.kid !== kid)
  }

  await expect(verifyTicket(first, check(keys))).rejects.toMatchObject({ code: 'unauthenticated' })
  expect(await verifyTicket(await aTicket(keys), check(keys))).toMatchObject({ sub: 'run-1' })
})

it.each<[string, string, string]>([
  ['is no key', 'ticket-key', randomBytes(48).toString('base64')],
  [
    'is of another kind',
    'ticket-key',
    pkcs8(
      createPrivateKey(
        generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
          type: 'pkcs8',
          format: 'pem',
        }),
      ),
    ),
  ],
  ['is half written', 'ticket-key', ''],
  ['is another deployment key', 'deployment-key', aRoot()],
])(
  'goes on with the key in use where what it is given %s, and says so without showing it',
  async (_what, name, text) => {
    const { keys, put, said } = await aService()
    const { kid } = keys.ticketKey
    const turnKey = keys.derive('turn')

    put(name, text)
    await until('it was said', () => said.length > 0)

    expect(said[0]).toMatch(/could not be read again/)
    if (text !== '') expect(said.join('\n')).not.toContain(text)
    expect(keys.ticketKey.kid).toBe(kid)
    expect(keys.derive('turn')).toEqual(turnKey)
    expect(await verifyTicket(await aTicket(keys), check(keys))).toMatchObject({ sub: 'run-1' })
  },
)

it('says nothing and changes nothing while the key stays the same', async () => {
  const { keys, said } = await aService()
  const { kid } = keys.ticketKey

  await new Promise((resolve) => setTimeout(resolve, 60))

  expect([said, keys.ticketKey.kid]).toEqual([[], kid])
})
