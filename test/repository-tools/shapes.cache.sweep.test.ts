import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { shapesFolder } from '../../tools/azure-shapes/cache.ts'
import { checkShapes, loadShapes } from '../../tools/azure-shapes/check-shapes.ts'
import { POOL, POOL_ARGS, planOf } from '../infra/one-resource.ts'

const cache = mkdtempSync(join(tmpdir(), 'shapes-'))

beforeAll(() => loadShapes([POOL], cache))
afterAll(() => rmSync(cache, { recursive: true, force: true }))

describe('the cached schemas', () => {
  const fileOf = (folder: string, type: string) => {
    const [version = ''] = readdirSync(folder)
    const [, module, resource] = type.split(':')
    return join(folder, version, `${module}.${resource}.json`)
  }

  test("are in the user's cache, outside any clone", () => {
    expect(shapesFolder('/c')).toBe('/c/agentweaver-sandbox/shapes')
    expect(shapesFolder(undefined)).toMatch(/\.cache\/agentweaver-sandbox\/shapes$/)
    expect(shapesFolder('')).toMatch(/\.cache\/agentweaver-sandbox\/shapes$/)
  })

  test('are stored under the versions of their sources', () => {
    const [folder = ''] = readdirSync(cache)

    expect(folder).toMatch(/^3\.28\.0_24\.1\.0_[0-9a-f]{12}$/)
    expect(readdirSync(join(cache, folder)).filter((name) => !name.endsWith('.json'))).toEqual([])
  })

  test.each([
    ['torn', (text: string) => text.slice(0, text.length / 2)],
    ['edited', (text: string) => text.replace('"KataVmIsolation"', '"Anything"')],
    ['emptied', () => ''],
    ['another value', () => 'null'],
  ])('are rebuilt if a file is %s', async (_, spoil) => {
    const folder = mkdtempSync(join(tmpdir(), 'shapes-'))
    await loadShapes([POOL], folder)
    const file = fileOf(folder, POOL)
    const whole = readFileSync(file, 'utf8')
    writeFileSync(file, spoil(whole))

    const loaded = await loadShapes([POOL], folder)

    expect(checkShapes(planOf(POOL, { ...POOL_ARGS, workloadRuntime: 'Anything' }), loaded)).toHaveLength(1)
    expect(readFileSync(file, 'utf8')).toBe(whole)
    rmSync(folder, { recursive: true, force: true })
  })

  test('are complete after several concurrent writers, and no other file remains', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'shapes-'))
    const all = await Promise.all([1, 2, 3, 4].map(() => loadShapes([POOL], folder)))

    expect(all.map((loaded) => checkShapes(planOf(POOL, POOL_ARGS), loaded))).toEqual([[], [], [], []])
    expect(readdirSync(join(folder, readdirSync(folder)[0] ?? ''))).toEqual([
      'containerservice.AgentPool.json',
    ])
    rmSync(folder, { recursive: true, force: true })
  })

  test('are an error if the cache folder is not writable', async () => {
    const file = join(cache, 'a-file')
    mkdirSync(cache, { recursive: true })
    writeFileSync(file, '')

    await expect(loadShapes([POOL], file)).rejects.toThrow()
    rmSync(file)
  })
})
