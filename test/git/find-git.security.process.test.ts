import { join } from 'node:path'
import { expect, it } from 'vitest'
import { findGit } from '../../runtime/git/find-git.ts'
import { aRepository } from './repository.ts'

it.each([
  [
    'a git directory of its own with the objects of another repository',
    (other: string) =>
      `mkdir fake; cp .git/HEAD fake; echo ${other}/.git >fake/commondir; echo $PWD/.git >fake/gitdir; rm -rf .git; echo gitdir: fake >.git`,
    /uses the objects of another repository/,
  ],
  [
    'objects of another repository in the second line of its alternates',
    (other: string) => `printf '\\n%s\\n' ${other}/.git/objects >.git/objects/info/alternates`,
    /borrows objects from .*objects\. Make/,
  ],
] as const)('finds no repository with %s', async (_, script, reason) => {
  const other = aRepository()
  const place = aRepository()
  place.shell(script(other.project))

  expect(await findGit(place.project)).toMatchObject({
    kind: 'refused',
    reason: expect.stringMatching(reason),
  })
})

it('finds no repository in a worktree whose common directory has two lines', async () => {
  const place = aRepository()
  place.shell("git worktree add -q ../tree; printf '../..\\nx\\n' >.git/worktrees/tree/commondir")

  expect(await findGit(join(place.folder, 'tree'))).toMatchObject({
    kind: 'refused',
    reason: expect.stringContaining('has more than one line'),
  })
})
