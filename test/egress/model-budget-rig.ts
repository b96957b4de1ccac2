import { mkdtempSync, rmSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Budgets } from '../../contracts/budgets.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import { ModelBudgets } from '../../runtime/api/egress/model-budgets.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { openStore } from '../../runtime/store/open-store.ts'
import { until } from '../helpers/until.ts'
import { givenRun } from '../store/rows.ts'
import { type Answer, modelRig } from './model-rig.ts'

export const CHAT = { model: 'm', messages: [{ role: 'user', content: 'hello' }] }
export const event = (data: unknown) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
export const delta = (content: string) => event({ choices: [{ index: 0, delta: { content } }] })
export const usage = (total: number) => ({ prompt_tokens: 0, completion_tokens: total, total_tokens: total })

export const json =
  (body: unknown, status = 200): Answer =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
export const stream =
  (write: (response: ServerResponse) => void): Answer =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    write(response)
  }

/** A proxy whose run has budgets, over a real store. */
export async function budgetRig(budgets: Budgets, answer: Answer) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-model-budget-'))
  const store = await openStore({ kind: 'sqlite', file: join(folder, 'store.db') }, { log: silentLog })
  let isClosed = false
  let settling = Promise.resolve()
  onTestFinished(async () => {
    isClosed = true
    await settling
    await store.close()
    rmSync(folder, { recursive: true })
  })
  const runId = await givenRun(store, { settings: SandboxSettings.parse({ budgets }), state: 'running' })
  await store.transaction((tx) => tx.changeRun(runId, { generation: 1 }))
  const counted = new ModelBudgets(store)
  const ended: string[] = []
  counted.onSpent((id, ending) => {
    ended.push(`${id} ${ending.state === 'failed' ? ending.code : ending.state}`)
  })
  const model = await modelRig({
    answer,
    hasKey: false,
    runId,
    route: { isMetered: true },
    reserve: (request) => counted.reserve(request),
    onReport: (report) => {
      if (report.type !== 'model-use') return
      const settle = async () => {
        if (isClosed) return
        const ending = await store.transaction(async (tx) => {
          const run = await tx.readRun(runId)
          return run && counted.settle(tx, run, report.data)
        })
        counted.tell(runId, ending)
      }
      settling = settling.then(settle)
    },
  })
  const uses = () => model.reports.filter(({ type }) => type === 'model-use').length
  /** What the run has used, after so many requests. */
  const used = async (requests: number) => {
    await until('the requests are counted', () => uses() === requests)
    await settling
    const run = await store.readRun(runId)
    return { tokens: run?.usage.tokens, model_requests: run?.usage.model_requests }
  }
  const reserved = () =>
    store.transaction(async (tx) =>
      (await tx.listReservations(runId)).reduce((sum, { tokens }) => sum + tokens, 0),
    )
  const ending = async () => (await store.readRun(runId))?.ending
  return { ...model, store, runId, counted, ended, used, reserved, ending }
}
