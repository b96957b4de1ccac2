import { describe, expect, it } from 'vitest'
import { createLog } from '../../runtime/kit/log.ts'

function logged(error: unknown) {
  const lines: string[] = []
  createLog({ level: 'info', write: (line) => lines.push(line) }).warn('it failed', { error })
  return { line: lines.join('\n'), entry: JSON.parse(lines[0] ?? '{}') }
}

describe('an error in the log', () => {
  it('keeps its message, its code and its cause', () => {
    const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', port: 5432 })

    const { entry } = logged(Object.assign(new Error('no database', { cause }), { code: '57P01' }))

    expect(entry.error).toMatchObject({
      message: 'no database',
      code: '57P01',
      cause: { message: 'refused', code: 'ECONNREFUSED', port: 5432 },
    })
  })

  it('keeps the errors that it stands for', () => {
    const { entry } = logged(new AggregateError([new Error('first'), new Error('second')]))

    expect(entry.error.errors).toMatchObject([{ message: 'first' }, { message: 'second' }])
  })

  it('leaves out the objects that libraries hang on it, which can hold credentials', () => {
    const client = { connectionParameters: { user: 'app', password: 'hunter2', host: 'db' } }

    const { line } = logged(Object.assign(new Error('Connection terminated unexpectedly'), { client }))

    expect(line).not.toContain('hunter2')
    expect(line).not.toContain('connectionParameters')
  })
})
