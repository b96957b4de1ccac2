import type { HostToRunner } from '../../contracts/runner.ts'
import type { ArchiveSummary } from '../workspace/archive/archive-summary.ts'
import type { ManifestTaker } from '../workspace/snapshot/manifest-taker.ts'
import type { Bound } from './binding.ts'
import type { Work } from './connection.ts'
import type { ServeContext } from './serve-context.ts'
import { NOT_OPEN } from './serve-file.ts'
import { LIMITS, NOTHING, sendStream, tarResult, walkOptions } from './serve-tar.ts'

type Stream = { readonly chunks: AsyncIterable<Uint8Array>; readonly summary: ArchiveSummary }

export const serveManifest = (context: ServeContext, id: string): Promise<void> =>
  serve(context, id, ({ workspace, taker }, work) =>
    taker.take({ limits: LIMITS, ...walkOptions(workspace, { work, log: context.log }) }),
  )

export const servePack = (
  context: ServeContext,
  { id, contents }: HostToRunner & { type: 'pack' },
): Promise<void> => serve(context, id, ({ taker }, { signal }) => taker.pack(contents, { signal }))

type Open = Pick<Bound, 'workspace'> & { readonly taker: ManifestTaker }

function serve(
  { connection, binding }: ServeContext,
  id: string,
  start: (open: Open, work: Work) => Stream,
): Promise<void> {
  return connection.serve(id, async (work) => {
    const { bound } = binding
    if (!bound) return connection.send(tarResult(id, NOTHING, NOT_OPEN))
    const { workspace } = bound
    return sendStream(connection, work, start({ workspace, taker: await bound.manifests() }, work))
  })
}
