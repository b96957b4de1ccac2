import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Git as a user of a fresh machine has it: no configuration but that of the home folder that is given. */
const environment = (home: string) => ({
  PATH: process.env['PATH'],
  HOME: home,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'User',
  GIT_AUTHOR_EMAIL: 'user@example.com',
  GIT_COMMITTER_NAME: 'User',
  GIT_COMMITTER_EMAIL: 'user@example.com',
})

/** A folder that is gone when the test is done, with a home and a project in it. */
export function aPlace() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'aw-git-')))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return placeIn(folder)
}

/** The same in a folder that is there. */
export function placeIn(folder: string) {
  const home = join(folder, 'home')
  const project = join(folder, 'project')
  mkdirSync(home, { recursive: true })
  mkdirSync(project, { recursive: true })
  /** What the user types, in the project or in a folder below it. Their mistakes are the test's. */
  const shell = (script: string, cwd = project) =>
    execFileSync('sh', ['-ec', script], { cwd, env: environment(home), encoding: 'utf8', stdio: 'pipe' })
  /** The same, whatever it answers. */
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
