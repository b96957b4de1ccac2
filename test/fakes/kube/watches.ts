import type { ServerResponse } from 'node:http'
import type { Change, ObjectStore } from './object-store.ts'

type OpenWatch = {
  readonly collection: string
  readonly wantsBookmarks: boolean
  readonly response: ServerResponse
  readonly stop: () => void
}

/** The open watches, with functions that disturb them. */
export function createWatches(store: ObjectStore) {
  const open = new Set<OpenWatch>()
  let cutAfter = Number.POSITIVE_INFINITY

  const line = (type: string, object: unknown) => `${JSON.stringify({ type, object })}\n`

  function send(watch: OpenWatch, { type, object }: Change): void {
    const text = line(type, object)
    if (cutAfter === 0) {
      cutAfter = Number.POSITIVE_INFINITY
      watch.response.write(text.slice(0, text.length / 2), () => watch.response.destroy())
      return
    }
    cutAfter -= 1
    watch.response.write(text)
  }

  function finish(watch: OpenWatch, last: string): void {
    watch.stop()
    watch.response.end(last)
  }

  return {
    get count(): number {
      return open.size
    },
    serve(collection: string, response: ServerResponse, query: URLSearchParams): void {
      const from = Number(query.get('resourceVersion') || store.version)
      response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders()
      if (from < store.oldest) {
        const status = { kind: 'Status', status: 'Failure', code: 410, reason: 'Expired' }
        response.end(line('ERROR', { ...status, message: `too old resource version: ${from}` }))
        return
      }
      const unsubscribe = store.onChange((change) => {
        if (change.collection === collection) send(watch, change)
      })
      const seconds = Number(query.get('timeoutSeconds') ?? 300)
      const timeout = setTimeout(() => {
        finish(watch, watch.wantsBookmarks ? bookmark() : '')
      }, seconds * 1000)
      const watch: OpenWatch = {
        collection,
        wantsBookmarks: query.get('allowWatchBookmarks') === 'true',
        response,
        stop() {
          clearTimeout(timeout)
          unsubscribe()
          open.delete(watch)
        },
      }
      open.add(watch)
      response.on('close', watch.stop)
      for (const change of store.since(collection, from)) send(watch, change)
    },
    /** The server sends nothing any more on the watches that are open, and keeps them open. */
    freeze(): void {
      for (const watch of [...open]) watch.stop()
    },
    /** The connection of every watch is reset. */
    reset(): void {
      for (const { response } of [...open]) response.socket?.resetAndDestroy()
    },
    /** Every watch ends in order, as when its time is over. */
    end(): void {
      for (const watch of [...open]) finish(watch, '')
    },
    /** After `events` more events the next one is cut in its middle, once. */
    cutInEvent(events = 0): void {
      cutAfter = events
    },
    bookmark(): void {
      for (const { response, wantsBookmarks } of open) if (wantsBookmarks) response.write(bookmark())
    },
    /** Sends 410 in the stream, as the server does for a version that was compacted while it waited. */
    expire(): void {
      const status = { kind: 'Status', status: 'Failure', code: 410, reason: 'Expired', message: 'too old' }
      for (const watch of [...open]) finish(watch, line('ERROR', status))
    },
  }

  function bookmark(): string {
    return line('BOOKMARK', { metadata: { resourceVersion: String(store.version) } })
  }
}
