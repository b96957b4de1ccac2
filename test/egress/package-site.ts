import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join, normalize } from 'node:path'
import type { TestAuthority } from '../fakes/test-authority.ts'
import { HOST } from './proxy-rig.ts'

const WHEEL = `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("pkg_b.py", "ANSWER = 42")
    info = "pkg_b-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: pkg-b\\nVersion: 1.0\\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(info + "RECORD", "pkg_b.py,,\\n" + info + "METADATA,,\\n" + info + "WHEEL,,\\n" + info + "RECORD,,\\n")
`

/** A site with an npm registry, a Python index and a git repository, each with one package, in one folder. */
export class PackageSite {
  readonly #folder: string
  readonly #server: Server

  constructor(folder: string, authority: TestAuthority) {
    this.#folder = folder
    this.#server = createServer(authority.serverFor(HOST), (request, response) => {
      const file = join(folder, normalize(new URL(request.url ?? '/', 'http://site').pathname))
      const served = existsSync(file) && statSync(file).isDirectory() ? join(file, 'index.html') : file
      if (!existsSync(served)) return response.writeHead(404).end()
      response.setHeader('content-type', served.endsWith('.html') ? 'text/html' : 'application/octet-stream')
      return response.end(readFileSync(served))
    })
  }

  get url(): string {
    return `https://${HOST}:${this.port}`
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Publishes the packages, and writes the files of a project that uses the npm package. */
  async open(project: string): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    this.#publishNpm(project)
    this.#publishPython()
    this.#publishGit()
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  #publishNpm(project: string): void {
    const source = join(this.#folder, 'source/package')
    const manifest = { name: 'pkg-a', version: '1.0.0', main: 'index.js' }
    mkdirSync(source, { recursive: true })
    writeFileSync(join(source, 'package.json'), JSON.stringify(manifest))
    writeFileSync(join(source, 'index.js'), 'module.exports = 42\n')
    const tarball = join(this.#folder, 'pkg-a-1.0.0.tgz')
    execFileSync('tar', ['czf', tarball, '-C', join(this.#folder, 'source'), 'package'])
    const integrity = `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`
    const resolved = `${this.url}/pkg-a-1.0.0.tgz`
    const root = { name: 'project', version: '1.0.0', dependencies: { 'pkg-a': '1.0.0' } }
    const lock = {
      name: 'project',
      version: '1.0.0',
      lockfileVersion: 3,
      requires: true,
      packages: { '': root, 'node_modules/pkg-a': { version: '1.0.0', resolved, integrity } },
    }
    const versions = { '1.0.0': { ...manifest, dist: { tarball: resolved, integrity } } }
    const packument = { name: 'pkg-a', 'dist-tags': { latest: '1.0.0' }, versions }
    writeFileSync(join(this.#folder, 'pkg-a'), JSON.stringify(packument))
    writeFileSync(join(project, 'package.json'), JSON.stringify(root))
    writeFileSync(join(project, 'package-lock.json'), JSON.stringify(lock))
    writeFileSync(
      join(project, '.npmrc'),
      `registry=${this.url}/\naudit=false\nfund=false\nupdate-notifier=false\n`,
    )
  }

  #publishPython(): void {
    const index = join(this.#folder, 'simple/pkg-b')
    const wheel = 'pkg_b-1.0-py3-none-any.whl'
    mkdirSync(index, { recursive: true })
    execFileSync('python3', ['-c', WHEEL, join(this.#folder, wheel)])
    writeFileSync(join(index, 'index.html'), `<a href="${this.url}/${wheel}">${wheel}</a>`)
  }

  #publishGit(): void {
    const work = join(this.#folder, 'git-source')
    mkdirSync(work)
    writeFileSync(join(work, 'README'), 'from git\n')
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.example', ...args], {
        cwd: work,
        stdio: 'ignore',
      })
    git('init', '-q', '-b', 'main')
    git('add', '-A')
    git('commit', '-q', '-m', 'first')
    git('clone', '-q', '--bare', '.', join(this.#folder, 'repo.git'))
    execFileSync('git', ['update-server-info'], { cwd: join(this.#folder, 'repo.git') })
  }
}
