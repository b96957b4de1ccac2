import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { freePort } from '../../helpers/free-port.ts'
import { processesOf } from './processes.ts'
import { startReplica } from './replica.ts'

it('has one process after several faults have ended it at the same time', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-replica-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const program = join(folder, 'service.mjs')
  writeFileSync(program, "console.log('ready'); setInterval(() => undefined, 1000)")
  const problems: string[] = []
  const replica = await startReplica({
    name: 'api-1',
    program,
    port: await freePort('127.0.0.1'),
    logFile: join(folder, 'log'),
    env: {},
    onUnasked: (how) => problems.push(how),
  })
  onTestFinished(() => replica.kill())
  const first = replica.pid()

  await Promise.all([1, 2, 3].map(() => replica.endAndStart('SIGKILL', 0)))

  const alive = processesOf(basename(folder)).map(({ pid }) => pid)
  expect(alive).toEqual([replica.pid()])
  expect(alive).not.toContain(first)
  expect(problems).toEqual([])
})
