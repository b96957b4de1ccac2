import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { CLI, COMPILE_CACHE } from '../helpers/built-programs.ts'
import { startOwnService } from './own-service.ts'
import { aFolder, untilQuiet } from './run-cli.ts'

const PAGE = fileURLToPath(new URL('../../docs/workspaces.md', import.meta.url))

/** The lines of the section "Try it". */
const walkthrough = (): string =>
  /### Try it\n[\s\S]*?```sh\n([\s\S]*?)```/.exec(readFileSync(PAGE, 'utf8'))?.[1] ?? ''

test('the walk-through of docs/workspaces.md works as it is written', async () => {
  const folder = await aFolder('aw-walkthrough-')
  const state = await aFolder('aw-walkthrough-state-')
  const service = await startOwnService(state)
  const script = `set -eu\nagentweaver() { "$NODE" "$CLI" "$@"; }\n${walkthrough()}`
  const env = {
    PATH: process.env['PATH'],
    HOME: folder,
    NODE: process.execPath,
    CLI,
    ...COMPILE_CACHE,
    AGENTWEAVER_URL: service.url,
    AGENTWEAVER_API_KEY: service.apiKey,
  }
  try {
    const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script], { cwd: folder, env })

    expect(stdout).toContain('+two')
    expect(stdout).toContain('merged')
    expect(stderr).toContain('Left out, because your tools execute or obey them:\n  Makefile')
    expect(readFileSync(join(folder, 'project', 'notes.txt'), 'utf8')).toBe('one\ntwo\n')
    expect(existsSync(join(folder, 'project', 'Makefile'))).toBe(false)
    expect(readFileSync(join(folder, 'result', 'Makefile'), 'utf8')).toBe('all:\n')
  } finally {
    await service.stop()
    await untilQuiet(state)
  }
})
