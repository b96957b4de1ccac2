import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { type PostgresServer, startPostgres } from '../../devcluster/service/postgres-server.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { buildPackage } from '../helpers/build-package.ts'
import { BACKENDS, type Backend } from './plan/backends.ts'
import { FOUND } from './plan/found.ts'
import { planRound, type RoundRequest } from './plan/plan.ts'
import { type RoundResult, runRound } from './round.ts'
import { closeWorlds, type Ground } from './world/world.ts'

const RUNS_PER_ROUND = 10
const EXIT_FINDINGS = 1
const EXIT_USAGE = 2
/** What a shell reports for a program that a signal ended. */
const EXIT_STOPPED = { SIGINT: 130, SIGTERM: 143 } as const

const HELP = `Usage: npm run test:chaos -- [options]

Starts the real service, gives it runs, injects faults, and checks from outside what became of the runs.

  --runs N         number of runs (default 150); ${RUNS_PER_ROUND} of them share one service
  --seed S         seed of the first round (default 1); the next rounds have the next numbers
  --backend NAME   ${BACKENDS.join(', ')} (default: each in turn)
  --jobs N         rounds at the same time (default 3)
  --no-faults      only the runs
  --found          also repeat the rounds that found a defect
  --logs FOLDER    write everything about a round with findings to a file in this folder
  --plan           print the schedules and do nothing
  --json           one JSON line per round
`

const print = (text: string) => void process.stdout.write(`${text}\n`)

function options() {
  try {
    const { values } = parseArgs({
      options: {
        runs: { type: 'string', default: '150' },
        seed: { type: 'string', default: '1' },
        backend: { type: 'string' },
        jobs: { type: 'string', default: '3' },
        'no-faults': { type: 'boolean', default: false },
        found: { type: 'boolean', default: false },
        logs: { type: 'string' },
        plan: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    })
    if (values.help) {
      print(HELP)
      process.exit(0)
    }
    const backend =
      values.backend === undefined ? undefined : BACKENDS.find((name) => name === values.backend)
    if (values.backend !== undefined && backend === undefined)
      throw new Error(`there is no backend ${values.backend}`)
    return {
      ...values,
      backend,
      runs: whole(values.runs),
      seed: whole(values.seed),
      jobs: whole(values.jobs),
    }
  } catch (error) {
    process.stderr.write(`error: ${messageOf(error)}\n\n${HELP}`)
    return process.exit(EXIT_USAGE)
  }
}

function whole(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error(`${text} is no whole number`)
  return Number(text)
}

type Options = ReturnType<typeof options>

function requestsOf({ runs, seed, backend, found, ...given }: Options): RoundRequest[] {
  const backends: readonly Backend[] = backend ? [backend] : BACKENDS
  const rounds = Math.ceil(runs / RUNS_PER_ROUND)
  const seeded = Array.from({ length: rounds }, (_, index): RoundRequest => {
    const count = Math.min(RUNS_PER_ROUND, runs - index * RUNS_PER_ROUND)
    const name = backends[index % backends.length] as Backend
    return { seed: seed + index, backend: name, runs: count, hasFaults: !given['no-faults'] }
  })
  const known = found ? FOUND.filter((one) => backends.includes(one.backend)) : []
  return [...known, ...seeded]
}

async function withGround<T>(
  requests: readonly RoundRequest[],
  work: (ground: Ground) => Promise<T>,
): Promise<T> {
  const { folder: programs, remove } = await buildPackage()
  let server: PostgresServer | undefined
  const stop = async (signal: keyof typeof EXIT_STOPPED) => {
    await closeWorlds()
    await server?.stop()
    remove()
    process.exit(EXIT_STOPPED[signal])
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
  try {
    if (requests.every(({ backend }) => backend === 'sqlite')) return await work({ programs })
    server = await startPostgres()
    return await work({ programs, createDatabase: databasesOn(server.url) })
  } finally {
    await server?.stop()
    remove()
  }
}

function databasesOn(serverUrl: string): NonNullable<Ground['createDatabase']> {
  let count = 0
  const execute = async (text: string) => {
    const client = new pg.Client({ connectionString: serverUrl })
    await client.connect()
    try {
      await client.query(text)
    } finally {
      await client.end()
    }
  }
  return async () => {
    count += 1
    const name = `chaos_${process.pid}_${count}`
    await execute(`create database ${name}`)
    const url = new URL(serverUrl)
    url.pathname = `/${name}`
    return { url: url.href, drop: () => execute(`drop database if exists ${name} with (force)`) }
  }
}

/** The command that repeats one round. */
const repeat = ({ backend, seed, runs }: RoundRequest) =>
  `npm run test:chaos -- --backend ${backend} --seed ${seed} --runs ${runs}`

function report(request: RoundRequest, result: RoundResult, logs: string | undefined): void {
  const { findings, faults, endings, events, cuts, ms } = result
  const word = findings.length === 0 ? 'ok' : `${findings.length} FINDINGS`
  print(
    `${request.backend} seed ${request.seed}: ${word}, ${request.runs} runs ${JSON.stringify(endings)}, ` +
      `${events} events, ${cuts} reconnections, ${faults.length} faults, ${Math.round(ms / 1000)} s`,
  )
  if (findings.length === 0) return
  for (const { check, run, message } of findings) print(`  ${check}${run ? ` ${run}` : ''}: ${message}`)
  print(`  repeat: ${repeat(request)}`)
  for (const { atMs, what } of faults) print(`  fault at ${atMs} ms: ${what}`)
  print(`  schedule: ${JSON.stringify(result.plan)}`)
  const stories = Object.entries(result.stories ?? {})
  for (const [run, story] of stories) print(`  run ${run}:\n${indent(story)}`)
  const lines = (result.logs ?? '').split('\n')
  const concerned = lines.filter((line) => stories.some(([run]) => line.includes(run.split(' ')[0] ?? run)))
  print(`  logs of these runs:\n${indent(concerned.slice(-LOG_LINES).join('\n'))}`)
  if (logs !== undefined)
    writeFileSync(join(logs, `${request.backend}-${request.seed}.json`), JSON.stringify(result, null, 2))
}

const LOG_LINES = 40
const indent = (text: string) => text.replace(/^/gm, '    ')

type Tally = { runs: number; rounds: number; bad: string[]; events: number; faults: number }

async function work(ground: Ground, requests: readonly RoundRequest[], given: Options): Promise<Tally> {
  const left = [...requests]
  const tally: Tally = { runs: 0, rounds: 0, bad: [], events: 0, faults: 0 }
  const worker = async () => {
    for (let request = left.shift(); request; request = left.shift()) {
      const one = request
      const result = await runRound(ground, planRound(one)).catch((error: unknown) => failed(one, error))
      tally.runs += one.runs
      tally.rounds += 1
      tally.events += result.events
      tally.faults += result.faults.length
      if (result.findings.length > 0) tally.bad.push(`${one.backend} ${one.seed}`)
      if (given.json) print(JSON.stringify(result))
      else report(one, result, given.logs)
    }
  }
  await Promise.all(Array.from({ length: Math.max(1, given.jobs) }, worker))
  return tally
}

/** A round that could not be completed is a finding too. */
const failed = (request: RoundRequest, error: unknown): RoundResult => ({
  plan: planRound(request),
  findings: [
    { check: 'round', message: error instanceof Error ? (error.stack ?? error.message) : String(error) },
  ],
  faults: [],
  endings: {},
  events: 0,
  cuts: 0,
  ms: 0,
})

const given = options()
const requests = requestsOf(given)
if (given.plan) {
  for (const request of requests) print(JSON.stringify(planRound(request), null, 2))
  process.exit(0)
}
const tally = await withGround(requests, (ground) => work(ground, requests, given))
if (!given.json)
  print(
    `${tally.runs} runs in ${tally.rounds} rounds, ${tally.faults} faults, ${tally.events} events: ` +
      (tally.bad.length === 0 ? 'no findings' : `findings in ${tally.bad.join(', ')}`),
  )
process.exit(tally.bad.length === 0 ? 0 : EXIT_FINDINGS)
