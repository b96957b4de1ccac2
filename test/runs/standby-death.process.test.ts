import { once } from 'node:events'
import { mkdtempSync, readdirSync, readlinkSync, realpathSync, rmSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { errnoOf } from '../../runtime/kit/errors.ts'
import { SANDBOX_FOLDER_PREFIX } from '../../runtime/sandboxes/local/sandbox-folder.ts'
import { until } from '../helpers/until.ts'
import { startService } from './service-rig.ts'

/** Processes whose working folder is this one. */
const processesIn = (folder: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return readlinkSync(`/proc/${pid}/cwd`) === folder
      } catch (error) {
        if (errnoOf(error) === undefined) throw error
        return false
      }
    })

async function isInStandby(folder: string): Promise<boolean> {
  try {
    const request = get({ socketPath: join(folder, 'host.sock'), path: '/healthz', agent: false })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    return (await response.setEncoding('utf8').toArray()).join('').includes('"standby"')
  } catch {
    return false
  }
}

it('leaves no folder when a sandbox in standby dies before the service is closed', async () => {
  const before = process.env['TMPDIR']
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'aw-standby-')))
  process.env['TMPDIR'] = folder
  onTestFinished(() => {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
    rmSync(folder, { recursive: true })
  })
  const sandboxes = () => readdirSync(folder).filter((name) => name.startsWith(SANDBOX_FOLDER_PREFIX))
  const { close } = await startService({ AGENTWEAVER_LOCAL_WARM: '2' })
  await until('both sandboxes are in standby', async () => {
    const states = await Promise.all(sandboxes().map((name) => isInStandby(join(folder, name))))
    return states.filter(Boolean).length === 2
  })
  const [dying = ''] = sandboxes()

  const processes = processesIn(join(folder, dying))
  expect(processes, 'the control: there is something to kill').not.toEqual([])
  for (const pid of processes) process.kill(pid, 'SIGKILL')
  await until('its processes are gone', () => processesIn(join(folder, dying)).length === 0)
  await close()

  expect(sandboxes()).toEqual([])
})
