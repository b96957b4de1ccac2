import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { FIXTURES, TOOL_ROOTS } from '../conformance/executor-cases/subject.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'
import { aRunner } from './runner-fixture.ts'

const modeOf = (root: string, path: string) => statSync(join(root, path)).mode & 0o7777
const bitsOf = (root: string, path: string) => modeOf(root, path) & 0o6000

const RUNGS = await Promise.all(
  ISOLATING_BACKENDS.map(async (backend) => ({
    backend: backend.name,
    isMissing: !(await backend.detect({ toolRoots: TOOL_ROOTS })).ok,
  })),
)

describe('a command without a filter', () => {
  it('leaves no set-user-ID or set-group-ID file, and keeps set-group-ID folders', async () => {
    const { root, run } = await aRunner()
    const command =
      'cp /bin/sh u && cp /bin/sh g && chmod 4755 u && chmod 2755 g && mkdir -m 2775 d && stat -c %a u g d'

    const { stdout } = await run(command)

    expect(stdout).toBe('4755\n2755\n2775\n')
    expect([modeOf(root, 'u'), modeOf(root, 'g'), modeOf(root, 'd')]).toEqual([0o755, 0o755, 0o2775])
  })

  it('leaves none when it is stopped, and none of many concurrent ones', async () => {
    const { root, run } = await aRunner()
    const make = (name: string) => `cp /bin/sh ${name}; chmod 4755 ${name}`

    // A busy machine may not have created the file within the first timeouts.
    for (const timeoutMs of [500, 5_000, 50_000]) {
      const stopped = await run(`${make('stopped')}; touch made; sleep 600`, { timeoutMs })
      expect(stopped.result.timedOut).toBe(true)
      if (existsSync(join(root, 'made'))) break
    }
    await Promise.all(Array.from({ length: 8 }, (_, index) => run(make(`x${index}`))))

    for (const name of ['stopped', 'x0', 'x7']) expect([name, bitsOf(root, name)]).toEqual([name, 0])
  })

  it('is rejected if the workspace is too deep to search', async () => {
    const { run } = await aRunner()
    const deep = Array<string>(1100).fill('d').join('/')

    await run(`mkdir -p ${deep}`)
    const { result } = await run('echo ran')

    expect(result).toMatchObject({ reason: 'spawn_failed', exitCode: null })
    expect(result.message).toContain('cannot be searched for set-user-ID files')
  })
})

describe.each(RUNGS)('a command in $backend', ({ backend, isMissing }) => {
  const start = (prepare?: (root: string) => void) =>
    aRunner({ backend, toolRoots: TOOL_ROOTS, ...(prepare && { prepare }) })

  it.skipIf(isMissing)('cannot set the bits, not on a folder either', async () => {
    const { root, run } = await start()

    const { stdout } = await run(
      'cp /bin/sh x; mkdir d; for mode in 4755 2755; do for name in x d; do chmod $mode $name || echo refused; done; done',
    )

    expect(stdout).toBe('refused\n'.repeat(4))
    expect(bitsOf(root, 'x')).toBe(0)
  })

  it.skipIf(isMissing)('can set the group bit if folders have it, and it stays only on folders', async () => {
    const { root, run } = await start((folder) => {
      mkdirSync(join(folder, 'team'))
      chmodSync(join(folder, 'team'), 0o2775)
    })

    const { stdout } = await run(
      'cp /bin/sh x && mkdir d && chmod 2755 x d && stat -c %a x d && cp -r team copy; chmod 4755 x || echo refused',
    )

    expect(stdout).toBe('2755\n2755\nrefused\n')
    expect([bitsOf(root, 'x'), bitsOf(root, 'd'), bitsOf(root, 'team')]).toEqual([0, 0o2000, 0o2000])
  })

  it.skipIf(isMissing)('clears the bits of an existing file by changing the file', async () => {
    const { root, run } = await start((folder) => {
      for (const name of ['kept', 'mapped', 'moved']) {
        copyFileSync('/bin/sh', join(folder, name))
        chmodSync(join(folder, name), 0o4755)
      }
    })

    const { stdout } = await run(
      `node ${FIXTURES}/map-write.mjs mapped EVIL && stat -c %a mapped && mv moved elsewhere && stat -c %a elsewhere`,
    )

    // Control: neither command clears the bits by itself.
    expect(stdout).toBe('4755\n4755\n')
    expect(readFileSync(join(root, 'mapped')).subarray(0, 4).toString()).toBe('EVIL')
    expect([bitsOf(root, 'kept'), bitsOf(root, 'mapped'), bitsOf(root, 'elsewhere')]).toEqual([0o4000, 0, 0])
  })
})

it('writing a file with the file tools clears its bits', async () => {
  const { link, root } = await aRunner({
    prepare: (folder) => {
      writeFileSync(join(folder, 'x'), 'before')
      chmodSync(join(folder, 'x'), 0o6755)
    },
  })

  await link.file({ op: 'write', path: 'x' }, { payload: Buffer.from('after') })

  expect(readFileSync(join(root, 'x'), 'utf8')).toBe('after')
  expect(modeOf(root, 'x')).toBe(0o755)
})
