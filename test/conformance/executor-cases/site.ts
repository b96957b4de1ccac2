import { once } from 'node:events'
import { mkdir, mkdtemp, realpath, rm, symlink } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { processesNaming } from '../../executors/processes.ts'

/** Access to the place where commands run, from outside the executor. */
export interface Site {
  open(): Promise<void>
  close(): Promise<void>
  /** Creates a folder in the workspace, with missing parents. */
  folder(path: string): Promise<void>
  /** Creates a link in the workspace. */
  link(target: string, path: string): Promise<void>
  /** Returns the number of processes whose command line starts with `text`. Arguments are separated by NUL. */
  countProcesses(text: string): Promise<number>
  /** Continuously swaps a path of the workspace between a folder and a link to `outside`, until stopped. */
  swap(path: string, outside: string): Promise<() => Promise<void>>
  /** A folder outside the workspace that commands could enter. */
  readonly outside: string
  /** A port on 127.0.0.1 that commands with network access can reach. */
  readonly port: number
  /** A command line that makes one raw system call from its arguments and prints the errno. */
  readonly syscallProgram: string
}

const FIXTURES = resolve(import.meta.dirname, '../../executors/fixtures')
export const SYSCALL_FIXTURE = join(FIXTURES, 'syscall.mjs')
export const SYSCALL_PROGRAM = `node ${SYSCALL_FIXTURE}`

export const temporaryFolder = async () => realpath(await mkdtemp(join(tmpdir(), 'agentweaver-test-')))

export function localSite(workspace: string): Site {
  let outside = ''
  let server: Server | undefined
  return {
    async open() {
      outside = await temporaryFolder()
      server = createServer((socket) => socket.end()).listen(0, '127.0.0.1')
      await once(server, 'listening')
    },
    async close() {
      server?.close()
      await rm(outside, { recursive: true, force: true })
    },
    folder: async (path) => {
      await mkdir(join(workspace, path), { recursive: true })
    },
    link: (target, path) => symlink(target, join(workspace, path)),
    countProcesses: async (text) => processesNaming(text).length,
    swap: async (path, to) => startSwapping(join(workspace, path), to),
    syscallProgram: SYSCALL_PROGRAM,
    get outside() {
      return outside
    },
    get port() {
      const address = server?.address()
      if (typeof address !== 'object' || address === null) throw new Error('the site is not open')
      return address.port
    },
  }
}

function startSwapping(place: string, outside: string): () => Promise<void> {
  let isSwapping = true
  const swapping = (async () => {
    while (isSwapping) {
      await rm(place, { recursive: true, force: true })
      await mkdir(place)
      await rm(place, { recursive: true, force: true })
      await symlink(outside, place)
    }
  })()
  return async () => {
    isSwapping = false
    await swapping
  }
}
