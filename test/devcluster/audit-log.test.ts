import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createAuditLog } from '../cluster/helpers/audit-log.ts'

describe('the audit log', () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'audit-'))
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  function record(event: Readonly<Record<string, unknown>>): void {
    const whole = {
      stage: 'ResponseComplete',
      user: { username: 'a' },
      requestReceivedTimestamp: new Date().toISOString(),
      ...event,
    }
    appendFileSync(join(folder, 'audit.log'), `${JSON.stringify(whole)}\n`)
  }
  const audit = () => createAuditLog(join(folder, 'audit.log'))

  it('counts by user, verb and resource, and distinguishes a subresource from its object', () => {
    record({ verb: 'get', objectRef: { resource: 'pods' } })
    record({ verb: 'create', objectRef: { resource: 'pods', subresource: 'exec' } })
    record({ verb: 'get', objectRef: { resource: 'pods' }, user: { username: 'b' } })

    expect(audit().count({ user: 'a', verb: 'get', resource: 'pods' })).toBe(1)
    expect(audit().count({ resource: 'pods' })).toBe(2)
    expect(audit().count({ resource: 'pods/exec' })).toBe(1)
    expect(audit().count()).toBe(3)
  })

  it('counts a watch once, at its start', () => {
    record({ verb: 'watch', stage: 'ResponseStarted' })
    record({ verb: 'watch' })

    expect(audit().count({ verb: 'watch' })).toBe(1)
  })

  it('skips an incomplete last line, and is empty without a file', () => {
    expect(audit().count()).toBe(0)
    record({ verb: 'get' })
    appendFileSync(join(folder, 'audit.log'), '{"verb":')

    expect(audit().count()).toBe(1)
  })
})
