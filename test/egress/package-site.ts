import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { dirname, join, normalize } from 'node:path'
import { createNpmPackage } from '../fakes/npm-package.ts'
import type { TestAuthority } from '../fakes/test-authority.ts'
import { javaProject, mavenPackages } from './maven-packages.ts'

const DOMAIN = 'agentweaver-test.com'
const SITES = [
  ...(['npm', 'pypi', 'crates', 'go', 'debian', 'maven', 'git', 'spliced', 'unlisted'] as const),
  // At its real name, which clients do not let one change.
  'github',
] as const
export const GITHUB_API = 'api.github.com'
export type SiteName = (typeof SITES)[number]

const WHEEL = `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("pkg_b.py", "ANSWER = 42")
    info = "pkg_b-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: pkg-b\\nVersion: 1.0\\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(info + "RECORD", "pkg_b.py,,\\n" + info + "METADATA,,\\n" + info + "WHEEL,,\\n" + info + "RECORD,,\\n")
`

const MODULE = `import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as module:
    module.writestr("go.example.com/pkg-c@v1.0.0/go.mod", "module go.example.com/pkg-c\\n")
    module.writestr("go.example.com/pkg-c@v1.0.0/c.go", "package c\\n")
`

/**
 * An npm registry, a Python index, a sparse index of crates, a Go module proxy, an apt repository, a Maven repository, a
 * part of GitHub's REST API and a git server, each with one package. They are folders of one server on this machine, under a name each.
 */
export class PackageSite {
  readonly #folder: string
  readonly #server: Server
  /** What reached the server: the method and the path. */
  readonly requests: string[] = []

  constructor(folder: string, authority: TestAuthority) {
    this.#folder = folder
    const names = SITES.map((site) => this.host(site))
    this.#server = createServer(authority.serverFor(...names), (request, response) =>
      this.#serve(request, response),
    )
  }

  host(site: SiteName): string {
    return site === 'github' ? GITHUB_API : `${site}.${DOMAIN}`
  }

  url(site: SiteName): string {
    return `https://${this.host(site)}:${this.port}`
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Publishes the packages, and writes the files of a project that uses them. */
  async open(project: string): Promise<void> {
    for (const site of SITES) mkdirSync(join(this.#folder, site))
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    for (const site of ['spliced', 'unlisted'] as const) this.#write(site, 'file', `from ${site}\n`)
    this.#publishNpm(project)
    this.#publishPython()
    this.#publishCrate(project)
    this.#publishModule(project)
    this.#publishDebian(project)
    this.#publishMaven(project)
    this.#publishGitHub()
    this.#publishGit()
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { pathname } = new URL(request.url ?? '/', 'https://site')
    const [host = ''] = String(request.headers.host).split(':')
    const site = SITES.find((one) => this.host(one) === host) ?? ''
    this.requests.push(`${request.method} ${site} ${pathname}`)
    if (site === 'git') serveGit(join(this.#folder, 'git'), request, response)
    else this.#serveFile(join(this.#folder, site, normalize(decodeURIComponent(pathname))), response)
  }

  #serveFile(file: string, response: ServerResponse): void {
    const served = existsSync(file) && statSync(file).isDirectory() ? join(file, 'index.html') : file
    if (!existsSync(served)) {
      response.writeHead(404).end()
      return
    }
    response.setHeader('content-type', served.endsWith('.html') ? 'text/html' : 'application/octet-stream')
    response.end(readFileSync(served))
  }

  #write(site: SiteName, path: string, content: string | Buffer): string {
    const file = join(this.#folder, site, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, content)
    return file
  }

  /** A compressed archive with one folder. */
  #archive(site: SiteName, path: string, files: Readonly<Record<string, string>>): Buffer {
    const source = join(this.#folder, `source-${site}`)
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(source, name)), { recursive: true })
      writeFileSync(join(source, name), text)
    }
    const file = this.#write(site, path, '')
    execFileSync('tar', ['czf', file, '-C', source, ...readdirSync(source)])
    return readFileSync(file)
  }

  #publishNpm(project: string): void {
    const { registry, project: files } = createNpmPackage(this.url('npm'))
    for (const [path, content] of Object.entries(registry))
      this.#write('npm', path.endsWith('.tgz') ? path : `${path}/index.html`, content)
    for (const [name, text] of Object.entries(files)) writeFileSync(join(project, name), text)
  }

  #publishPython(): void {
    const wheel = 'pkg_b-1.0-py3-none-any.whl'
    execFileSync('python3', ['-c', WHEEL, this.#write('pypi', `packages/${wheel}`, '')])
    this.#write(
      'pypi',
      'simple/pkg-b/index.html',
      `<a href="${this.url('pypi')}/packages/${wheel}">${wheel}</a>`,
    )
  }

  #publishCrate(project: string): void {
    const manifest = '[package]\nname = "pkg-d"\nversion = "1.0.0"\nedition = "2021"\n'
    const crate = this.#archive('crates', 'crates/pkg-d/1.0.0/download', {
      'pkg-d-1.0.0/Cargo.toml': manifest,
      'pkg-d-1.0.0/src/lib.rs': '',
    })
    const cksum = createHash('sha256').update(crate).digest('hex')
    const entry = { name: 'pkg-d', vers: '1.0.0', deps: [], cksum, features: {}, yanked: false }
    this.#write('crates', 'config.json', JSON.stringify({ dl: `${this.url('crates')}/crates` }))
    this.#write('crates', 'pk/g-/pkg-d', `${JSON.stringify(entry)}\n`)
    const files = {
      'Cargo.toml':
        '[package]\nname = "c"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\npkg-d = "1"\n',
      'src/lib.rs': '',
      '.cargo/config.toml': `[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = "sparse+${this.url('crates')}/"\n[net]\nretry = 0\n`,
    }
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(project, 'crate', name)), { recursive: true })
      writeFileSync(join(project, 'crate', name), text)
    }
  }

  #publishModule(project: string): void {
    const at = 'go.example.com/pkg-c/@v'
    this.#write('go', `${at}/list`, 'v1.0.0\n')
    this.#write(
      'go',
      `${at}/v1.0.0.info`,
      JSON.stringify({ Version: 'v1.0.0', Time: '2026-01-01T00:00:00Z' }),
    )
    this.#write('go', `${at}/v1.0.0.mod`, 'module go.example.com/pkg-c\n')
    execFileSync('python3', ['-c', MODULE, this.#write('go', `${at}/v1.0.0.zip`, '')])
    mkdirSync(join(project, 'module'))
    writeFileSync(join(project, 'module/go.mod'), 'module x\n')
  }

  #publishDebian(project: string): void {
    const source = join(this.#folder, 'source-debian')
    const control =
      'Package: pkg-e\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b.example>\nDescription: test\n'
    mkdirSync(join(source, 'DEBIAN'), { recursive: true })
    writeFileSync(join(source, 'DEBIAN/control'), control)
    const file = this.#write('debian', 'debian/repo/pkg-e_1.0_all.deb', '')
    execFileSync('dpkg-deb', ['--build', '-Zgzip', source, file], { stdio: 'ignore' })
    const deb = readFileSync(file)
    const sum = createHash('sha256').update(deb).digest('hex')
    const entry = `${control}Filename: repo/pkg-e_1.0_all.deb\nSize: ${deb.length}\nSHA256: ${sum}\n\n`
    this.#write('debian', 'debian/repo/Packages', entry)
    mkdirSync(join(project, 'apt/lists/partial'), { recursive: true })
    mkdirSync(join(project, 'apt/cache/archives/partial'), { recursive: true })
    mkdirSync(join(project, 'apt/parts'))
    writeFileSync(join(project, 'apt/status'), '')
    writeFileSync(join(project, 'apt/sources.list'), `deb [trusted=yes] ${this.url('debian')}/debian repo/\n`)
    const settings = {
      'Dir::State': '/workspace/apt',
      'Dir::State::status': '/workspace/apt/status',
      'Dir::Cache': '/workspace/apt/cache',
      'Dir::Etc::sourcelist': '/workspace/apt/sources.list',
      'Dir::Etc::sourceparts': '-',
      'Dir::Etc::parts': '/workspace/apt/parts',
      'Dir::Etc::preferencesparts': '/workspace/apt/parts',
      'Acquire::Retries': '0',
      'Acquire::Languages': 'none',
    }
    writeFileSync(
      join(project, 'apt/apt.conf'),
      Object.entries(settings)
        .map(([key, value]) => `${key} "${value}";\n`)
        .join(''),
    )
  }

  #publishMaven(project: string): void {
    for (const [path, content] of Object.entries(mavenPackages()))
      this.#write('maven', `maven2/${path}`, content)
    for (const [path, text] of Object.entries(javaProject(this.url('maven')))) {
      mkdirSync(dirname(join(project, path)), { recursive: true })
      writeFileSync(join(project, path), text)
    }
  }

  #publishGitHub(): void {
    const answers = { 'repos/o/n': { default_branch: 'main' }, 'repos/o/n/pulls': { number: 7 } }
    for (const [path, answer] of Object.entries(answers))
      this.#write('github', `${path}/index.html`, JSON.stringify(answer))
  }

  #publishGit(): void {
    const work = join(this.#folder, 'source-git')
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
    git('clone', '-q', '--bare', '.', join(this.#folder, 'git/repo.git'))
    execFileSync('git', ['config', 'http.receivepack', 'true'], { cwd: join(this.#folder, 'git/repo.git') })
  }
}

/** Serves the folder with git's own program, by the rules of CGI. */
function serveGit(folder: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url ?? '/', 'https://site')
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      // The folder belongs to the user of the test.
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      REQUEST_METHOD: request.method,
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      CONTENT_TYPE: request.headers['content-type'],
      HTTP_CONTENT_ENCODING: request.headers['content-encoding'],
      GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  request.pipe(child.stdin)
  child.stdin.on('error', () => undefined)
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  child.on('close', () => {
    const answer = Buffer.concat(chunks)
    const end = answer.indexOf('\r\n\r\n')
    const headers = answer.subarray(0, end).toString().split('\r\n')
    for (const line of headers) {
      const [name = '', value = ''] = line.split(/: (.*)/s)
      if (name === 'Status') response.statusCode = Number.parseInt(value, 10)
      else if (name !== '') response.setHeader(name, value)
    }
    response.end(answer.subarray(end + 4))
  })
}
