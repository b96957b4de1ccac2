import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  constants,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { PathEngine } from '../../runtime/workspace/engines/path-engine.ts'
import { pathOf } from '../../runtime/workspace/parse-path.ts'
import { aWorkspace, SECRET } from './workspace-fixture.ts'

const SWAPPER = fileURLToPath(new URL('../fixtures/swap-names.ts', import.meta.url))
const ENGINES: readonly PathEngine['name'][] = ['openat2', 'walk']

/** Time limit for tricking code without handles: on a busy machine the swapping process seldom runs. */
const RACE_MS = 120_000

describe.each(ENGINES)('containment with the %s engine', (engine) => {
  it('never reads or changes a file outside the root, for any path', async () => {
    const { root, outside, workspace } = await aWorkspace(engine)
    mkdirSync(join(root, 'd'))
    symlinkSync('../outside', join(root, 'd', 'out'))
    symlinkSync('..', join(root, 'up'))

    await fc.assert(
      fc.asyncProperty(attackPath(), async (path) => {
        const read = await workspace.perform({ op: 'read', path })
        await workspace.perform({ op: 'write', path }, { payload: Buffer.from('evil') })
        await workspace.perform({ op: 'mkdir', path: `${path}/new` })
        await workspace.perform({ op: 'rename', from: path, to: 'moved' })
        await workspace.perform({ op: 'delete', path: `${path}/secret.txt` })

        expect(Buffer.from(read.payload).toString()).not.toContain(SECRET)
        expect(readdirSync(outside)).toEqual(['secret.txt'])
        expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe(SECRET)
        expect(readdirSync(join(root, '..')).sort()).toEqual(['outside', 'root'])
      }),
      { numRuns: 300 },
    )
  })

  it('does not depend on the spelling check', async () => {
    const { workspace } = await aWorkspace(engine)
    const climbing = pathOf(['..', 'outside', 'secret.txt'])

    expect(() => workspace.engine.open(climbing, constants.O_RDONLY)).toThrow(/EXDEV|outside the workspace/)
  })

  it('withstands a folder that is continuously swapped with a link', async () => {
    const { root, outside, workspace } = await aWorkspace(engine)
    await startSwapping(root)

    const seen = new Set<string>()
    const isMet = () => seen.has('written') && seen.has('symlink')
    const end = performance.now() + RACE_MS
    for (let round = 0; round < 4000 || (!isMet() && performance.now() < end); round++) {
      const read = await workspace.perform({ op: 'read', path: 'd/secret.txt' })
      const written = await workspace.perform(
        { op: 'write', path: `d/w${round % 8}` },
        { payload: Buffer.from('x') },
      )
      await workspace.perform({ op: 'mkdir', path: `d/m${round % 8}` })
      await workspace.perform({ op: 'rename', from: 'd/w1', to: `d/r${round % 8}` })
      await workspace.perform({ op: 'delete', path: 'd/r1', recursive: true })
      seen.add(Buffer.from(read.payload).toString())
      seen.add(written.result.ok ? 'written' : written.result.code)
    }

    expect(seen, 'both names were met').toContain('written')
    expect(seen).toContain('symlink')
    expect(seen).not.toContain(SECRET)
    expect(readdirSync(outside)).toEqual(['secret.txt'])
  })
})

describe('check, then use (control of the race)', () => {
  it('is tricked by the same swapping', async () => {
    const { root, outside } = await aWorkspace()
    await startSwapping(root)
    const end = performance.now() + RACE_MS
    let wasFooled = false

    for (let round = 0; performance.now() < end && !wasFooled; round++) {
      wasFooled = checkThenWrite(join(root, 'd'), `w${round % 8}`) && readdirSync(outside).length > 1
    }

    expect(wasFooled).toBe(true)
  })
})

/** Code without handles: checks whether the folder is a link, then opens a file below it. */
function checkThenWrite(folder: string, name: string): boolean {
  if (lstatSync(folder).isSymbolicLink()) return false
  writeFileSync(join(folder, name), 'x')
  return true
}

/** Continuously swaps the folder `d` with `link`, which points outside, until the test ends. */
async function startSwapping(root: string): Promise<void> {
  mkdirSync(join(root, 'd'))
  writeFileSync(join(root, 'd', 'secret.txt'), 'what lies inside')
  symlinkSync('../outside', join(root, 'link'))
  const swapper: ChildProcess = spawn(process.execPath, [SWAPPER, join(root, 'd'), join(root, 'link')], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  onTestFinished(async () => {
    swapper.kill('SIGKILL')
    if (swapper.exitCode === null && swapper.signalCode === null) await once(swapper, 'exit')
  })
  if (swapper.stdout) await once(swapper.stdout, 'data')
}

function attackPath(): fc.Arbitrary<string> {
  const pieces = [
    '..',
    '.',
    'd',
    'out',
    'up',
    'root',
    'outside',
    'secret.txt',
    'proc',
    'self',
    'cwd',
    'new',
    '\\',
    '\0',
  ]
  const separator = fc.constantFrom('/', '//', '/./', '\\', '')
  return fc
    .array(fc.tuple(fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...pieces) }, fc.string()), separator), {
      minLength: 1,
      maxLength: 8,
    })
    .map((parts) => parts.flat().join(''))
}
