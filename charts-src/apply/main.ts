import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { applyTree } from './apply-tree.ts'
import { kubectl } from './kubectl.ts'

const USAGE = `npm run gitops:apply -- FOLDER [--check]

Applies a rendered tree, for example gitops/local, to the cluster that kubectl is set to: without Argo CD or Flux, and
with the same result. Reads the cluster's definitions first and applies nothing if they do not fit; applies on the
server with strict validation; deletes what left the tree, namespaces excepted.

  --check   only compares the tree with the cluster's definitions`

process.exitCode = await main(process.argv.slice(2))

async function main(argv: readonly string[]): Promise<number> {
  const options = {
    check: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h' },
  } as const
  const { values, positionals } = parseArgs({ args: [...argv], options, allowPositionals: true })
  const [folder] = positionals
  if (values.help || folder === undefined || positionals.length > 1) {
    process.stdout.write(`${USAGE}\n`)
    return values.help ? 0 : 2
  }
  try {
    const say = (line: string) => process.stdout.write(`${line}\n`)
    return (await applyTree(resolve(folder), { kubectl, say, isCheck: values.check })) ? 0 : 1
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    return 1
  }
}
