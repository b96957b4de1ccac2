import { present } from '../../../kit/present.ts'
import type { RunRow, Store } from '../../../store/store.ts'

const PER_PAGE = 200

type Page<T> = { readonly items: readonly T[]; readonly next?: string }
/** Where the next page begins, and how long it may be. */
export type PageOf = { readonly after?: string; readonly limit: number }

/** The items of all pages, read one after the other. */
export async function* pagesOf<T>(read: (page: PageOf) => Promise<Page<T>>): AsyncGenerator<T> {
  for (let after: string | undefined; ; ) {
    const page = await read({ limit: PER_PAGE, ...present({ after }) })
    yield* page.items
    if (page.next === undefined) return
    after = page.next
  }
}

/** Runs and sandboxes of an owner. */
export async function* runsOf(store: Pick<Store, 'listRuns'>, owner: string): AsyncGenerator<RunRow> {
  for (const kind of ['agent', 'command'] as const) {
    yield* pagesOf((page) => store.listRuns({ owner, kind, ...page }))
  }
}
