import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { lstat, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { folderSeal } from '../../runtime/state-folder/folder-seal.ts'

const OWN = { mode: 0o600 } as const

/** Seals a folder as services of earlier versions did when they made it. */
export async function seal(folder: string, home: string): Promise<void> {
  const keyFile = join(home, '.agentweaver', 'seal-key')
  if (!existsSync(keyFile)) {
    await mkdir(join(home, '.agentweaver'), { recursive: true, mode: 0o700 })
    await writeFile(keyFile, randomBytes(32), OWN)
  }
  const numbers = await lstat(folder, { bigint: true })
  await writeFile(join(folder, 'seal'), folderSeal(numbers, await readFile(keyFile)), OWN)
}

/** Creates the state folder of an earlier version in a project, and the project's settings. Returns its path. */
export async function makeEarlierState(project: string, home: string): Promise<string> {
  const state = join(project, '.agentweaver')
  await mkdir(join(state, 'keys'), { recursive: true, mode: 0o700 })
  const files = {
    'store.db': randomBytes(100_000),
    'store.db-wal': randomBytes(10_000),
    'api-key': `awk_${randomBytes(32).toString('base64url')}\n`,
    'keys/deployment-key': randomBytes(32),
    'keys/ticket-key': randomBytes(48),
    'service.json': '{}',
    lock: '',
  }
  for (const [name, content] of Object.entries(files)) await writeFile(join(state, name), content, OWN)
  await writeFile(join(state, 'settings.yml'), 'shell_enabled: true\n')
  await seal(state, home)
  return state
}
