import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { importKeys, verifyTicket } from '../../runtime/agent-host/configure/ticket.ts'
import type { DeploymentKeys } from '../../runtime/api/keys/deployment-keys.ts'
import { followKeys } from '../../runtime/api/keys/follow-keys.ts'
import { loadKeys } from '../../runtime/api/keys/load-keys.ts'
import { signTicket } from '../../runtime/api/keys/ticket.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { startAzure } from '../credential/azure-rig.ts'
import { until } from '../helpers/until.ts'

const now = () => new Date()
const instanceId = 'instance-1'
const aKey = (): KeyObject => generateKeyPairSync('ed25519').privateKey
const aRoot = () => randomBytes(32).toString('base64')
const pkcs8 = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'der' }).toString('base64')

const aTicket = ({ ticketKey }: DeploymentKeys) =>
  signTicket(ticketKey, { instanceId, runId: 'run-1', body: Buffer.from('{}'), now: now() })
const check = ({ jwksFile }: DeploymentKeys) => ({ jwksFile, instanceId, now })

type Put = (name: string, text: string) => void

/** Where keys are provided: a folder, such as a mounted Secret, or a key vault, read with the SDK. */
const PLACES = {
  folder: async (folder: string) => {
    const put: Put = (name, text) => writeFileSync(join(folder, name), text)
    const take = (name: string) => rmSync(join(folder, name))
    return { put, take, identity: undefined, place: { kind: 'folder', directory: folder } as const }
  },
  vault: async () => {
    const { vault, settings } = await startAzure()
    const put: Put = (name, text) => vault.setSecret(`agentweaver-${name}`, text)
    const take = (name: string) => vault.setSecret(`agentweaver-${name}`, aRoot(), { enabled: false })
    return {
      put,
      take,
      identity: settings.identity,
      place: { kind: 'vault', url: settings.vaultUrl ?? '' } as const,
    }
  },
}

describe.each(['folder', 'vault'] as const)('a key provided in a %s', (kind) => {
  /** A service that follows its keys; `said` collects its log. */
  async function aService() {
    const folder = mkdtempSync(join(tmpdir(), 'aw-rotation-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const { put, take, identity, place } = await PLACES[kind](folder)
    put('deployment-key', aRoot())
    put('ticket-key', pkcs8(aKey()))
    const context = { stateDir: folder, slice: { kind: 'base' }, identity } as const
    const { keys, reread } = await loadKeys(place, context)
    const said: string[] = []
    const note = (message: string, facts?: object) =>
      void said.push(`${message} ${JSON.stringify(facts ?? {})}`)
    let rereads = 0
    const counted = async () => {
      const isOther = await reread?.()
      if (isOther !== undefined) rereads += 1
      return isOther === true
    }
    const following = followKeys(reread && counted, { ...silentLog, info: note, error: note }, 5)
    onTestFinished(() => following.stop())
    return { keys, put, take, said, rereads: () => rereads }
  }

  it('signs with a new key at once, and warm sandboxes accept tickets of both keys', async () => {
    const { keys, put } = await aService()
    const former = keys.ticketKey.kid
    const old = await aTicket(keys)

    put('ticket-key', pkcs8(aKey()))
    await until('the new key is in use', () => keys.ticketKey.kid !== former)
    const fresh = await aTicket(keys)

    for (const ticket of [old, fresh])
      expect(await verifyTicket(ticket, check(keys))).toMatchObject({ sub: 'run-1' })
  })

  it('is followed by a sandbox that read the keys before the rotation', async () => {
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

  it('drops a key with the rotation after the next', async () => {
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
      'is of another type',
      'ticket-key',
      pkcs8(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey),
    ],
    ['is half written', 'ticket-key', ''],
    ['is another deployment key', 'deployment-key', aRoot()],
  ])(
    'keeps the current key if the provided key %s, and logs it without printing the key',
    async (_what, name, text) => {
      const { keys, put, said } = await aService()
      const { kid } = keys.ticketKey
      const turnKey = keys.derive('turn')

      put(name, text)
      await until('it was said', () => said.length > 0)

      expect(said[0]).toMatch(/could not read the keys again/)
      if (text !== '') expect(said.join('\n')).not.toContain(text)
      expect(keys.ticketKey.kid).toBe(kid)
      expect(keys.derive('turn')).toEqual(turnKey)
      expect(await verifyTicket(await aTicket(keys), check(keys))).toMatchObject({ sub: 'run-1' })
    },
  )

  it('keeps the current key if none is provided any more, and uses the next one', async () => {
    const { keys, put, take, said } = await aService()
    const { kid } = keys.ticketKey

    take('ticket-key')
    await until('it was said', () => said.length > 0)

    expect(said[0]).toMatch(/could not read the keys again.*ticket-key/)
    expect(keys.ticketKey.kid).toBe(kid)
    put('ticket-key', pkcs8(aKey()))
    await until('the next key is in use', () => keys.ticketKey.kid !== kid)
    expect(await verifyTicket(await aTicket(keys), check(keys))).toMatchObject({ sub: 'run-1' })
  })

  it('logs and changes nothing while the key stays the same', async () => {
    const { keys, said, rereads } = await aService()
    const { kid } = keys.ticketKey

    await until('it was read again and again', () => rereads() > 3)

    expect([said, keys.ticketKey.kid]).toEqual([[], kid])
  })
})
