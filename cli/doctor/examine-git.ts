import { createCallProgram } from '../program-call/call-program.ts'
import type { CliIo } from '../terminal/terminal.ts'
import type { Finding } from './finding.ts'

const TIMEOUT_MS = 10_000
const KEY = 'safe.bareRepository'

/**
 * Whether git is there, which runs on folders need for their results, and whether it takes folders for repositories
 * that nobody called so. It is asked in `/`, where no repository has a say.
 */
export async function examineGit({ env }: Pick<CliIo, 'env'>): Promise<Finding> {
  const about = 'git'
  const git = createCallProgram({ cwd: '/', env })
  const call = (...args: string[]) =>
    git({ program: 'git', args, timeoutMs: TIMEOUT_MS }).catch(() => undefined)
  const version = await call('--version')
  if (version?.status !== 0) {
    const detail = 'it is not on the PATH; runs on a folder give no diff and no branch'
    return {
      about,
      state: 'missing',
      detail,
      remedy: 'apt-get install git (dnf, apk and pacman call it git too)',
    }
  }
  const read = async (scope: string) => {
    const found = await call('config', scope, '--includes', '--get', KEY)
    return found?.status === 0 ? found.stdout.trim() : undefined
  }
  const setting = (await read('--global')) ?? (await read('--system'))
  const name = version.stdout.trim()
  if (setting === 'explicit') return { about, state: 'ok', detail: `${name}, with ${KEY}=explicit` }
  const detail = `${name}; it takes any folder with HEAD, objects and refs in it for a repository, and obeys its configuration`
  return { about, state: 'missing', detail, remedy: `git config --global ${KEY} explicit` }
}
