import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { CONTROLLER_SOURCE, CONTROLLER_VERSION } from '../model/controller-release.ts'
import { fetchRelease } from './fetch-release.ts'
import { RELEASE_FOLDER, ReleaseError } from './read-release.ts'

const USAGE = `npm run controller -- fetch [--from <https address or folder>] [--into <folder>] [--json]
  puts the files of the agent-sandbox controller ${CONTROLLER_VERSION} into ${RELEASE_FOLDER}, by checksum: pulumi reads them there

  --from <place>   a mirror or a folder; default: ${CONTROLLER_SOURCE}
  --into <folder>  another folder; name it in the stack file too: agentweaver:controller, key folder
`
const EXIT = { failed: 1, usage: 2 } as const
const ROOT = resolve(import.meta.dirname, '../..')

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      from: { type: 'string', default: CONTROLLER_SOURCE },
      into: { type: 'string', default: resolve(ROOT, RELEASE_FOLDER) },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    process.stdout.write(USAGE)
    return
  }
  if (positionals.join() !== 'fetch') throw new Error('name the one command: fetch')
  const into = resolve(values.into)
  const files = await fetchRelease({ from: values.from, into })
  const result = { version: CONTROLLER_VERSION, folder: into, files }
  process.stdout.write(
    values.json
      ? `${JSON.stringify(result)}\n`
      : `agent-sandbox ${CONTROLLER_VERSION}: ${files.length} files in ${into}, checksums right\n`,
  )
}

try {
  await main()
} catch (error) {
  if (!(error instanceof Error)) throw error
  const isOurs = error instanceof ReleaseError
  process.stderr.write(`${error.message}\n${isOurs ? '' : USAGE}`)
  process.exitCode = isOurs ? EXIT.failed : EXIT.usage
}
