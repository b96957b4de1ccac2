import { readdir } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { Plan } from '../../contracts/planned-resource.ts'
import { comparePlans, destroyed } from './compare-plans.ts'
import { ProgramError } from './engine/run-program.ts'
import { makePlan } from './make-plan.ts'
import { renderPage } from './page.ts'
import { reviewPlan } from './review.ts'
import { readAtRevision, readStored, serialize, writeStored } from './stored-plan.ts'

const USAGE = `npm run plan -- [--stack <name>]... [--markdown | --json] [--accept <name>]...
  prints what a stack would make and writes plans/<stack>.json, without Azure
npm run plan:check -- [--stack <name>]... [--base <revision>] [--accept <name>]...
  fails where plans/<stack>.json is not what the program makes, and where something protected would be replaced or
  deleted against the committed plan, or against the one at <revision>

  --accept <name>   a protected resource that may go, because somebody decided so
`
const EXIT = { different: 1, usage: 2 } as const

interface Options {
  readonly root: string
  readonly form: 'markdown' | 'plain' | 'json'
  readonly isCheck: boolean
  readonly base: string | undefined
  readonly accepted: readonly string[]
}

/** Plans one stack. Returns whether the plan passes. */
async function planStack(stack: string, options: Options): Promise<boolean> {
  const { root, base, isCheck } = options
  const plan = await makePlan(root, stack)
  const stored = await readStored(root, stack)
  const previous = base === undefined ? stored : await readAtRevision(root, base, stack)
  const changes = previous === undefined ? [] : comparePlans(JSON.parse(previous) as Plan, plan)
  const lost = destroyed(changes.filter(({ name }) => !options.accepted.includes(name)))
  for (const one of lost) process.stderr.write(`${stack}: ${one}\n`)
  if (isCheck) return isAsCommitted(stack, plan, stored) && lost.length === 0
  if (options.form === 'json') process.stdout.write(serialize(plan))
  else process.stdout.write(renderPage(reviewPlan(plan), changes, options.form))
  if (lost.length > 0) {
    process.stderr.write(`${stack}: plans/${stack}.json stays as it is. --accept <name> lets one go.\n`)
    return false
  }
  if (serialize(plan) !== stored)
    process.stderr.write(`wrote ${await writeStored(root, stack, serialize(plan))}\n`)
  return true
}

function isAsCommitted(stack: string, plan: Plan, stored: string | undefined): boolean {
  if (stored === serialize(plan)) {
    process.stdout.write(`${stack}: as committed, ${plan.resources.length} resources and components\n`)
    return true
  }
  const changes = stored === undefined ? [] : comparePlans(JSON.parse(stored) as Plan, plan)
  const told = changes.map(
    ({ action, type, name, paths }) => `  ${action} ${type} ${name} ${paths.join(', ')}`,
  )
  const what =
    stored === undefined ? ['  there is none'] : told.length > 0 ? told : ['  only its form or its outputs']
  process.stderr.write(`${stack}: plans/${stack}.json is not what the program makes:\n${what.join('\n')}\n`)
  process.stderr.write(`  npm run plan -- --stack ${stack} writes it\n`)
  return false
}

async function committedStacks(root: string): Promise<string[]> {
  const files = await readdir(root)
  return files.flatMap((file) => /^Pulumi\.([a-z0-9-]+)\.yaml$/.exec(file)?.[1] ?? []).sort()
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      stack: { type: 'string', multiple: true },
      markdown: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      base: { type: 'string' },
      accept: { type: 'string', multiple: true, default: [] },
      project: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    process.stdout.write(USAGE)
    return
  }
  const root = resolve(values.project ?? resolve(import.meta.dirname, '../..'))
  const form = values.json ? 'json' : values.markdown ? 'markdown' : 'plain'
  const options = { root, form, isCheck: values.check, base: values.base, accepted: values.accept } as const
  const stacks = values.stack ?? (await committedStacks(root))
  const passed: boolean[] = []
  for (const stack of stacks) passed.push(await planStack(stack, options))
  if (passed.includes(false)) process.exitCode = EXIT.different
}

try {
  await main()
} catch (error) {
  if (!(error instanceof Error)) throw error
  const isOurs = error instanceof ProgramError
  process.stderr.write(`${error.message}\n${isOurs ? '' : USAGE}`)
  process.exitCode = isOurs ? EXIT.different : EXIT.usage
}
