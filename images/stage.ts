/** `node images/stage.ts NAME FOLDER` writes the files of one image below a folder. The Containerfiles run it. */
import { chmodSync, copyFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { certificates, IMAGE_NAMES, type ImageEntry, type ImageName, imageContents } from './contents.ts'

const ROOT = resolve(import.meta.dirname, '..')

export function stageImage(name: ImageName, folder: string, bundles = join(ROOT, 'dist')): void {
  const modules = join(ROOT, 'node_modules')
  const contents = imageContents(name, { bundles, modules, node: process.execPath })
  // The toolbox installs Debian's package of certificates, which `apt` and Python need too.
  const extra = name === 'toolbox' ? [] : [certificates]
  for (const entry of [...Object.values(contents).flat(), ...extra]) write(entry, join(folder, entry.path))
}

function write(entry: ImageEntry, target: string): void {
  mkdirSync(dirname(target), { recursive: true })
  if (entry.kind === 'link') {
    symlinkSync(entry.target, target)
    return
  }
  if (entry.kind === 'text') writeFileSync(target, entry.text)
  else copyFileSync(entry.source, target)
  chmodSync(target, entry.kind === 'file' && entry.executable ? 0o755 : 0o644)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [name, folder] = process.argv.slice(2)
  const known = IMAGE_NAMES.find((one) => one === name)
  if (known !== undefined && folder !== undefined) stageImage(known, folder)
  else {
    process.stderr.write(`usage: node images/stage.ts ${IMAGE_NAMES.join('|')} FOLDER\n`)
    process.exitCode = 2
  }
}
