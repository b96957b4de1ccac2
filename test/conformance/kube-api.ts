import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  createKubeApi,
  type KubeApi,
  type WatchEvent,
} from '../../runtime/sandboxes/kubernetes/client/kube-api.ts'
import type { KubeConnection } from '../../runtime/sandboxes/kubernetes/client/kube-connection.ts'
import type { Resource } from '../../runtime/sandboxes/kubernetes/client/resource.ts'

export type KubeApiSubject = {
  readonly connection: KubeConnection
  readonly namespace: string
  /** A collection, and a resource version that the server has already discarded. */
  readonly forgotten: { readonly resource: Resource; readonly version: string }
  readonly close?: () => Promise<void>
}

type Item = { metadata: { name: string; uid: string; resourceVersion: string; deletionTimestamp?: string } }
const WAIT_MS = 60_000

/**
 * The behaviour of an API server that our client depends on. Runs against a real server and against the fake of
 * the unit tests.
 */
export function testKubeApi(title: string, open: () => Promise<KubeApiSubject>): void {
  describe(`${title}, as an API server`, () => {
    let subject: KubeApiSubject
    let api: KubeApi
    let maps: Resource
    const signal = () => AbortSignal.timeout(WAIT_MS)
    const named = (name: string, more: object = {}) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name, namespace: subject.namespace },
      ...more,
    })
    const unique = (prefix: string) => `${prefix}-${randomUUID().slice(0, 8)}`
    const create = async (name: string, more: object = {}) =>
      (await api.create(maps, named(name, more), signal())) as Item

    beforeAll(async () => {
      subject = await open()
      api = createKubeApi(subject.connection)
      maps = { apiVersion: 'v1', plural: 'configmaps', namespace: subject.namespace }
    })
    afterAll(async () => {
      await api.close()
      await subject.close?.()
    })

    type Watching = { from: string; resource?: Resource; timeoutSeconds?: number }
    async function watchUntil(watching: Watching, isLast: (event: WatchEvent) => boolean) {
      const { from, resource = maps, timeoutSeconds = 60 } = watching
      const stop = new AbortController()
      const seen: WatchEvent[] = []
      const options = { fresh: false, onBytes: () => undefined, timeoutSeconds, resourceVersion: from }
      const all = AbortSignal.any([stop.signal, signal()])
      for await (const event of api.watch(resource, { ...options, signal: all })) {
        seen.push(event)
        if (isLast(event)) break
      }
      stop.abort()
      return seen
    }
    const nameOf = ({ object }: WatchEvent) => (object as Item).metadata.name

    it('assigns a UID and a resource version, and returns the object', async () => {
      const name = unique('made')

      const made = await create(name)

      expect(made.metadata.uid).toMatch(/^[0-9a-f-]{36}$/)
      expect(await api.get(maps, name, signal())).toMatchObject({ metadata: made.metadata })
    })

    it('returns undefined for an object that does not exist', async () => {
      expect(await api.get(maps, unique('absent'), signal())).toBeUndefined()
    })

    it('serves reads from its watch cache, and undefined for objects that do not exist', async () => {
      const name = unique('cached')
      const { metadata } = await create(name)
      await watchUntil(
        { from: String(Number(metadata.resourceVersion) - 1) },
        (event) => nameOf(event) === name,
      )

      expect(await api.getCached(maps, name, signal())).toMatchObject({ metadata })
      expect(await api.getCached(maps, unique('absent'), signal())).toBeUndefined()
    })

    it('rejects a second object of the same name with AlreadyExists', async () => {
      const name = unique('twice')
      await create(name)

      await expect(create(name)).rejects.toMatchObject({ status: 409, reason: 'AlreadyExists' })
    })

    it('applies a merge patch, and rejects one with another UID', async () => {
      const name = unique('patched')
      const { metadata } = await create(name, { data: { kept: 'yes', changed: 'no' } })
      const at = { resource: maps, name }

      const body = { metadata: { uid: metadata.uid }, data: { changed: 'yes' } }
      const changed = await api.patch(at, body, signal())
      const foreign = api.patch(at, { metadata: { uid: randomUUID() }, data: { changed: 'again' } }, signal())

      expect(changed).toMatchObject({ data: { kept: 'yes', changed: 'yes' } })
      await expect(foreign).rejects.toMatchObject({ status: 422, reason: 'Invalid' })
      expect(await api.get(maps, name, signal())).toMatchObject({ data: { changed: 'yes' } })
    })

    it('deletes an object only with its UID, and returns 404 the second time', async () => {
      const name = unique('deleted')
      const { metadata } = await create(name)
      const at = { resource: maps, name }

      const foreign = api.delete(at, { uid: randomUUID(), propagation: 'Background' }, signal())
      await expect(foreign).rejects.toMatchObject({ status: 409, reason: 'Conflict' })
      await api.delete(at, { uid: metadata.uid, propagation: 'Background' }, signal())
      const again = api.delete(at, { uid: metadata.uid, propagation: 'Background' }, signal())

      await expect(again).rejects.toMatchObject({ status: 404 })
    })

    it('lists every object exactly once across pages', async () => {
      const names = [unique('page'), unique('page'), unique('page')]
      for (const name of names) await create(name)
      const found: string[] = []

      let next: string | undefined
      do {
        const page = await api.list(maps, { limit: 2, continue: next }, signal())
        expect(page.items.length).toBeLessThanOrEqual(2)
        found.push(...page.items.map((item) => (item as Item).metadata.name))
        next = page.continue
      } while (next)

      expect(found.filter((name) => names.includes(name)).sort()).toEqual(names.toSorted())
      expect(new Set(found).size).toBe(found.length)
    })

    it('sends every change after a resource version in order, and none before it', async () => {
      const earlier = await create(unique('earlier'))
      const name = unique('watched')
      const made = await create(name)
      await api.patch({ resource: maps, name }, { data: { a: '1' } }, signal())
      const { uid } = made.metadata
      await api.delete({ resource: maps, name }, { uid, propagation: 'Background' }, signal())

      const isEnd = (event: WatchEvent) => event.type === 'DELETED' && nameOf(event) === name
      const seen = await watchUntil({ from: earlier.metadata.resourceVersion }, isEnd)

      const own = seen.filter((event) => event.type !== 'BOOKMARK' && nameOf(event) === name)
      expect(own.map(({ type }) => type)).toEqual(['ADDED', 'MODIFIED', 'DELETED'])
      expect(seen.map(nameOf)).not.toContain(earlier.metadata.name)
      const versions = own.map(({ object }) => Number((object as Item).metadata.resourceVersion))
      expect(versions).toEqual(versions.toSorted((a, b) => a - b))
    })

    it('sends 410 in the stream if a resource version is too old', async () => {
      const { resource, version } = subject.forgotten
      const [event] = await watchUntil({ from: version, resource }, () => true)

      expect(event).toMatchObject({ type: 'ERROR', object: { code: 410, reason: 'Expired' } })
    })

    it('ends a watch normally at its timeout', async () => {
      const { metadata } = await create(unique('timed'))

      const watching = { from: metadata.resourceVersion, timeoutSeconds: 1 }

      const seen = await watchUntil(watching, () => false)

      expect(seen.filter(({ type }) => type === 'ERROR')).toEqual([])
    })

    it('sets a deletion timestamp on an object that is deleted in the foreground', async () => {
      const name = unique('foreground')
      const owner = await create(name)
      const { uid } = owner.metadata

      const deleted = await api.delete({ resource: maps, name }, { uid, propagation: 'Foreground' }, signal())

      expect((deleted as Item).metadata.deletionTimestamp).toMatch(/^\d{4}-\d\d-\d\dT/)
    })
  })
}
