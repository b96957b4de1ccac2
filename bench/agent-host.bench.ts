import { spawnSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { AgentHostEnvInput } from '../contracts/agent-host-env.ts'
import { bundleServices } from '../tools/bundle.ts'
import { type Bench, type Figure, figure } from './harness.ts'
import { BARE_SERVER, cpuMs, residentBytes, type Subject, startSubject } from './subjects/process.ts'

const ROUNDS = 9
const WARM_UP = 1
/** What loads after standby has been loaded by then, and the first garbage is gone or stays. */
const SETTLE_MS = 800
const BAR = { memory: 1.8, start: 2, cpuMs: 300, opens: 60 }

/** Figures of one start. */
const FIGURES = ['memory', 'start', 'cpu'] as const

type Samples = { baseline: number[]; value: number[] }
type Place = { readonly folder: string; readonly entry: string }

/** AgentHost from its bundle against a bare Node HTTP server, both on a Unix socket. */
export const bench: Bench = { name: 'agent-host', run }

async function run(): Promise<readonly Figure[]> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'agent-host-')))
  try {
    // The packages that a bundle leaves outside are found from its folder.
    symlinkSync(fileURLToPath(new URL('../node_modules', import.meta.url)), join(folder, 'node_modules'))
    writeFileSync(join(folder, 'jwks.json'), '{"keys":[]}')
    mkdirSync(join(folder, 'state'))
    const { agentHost } = await bundleServices(join(folder, 'bundle'))
    const place = { folder, entry: agentHost }
    return [...(await measureStarts(place)), ...(await countOpens(place))]
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function measureStarts(place: Place): Promise<Figure[]> {
  const empty = (): Samples => ({ baseline: [], value: [] })
  const of = { memory: empty(), start: empty(), own: empty(), cpu: empty() }
  for (let round = -WARM_UP; round < ROUNDS; round++) {
    const baseline = await measure(await startBare(place))
    const value = await measure(await startAgentHost(place))
    const talkative = await startAgentHost(place, 'debug')
    const ownStart = ownStartOf(talkative)
    await talkative.stop()
    if (round < 0) continue
    for (const what of FIGURES) {
      of[what].baseline.push(baseline[what])
      of[what].value.push(value[what])
    }
    // A program without a runner waits for none.
    of.own.baseline.push(baseline.start)
    of.own.value.push(ownStart)
  }
  const { memory, start, own, cpu } = of
  return [
    figure({ name: 'agent-host (memory)', unit: 'bytes', bar: BAR.memory, samples: memory }),
    figure({
      name: 'agent-host (start)',
      unit: 'ms',
      bar: BAR.start,
      samples: start,
      note: 'from the spawn to standby, the start of its runner included',
    }),
    figure({
      name: 'agent-host (own start)',
      unit: 'ms',
      bar: BAR.start,
      samples: own,
      note: 'until it waits for nothing but its runner, which starts meanwhile',
    }),
    figure({
      name: 'agent-host (processor)',
      unit: 'ms',
      measure: 'absolute',
      bar: BAR.cpuMs,
      samples: cpu,
      note: `×${(middle(cpu.value) / middle(cpu.baseline)).toFixed(2)} of a bare server's time on a processor`,
    }),
  ]
}

const middle = (samples: readonly number[]) => samples.toSorted((a, b) => a - b)[samples.length >> 1] ?? 0

async function measure(subject: Subject): Promise<Record<(typeof FIGURES)[number], number>> {
  const cpu = cpuMs(subject.pid)
  await delay(SETTLE_MS)
  const memory = residentBytes(subject.pid)
  await subject.stop()
  return { memory, start: subject.startMs, cpu }
}

/** By its own clock, which begins some milliseconds after the spawn. */
function ownStartOf({ said }: Subject): number {
  const afterMs = /"afterMs":(\d+),"message":"waiting for the runner"/.exec(said())?.[1]
  if (afterMs === undefined) throw new Error('AgentHost did not say when it began to wait for its runner')
  return Number(afterMs)
}

let sockets = 0
const nextSocket = ({ folder }: Place) => join(folder, `${++sockets}.sock`)

const startBare = (place: Place) => startSubject([BARE_SERVER, nextSocket(place)])
const startAgentHost = (place: Place, logLevel: 'error' | 'debug' = 'error') =>
  startSubject([place.entry], { ...environment(place), AGENT_HOST_LOG_LEVEL: logLevel })

function environment(place: Place): Record<string, string> {
  const env = {
    AGENT_HOST_INSTANCE_ID: 'benchmark',
    AGENT_HOST_SOCKET: nextSocket(place),
    AGENT_HOST_JWKS_FILE: join(place.folder, 'jwks.json'),
    AGENT_HOST_RUNNER_BACKEND: 'linux-bwrap',
    AGENT_HOST_STATE_DIR: join(place.folder, 'state'),
    AGENT_HOST_LOG_LEVEL: 'error',
  } satisfies AgentHostEnvInput
  return { ...env, PATH: '/usr/local/bin:/usr/bin:/bin', TMPDIR: place.folder, HOME: place.folder }
}

const OPENED = /open(?:at)?\(.*?"([^"]+)".*\) = \d+/

/** Files that AgentHost opened and a bare server did not: its bundle and all that it asked for itself. */
async function countOpens(place: Place): Promise<Figure[]> {
  if (spawnSync('strace', ['-V']).error) {
    process.stderr.write('agent-host: the file opens are not counted, strace is not installed\n')
    return []
  }
  const bare = await opensOf(place, [BARE_SERVER, nextSocket(place)])
  const ours = await opensOf(place, [place.entry])
  const own = ours.filter((file) => !bare.includes(file))
  return [
    figure({
      name: 'agent-host (file opens)',
      unit: 'count',
      measure: 'absolute',
      bar: BAR.opens,
      samples: { baseline: [bare.length], value: [own.length] },
      note: 'before standby, without what a bare server opens too',
    }),
  ]
}

/** Files that the process itself (not its children) opened before it reported that it is ready. */
async function opensOf(place: Place, args: string[]): Promise<string[]> {
  const log = join(place.folder, 'trace')
  const strace = [
    '-qq',
    '-f',
    '-s',
    '4096',
    '-o',
    log,
    '-e',
    'trace=open,openat,execve,write,clone,clone3,fork,vfork',
  ]
  const subject = await startSubject([...strace, process.execPath, ...args], environment(place), 'strace')
  await subject.stop()
  const lines = readFileSync(log, 'utf8').split('\n')
  rmSync(log)
  const ready = lines.findIndex((line) => /write\(1, "(?:standby|listening)/.test(line))
  const others = otherProcesses(lines)
  return lines
    .slice(0, ready)
    .filter((line) => !others.has(threadOf(line)))
    .flatMap((line) => OPENED.exec(line)?.[1] ?? [])
}

const threadOf = (line: string) => line.split(' ')[0] ?? ''

/** Threads of the programs that the traced process started, with the threads of their children. */
function otherProcesses(lines: readonly string[]): ReadonlySet<string> {
  const others = new Set(
    lines
      .slice(1)
      .filter((line) => line.includes('execve('))
      .map(threadOf),
  )
  for (const line of lines) {
    const made = /(?:clone3?|v?fork)(?:\(| resumed).* = (\d+)/.exec(line)?.[1]
    if (made !== undefined && others.has(threadOf(line))) others.add(made)
  }
  return others
}
