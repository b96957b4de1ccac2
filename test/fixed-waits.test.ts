import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '..')
const WAIT = /\b(?:setTimeout|setTimeoutPromise|sleep|delay)\(/

/** Files that may wait for a time, with the reason. Every other test waits for a condition (`helpers/until.ts`). */
const ALLOWED: Readonly<Record<string, string>> = {
  'helpers/until.ts': 'polls a condition',
  'cli/run-cli.ts': 'polls a condition',
  'pulumi/cli/faults.test.ts': 'polls a condition',
  'pulumi/cli/preview-stack.test.ts': 'polls a condition',
  'conformance/agent-host-cases/raw-http.ts': 'a deadline',
  'conformance/agent-host-cases/streams.ts': 'the absence of an event, which has no condition',
  'fakes/kube/watches.ts': 'the timeout that the client asks for',
  'fakes/kube-api.ts': 'a planted slow response',
  'fakes/model-server.ts': 'a planted pause between two parts of a response',
  'fakes/pulumi/kubernetes-provider.ts': 'the duration of a write, so that writes overlap',
  'fakes/pulumi/azure/azure-provider.ts': 'the duration of a write, so that writes overlap',
  'fakes/pulumi/provider-server.ts': 'a planted slow response; a crash after the other operations',
  'agents/copilot-agent.faults.process.test.ts':
    'a tool call longer than the idle time; kills at many moments',
  'sandboxes/kubernetes/provider.faults.process.test.ts': 'the absence of an event, which has no condition',
  'governance/shell.memory.process.test.ts': 'work that the engine does in the background, without an event',
  'runs/cause-of.test.ts': 'a planted late answer',
  'runs/store-outage.database.test.ts': 'the duration of a planted outage',
  'runs/sandbox-death.process.test.ts': 'a planted slow answer',
  'runs/relay.acknowledging.test.ts': 'the absence of an acknowledgement, which has no condition',
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
