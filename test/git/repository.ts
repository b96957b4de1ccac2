import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Git on a fresh machine: the only configuration is in the given home folder. */
const environment = (home: string) => ({
  PATH: process.env['PATH'],
  HOME: home,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'User',
  GIT_AUTHOR_EMAIL: 'user@example.com',
  GIT_COMMITTER_NAME: 'User',
  GIT_COMMITTER_EMAIL: 'user@example.com',
})

/** A temporary folder with a home and a project, deleted after the test. */
export function aPlace() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'aw-git-')))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return placeIn(folder)
}

/** The same in an existing folder. */
export function placeIn(folder: string) {
  const home = join(folder, 'home')
  const project = join(folder, 'project')
  mkdirSync(home, { recursive: true })
  mkdirSync(project, { recursive: true })
  /** Runs a script as the user, in the project or in a folder below it. Throws if it fails. */
  const shell = (script: string, cwd = project) =>
    execFileSync('sh', ['-ec', script], { cwd, env: environment(home), encoding: 'utf8', stdio: 'pipe' })
  /** The same, but a failure is ignored. */
  const attempt = (script: string, cwd = project): string => {
    try {
      return shell(script, cwd)
    } catch (error) {
      return String((error as { stderr?: string }).stderr)
    }
  }
  return { folder, home, project, shell, attempt }
}

export type Place = ReturnType<typeof placeIn>

/** A repository with one commit. */
export function aRepository() {
  const place = aPlace()
  place.shell('git init -q -b main; echo one >a.txt; git add .; git commit -qm first')
  return place
}
