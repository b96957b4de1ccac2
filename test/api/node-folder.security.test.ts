import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { nodeFolder } from '../../runtime/api/node-folder.ts'

/** Creates a folder with files at these paths. Returns the path of its `bin/node`. */
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

test('shows commands a Node that was unpacked into its own folder', async () => {
  const executable = await installed(...ARCHIVE)

  expect(await nodeFolder(executable)).toBe(dirname(dirname(executable)))
})

test('shows commands the Node that runs these tests', async () => {
  expect(await nodeFolder(process.execPath)).toBe(dirname(dirname(await realpath(process.execPath))))
})

test.each([
  ['a home folder', '.ssh/id_ed25519'],
  ['a user folder with keys in share', 'share/keyrings/login.keyring'],
  ['a user folder with libraries', 'lib/python3/site-packages/a.py'],
  ['a folder with the state of the service', 'state/agentweaver/api-key'],
])('does not show %s into which a Node was unpacked', async (_what, file) => {
  expect(await nodeFolder(await installed(...ARCHIVE, file))).toBeUndefined()
})
