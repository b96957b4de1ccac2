import type { RunEnvelope } from '../../../../contracts/events.ts'
import type { Store } from '../../../store/store.ts'
import { EventTail } from './event-tail.ts'

const PAGE = 200

/**
 * Stored events after a sequence, then new ones as they are committed, at the reader's pace. After the end of the
 * store, commits of this process are passed on directly, and the store is read again if one is missing.
 */
export async function* subscribeToRun(
  store: Pick<Store, 'readEvents' | 'onEvents'>,
  runId: string,
  from: { readonly after: number; readonly signal: AbortSignal },
): AsyncGenerator<RunEnvelope> {
  let after = from.after
  const tail = new EventTail(PAGE)
  const unsubscribe = store.onEvents(runId, (committed) => tail.offer(committed))
  const wake = () => tail.wake()
  from.signal.addEventListener('abort', wake, { once: true })
  try {
    while (!from.signal.aborted) {
      const news = tail.take(after) ?? (await readPage(after))
      for (const envelope of news) {
        yield envelope
        after = envelope.sequence
        if (envelope.event.type === 'done') return
      }
      if (news.length === 0) await tail.changed()
    }
  } finally {
    unsubscribe()
    from.signal.removeEventListener('abort', wake)
  }

  /** A full page is not the end: the next ones are read too. */
  async function readPage(last: number): Promise<RunEnvelope[]> {
    tail.startOver()
    const page = await store.readEvents(runId, last, PAGE)
    if (page.length === PAGE) tail.offer()
    return page
  }
}
