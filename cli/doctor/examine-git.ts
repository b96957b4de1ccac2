import { createCallProgram } from '../program-call/call-program.ts'
import type { CliIo } from '../terminal/terminal.ts'
import type { Finding } from './finding.ts'

const TIMEOUT_MS = 10_000
const KEY = 'safe.bareRepository'

/**
 * Checks that git is installed (results of runs on folders need it), and whether it treats any folder with the right
 * files as a repository. It runs in `/`, so that no repository's configuration applies.
 */
export async function examineGit({ env }: Pick<CliIo, 'env'>): Promise<Finding> {
  const about = 'git'
  const git = createCallProgram({ cwd: '/', env })
  const call = (...args: string[]) =>
    git({ program: 'git', args, timeoutMs: TIMEOUT_MS }).catch(() => undefined)
  const version = await call('--version')
  if (version?.status !== 0) {
    const detail = 'not on the PATH; runs on a folder produce no diff and no branch'
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
  const detail = `${name}; it treats any folder that contains HEAD, objects and refs as a repository and obeys its configuration`
  return { about, state: 'advice', detail, remedy: `git config --global ${KEY} explicit` }
}
