import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const NAME = '@scope/pkg-a'
const TARBALL = `${NAME}/-/pkg-a-1.0.0.tgz`
const MANIFEST = { name: NAME, version: '1.0.0', main: 'index.js' }

/** A package that exports 42, as the files of an npm registry, and the files of a project that depends on it. */
export interface NpmPackage {
  /** Content of the registry by path. */
  readonly registry: Readonly<Record<string, Buffer>>
  readonly project: Readonly<Record<string, string>>
}

/** @param registry the registry's URL, without a slash at the end */
export function createNpmPackage(registry: string): NpmPackage {
  const tarball = pack()
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
  const resolved = `${registry}/${TARBALL}`
  const versions = { '1.0.0': { ...MANIFEST, dist: { tarball: resolved, integrity } } }
  const document = { name: NAME, 'dist-tags': { latest: '1.0.0' }, versions }
  const root = {
    name: 'project',
    version: '1.0.0',
    scripts: { test: 'node test.js' },
    dependencies: { [NAME]: '1.0.0' },
  }
  const packages = { '': root, [`node_modules/${NAME}`]: { version: '1.0.0', resolved, integrity } }
  const lock = { name: 'project', version: '1.0.0', lockfileVersion: 3, requires: true, packages }
  const { host } = new URL(registry)
  return {
    registry: { [NAME]: Buffer.from(JSON.stringify(document)), [TARBALL]: tarball },
    project: {
      'package.json': JSON.stringify(root),
      'package-lock.json': JSON.stringify(lock),
      'test.js': `require('node:assert').equal(require('${NAME}'), 42)\nconsole.log('the tests pass')\n`,
      '.npmrc': `registry=${registry}/\naudit=false\nfund=false\nupdate-notifier=false\nfetch-retries=0\n//${host}/:_authToken=x\n`,
    },
  }
}

/** Sends a file of the registry, or 404. */
export function serveNpm({ registry }: NpmPackage, request: IncomingMessage, response: ServerResponse): void {
  const { pathname } = new URL(request.url ?? '/', 'https://registry')
  const file = registry[decodeURIComponent(pathname).slice(1)]
  request.resume()
  response.writeHead(file ? 200 : 404, { 'content-type': 'application/octet-stream' }).end(file)
}

function pack(): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'aw-npm-package-'))
  try {
    mkdirSync(join(folder, 'package'))
    writeFileSync(join(folder, 'package/package.json'), JSON.stringify(MANIFEST))
    writeFileSync(join(folder, 'package/index.js'), 'module.exports = 42\n')
    execFileSync('tar', ['czf', 'package.tgz', 'package'], { cwd: folder })
    return readFileSync(join(folder, 'package.tgz'))
  } finally {
    rmSync(folder, { recursive: true })
  }
}
