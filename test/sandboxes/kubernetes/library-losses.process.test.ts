import { KubeConfig, type KubernetesObject, makeInformer, Watch } from '@kubernetes/client-node'
import { describe, expect, it, onTestFinished } from 'vitest'
import { until } from '../../helpers/until.ts'
import { NAMESPACE, startKubeRig, THINGS_PATH } from './kube-rig.ts'

/**
 * Applies the same faults to the informer of `@kubernetes/client-node` and to our watch. The informer loses changes,
 * which is why `SharedWatch` replaces it.
 */
describe('the same harm, to the library’s informer and to our watch', () => {
  async function startBoth() {
    const rig = await startKubeRig()
    const config = new KubeConfig()
    config.loadFromClusterAndUser(
      { name: 'fake', server: rig.fake.url, skipTLSVerify: true },
      { name: 'user' },
    )
    const list = async () => (await fetch(rig.fake.url + THINGS_PATH)).json() as Promise<never>
    const theirs = makeInformer<KubernetesObject>(config, THINGS_PATH, list)
    const failures: unknown[] = []
    theirs.on('error', (error) => failures.push(error))
    await theirs.start()
    onTestFinished(() => theirs.stop())
    const ours = await rig.openWatch()
    await until('both streams are open', () => rig.fake.watches.count === 2)
    rig.put('control')
    await until('both follow', () => Boolean(theirs.get('control', NAMESPACE) && ours.get('control')))
    return { rig, theirs, ours, failures }
  }

  it('stays blind after a connection reset, and ours resumes', async () => {
    const { rig, theirs, ours, failures } = await startBoth()

    rig.fake.watches.reset()
    await until('the library has given up', () => failures.length > 0)
    rig.put('after')
    await until('ours has it', () => ours.get('after') !== undefined)

    expect(theirs.get('after', NAMESPACE)).toBeUndefined()
    expect(rig.fake.watches.count).toBe(1)
  })

  it('loses the event that was cut in its middle, and ours receives it again', async () => {
    const { rig, theirs, ours, failures } = await startBoth()

    rig.fake.watches.cutInEvent()
    rig.put('cut')
    rig.fake.watches.reset()
    await until('ours has it', () => ours.get('cut') !== undefined)
    await until('the library has given up', () => failures.length > 0)

    expect(theirs.get('cut', NAMESPACE)).toBeUndefined()
  })

  it('asks for no bookmarks, so it must list again when ours resumes', async () => {
    const { rig, theirs, ours } = await startBoth()
    rig.fake.store.compact()
    rig.fake.watches.bookmark()

    rig.fake.watches.end()
    rig.put('second')
    await until('both have it', () => Boolean(theirs.get('second', NAMESPACE) && ours.get('second')))

    const lists = rig.fake.urls.filter((url) => !url.includes('watch='))
    expect(lists.filter((url) => url.includes('limit='))).toHaveLength(1)
    expect(lists.filter((url) => !url.includes('limit='))).toHaveLength(2)
  })
})

describe('a watch on which nothing happens', () => {
  it('is cut by the library after 30 s, although the server keeps it: shown in a tenth of a second', async () => {
    const rig = await startKubeRig()
    const config = new KubeConfig()
    config.loadFromClusterAndUser(
      { name: 'fake', server: rig.fake.url, skipTLSVerify: true },
      { name: 'user' },
    )
    const watch = new Watch(config)
    expect(watch).toMatchObject({ requestTimeoutMs: 30_000 })
    Object.assign(watch, { requestTimeoutMs: 100 })

    const ended = Promise.withResolvers<unknown>()
    await watch.watch(THINGS_PATH, {}, () => undefined, ended.resolve)

    expect(await ended.promise).toMatchObject({ name: 'TimeoutError' })
  })

  it('is kept by ours for as long as the server sends bookmarks, which come every minute', async () => {
    const { WATCH_DEFAULTS } = await import('../../../runtime/sandboxes/kubernetes/client/shared-watch.ts')

    expect(WATCH_DEFAULTS.silenceMs).toBeGreaterThan(60_000)
    expect(WATCH_DEFAULTS.silenceMs).toBeLessThan(90_000)
  })
})
