import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Executor, ExecutorOptions } from '../../runtime/executors/executor.ts'
import { resolveHostRoots } from '../../runtime/executors/rootfs/host-roots.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { localSite, temporaryFolder } from '../conformance/executor-cases/site.ts'
import { execute, type Options } from '../conformance/executor-cases/subject.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'

const SECRET = 'the-secret-words'
const RUNGS = await Promise.all(
  ISOLATING_BACKENDS.map(async (backend) => ({
    backend,
    name: backend.name,
    isMissing: !(await backend.detect({ toolRoots: [] })).ok,
  })),
)

describe.each(RUNGS)('host folders in $name', ({ backend, isMissing }) => {
  let above: string
  let workspace: string
  const opened: Executor[] = []

  /** `allowed` contains a folder, a link out of it and a link inside it. `secret` is its sibling. */
  beforeEach(async () => {
    above = await temporaryFolder()
    workspace = join(above, 'workspace')
    for (const folder of ['workspace', 'allowed/inner', 'secret/deep', 'tool'])
      await mkdir(join(above, folder), { recursive: true })
    for (const folder of ['secret', 'secret/deep']) await writeFile(join(above, folder, 'data'), SECRET)
    await writeFile(join(above, 'allowed/inner/data'), 'public')
    await symlink(join(above, 'secret'), join(above, 'allowed/link'))
    await symlink('inner', join(above, 'allowed/stays'))
    await symlink('allowed', join(above, 'spelled'))
  })
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((executor) => executor.close()))
    await rm(above, { recursive: true })
  })

  async function create(options: Partial<ExecutorOptions>): Promise<Executor> {
    const executor = await backend.create({ workspace, toolRoots: [], log: silentLog, ...options })
    opened.push(executor)
    return executor
  }

  const ceiling = (...names: string[]) => resolveHostRoots(names.map((name) => join(above, name)))

  /** Reads `<folder>/data` with `folder` requested as a read-only root and `roots` as the ceiling. */
  async function read(folder: string, roots: string[], more: Options = {}) {
    const executor = await create({ hostRoots: await ceiling(...roots) })
    const path = join(above, folder)
    return execute(executor, `cat ${path}/data`, { readOnlyRoots: [path], ...more })
  }

  const REFUSED = { reason: 'spawn_failed', stdout: '' }

  it.skipIf(isMissing)(
    "are shown below a root of the ceiling, also if the root's path contains a link",
    async () => {
      expect(await read('allowed/inner', ['allowed'])).toMatchObject({ exitCode: 0, stdout: 'public' })
      expect(await read('spelled/inner', ['spelled'])).toMatchObject({ exitCode: 0, stdout: 'public' })
    },
  )

  it.skipIf(isMissing)('are rejected if they are reached through a link below the ceiling', async () => {
    const direct = await read('secret', ['secret'])
    const linked = [await read('allowed/link', ['allowed']), await read('allowed/link/deep', ['allowed'])]
    const staying = await read('allowed/stays', ['allowed'])

    expect(direct.stdout).toBe(SECRET)
    for (const outcome of [...linked, staying]) {
      expect(outcome).toMatchObject(REFUSED)
      expect(outcome.message).toContain('is reached through a link')
    }
  })

  it.skipIf(isMissing)('are rejected outside the ceiling, and without a ceiling', async () => {
    for (const roots of [['allowed'], ['sec'], []]) {
      const outcome = await read('secret', roots)

      expect(outcome).toMatchObject(REFUSED)
      expect(outcome.message).toContain('does not lie in a folder that the operator allows')
    }
  })

  it.skipIf(isMissing)('are rejected if the root was replaced since the ceiling was read', async () => {
    const executor = await create({ hostRoots: await ceiling('allowed') })
    await rename(join(above, 'allowed'), join(above, 'moved'))
    await symlink('secret', join(above, 'allowed'))

    const path = join(above, 'allowed')
    const outcome = await execute(executor, `cat ${path}/data`, { readOnlyRoots: [path] })

    expect(outcome).toMatchObject(REFUSED)
  })

  it.skipIf(isMissing)('are mounted once if one contains another', async () => {
    const outer = join(above, 'allowed')
    const readOnlyRoots = [join(outer, 'inner'), outer, `${outer}/`]
    const executor = await create({ hostRoots: await ceiling('allowed') })

    const outcome = await execute(executor, `cat ${outer}/inner/data; grep -c allowed /proc/self/mountinfo`, {
      readOnlyRoots,
    })

    expect(outcome.stdout).toBe('public1\n')
  })

  it.skipIf(isMissing)('are rejected if one would be mounted on a link inside another', async () => {
    const executor = await create({ hostRoots: await ceiling('allowed', 'allowed/link') })
    const readOnlyRoots = [join(above, 'allowed'), join(above, 'allowed/link')]

    const outcome = await execute(executor, 'echo ran', { readOnlyRoots })

    expect(outcome).toMatchObject(REFUSED)
    expect(outcome.message).toContain('where a link leads to it')
  })

  it.skipIf(isMissing)('are never another folder while they are swapped with a link', async () => {
    const stop = await localSite(join(above, 'allowed')).swap('swapped', join(above, 'secret'))

    const executor = await create({ hostRoots: await ceiling('allowed') })
    const path = join(above, 'allowed/swapped')
    const outcomes = await Promise.all(
      Array.from({ length: 25 }, () => execute(executor, `cat ${path}/data`, { readOnlyRoots: [path] })),
    )
    await stop()

    for (const outcome of outcomes) expect(outcome.stdout).not.toContain(SECRET)
  })

  it.skipIf(isMissing)('do not replace a tool folder that was swapped', async () => {
    const tool = join(above, 'tool')
    const executor = await create({ toolRoots: [tool] })
    await rm(tool, { recursive: true })
    await symlink('secret', tool)

    const outcome = await execute(executor, `cat ${tool}/data`)

    expect(outcome).toMatchObject(REFUSED)
    expect(outcome.message).toContain(`${tool} was replaced by another process`)
  })
})
