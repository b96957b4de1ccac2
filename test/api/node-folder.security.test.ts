import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { nodeFolder } from '../../runtime/api/node-folder.ts'

/** A folder with files at these paths; returns the path of its `bin/node`. */
async function installed(...files: string[]): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'aw-node-folder-')))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  for (const file of ['bin/node', ...files]) {
    await mkdir(dirname(join(folder, file)), { recursive: true })
    await writeFile(join(folder, file), '')
  }
  return join(folder, 'bin/node')
}

const ARCHIVE = ['LICENSE', 'README.md', 'include/node/node.h', 'lib/node_modules/npm/a.js', 'share/man/x.1']

test('shows commands the folder of a Node that was unpacked into a folder of its own', async () => {
  const executable = await installed(...ARCHIVE)

  expect(await nodeFolder(executable)).toBe(dirname(dirname(executable)))
})

test('shows commands the folder of the Node that runs these tests', async () => {
  expect(await nodeFolder(process.execPath)).toBe(dirname(dirname(await realpath(process.execPath))))
})

test.each([
  ['a home folder', '.ssh/id_ed25519'],
  ['a folder of a user with keys in share', 'share/keyrings/login.keyring'],
  ['a folder of a user with libraries', 'lib/python3/site-packages/a.py'],
  ['a folder with the state of the service', 'state/agentweaver/api-key'],
])('does not show %s that a Node was unpacked into', async (_what, file) => {
  expect(await nodeFolder(await installed(...ARCHIVE, file))).toBeUndefined()
})
