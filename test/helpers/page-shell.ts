import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from './until.ts'

/** A command of a page, as it is written, and the person at whose terminal it is run. */
export interface PageCommand {
  readonly text: string
  /** The second word after the fence (```sh ada), otherwise empty. */
  readonly person: string
}

const HERE_DOCUMENT = /<<-?'?(\w+)'?/

/** The commands of a block. A here-document belongs to its command. */
function commandsOf(block: string): string[] {
  const commands: string[] = []
  let end: string | undefined
  for (const line of block.trim().split('\n')) {
    if (end === undefined) commands.push(line)
    else commands.push(`${commands.pop()}\n${line}`)
    if (end === undefined) end = HERE_DOCUMENT.exec(line)?.[1]
    else if (line === end) end = undefined
  }
  return commands
}

/** The commands in the `sh` blocks of a text, in order. */
export function pageCommands(text: string): PageCommand[] {
  return [...text.matchAll(/^```sh *(\w*)\n(.*?)^```$/gms)].flatMap(([, person = '', block = '']) =>
    commandsOf(block).map((command) => ({ text: command, person })),
  )
}

/** The text between a heading and the next heading of the same level. */
export function pageSection(page: string, heading: string): string {
  const level = heading.split(' ')[0] ?? ''
  const text = readFileSync(page, 'utf8').split(`\n${heading}\n`)[1]
  if (text === undefined) throw new Error(`${page} has no heading "${heading}"`)
  return text.split(new RegExp(`^${level} `, 'm'))[0] ?? ''
}

/**
 * Puts commands into a folder for the PATH: by name, the program of this product that each starts. Pages call `npx agentweaver`
 * and `npm start`, which work in a clone only.
 */
export function writeCommands(folder: string, commands: Readonly<Record<string, string>>): void {
  mkdirSync(folder, { recursive: true })
  for (const [name, program] of Object.entries(commands)) {
    const call = `#!/bin/sh\nshift\nexec "${process.execPath}" "${program}" "$@"\n`
    writeFileSync(join(folder, name), call, { mode: 0o755 })
  }
}

export interface PageShell {
  /** Types a line and waits for its end. The result has its output on both streams. */
  run(command: string, onOutput?: (output: string) => void): Promise<{ status: number; output: string }>
  close(): Promise<void>
}

const END_OF_COMMAND = /\u001e(\d+)\n$/

const SHELL = ['bash', '-c', 'exec bash 2>&1'] as const
/** The same with another `/etc/hosts`, in a separate mount namespace. */
const shellWithHosts = (file: string) => [
  ...['unshare', '--mount', '--propagation', 'private', '--'],
  ...['bash', '-c', 'mount --bind "$0" /etc/hosts && exec bash 2>&1', file],
]

/**
 * One bash in which commands run one after the other, as at a terminal. Variables and the folder stay. With a file in the format
 * of `/etc/hosts`, its commands know these names; that needs root.
 */
export function openPageShell(home: string, env: NodeJS.ProcessEnv, hosts?: string): PageShell {
  const [program = '', ...argv] = hosts === undefined ? SHELL : shellWithHosts(hosts)
  const child: ChildProcess = spawn(program, argv, {
    cwd: home,
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  let output = ''
  let listener: (output: string) => void = () => undefined
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk
    listener(output)
  })
  return {
    async run(command, onOutput = () => undefined) {
      output = ''
      listener = onOutput
      child.stdin?.write(`{ ${command}\n} </dev/null\nprintf '\\036%s\\n' $?\n`)
      await until(`"${command}" ends`, () => END_OF_COMMAND.test(output) || child.exitCode !== null, 150_000)
      const status = Number(END_OF_COMMAND.exec(output)?.[1] ?? child.exitCode)
      return { status, output: output.replace(END_OF_COMMAND, '') }
    },
    async close() {
      child.stdin?.end()
      await closed
    },
  }
}

/** A service in its own terminal, as a page starts it. Fails if it ends before it listens. */
export async function startPageService(command: string, home: string, env: NodeJS.ProcessEnv) {
  const child = spawn('bash', ['-c', `exec ${command}`], {
    cwd: home,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
  const listens = () => LISTENS.exec(output)?.[1]
  await until('the service listens', () => listens() !== undefined || child.exitCode !== null)
  const pid = listens()
  if (pid === undefined) throw new Error(`"${command}" ended:\n${output}`)
  return {
    /** As the service prints it. */
    pid,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}

const LISTENS = /listens on \S+ \(process (\d+)\)/

/** Values that a reader copies from the output of one command into later commands. */
const COPIED: readonly (readonly [string, RegExp])[] = [
  ['RUN', /\b(run_\w+)/],
  ['REQUEST', /agentweaver approve \S+ (\S+)/],
]

interface Reader {
  readonly shellOf: (person: string) => PageShell
  /** The words in capitals of the page with the values that were printed last. */
  readonly values: Map<string, string>
  /** Is called before each command. The result `done` means that the test did it itself. */
  readonly before?: (command: PageCommand) => Promise<unknown>
}

/**
 * Runs the commands of a page in order, each at the terminal of its person, and returns the output of each (the
 * last one of a repeated command). A command that fails, fails the test.
 */
export async function followPage(commands: readonly PageCommand[], reader: Reader) {
  const { shellOf, values, before = () => Promise.resolve() } = reader
  const outputs = new Map<string, string>()
  for (const command of commands) {
    if ((await before(command)) === 'done') continue
    const text = command.text.replace(/\b[A-Z]+\b/g, (word) => values.get(word) ?? word)
    const { status, output } = await shellOf(command.person).run(text)
    if (status !== 0) throw new Error(`"${text}" ended with ${status}:\n${output}`)
    for (const [name, pattern] of COPIED) {
      const value = pattern.exec(output)?.[1]
      if (value) values.set(name, value)
    }
    outputs.set(command.text, output)
  }
  return outputs
}
