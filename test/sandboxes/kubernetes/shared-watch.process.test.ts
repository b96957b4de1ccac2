import { expect, it, onTestFinished, vi } from 'vitest'
import { until } from '../../helpers/until.ts'
import { startKubeRig, THINGS_PATH } from './kube-rig.ts'

it('has read the whole collection when it has started, over several pages', async () => {
  const rig = await startKubeRig()
  for (let i = 0; i < 1_203; i += 1) rig.put(`thing-${i}`)

  const watch = await rig.openWatch()

  expect(watch.list()).toHaveLength(1_203)
  expect(rig.fake.count('list')).toBe(3)
})

it('follows changes, and notifies only the listeners of the changed object', async () => {
  const rig = await startKubeRig()
  const watch = await rig.openWatch()
  const told: string[] = []
  watch.onChange('mine', () => told.push(watch.get('mine')?.data ?? 'gone'))

  rig.put('mine', 'one')
  rig.put('other', 'x')
  rig.put('mine', 'two')
  rig.fake.store.remove(THINGS_PATH, 'mine')

  await until('the end was told', () => told.includes('gone'))
  expect(told).toEqual(['one', 'two', 'gone'])
  expect(watch.get('other')?.data).toBe('x')
})

it.each([
  ['is reset', (rig: Rig) => rig.fake.watches.reset()],
  ['ends in order', (rig: Rig) => rig.fake.watches.end()],
] as const)(
  'resumes after the version it saw when the connection %s, without another list',
  async (_what, harm) => {
    const rig = await startKubeRig()
    const watch = await rig.openWatch()
    rig.put('before')
    await until('the first change is here', () => watch.get('before') !== undefined)

    harm(rig)
    rig.put('meanwhile')
    await until('the watch is back', () => rig.fake.count('watch') > 1)
    rig.put('after')

    await until('both are here', () => Boolean(watch.get('meanwhile') && watch.get('after')))
    expect(rig.fake.count('list')).toBe(1)
  },
)

it('loses nothing when the stream is cut in the middle of an object', async () => {
  const rig = await startKubeRig()
  const watch = await rig.openWatch()

  rig.fake.watches.cutInEvent()
  rig.put('cut', 'whole')

  await until('the object is here after all', () => watch.get('cut')?.data === 'whole')
  expect(rig.fake.count('list')).toBe(1)
})

it.each([
  ['says 410 in the stream', (rig: Rig) => rig.fake.watches.expire()],
  [
    'returns 410',
    (rig: Rig) => {
      rig.fake.faults.plan({ verb: 'watch' }, { kind: 'status', status: 410, reason: 'Gone' })
      rig.fake.watches.reset()
    },
  ],
] as const)(
  'lists again when the server %s, and detects objects that were deleted in between',
  async (_what, harm) => {
    const rig = await startKubeRig()
    rig.put('goes')
    rig.put('stays')
    const watch = await rig.openWatch()
    let told = 0
    watch.onChange('goes', () => {
      told += 1
    })

    rig.fake.watches.freeze()
    rig.fake.store.remove(THINGS_PATH, 'goes')
    rig.fake.store.compact()
    watch.suspect('the test froze it')
    harm(rig)

    await until('the end is noticed', () => watch.get('goes') === undefined)
    expect(told).toBeGreaterThan(0)
    expect(watch.get('stays')).toBeDefined()
    expect(rig.fake.count('list')).toBeGreaterThan(1)
  },
)

it('detects a silent watch although its connection is open', async () => {
  const rig = await startKubeRig()
  const watch = await rig.openWatch({ silenceMs: 200 })

  rig.fake.watches.freeze()
  rig.put('unheard')

  await until('the watch was resumed', () => watch.get('unheard') !== undefined)
  expect(rig.fake.count('list')).toBe(1)
})

it('keeps a quiet watch that bookmarks show to be alive', async () => {
  const rig = await startKubeRig()
  const watch = await rig.openWatch({ silenceMs: 300 })
  // The test controls the watch's timers. Server messages still take real time, which those timers do not count.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())

  for (let beat = 0; beat < 12; beat += 1) {
    const sentAt = performance.now()
    rig.fake.watches.bookmark()
    while (performance.now() - watch.silentMs < sentAt) await new Promise(setImmediate)
    await vi.advanceTimersByTimeAsync(200)
  }
  expect(rig.fake.count('watch')).toBe(1)

  await vi.advanceTimersByTimeAsync(300)
  while (rig.fake.count('watch') === 1) await vi.advanceTimersByTimeAsync(10)
})

it('resumes from a bookmark if its own collection was quiet for longer than the server keeps history', async () => {
  const rig = await startKubeRig()
  const watch = await rig.openWatch()
  rig.fake.store.compact()
  rig.fake.watches.bookmark()
  rig.put('first')
  await until('the bookmark has passed', () => watch.get('first') !== undefined)

  rig.fake.watches.end()
  rig.put('second')

  await until('it has resumed', () => watch.get('second') !== undefined)
  expect(rig.fake.count('list')).toBe(1)
})

it('backs off from a server that refuses every watch', async () => {
  const rig = await startKubeRig()
  rig.fake.faults.plan({ verb: 'watch' }, { kind: 'status', status: 500 }, 1_000)
  const watch = await rig.watch({ backOff: { baseMs: 20, maxMs: 200 } })

  await until('it has tried some times', () => rig.fake.count('watch') >= 5)

  const [fourth = 0, fifth = 0] = rig.fake.log
    .filter(({ verb }) => verb === 'watch')
    .map(({ atMs }) => atMs)
    .slice(3)
  expect(fifth - fourth).toBeGreaterThan(40)
  rig.fake.faults.clear()
  rig.put('late')
  await until('it works again', () => watch.get('late') !== undefined)
})

it('survives an invalid object', async () => {
  const rig = await startKubeRig()
  const watch = await rig.openWatch()

  rig.fake.store.put(THINGS_PATH, { metadata: { name: 'broken', namespace: 7 } })
  rig.put('fine')

  await until('the next one is here', () => watch.get('fine') !== undefined)
  expect(watch.get('broken')).toBeUndefined()
})

it('drops the cached state of an object that becomes invalid', async () => {
  const rig = await startKubeRig()
  rig.put('changes', 'known')
  const watch = await rig.openWatch()
  expect(watch.get('changes')?.data).toBe('known')

  rig.fake.store.put(THINGS_PATH, { metadata: { name: 'changes', namespace: 7 } })

  await until('it is as good as gone', () => watch.get('changes') === undefined)
})

it('does not let the late end of an object take away its successor of the same name', async () => {
  const rig = await startKubeRig()
  const first = rig.put('again', 'first')
  const watch = await rig.openWatch()

  rig.fake.store.remove(THINGS_PATH, 'again')
  const second = rig.put('again', 'second')

  await until('the successor is here', () => watch.get('again')?.data === 'second')
  expect(second.metadata.uid).not.toBe(first.metadata.uid)
  expect(watch.get('again')?.metadata.uid).toBe(second.metadata.uid)
})

it('gives up its start by the caller’s deadline', async () => {
  const rig = await startKubeRig()
  rig.fake.faults.plan({ verb: 'list' }, { kind: 'silent' }, 1_000)

  await expect(rig.watch({}, AbortSignal.timeout(300))).rejects.toMatchObject({ name: 'TimeoutError' })
})

type Rig = Awaited<ReturnType<typeof startKubeRig>>
