import type { ExecRequest, ExecResult, Isolation } from '../../contracts/exec.ts'
import type { ExecIo } from '../../contracts/toolbox.ts'
import { bestEffort } from '../kit/best-effort.ts'
import { messageOf } from '../kit/errors.ts'
import type { Log } from '../kit/log.ts'
import type { Executor } from './executor.ts'
import { inheritedDescriptors } from './process/inherited-descriptors.ts'
import { type Launch, notStarted, supervise } from './process/supervise.ts'
import { containedPath } from './rootfs/request-mounts.ts'

interface ExecutorParts {
  readonly isolation: Isolation
  /** How to start one command in `directory`, a contained path below the workspace. */
  readonly launch: (request: ExecRequest, directory: string) => Promise<Launch | { problem: string }>
  /** Removes what the backend made on disk. */
  readonly remove: () => Promise<void>
  readonly log: Log
}

/** An executor out of a backend's way to launch: everything else is alike for all. */
export function createExecutor({ isolation, launch, remove, log }: ExecutorParts): Executor {
  const closing = new AbortController()
  const inherited = inheritedDescriptors()
  const running = new Set<Promise<unknown>>()

  async function run(request: ExecRequest, io: ExecIo): Promise<ExecResult> {
    const directory = containedPath(request.directory)
    if (directory === undefined)
      return notStarted(
        'spawn_failed',
        `the working directory ${request.directory} leads out of the workspace`,
      )
    const planned = await launch(request, directory).catch((error) => ({ problem: messageOf(error) }))
    if ('problem' in planned) return notStarted('spawn_failed', planned.problem)
    const signal = io.signal ? AbortSignal.any([io.signal, closing.signal]) : closing.signal
    return supervise({ ...planned, inherited }, request, { ...io, signal })
  }

  return {
    isolation,
    run(request, io) {
      const work = run(request, io)
      running.add(work)
      const done = () => running.delete(work)
      work.then(done, done)
      return work
    },
    async close() {
      closing.abort()
      await Promise.allSettled(running)
      await bestEffort(log, 'remove the sandbox skeleton', remove)
    },
  }
}
