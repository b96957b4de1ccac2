import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { ExecRequest } from '../../contracts/exec.ts'
import { processesMarked } from '../../runtime/executors/process/process-tree.ts'
import { supervise } from '../../runtime/executors/process/supervise.ts'
import { until } from '../helpers/until.ts'

/** A launcher that is killed as soon as it has a child, which has not asked to die with it and keeps the outputs open. */
it('ends a command whose launcher is killed before the sandbox is ready, and leaves no process', async () => {
  const id = randomUUID()
  const marker = `LAUNCH=${id}`

  const result = await supervise(
    {
      file: '/bin/sh',
      args: ['-c', 'setsid sleep 86400 & kill -9 $$'],
      env: { PATH: '/usr/bin:/bin', LAUNCH: id },
      hasPidNamespace: true,
      marker,
    },
    ExecRequest.parse({ command: 'true', timeoutMs: 170_000 }),
    { onChunk: () => undefined },
  )

  expect(result).toMatchObject({ reason: 'spawn_failed', message: 'the launcher exited with SIGKILL' })
  await until('the child is gone', () => processesMarked(marker).length === 0)
})
