import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../conformance/executor-cases/site.ts'
import { FIXTURES } from '../conformance/executor-cases/subject.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'
import { until } from '../helpers/until.ts'
import { processesMentioning, processesNaming } from './processes.ts'

const aMark = () => `86400.${randomInt(1e12)}`

/** A new process shows its command line late, so one check is not enough. */
async function untilGoneForGood(mark: string) {
  let looks = 0
  await until('every process is gone', () => {
    looks = processesMentioning(mark).length === 0 ? looks + 1 : 0
    return looks === 20
  })
  expect(processesMentioning(mark)).toEqual([])
}

async function startForever(backend: string, mark: string, count: number) {
  const workspace = await temporaryFolder()
  const args = [join(FIXTURES, 'run-forever.ts'), backend, workspace, mark, String(count)]
  // Temporary files go into the workspace, so that a killed service leaves none elsewhere.
  const env = { PATH: '/usr/bin:/bin', TMPDIR: workspace }
  const service: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env })
  if (service.stdout) await once(service.stdout, 'data')
  return { service, clean: () => rm(workspace, { recursive: true, force: true, maxRetries: 5 }) }
}

for (const backend of ISOLATING_BACKENDS) {
  const detection = await backend.detect({ toolRoots: [] })
  const title = detection.ok ? backend.name : `${backend.name} (skipped: ${detection.reason})`

  describe.skipIf(!detection.ok)(`${title}, if the service is killed`, () => {
    it('leaves no command running', async () => {
      const mark = aMark()
      const { service, clean } = await startForever(backend.name, mark, 3)
      await until('all commands run', () => processesNaming(`sleep\0${mark}`).length === 6)

      service.kill('SIGKILL')

      await untilGoneForGood(mark)
      await clean()
    })

    it.each([0, 2, 5, 10, 20, 40])(
      'starts no command after its death, %i ms into many starts',
      async (ms) => {
        const mark = aMark()
        const { service, clean } = await startForever(backend.name, mark, 20)

        await pause(ms)
        service.kill('SIGKILL')
        await once(service, 'exit')

        await untilGoneForGood(mark)
        expect(processesMentioning(mark)).toEqual([])
        await clean()
      },
    )
  })
}
