import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { temporaryFolder } from '../conformance/executor-cases/site.ts'
import { FIXTURES } from '../conformance/executor-cases/subject.ts'

const LEAKED = 57

it('closes descriptors that the service inherited from its parent', async () => {
  const workspace = await temporaryFolder()
  const secret = join(workspace, '..', `agentweaver-leak-${process.pid}`)
  await writeFile(secret, 'host secret')
  const fd = openSync(secret, 'r')
  const stdio = Array.from({ length: LEAKED + 1 }, (_, index) => (index === 1 ? 'pipe' : 'ignore')) as (
    | 'pipe'
    | 'ignore'
    | number
  )[]
  stdio[LEAKED] = fd

  const service = spawn(process.execPath, [join(FIXTURES, 'leak.ts'), workspace, String(LEAKED)], { stdio })
  const said = await text(service.stdout as NodeJS.ReadableStream)

  closeSync(fd)
  expect(await readFile(secret, 'utf8')).toBe('host secret')
  await rm(secret)
  await rm(workspace, { recursive: true })
  expect(said).toBe('/dev/null\n/dev/null\n')
})
