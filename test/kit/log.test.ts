import { describe, expect, it } from 'vitest'
import { createLog, type LogOptions } from '../../runtime/kit/log.ts'
import { createRedactor } from '../../runtime/redaction/redactor.ts'

function collect(options: Partial<LogOptions> = {}) {
  const lines: string[] = []
  const log = createLog({ level: 'info', write: (line) => lines.push(line), ...options })
  return { log, lines, entries: () => lines.map((line) => JSON.parse(line)) }
}

function logged(error: unknown) {
  const { log, lines } = collect()
  log.warn('it failed', { error })
  return { line: lines.join(''), entry: JSON.parse(lines[0] ?? '{}') }
}

describe('a line of the log', () => {
  it('has the level, the time, the message and the fields, and nothing else', () => {
    const { log, lines, entries } = collect()

    log.child({ runId: 'run_1' }).info('the run started', { attempt: 2 })

    expect(entries()).toEqual([
      { level: 'info', at: expect.any(String), message: 'the run started', runId: 'run_1', attempt: 2 },
    ])
    expect(new Date(entries()[0].at).toISOString()).toBe(entries()[0].at)
    expect(lines[0]).toMatch(/^\{[^\n]*\}\n$/)
  })

  it.each([
    ['debug', ['debug', 'info', 'warn', 'error']],
    ['info', ['info', 'warn', 'error']],
    ['warn', ['warn', 'error']],
    ['error', ['error']],
    ['silent', []],
  ] as const)('is written at level %s only for %j', (level, expected) => {
    const { log, entries } = collect({ level })

    for (const at of ['debug', 'info', 'warn', 'error'] as const) log[at]('message')

    expect(entries().map((entry) => entry.level)).toEqual(expected)
  })

  it('stays one line of JSON with any message and any fields', () => {
    const { log, lines, entries } = collect()
    const forged = 'x"}\n{"level":"error","message":"forged"}'

    log.warn(forged, { [forged]: forged, '%s': '%d' })

    expect(lines.join('').match(/\n/g)).toHaveLength(1)
    expect(entries()[0]).toMatchObject({ message: forged, [forged]: forged, '%s': '%d' })
  })

  it('contains no secret, neither in the message nor in a field nor in an error', () => {
    const token = `ghp_${'0aB'.repeat(12)}`
    const password = 'correct-horse-battery'
    const { text: redact } = createRedactor({ secrets: [password], pii: false })
    const plain = collect()
    const redacted = collect({ redact })

    for (const { log } of [plain, redacted]) {
      log.warn(`refused ${token}`, { url: `postgres://app:${password}@db/app` })
      log.child({ line: token }).error('it failed', { error: new Error(`with ${password}`) })
    }

    // Without redaction each line has a secret, so the check below can fail.
    for (const line of plain.lines) expect(line).toMatch(/ghp_0aB|correct-horse/)
    for (const line of redacted.lines) expect(line).not.toMatch(/ghp_0aB|correct-horse/)
    expect(redacted.entries()).toHaveLength(2)
  })
})

describe('an error in the log', () => {
  it('keeps its message, its code and its cause', () => {
    const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', port: 5432 })

    const { entry } = logged(Object.assign(new Error('no database', { cause }), { code: '57P01' }))

    expect(entry.error).toMatchObject({
      name: 'Error',
      message: 'no database',
      stack: expect.stringContaining('log.test.ts'),
      code: '57P01',
      cause: { message: 'refused', code: 'ECONNREFUSED', port: 5432 },
    })
  })

  it('keeps the errors of an AggregateError', () => {
    const { entry } = logged(new AggregateError([new Error('first'), new Error('second')]))

    expect(entry.error.errors).toMatchObject([{ message: 'first' }, { message: 'second' }])
  })

  it('omits the objects that libraries attach to errors, because they can contain credentials', () => {
    const client = { connectionParameters: { user: 'app', password: 'hunter2', host: 'db' } }
    const error = Object.assign(new Error('Connection terminated unexpectedly'), { client })

    const { line } = logged(new Error('outer', { cause: error }))

    expect(JSON.stringify({ ...error })).toContain('hunter2')
    expect(line).toContain('Connection terminated unexpectedly')
    expect(line).not.toContain('hunter2')
    expect(line).not.toContain('connectionParameters')
  })

  it('ends a cycle of causes', () => {
    const error = new Error('first')
    error.cause = new Error('second', { cause: error })

    const { line, entry } = logged(error)

    expect(entry.error.cause.cause.message).toBe('first')
    expect(line.length).toBeLessThan(50_000)
  })
})
