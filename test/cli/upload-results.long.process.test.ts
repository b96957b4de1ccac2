import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { RunDiff } from '../../contracts/results.ts'
import { aRepository, type Place } from '../git/repository.ts'
import { useServiceAtUrl } from './upload-rig.ts'

const { uploadAndRun } = useServiceAtUrl()

const WORK = `
  echo two >>a.txt; printf '\\000\\001' >binary; printf 'no newline' >"odd name"; git mv b.txt moved.txt; chmod +x c.txt
  ln -s a.txt link; rm d.txt; mkdir node_modules; echo 1 >node_modules/x.js; echo '{"scripts":{}}' >package.json
  git update-index --assume-unchanged a.txt; echo '*' >.git/info/exclude; git commit -qam work`

async function aProject(): Promise<Place> {
  const place = aRepository()
  place.shell('for name in b c d; do echo $name >$name.txt; done; git add .; git commit -qm more')
  return place
}

test('a run on an uploaded folder has a diff, which the run cannot hide changes from', async () => {
  const place = await aProject()
  const { id, stderr, call } = await uploadAndRun(place, WORK)
  const diff: RunDiff = JSON.parse((await call('diff', id, '--json')).stdout)
  const patch = (await call('diff', id)).stdout
  const stat = (await call('diff', id, '--stat')).stdout

  expect(diff.files.map(({ path, status, from }) => [path, status, from])).toEqual([
    ['a.txt', 'modified', undefined],
    ['binary', 'added', undefined],
    ['c.txt', 'modified', undefined],
    ['d.txt', 'deleted', undefined],
    ['link', 'added', undefined],
    ['moved.txt', 'renamed', 'b.txt'],
    ['odd name', 'added', undefined],
    ['package.json', 'added', undefined],
  ])
  expect(diff).toMatchObject({ additions: 4, deletions: 1, handOff: [{ path: 'package.json' }] })
  expect(diff.problems).toEqual([expect.stringContaining('installed 1 files in node_modules/')])
  expect(stat).toMatch(/M +\+1 +-0 +a\.txt/)
  expect(stderr).toMatch(
    /The run changed files that tools on your machine execute[\s\S]*package\.json[\s\S]*8 files changed/,
  )
  expect(stderr).toContain(`agentweaver diff ${id}`)
  expect(stderr).toContain(`agentweaver apply ${id}`)
  expect(stderr).toContain(`agentweaver pull ${id}`)

  // Git reads the diff, and applied it gives the files of the run.
  writeFileSync(join(place.folder, 'patch'), patch.replace(/^diff --git a\/binary[\s\S]*?(?=^diff )/m, ''))
  place.shell('git apply ../patch')
  const pulled = await call('pull', id, 'out')
  expect(pulled.status).toBe(0)
  expect(
    place.shell('diff -r --exclude=.git --exclude=node_modules --exclude=binary . ../out && echo same'),
  ).toBe('same\n')
  expect(readFileSync(join(place.folder, 'out', 'node_modules', 'x.js'), 'utf8')).toBe('1\n')
})

test('a run that changed nothing says so', async () => {
  const { id, stderr, call } = await uploadAndRun(await aProject(), 'git commit -q --allow-empty -m nothing')

  expect(stderr).toContain('The run changed nothing. Your folder is as it was.')
  expect((await call('diff', id)).stdout).toBe('')
})
