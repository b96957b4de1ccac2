import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import type { TestAuthority } from './test-authority.ts'

/** Git's own server over TLS. It accepts its tokens as the password of any user, for reading too. */
export class GitServer {
  readonly requests: { method: string; url: string; isAuthorized: boolean }[] = []
  readonly #folder: string
  readonly #tokens: readonly string[]
  readonly #host: string
  readonly #server: Server
  /** Handles a request in place of git. Returns false for requests that git should handle. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined

  constructor(
    folder: string,
    options: {
      authority: Pick<TestAuthority, 'serverFor'>
      host: string
      token: string
      more?: readonly string[]
    },
  ) {
    this.#folder = folder
    this.#tokens = [options.token, ...(options.more ?? [])]
    this.#host = options.host
    this.#server = createServer(options.authority.serverFor(options.host), (request, response) =>
      this.#serve(request, response),
    )
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `https://${this.#host}:${this.port}`
  }

  async open(...repositories: string[]): Promise<void> {
    await this.openAt({ address: '127.0.0.1', port: 0 }, ...repositories)
  }

  async openAt(
    { address, port }: { readonly address: string; readonly port: number },
    ...repositories: string[]
  ): Promise<void> {
    for (const repository of repositories) this.#create(repository)
    this.#server.listen(port, address)
    await once(this.#server, 'listening')
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  /** All refs of a repository. */
  refs(repository: string): string[] {
    const cwd = this.#bareOf(repository)
    const text = execFileSync('git', ['for-each-ref', '--format=%(refname)'], { cwd, encoding: 'utf8' })
    return text.split('\n').filter((line) => line !== '')
  }

  /** Commits files to the main branch of a repository. */
  commit(repository: string, files: Readonly<Record<string, string>>): void {
    const source = this.#sourceOf(repository)
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(dirname(join(source, name)), { recursive: true })
      writeFileSync(join(source, name), content)
    }
    this.#git(source, 'add', '-A')
    this.#git(source, 'commit', '-q', '-m', 'files')
    this.#git(source, 'push', '-q', this.#bareOf(repository), 'HEAD:main')
  }

  #sourceOf(repository: string): string {
    return join(this.#folder, `source-${repository.replaceAll('/', '-')}`)
  }

  #bareOf(repository: string): string {
    return join(this.#folder, `${repository}.git`)
  }

  #git(folder: string, ...args: readonly string[]): void {
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b.example', ...args], {
      cwd: folder,
      stdio: 'ignore',
    })
  }

  #create(repository: string): void {
    const source = this.#sourceOf(repository)
    const bare = this.#bareOf(repository)
    mkdirSync(source, { recursive: true })
    writeFileSync(join(source, 'README'), `from ${repository}\n`)
    this.#git(source, 'init', '-q', '-b', 'main')
    this.#git(source, 'add', '-A')
    this.#git(source, 'commit', '-q', '-m', 'first')
    this.#git(source, 'clone', '-q', '--bare', '.', bare)
    this.#git(bare, 'config', 'http.receivepack', 'true')
    this.#git(bare, 'config', 'receive.advertisePushOptions', 'true')
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url = '', headers } = request
    const [, basic = ''] = (headers.authorization ?? '').split(' ')
    const isAuthorized = this.#tokens.includes(Buffer.from(basic, 'base64').toString().split(':')[1] ?? '')
    this.requests.push({ method, url, isAuthorized })
    if (this.intercept?.(request, response)) return
    if (!isAuthorized) {
      request.resume()
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
      return
    }
    const { pathname, search } = new URL(url, 'http://server')
    const backend = spawn('git', ['http-backend'], {
      env: {
        PATH: '/usr/bin:/bin',
        GIT_PROJECT_ROOT: this.#folder,
        GIT_HTTP_EXPORT_ALL: '1',
        REQUEST_METHOD: method,
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        CONTENT_TYPE: headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(headers['git-protocol'] ?? ''),
        REMOTE_USER: 'user',
        REMOTE_ADDR: '127.0.0.1',
        GIT_CONFIG_NOSYSTEM: '1',
        HOME: this.#folder,
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    backend.stdin.on('error', () => undefined)
    request.pipe(backend.stdin)
    let head = ''
    const readHead = (chunk: Buffer) => {
      head += chunk.toString('latin1')
      const end = head.indexOf('\r\n\r\n')
      if (end < 0) return
      backend.stdout.off('data', readHead)
      const fields = head
        .slice(0, end)
        .split('\r\n')
        .map((line) => line.split(': ') as [string, string])
      const status = Number.parseInt(fields.find(([name]) => name === 'Status')?.[1] ?? '200', 10)
      response.writeHead(status, Object.fromEntries(fields.filter(([name]) => name !== 'Status')))
      response.write(Buffer.from(head.slice(end + 4), 'latin1'))
      backend.stdout.pipe(response)
    }
    backend.stdout.on('data', readHead)
    backend.on('exit', () => head.includes('\r\n\r\n') || response.writeHead(500).end())
  }
}
