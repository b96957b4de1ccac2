import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import openapiTypescript, { astToString } from 'openapi-typescript'
import ts from 'typescript'
import { expect, onTestFinished, test } from 'vitest'
import { startApp } from './harness.ts'

/** A client that uses only types generated from the document. */
const CLIENT = `
import type { components, operations } from './types.ts'

type Schemas = components['schemas']
type StartRun = operations['startRun']['requestBody']['content']['application/json']
type Started = operations['startRun']['responses'][202]['content']['application/json']
type Page = operations['listRunEvents']['parameters']['query']

const page: Page = { after: 0, limit: 10 }

export async function start(base: string, key: string): Promise<Started> {
  const body: StartRun = {
    task: 'fix it',
    workspace: { kind: 'upload' },
    agent: { kind: 'copilot', model: 'm' },
    interactive: false,
  }
  const answer = await fetch(base + '/api/runs', {
    method: 'POST',
    headers: { authorization: 'Bearer ' + key, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!answer.ok) {
    const problem = (await answer.json()) as Schemas['Problem']
    const isFull: boolean = problem.code === 'queue_full'
    throw new Error(problem.detail + isFull)
  }
  return (await answer.json()) as Started
}

export function toText({ sequence, event }: Schemas['RunEnvelope']): string {
  switch (event.type) {
    case 'agent.message':
      return sequence.toFixed() + event.data.text
    case 'command.exited':
      return String(event.data.result.exitCode)
    case 'shell.approval_required': {
      const asked: Schemas['ShellApprovalRequiredEvent'] = event
      return asked.data.command
    }
    default:
      return event.type
  }
}

export const limit = page?.limit
export const left: Schemas['Run']['state'] = 'waiting_upload'
`

/** Mistakes that the types must detect: a page limit as a string, and an unknown event type, agent and state. */
const MISTAKES: readonly [right: string, wrong: string][] = [
  ['limit: 10', "limit: '10'"],
  ["case 'agent.message':", "case 'agent.massage':"],
  ["kind: 'copilot'", "kind: 'pilot'"],
  ["'waiting_upload'", "'awaiting_upload'"],
]

test('a client compiles with the types of openapi-typescript, and four mistakes in it do not', async () => {
  for (const [right] of MISTAKES) expect(CLIENT).toContain(right)
  const wrong = MISTAKES.map(([right, wrong]) => CLIENT.replace(right, wrong))

  const { errorsOf, elsewhere } = await compile(await generateTypes(), [CLIENT, ...wrong])

  expect(elsewhere).toEqual([])
  expect(errorsOf(0)).toEqual([])
  for (const [index, [, mistake]] of MISTAKES.entries()) expect(errorsOf(index + 1), mistake).not.toEqual([])
}, 600_000)

async function generateTypes(): Promise<string> {
  const { app } = startApp()
  return astToString(await openapiTypescript((await app.inject({ url: '/openapi.json' })).json()))
}

/** Compiles all clients in one program: the library of the browser, which `fetch` needs, is read once. */
async function compile(types: string, clients: readonly string[]) {
  const folder = await mkdtemp(join(tmpdir(), 'openapi-client-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'types.ts'), types)
  const files = clients.map((_, index) => join(folder, `client-${index}.ts`))
  for (const [index, client] of clients.entries()) await writeFile(files[index] ?? '', client)
  const program = ts.createProgram(files, {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
    types: [],
  })
  const errors = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => ({
    index: files.indexOf(file?.fileName ?? ''),
    text: ts.flattenDiagnosticMessageText(messageText, '\n'),
  }))
  const errorsOf = (index: number) => errors.filter((one) => one.index === index).map(({ text }) => text)
  return { errorsOf, elsewhere: errorsOf(-1) }
}
