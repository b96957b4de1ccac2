import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { CLI } from '../helpers/built-programs.ts'
import { freePort } from '../helpers/free-port.ts'
import { processesWith } from '../helpers/processes-with.ts'
import { until } from '../helpers/until.ts'

const ROOT = join(import.meta.dirname, '..', '..')
const START_SERVICE = 'npx agentweaver serve'
const LISTENS = /listens on \S+ \(process (\d+)\)/

/** The commands below a bold title in the section "Try it" of docs/runs.md, in order. */
function commandsOf(title: string): string[] {
  const section = readFileSync(join(ROOT, 'docs', 'runs.md'), 'utf8')
    .split('\n## Try it\n')[1]
    ?.split('\n## ')[0]
  const part = section?.split(`**${title}**`)[1]?.split('\n**')[0] ?? ''
  return [...part.matchAll(/```sh\n(.*?)```/gs)].flatMap(([, block]) => block?.trim().split('\n') ?? [])
}

let home: string
let env: NodeJS.ProcessEnv
/** Values for the words in capitals, from the output of earlier commands. */
const values = new Map<string, string>()
const services: ChildProcess[] = []

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'aw-demonstrations-'))
  const bin = join(home, 'bin')
  mkdirSync(bin)
  // In a clone's folder, npx calls the clone's own command. Here it is called from another folder.
  const call = `#!/bin/sh\nshift\nexec "${process.execPath}" "${CLI}" "$@"\n`
  writeFileSync(join(bin, 'npx'), call, { mode: 0o755 })
  const port = String(await freePort('127.0.0.1'))
  env = { HOME: home, PATH: `${bin}:${process.env['PATH']}`, AGENTWEAVER_PORT: port, TMPDIR: home }
})
afterAll(async () => {
  for (const service of services.filter(({ exitCode, signalCode }) => exitCode === null && !signalCode)) {
    service.kill('SIGTERM')
    await once(service, 'exit')
  }
  rmSync(home, { recursive: true, force: true })
})

function start(command: string) {
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
  return { child, output: () => output }
}

async function startService(command: string): Promise<void> {
  const { child, output } = start(command)
  services.push(child)
  await until('the service listens', () => LISTENS.test(output()) || child.exitCode !== null)
  values.set('PROCESS', LISTENS.exec(output())?.[1] ?? output())
}

async function runCommand(command: string): Promise<string> {
  const child = spawn('bash', ['-c', command], { cwd: home, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const chunks: string[] = []
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (c: string) => chunks.push(c))
  const [code] = await once(child, 'close')
  const output = chunks.join('')
  expect(code, `${command}\n${output}`).toBe(0)
  for (const [name, pattern] of [
    ['RUN', /^(run_\w+)$/m],
    ['REQUEST', /agentweaver approve \S+ (\S+)/],
  ] as const) {
    const value = pattern.exec(output)?.[1]
    if (value) values.set(name, value)
  }
  return output
}

/** Runs commands in order and returns the output of each. `before` is called before each command. */
async function follow(commands: readonly string[], before: (command: string) => unknown = () => undefined) {
  const outputs = new Map<string, string>()
  for (const written of commands) {
    await before(written)
    const command = written.replace(/\b(RUN|REQUEST|PROCESS)\b/g, (word) => values.get(word) ?? word)
    if (written === START_SERVICE) await startService(command)
    else outputs.set(written.replace(/ [A-Z]+/g, ''), await runCommand(command))
  }
  return outputs
}

it('lets a run wait without a sandbox, as the documentation shows', async () => {
  const commands = commandsOf('A run waits without a sandbox.')

  const outputs = await follow(commands, async (command) => {
    if (!command.startsWith('npx agentweaver suspend')) return
    const show = `npx agentweaver show ${values.get('RUN')}`
    await until('the run waits', async () => /waits for +an approval/.test(await runCommand(show)))
  })

  expect(commands).toHaveLength(7)
  expect(outputs.get('npx agentweaver show')).toMatch(/state +suspended[\s\S]*waits for +an approval/)
  expect(outputs.get('npx agentweaver logs -f')).toMatch(
    /suspended[\s\S]*approved[\s\S]*removed[\s\S]*succeeded/,
  )
})

it('continues a run of a service that is killed, as the documentation shows', async () => {
  const commands = commandsOf('A service is killed in the middle of a run.')
  const attempts = () => {
    try {
      return readFileSync(join(home, 'killed', 'attempts'), 'utf8')
    } catch {
      return ''
    }
  }

  const outputs = await follow(commands, async (command) => {
    if (!command.startsWith('kill')) return
    await until('the command runs', () => attempts() === 'attempt\n' && processesWith('attempts;').length > 0)
  })

  expect(commands).toHaveLength(6)
  expect(outputs.get('npx agentweaver logs -f')).toMatch(/interrupted[\s\S]*succeeded/)
  expect(attempts()).toBe('attempt\nattempt\n')
})
