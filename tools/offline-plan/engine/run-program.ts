import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import type { Plan, PlannedResource } from '../../../contracts/planned-resource.ts'
import { createEngine, createMonitor, type Recording } from './monitor.ts'
import { ENGINE_SERVICE, MONITOR_SERVICE, RUNNER, serve } from './wire.ts'

const TIMEOUT_MS = 120_000

export interface ProgramRun {
  readonly project: string
  readonly stack: string
  /** Folder whose `index.ts` is the program. */
  readonly program: string
  /** Section `config` of the stack file, keys with their namespace. */
  readonly config: Readonly<Record<string, unknown>>
  /** Arguments of Node itself. */
  readonly nodeArguments?: readonly string[]
  /** Variables that the program's process gets in addition to PATH and HOME. It gets no others. */
  readonly environment?: Readonly<Record<string, string>>
}

/** A program that ended with an error, or that sent a request that the engine rejects. */
export class ProgramError extends Error {
  override readonly name = 'ProgramError'
}

/**
 * Runs a Pulumi program with the SDK's own runner as a dry run against an engine in this process, and returns every
 * registered resource. It needs no Pulumi CLI, plugin, login or network.
 */
export async function runProgram(run: ProgramRun): Promise<Plan> {
  const recording: Recording = { resources: [], providers: new Map(), outputs: {}, errors: [] }
  await using endpoint = await serve([
    [MONITOR_SERVICE, createMonitor(run, recording)],
    [ENGINE_SERVICE, createEngine(recording)],
  ])
  const { status, output } = await runRunner(run, endpoint.address)
  if (status !== 0 || recording.errors.length > 0) {
    throw new ProgramError([...recording.errors, output].filter((text) => text !== '').join('\n'))
  }
  const outputs = Object.entries(recording.outputs).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return {
    project: run.project,
    stack: run.stack,
    resources: inOrder(recording),
    outputs: Object.fromEntries(outputs),
  }
}

async function runRunner(run: ProgramRun, address: string) {
  const argv = ['--monitor', address, '--engine', address, '--project', run.project, '--stack', run.stack]
  const settings = ['--organization', 'organization', '--dry-run', 'true', '--parallel', '16']
  const child = spawn(
    process.execPath,
    [...(run.nodeArguments ?? []), RUNNER, ...argv, ...settings, '--pwd', resolve(run.program), '.'],
    {
      env: {
        PATH: '',
        ...run.environment,
        PULUMI_NODEJS_TYPESCRIPT: 'false',
        PULUMI_CONFIG: JSON.stringify(asStrings(run.config)),
        PULUMI_CONFIG_SECRET_KEYS: '[]',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
      signal: AbortSignal.timeout(TIMEOUT_MS),
    },
  )
  const chunks: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk))
  const [status] = (await once(child, 'close')) as [number | null]
  return { status, output: Buffer.concat(chunks).toString('utf8').trim() }
}

/** Values as Pulumi's command line passes them: text unchanged, everything else as JSON. */
function asStrings(config: Readonly<Record<string, unknown>>): Record<string, string> {
  const entries = Object.entries(config).map(
    ([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)] as const,
  )
  return Object.fromEntries(entries)
}

/**
 * Resources arrive in the order in which promises settle, which is no order. Sorted by URN, each after all that it
 * needs, the same program gives the same file.
 */
function inOrder({ resources, providers }: Recording): PlannedResource[] {
  const waiting = new Map(resources.toSorted((a, b) => (a.urn < b.urn ? -1 : 1)).map((one) => [one.urn, one]))
  const placed: PlannedResource[] = []
  const place = (resource: PlannedResource) => {
    if (!waiting.delete(resource.urn)) return
    const before = [resource.parent, providers.get(resource.urn), ...resource.dependencies]
    for (const urn of before) {
      const needed = waiting.get(urn ?? '')
      if (needed) place(needed)
    }
    placed.push(resource)
  }
  for (const resource of [...waiting.values()]) place(resource)
  return placed
}
