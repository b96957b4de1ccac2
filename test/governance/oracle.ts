import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ExecRequest } from '../../contracts/exec.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'

/** Programs that must not run, or that may not be installed. Each records its arguments instead. */
const RECORDED = ['npm', 'kubectl', 'docker', 'terraform', 'cargo', 'helm', 'pulumi', 'aws', 'dropdb']
/** Programs that run the command in their arguments. */
const LAUNCHERS = ['sudo', 'doas']
/** Programs that download a script. */
const FETCHERS = ['curl', 'wget']

/** Matches recorded calls that destroy or publish something. */
const DESTRUCTIVE_CALL =
  /^(?:npm publish|kubectl delete|docker (?:system prune|volume rm)|terraform destroy|cargo publish|helm uninstall|pulumi destroy|aws s3 rb|dropdb)\b/m

const TIMEOUT_MS = 4_000

export interface Oracle {
  /** Runs a command. Returns a description of the destroyed data, or undefined. */
  destroyedBy(command: string): Promise<string | undefined>
  close(): void
}

/** Returns the oracle, or the reason why this machine cannot run commands in a sandbox. */
export async function openOracle(): Promise<Oracle | string> {
  const backend = await isolation()
  if (typeof backend === 'string') return backend
  const folder = mkdtempSync(join(tmpdir(), 'oracle-'))
  const tools = join(folder, 'tools')
  const tree = join(folder, 'tree')
  makeTools(tools)
  makeTree(tree)
  let next = 0
  return {
    destroyedBy: async (command) => {
      const workspace = join(folder, String(next++))
      cpSync(tree, workspace, { recursive: true })
      const executor = await backend.create({ workspace, toolRoots: [tools], log: silentLog })
      try {
        await executor.run(ExecRequest.parse({ command, timeoutMs: TIMEOUT_MS }), {
          onChunk: () => undefined,
        })
        return destroyedIn(workspace)
      } finally {
        await executor.close()
        rmSync(workspace, { recursive: true, force: true })
      }
    },
    close: () => rmSync(folder, { recursive: true, force: true }),
  }
}

async function isolation() {
  const reasons: string[] = []
  for (const backend of ISOLATING_BACKENDS) {
    const detection = await backend.detect({ toolRoots: [] })
    if (!detection.ok) reasons.push(detection.reason)
    else if (detection.isolation.shell === 'bash') return backend
    else reasons.push('there is no bash')
  }
  return reasons.join('; ')
}

function makeTools(folder: string): void {
  mkdirSync(folder)
  const write = (name: string, script: string) => {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`)
    chmodSync(join(folder, name), 0o755)
  }
  for (const name of RECORDED) write(name, `echo "${name} $*" >> /workspace/.calls`)
  for (const name of LAUNCHERS)
    write(name, 'while case $1 in -u) shift ;; -*) ;; *) false ;; esac; do shift; done; exec "$@"')
  for (const name of FETCHERS) write(name, 'echo "rm -rf b"')
}

const COMMITTED = 'committed\n'
const AUTHOR = ['-c', 'user.name=a', '-c', 'user.email=a@b.c', '-c', 'init.defaultBranch=main']

/**
 * Creates a repository with folders `b` and `src/b`, an uncommitted change of `f`, and a remote whose `main`
 * has an extra commit.
 */
function makeTree(tree: string): void {
  const git = (...args: string[]) =>
    execFileSync('git', [...AUTHOR, ...args], { cwd: tree, stdio: ['ignore', 'pipe', 'ignore'] })
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(tree, path)), { recursive: true })
    writeFileSync(join(tree, path), text)
  }
  for (const path of ['f', 'b/f', 'b/deep/f', 'src/b/f']) write(path, COMMITTED)
  git('init')
  git('add', '.')
  git('commit', '-m', 'first')
  git('branch', 'old')
  git('init', '--bare', '.git/remote')
  git('remote', 'add', 'origin', '.git/remote')
  git('commit', '--allow-empty', '-m', 'of another')
  git('push', '--set-upstream', 'origin', 'main')
  git('reset', '--soft', 'HEAD~1')
  git('commit', '--allow-empty', '-m', 'of this one')
  write('f', 'changed\n')
  write('list', 'b\n')
  write('untracked', 'text\n')
  write('src/untracked', 'text\n')
}

function destroyedIn(workspace: string): string | undefined {
  const read = (path: string) => {
    const file = join(workspace, path)
    return existsSync(file) ? readFileSync(file, 'utf8') : undefined
  }
  const lost = ['b/deep/f', 'src/b/f', '.git/refs/heads/old', 'untracked', 'src/untracked'].find(
    (path) => read(path) === undefined,
  )
  if (lost !== undefined) return lost
  if (read('f') === COMMITTED) return 'an uncommitted change'
  if (read('.git/remote/refs/heads/main') === read('.git/refs/heads/main')) return "another one's commit"
  return DESTRUCTIVE_CALL.exec(read('.calls') ?? '')?.[0]
}
