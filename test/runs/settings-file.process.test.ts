import { spawnSync } from 'node:child_process'
import { chmodSync, linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { readSettingsFile } from '../../runtime/api/runs/admit/settings-file.ts'

const root = mkdtempSync(join(tmpdir(), 'aw-settings-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let folders = 0
function aFolder(): { folder: string; file: string; above: string } {
  const folder = join(root, `${++folders}`)
  const above = join(folder, '.agentweaver')
  mkdirSync(above, { recursive: true })
  return { folder, above, file: join(above, 'settings.yml') }
}

it('returns the unchanged text and the parsed settings', async () => {
  const { folder, file } = aFolder()
  const text = '\ufeff# ü\r\nshell_enabled: false\r\n'
  writeFileSync(file, text)

  expect(await readSettingsFile(folder)).toEqual({ text, patch: { shell_enabled: false } })
})

it('returns no text if the file or its folder does not exist', async () => {
  const { folder, above } = aFolder()

  expect(await readSettingsFile(folder)).toEqual({ patch: {} })
  rmSync(above, { recursive: true })
  expect(await readSettingsFile(folder)).toEqual({ patch: {} })
})

it('takes a file that has as many bytes as it may have', async () => {
  const { folder, file } = aFolder()
  writeFileSync(file, '#'.repeat(65_536))

  expect((await readSettingsFile(folder)).patch).toEqual({})
})

type Place = ReturnType<typeof aFolder>

it.each<[string, (place: Place) => void, RegExp]>([
  [
    'a file that is too large',
    ({ file }) => writeFileSync(file, '#'.repeat(65_537)),
    /larger than 65536 bytes/,
  ],
  ['a sparse file of a terabyte', ({ file }) => truncate(file, '1T'), /larger than 65536 bytes/],
  [
    'a file that is not UTF-8',
    ({ file }) => writeFileSync(file, Buffer.from([0x23, 0xc3, 0xbc, 0x0a, 0x0a, 0x23, 0xff, 0x0a])),
    /, line 3: is not UTF-8/,
  ],
  [
    'UTF-16',
    ({ file }) => writeFileSync(file, Buffer.from('\ufeffshell_enabled: true', 'utf16le')),
    /, line 1: is not UTF-8/,
  ],
  ['bad YAML', ({ file }) => writeFileSync(file, 'redact_pii: true\nx: ['), /, line 2: /],
  [
    'an unknown key',
    ({ file }) => writeFileSync(file, '\nshel_enabled: true'),
    /, line 2: shel_enabled: is not a known key/,
  ],
  [
    'a repeated key',
    ({ file }) => writeFileSync(file, 'redact_pii: true\nredact_pii: false'),
    /, line 2: redact_pii: is there twice/,
  ],
  [
    'an alias',
    ({ file }) => writeFileSync(file, 'allowed_repository_roots: &a [*a, *a]'),
    /, line 1: anchors, aliases/,
  ],
  ['direct', ({ file }) => writeFileSync(file, 'direct: true'), /, line 1: direct: only the operator/],
  ['a folder in its place', ({ file }) => mkdirSync(file), /is a directory/],
  ['a link to another file', ({ file }) => symlinkSync('/etc/hostname', file), /symbolic link/],
  ['a link to nothing', ({ file }) => symlinkSync('/nowhere/at/all', file), /symbolic link/],
  ['a link to itself', ({ file }) => symlinkSync('settings.yml', file), /symbolic link/],
  ['a FIFO', ({ file }) => mkfifo(file), /neither a file nor a directory/],
  [
    'a link in the place of its folder',
    ({ above, folder }) => {
      rmSync(above, { recursive: true })
      mkdirSync(join(folder, 'other'))
      writeFileSync(join(folder, 'other/settings.yml'), '')
      symlinkSync('other', above)
    },
    /symbolic link/,
  ],
  [
    'a link to nothing in the place of its folder',
    ({ above }) => {
      rmSync(above, { recursive: true })
      symlinkSync('nothing', above)
    },
    /symbolic link/,
  ],
  [
    'a file in the place of its folder',
    ({ above }) => {
      rmSync(above, { recursive: true })
      writeFileSync(above, '')
    },
    /not a directory/,
  ],
])('refuses %s, with its path and the reason', async (_what, make, reason) => {
  const place = aFolder()
  make(place)

  const read = readSettingsFile(place.folder)

  await expect(read).rejects.toMatchObject({
    code: 'workspace_invalid',
    message: expect.stringMatching(reason),
  })
  await expect(read).rejects.toThrow(place.file)
})

it('refuses a socket', async () => {
  const { folder, file } = aFolder()
  const server = createServer()
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(file, resolve)
  onTestFinished(() => void server.close())
  await promise

  await expect(readSettingsFile(folder)).rejects.toMatchObject({ code: 'workspace_invalid' })
})

it('rejects a folder behind a symbolic link', async () => {
  const { folder } = aFolder()
  const link = join(root, 'link')
  symlinkSync(folder, link)

  await expect(readSettingsFile(link)).rejects.toMatchObject({ code: 'workspace_invalid' })
  await expect(readSettingsFile(join(link, '.agentweaver'))).rejects.toThrow('was moved')
})

it('reads a file that has a second name', async () => {
  const { folder, file } = aFolder()
  writeFileSync(join(folder, 'other'), 'shell_enabled: false')
  linkSync(join(folder, 'other'), file)

  expect((await readSettingsFile(folder)).patch).toEqual({ shell_enabled: false })
})

const READER = fileURLToPath(new URL('../../runtime/api/runs/admit/settings-file.ts', import.meta.url))
const NOBODY = 65_534

it.each([
  ['the file', 0o000, 0o755],
  ['its folder', 0o644, 0o000],
])('rejects a file if the service has no right to %s', (_what, fileMode, folderMode) => {
  const { folder, file, above } = aFolder()
  chmodSync(root, 0o755)
  writeFileSync(file, 'shell_enabled: false')
  chmodSync(file, fileMode)
  chmodSync(above, folderMode)
  // Root can read every file, so the program drops its privileges after it has loaded.
  const program = `import { readSettingsFile } from ${JSON.stringify(READER)}
    if (process.getuid() === 0) process.seteuid(${NOBODY})
    await readSettingsFile(${JSON.stringify(folder)}).then(console.log, ({ message }) => console.log(message))`

  const { stdout } = spawnSync(process.execPath, ['--input-type=module-typescript', '-e', program], {
    encoding: 'utf8',
  })

  expect(stdout).toContain(`${file} cannot be accessed: permission denied`)
})

function truncate(file: string, size: string): void {
  expect(spawnSync('truncate', ['--size', size, file]).status).toBe(0)
}

function mkfifo(file: string): void {
  expect(spawnSync('mkfifo', [file]).status).toBe(0)
}
