import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { extract } from 'tar-stream'
import { expect, it, onTestFinished } from 'vitest'
import type { HeldEntries } from '../../contracts/events.ts'
import { ExecRequest } from '../../contracts/exec.ts'
import { spawnRunner } from '../../runtime/agent-host/toolbox/spawn-runner.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { aRoot } from './runner-fixture.ts'

/** A runner on a user's folder that contains a repository. */
async function aUserFolder() {
  const root = aRoot()
  for (const folder of ['.git', 'mine/.git', 'src']) mkdirSync(join(root, folder), { recursive: true })
  writeFileSync(join(root, '.git', 'config'), 'token')
  writeFileSync(join(root, 'src', 'a.txt'), 'a')
  const link = await spawnRunner({ backend: 'direct', toolRoots: [], log: silentLog })
  onTestFinished(() => link.close())
  const held: HeldEntries[] = []
  const layout = { mounts: [], readOnly: [], environment: {}, gitEntries: [] }
  await link.open(root, { layout, onHeld: (entries) => held.push(entries) })
  const run = (command: string) => link.exec(ExecRequest.parse({ command }), { onChunk: () => undefined })
  return { root, link, held, run }
}

it('reports a new git directory in the result and to AgentHost', async () => {
  const { root, held, run } = await aUserFolder()

  const result = await run('mkdir -p new/.git')

  expect(result.message).toMatch(/renamed to \*\.agentweaver-held: .*new\/\.git/)
  expect(held.flatMap(({ names }) => names).sort()).toEqual(['mine/.git', 'new/.git'])
  expect(existsSync(join(root, 'new', '.git'))).toBe(false)
  expect((await run('true')).message).toBeUndefined()
})

it('reports it once, however many commands end at the same time', async () => {
  const { held, run } = await aUserFolder()

  await Promise.all(Array.from({ length: 8 }, (_, index) => run(`mkdir -p d${index}/.git`)))

  const names = held.flatMap((entries) => entries.names)
  expect(new Set(names).size).toBe(names.length)
  expect(names).toHaveLength(9)
})

it('reports once that a folder could not be searched completely', async () => {
  const { held, run } = await aUserFolder()
  const name = 'x'.repeat(200)

  const result = await run(`for i in $(seq 25); do mkdir ${name}; cd ${name}; done; mkdir .git`)

  expect(result.message).toContain('too large or too deep to be searched for git directories')
  expect((await run('true')).message).toContain('too large or too deep')
  expect(held.filter(({ isComplete }) => !isComplete)).toHaveLength(1)
})

it('renames a bare repository created with file tools', async () => {
  const { root, link } = await aUserFolder()
  for (const path of ['bare/objects/x', 'bare/refs/x']) await link.file({ op: 'write', path })

  await link.file({ op: 'write', path: 'bare/HEAD' })

  expect(existsSync(join(root, 'bare', 'HEAD'))).toBe(false)
  expect(existsSync(join(root, 'bare', 'HEAD.agentweaver-held'))).toBe(true)
})

it('packs no git directory, and unpacks no archive', async () => {
  const { link } = await aUserFolder()
  const names: string[] = []
  const archive = extract()
  const reading = (async () => {
    for await (const entry of archive) {
      names.push(entry.header.name)
      for await (const _ of entry);
    }
  })()
  for await (const chunk of link.tarOut()) archive.write(chunk)
  archive.end(null)
  await reading

  const unpacked = await link.tarIn((async function* () {})())

  expect(names).toEqual(['mine/', 'src/', 'src/a.txt'])
  expect(unpacked.error).toMatchObject({ code: 'denied' })
})
