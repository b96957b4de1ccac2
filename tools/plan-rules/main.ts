import { readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Plan } from '../../contracts/planned-resource.ts'
import { shapesFolder } from '../azure-shapes/cache.ts'
import { loadShapes } from '../azure-shapes/check-shapes.ts'
import { checkPlan } from './check-plan.ts'

/**
 * `npm run plan:rules [-- <stack>…]`: checks written plans, all or the named ones, against the rules and Azure's types.
 */
const PLANS = resolve(import.meta.dirname, '../../plans')

const named = process.argv.slice(2)
const files = named.length > 0 ? named.map((stack) => `${stack}.json`) : await readdir(PLANS)
for (const file of files.filter((name) => name.endsWith('.json'))) {
  const plan = JSON.parse(await readFile(join(PLANS, file), 'utf8')) as Plan
  const types = plan.resources.map(({ type }) => type)
  const { text, isSound } = checkPlan(
    plan,
    await loadShapes(types, shapesFolder(process.env['XDG_CACHE_HOME'])),
  )
  process.stdout.write(`${text}\n`)
  if (!isSound) process.exitCode = 1
}
