import type { RunEnvelope } from '../../../contracts/events.ts'
import type { Store } from '../../store/store.ts'

const PAGE = 200

/** Stored events after a sequence, then new ones as they are committed, page by page as the reader pulls. */
export async function* subscribeToRun(
  store: Store,
  runId: string,
  from: { readonly after: number; readonly signal: AbortSignal },
): AsyncGenerator<RunEnvelope> {
  let after = from.after
  let changed = Promise.withResolvers<void>()
  const wake = () => changed.resolve()
  const unsubscribe = store.onEvents(runId, wake)
  from.signal.addEventListener('abort', wake, { once: true })
  try {
    while (!from.signal.aborted) {
      changed = Promise.withResolvers<void>()
      const page = await store.readEvents(runId, after, PAGE)
      for (const envelope of page) {
        yield envelope
        after = envelope.sequence
        if (envelope.event.type === 'done') return
      }
      if (page.length === 0) await changed.promise
    }
  } finally {
    unsubscribe()
    from.signal.removeEventListener('abort', wake)
  }
}
