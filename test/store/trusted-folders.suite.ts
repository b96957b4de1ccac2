import { describe, expect, it } from 'vitest'
import { aTrustedFolder } from './rows.ts'
import { AWKWARD } from './runs.suite.ts'
import { openAt, type StoreUnderTest, useStore } from './store-under-test.ts'

export function testTrustedFolders(engine: StoreUnderTest): void {
  describe('settings in force per folder', () => {
    const store = useStore(engine)
    const trustFirst = (folder = aTrustedFolder()) => store().transaction((tx) => tx.trustFirst(folder))

    it('keeps the first settings of a folder, and gives them to each later run', async () => {
      const folder = aTrustedFolder({ path: '/first' })

      const first = await trustFirst(folder)
      const later = await trustFirst({
        ...folder,
        settings: 'shell_enabled: true\n',
        trustedAt: '2026-02-01',
      })

      expect(first).toEqual({ folder, isFirst: true })
      expect(later).toEqual({ folder, isFirst: false })
      expect(await store().readTrustedFolder('ada', '/first')).toEqual(folder)
    })

    it('lets one of many first runs at once put its settings in force', async () => {
      const settings = Array.from({ length: 6 }, (_, index) => `max_output_bytes: ${index}`)

      const kept = await Promise.all(
        settings.map((text) => trustFirst(aTrustedFolder({ path: '/race', settings: text }))),
      )

      expect(kept.filter(({ isFirst }) => isFirst)).toHaveLength(1)
      expect(new Set(kept.map(({ folder }) => folder.settings)).size).toBe(1)
    })

    it('forgets a first run that was rolled back', async () => {
      const folder = aTrustedFolder({ path: '/rolled-back' })

      const failing = store().transaction(async (tx) => {
        await tx.trustFirst(folder)
        throw new Error('the run is refused')
      })

      await expect(failing).rejects.toThrow('the run is refused')
      expect(await store().readTrustedFolder('ada', '/rolled-back')).toBeUndefined()
    })

    it('replaces the trusted settings, with a file and without one', async () => {
      const folder = aTrustedFolder({ path: '/replaced', origin: 'trust' })
      const { settings: _settings, ...withoutFile } = folder

      await store().writeTrustedFolder(folder)
      await store().writeTrustedFolder({ ...folder, settings: AWKWARD })
      const replaced = await store().readTrustedFolder('ada', '/replaced')
      await store().writeTrustedFolder(withoutFile)

      expect(replaced).toEqual({ ...folder, settings: AWKWARD })
      expect(await store().readTrustedFolder('ada', '/replaced')).toEqual(withoutFile)
    })

    it('distinguishes an empty file from a missing file', async () => {
      await trustFirst(aTrustedFolder({ path: '/empty', settings: '' }))

      expect(await store().readTrustedFolder('ada', '/empty')).toHaveProperty('settings', '')
    })

    it('keeps the folders of owners apart', async () => {
      await trustFirst(aTrustedFolder({ path: '/shared' }))

      const ofAnother = await trustFirst(aTrustedFolder({ path: '/shared', owner: 'bob', settings: 'x: 1' }))
      const removed = await store().deleteTrustedFolder('eve', '/shared')

      expect(ofAnother).toMatchObject({ isFirst: true, folder: { owner: 'bob', settings: 'x: 1' } })
      expect(removed).toBe(false)
      expect(await store().readTrustedFolder('ada', '/shared')).toHaveProperty('owner', 'ada')
    })

    it.each([
      ['the longest path', `/${'d/'.repeat(2047)}`],
      ['a path in many bytes', `/${'\u{1F600}'.repeat(1000)}`],
      ['a path with quotes, line feeds and escapes', `/${AWKWARD}`],
    ])('takes %s', async (_what, path) => {
      await trustFirst(aTrustedFolder({ path, settings: AWKWARD }))

      expect(await store().readTrustedFolder('ada', path)).toEqual(
        aTrustedFolder({ path, settings: AWKWARD }),
      )
      expect(await store().deleteTrustedFolder('ada', path)).toBe(true)
      expect(await store().deleteTrustedFolder('ada', path)).toBe(false)
      expect(await trustFirst(aTrustedFolder({ path }))).toMatchObject({ isFirst: true })
    })

    it("lists an owner's folders page by page, the last trusted first", async () => {
      const listed = (path: string, month: number, hasFile: boolean) => ({
        owner: 'lister',
        path,
        origin: 'first_run',
        trustedAt: `2026-0${month}-01T00:00:00.000Z`,
        hasFile,
      })
      for (const [path, month] of [
        ['/a', 1],
        ['/c', 3],
        ['/b', 2],
        ['/d', 3],
      ] as const)
        await trustFirst(
          aTrustedFolder({ owner: 'lister', path, trustedAt: `2026-0${month}-01T00:00:00.000Z` }),
        )
      const { settings: _settings, ...withoutFile } = aTrustedFolder({ owner: 'lister', path: '/e' })
      await trustFirst({ ...withoutFile, trustedAt: '2026-04-01T00:00:00.000Z' })

      const first = await store().listTrustedFolders({ owner: 'lister', limit: 2 })
      const second = await store().listTrustedFolders({ owner: 'lister', limit: 2, after: first.next ?? '' })
      const third = await store().listTrustedFolders({ owner: 'lister', limit: 2, after: second.next ?? '' })

      const all = [...first.items, ...second.items, ...third.items]
      expect(all[0]).toEqual(listed('/e', 4, false))
      expect(
        all
          .slice(1, 3)
          .map(({ path }) => path)
          .sort(),
      ).toEqual(['/c', '/d'])
      expect(all.slice(3)).toEqual([listed('/b', 2, true), listed('/a', 1, true)])
      expect(third.next).toBeUndefined()
      expect((await store().listTrustedFolders({ owner: 'nobody', limit: 2 })).items).toEqual([])
    })

    it('refuses a cursor of another list', async () => {
      const page = store().listTrustedFolders({ owner: 'ada', limit: 2, after: 'nonsense' })

      await expect(page).rejects.toMatchObject({ code: 'invalid_request' })
    })

    it('keeps them for the process that comes after', async () => {
      const location = await engine.freshLocation()
      const before = await openAt(location)
      await before.writeTrustedFolder(aTrustedFolder())
      await before.close()

      const after = await openAt(location)

      expect(await after.readTrustedFolder('ada', aTrustedFolder().path)).toEqual(aTrustedFolder())
      await after.close()
    })
  })
}
