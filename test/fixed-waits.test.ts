import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '..')
const WAIT = /\b(?:setTimeout|setTimeoutPromise|sleep|delay)\(/

/** Files that may wait for a time, with the reason. Every other test waits for a condition (`helpers/until.ts`). */
const ALLOWED: Readonly<Record<string, string>> = {
  'helpers/until.ts': 'polls a condition; all other tests use this function',
  'agent-host/git-toolbox.ts': 'the time limit of a command, as the runner has it',
  'conformance/agent-host-cases/streams.ts': 'a stream that pauses: the absence of an event has no condition',
  'fakes/kube/watches.ts': 'a fake server ends a watch after the time that the client asks for',
  'fakes/kube-api.ts': 'a fake server that responds late: less than the time limit of the client',
  'fakes/model-server.ts':
    'a fake server that writes an answer in parts, so that a turn is cancelled within it',
  'fakes/pulumi/kubernetes-provider.ts': 'the duration of a write, so that writes overlap',
  'fakes/pulumi/azure/azure-provider.ts': 'the duration of a write, so that writes overlap',
  'fakes/pulumi/provider-server.ts':
    'a fake provider that responds late, or crashes after its other operations',
  'governance/shell.memory.process.test.ts': 'the engine compiles in the background and reports no end',
  'runs/store-outage.long.database.test.ts': 'an outage that lasts longer than a client once retried',
  'runs/suspend-lost-answer.process.test.ts': 'the duration of a release, so that a service stops within it',
  'runs/sandbox-death.long.process.test.ts': 'kills at many moments between two events',
}

/** Suites that measure time, and lanes that run elsewhere. */
const ELSEWHERE = /^(?:cluster|attack|chaos)\//

const sources = readdirSync(join(ROOT, 'test'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  .map((entry) => relative(join(ROOT, 'test'), join(entry.parentPath, entry.name)))
  .filter((file) => !ELSEWHERE.test(file) && file !== 'fixed-waits.test.ts')

const waits = (source: string) => WAIT.test(source)
const waiting = sources.filter((file) => waits(readFileSync(join(ROOT, 'test', file), 'utf8')))

it('lets no test wait for a fixed time without a reason', () => {
  expect(sources.length).toBeGreaterThan(300)
  expect(waiting.filter((file) => ALLOWED[file] === undefined)).toEqual([])
})

it('lists no file that does not wait', () => {
  expect(Object.keys(ALLOWED).filter((file) => !waiting.includes(file))).toEqual([])
})

it.each(['await delay(20)', 'setTimeout(resolve, 5)', 'await sleep(1)'])('finds %s', (source) => {
  expect(waits(source)).toBe(true)
})
