import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import type { ErasedData, OwnerDataLine } from '../../contracts/owner-data.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { alice, aRun, bob, follow, operator, shell, startService, tool } from './service-rig.ts'

const auditor: Caller = { owner: 'rita', role: 'auditor' }
/** Set through the service. */
const TOKEN = 'ghp_aTokenOfAliceInTheTestOfHerData00001'
const NOTE = 'a note that only alice has'

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

/** A service with an ended run and an ended sandbox of alice, and a run of bob. */
async function aService() {
  const rig = await startService()
  const { service, store, aWorkspace, config } = rig
  const steps = [tool('create', { path: 'note.txt', file_text: NOTE }), shell('cat note.txt')]
  const { id } = await service.startRun(alice, aRun(aWorkspace(), steps))
  await follow(service, id)
  const other = await service.startRun(bob, aRun(aWorkspace('other'), [shell('true')]))
  for await (const _ of (await service.subscribe(bob, other.id, {
    after: 0,
    signal: AbortSignal.timeout(60_000),
  })) ?? []);
  await store.transaction((tx) =>
    tx.insertApiKey({
      id: 'key_1',
      hash: 'x',
      owner: 'alice',
      role: 'user',
      createdAt: new Date().toISOString(),
    }),
  )
  await rig.userCredentials.set(alice, 'github', { value: TOKEN })
  const verify = async () => (await collect(await service.verifyAudit(operator, {}))).at(-1)
  const file = config.store.kind === 'sqlite' ? config.store.file : ''
  return { ...rig, id, other: other.id, verify, file }
}

/** The tables with a row that has one of the texts, in any column. */
function tablesWith(file: string, texts: readonly string[]): string[] {
  const database = new DatabaseSync(file)
  try {
    const tables = database.prepare("select name from sqlite_master where type = 'table'").all()
    return tables
      .map(({ name }) => String(name))
      .filter((name) => {
        const rows = JSON.stringify(database.prepare(`select * from "${name}"`).all(), (_, value) =>
          value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : value,
        )
        return texts.some((text) => rows.includes(text))
      })
      .toSorted()
  } finally {
    database.close()
  }
}

describe('the data of an owner', () => {
  it('is exported to the owner and to an auditor, whose export is in the audit', async () => {
    await using rig = disposable(await aService())
    const { service, id } = rig

    const own = await collect(await service.exportData(alice, 'alice'))
    const seen = await collect(await service.exportData(auditor, 'alice'))

    const countOf = (type: OwnerDataLine['type']) => own.filter((line) => line.type === type).length
    expect(own[0]).toMatchObject({ type: 'owner', owner: 'alice' })
    expect(own.flatMap((line) => (line.type === 'run' ? [line.run.id] : []))).toEqual([id])
    expect(JSON.stringify(own)).toContain(NOTE)
    expect(own.at(-1)).toEqual({ type: 'end', runs: 1, events: countOf('event'), records: countOf('audit') })
    expect(countOf('audit')).toBeGreaterThan(2)
    expect([countOf('key'), countOf('credential')]).toEqual([1, 1])
    expect(JSON.stringify(own)).not.toContain(TOKEN)
    expect(countOf('trusted_folder')).toBe(1)
    expect(seen.length).toBe(own.length)
    const { items } = await service.readAudit(operator, { run: 'deployment', limit: 100 })
    expect(items.filter(({ kind }) => kind === 'data.exported')).toMatchObject([{ actor: 'person:rita' }])
    await expect(service.exportData(bob, 'alice')).rejects.toMatchObject({ code: 'forbidden' })
  })

  it('is erased by an operator, and the audit still verifies', async () => {
    await using rig = disposable(await aService())
    const { service, id, other, file, verify } = rig
    expect(tablesWith(file, ['alice', NOTE, id]).length, 'a control').toBeGreaterThan(5)

    const reports: ErasedData[] = await collect(await service.eraseData(operator, 'alice'))

    expect(reports.at(-1)).toMatchObject({ isComplete: true, runs: 1, keys: 1 })
    await expect(service.readRun(operator, id)).rejects.toMatchObject({ code: 'not_found' })
    // The deployment's chain keeps the id and the final head, and nothing that the person wrote.
    expect(tablesWith(file, [id])).toEqual(['audit'])
    expect(tablesWith(file, [NOTE, TOKEN])).toEqual([])
    // A record of that chain names who set a credential.
    expect(tablesWith(file, ['alice'])).toEqual(['audit'])
    expect((await service.readRun(bob, other)).state).toBe('succeeded')
    expect(await verify()).toMatchObject({ ok: true, problems: [] })
    const { items } = await service.readAudit(operator, { run: 'deployment', limit: 100 })
    expect(items.filter(({ kind }) => kind === 'run.erased')).toMatchObject([
      { actor: 'person:root', callId: id, sealed: { runId: id } },
    ])
  })

  it('cannot be deleted past the service without being noticed', async () => {
    await using rig = disposable(await aService())
    const { store, id, verify } = rig

    await store.deleteEvents(id, 10_000)
    await store.transaction((tx) => tx.eraseRun(id))

    expect(await verify()).toMatchObject({
      ok: false,
      problems: [{ chain: id, problem: 'truncated', at: 1 }],
    })
  })

  it('is not erased while a run has not ended, by other roles, or by the person', async () => {
    await using rig = disposable(await aService())
    const { service, aWorkspace } = rig
    const { id } = await service.createSandbox(alice, {
      workspace: { kind: 'path', path: aWorkspace('open') },
    })

    await expect(service.eraseData(operator, 'alice')).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining(id),
    })
    for (const caller of [alice, bob, auditor])
      await expect(service.eraseData(caller, 'alice')).rejects.toMatchObject({ code: 'forbidden' })
    await expect(service.eraseData(operator, 'root')).rejects.toMatchObject({ code: 'conflict' })
    expect((await service.readRun(alice, id)).id).toBe(id)
  })

  it('is not called erased if the person started a run in between', async () => {
    await using rig = disposable(await aService())
    const { service, aWorkspace, verify } = rig

    const reports: ErasedData[] = []
    const erasing = async () => {
      for await (const report of await service.eraseData(operator, 'alice')) {
        if (reports.push(report) > 1) continue
        // Signed in at an issuer, alice needs no key.
        const path = aWorkspace('again')
        await service.createSandbox(alice, { workspace: { kind: 'path', path } })
      }
    }

    await expect(erasing()).rejects.toMatchObject({ code: 'conflict' })
    expect(reports.some(({ isComplete }) => isComplete)).toBe(false)
    expect(await verify()).toMatchObject({ ok: true })
  })

  it('is erased completely by a second request if the first one broke off', async () => {
    await using rig = disposable(await aService())
    const { service, id, file, verify } = rig

    for await (const _ of await service.eraseData(operator, 'alice')) break
    const reports = await collect(await service.eraseData(operator, 'alice'))

    expect(reports.at(-1)).toMatchObject({ isComplete: true, runs: 1 })
    expect(tablesWith(file, [id])).toEqual(['audit'])
    expect(await verify()).toMatchObject({ ok: true })
  })
})

const disposable = <T extends { close(): Promise<void> }>(rig: T) => ({
  ...rig,
  [Symbol.asyncDispose]: () => rig.close(),
})
